import { z } from 'zod';
import { modelBaseUrl } from '../../resources/agent-settings.ts';
import { apiVersion } from '../../resources/group.ts';
import type { NewObject } from '../../resources/object.ts';
import { sandboxTemplates, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { localCredentialName } from '../agent-credentials.ts';
import { CommandError } from '../command-error.ts';
import { openHandsImage } from './program.ts';

export const openHandsTemplateName = 'openhands';

/** The model that the environment of whoever starts all this names. */
export interface LocalModel {
  readonly model: string;
  readonly baseUrl: string | undefined;
  readonly credential: string | undefined;
}

const settings = z.object({
  LLM_MODEL: z.string().min(1).max(256).optional(),
  LLM_BASE_URL: modelBaseUrl().optional(),
  LLM_API_KEY: z.string().optional(),
});

/** Undefined without LLM_MODEL. A plain name at an address of one's own is taken for one of an OpenAI-compatible service. */
export function localModelOf(environment: NodeJS.ProcessEnv): LocalModel | undefined {
  const present = Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
  const { success, data, error } = settings.safeParse(present);
  if (!success) throw new CommandError(error.issues.map(({ path, message }) => `${path.map(String).join('.')}: ${message}`).join('\n'));
  const { LLM_MODEL: name, LLM_BASE_URL: baseUrl, LLM_API_KEY: key } = data;
  if (name === undefined) return undefined;
  const model = baseUrl === undefined || name.includes('/') ? name : `openai/${name}`;
  return { model, baseUrl, credential: key === undefined ? undefined : localCredentialName };
}

/** What the template says of the model; null takes away what an earlier start has put there. */
export const modelPatch = ({ model, baseUrl = null, credential = null }: { [K in keyof LocalModel]: LocalModel[K] | null }) => ({
  spec: { agent: { model, baseUrl, credential } },
});

/** For the OpenHands agent-server on this machine; afterwards it belongs to whoever edits it, but for what the environment says. */
export const openHandsTemplate = (namespace: string, version: string): NewObject<SandboxTemplate> => ({
  apiVersion,
  kind: sandboxTemplates.kind,
  metadata: { name: openHandsTemplateName, namespace },
  spec: {
    displayName: 'OpenHands',
    description: `OpenHands agent-server ${version}, with the model of LLM_MODEL, LLM_BASE_URL and LLM_API_KEY.`,
    podTemplate: {
      spec: {
        // It ends within 2 s, but for a tool call that is under way; that was interrupted before.
        terminationGracePeriodSeconds: 10,
        containers: [
          {
            name: 'agent',
            image: openHandsImage,
            resources: { requests: { cpu: '200m', memory: '512Mi' }, limits: { memory: '4Gi' } },
          },
        ],
      },
    },
    agent: { kind: 'openhands', workingDir: '/workspace' },
    storage: { size: '10Gi', retain: false },
    startDeadline: '3m',
  },
});
