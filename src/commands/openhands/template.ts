import { apiVersion } from '../../resources/group.ts';
import type { NewObject } from '@conversation-operator/kube/object';
import { sandboxTemplates, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { defaultIdleTimeout } from '../default-template.ts';
import type { LocalModel } from '../local-model.ts';
import { openHandsImage } from './program.ts';

export const openHandsTemplateName = 'openhands';

/**
 * A plain name at an address of one's own is taken for one of an OpenAI-compatible service, as
 * LiteLLM writes it.
 */
export function liteLlmModel<T extends LocalModel>(model: T): T {
  const { LLM_MODEL: name, LLM_BASE_URL: baseUrl } = model;
  return name === undefined || baseUrl === undefined || name.includes('/')
    ? model
    : { ...model, LLM_MODEL: `openai/${name}` };
}

/**
 * Initial template for the OpenHands agent-server on this machine. Later starts keep the changes of
 * users, except the model of the environment.
 */
export const openHandsTemplate = (
  namespace: string,
  version: string,
): NewObject<SandboxTemplate> => ({
  apiVersion,
  kind: sandboxTemplates.kind,
  metadata: { name: openHandsTemplateName, namespace },
  spec: {
    displayName: 'OpenHands',
    description: `OpenHands agent-server ${version}, with the model of LLM_MODEL, LLM_BASE_URL and LLM_API_KEY.`,
    podTemplate: {
      spec: {
        // The agent ends within 2 s, except during a tool call, which was interrupted before.
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
    // By itself it takes those for a browser too, and there is none for it.
    agent: {
      kind: 'openhands',
      workingDir: '/workspace',
      tools: ['terminal', 'file_editor', 'task_tracker'],
    },
    storage: { size: '10Gi', retain: false },
    idleTimeout: defaultIdleTimeout,
    startDeadline: '3m',
  },
});
