import type { AgentCredentials } from '../agent/credentials.ts';
import type { UpConfig } from '../config/up.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { sandboxTemplates } from '../resources/sandbox-template.ts';
import { secretLineOf } from './credential-files.ts';
import { namesProvider } from '../resources/agent-settings.ts';
import { CommandError } from './command-error.ts';

/** Credential name of the key from the environment. */
const localCredential = 'model';
/**
 * On a template whose model comes from the environment of `up`: without it, a user has set the
 * model. Its value `bound` says that `up` has bounded the models, too.
 */
const fromEnvironment = 'conversation-operator.dev/model-from-environment';

export type LocalModel = Pick<UpConfig, 'LLM_MODEL' | 'LLM_BASE_URL' | 'LLM_API_KEY'>;

/**
 * The key of the environment under its one name, for everybody; what is mounted comes first. Throws
 * a `CommandError` for what is none.
 */
export function localAgentCredentials(
  { LLM_API_KEY: text }: LocalModel,
  mounted: AgentCredentials,
): AgentCredentials {
  const key = text === undefined ? undefined : secretLineOf(text);
  if (text !== undefined && key === undefined)
    throw new CommandError('LLM_API_KEY: must be one line of printable characters without spaces');
  return {
    of: async (owner, name) =>
      (await mounted.of(owner, name)) ?? (name === localCredential ? key : undefined),
  };
}

/**
 * Lets a template's agents work with the model of the environment, or takes back what an earlier
 * start has set.
 */
export async function useLocalModel(
  client: KubeClient,
  namespace: string,
  templateName: string,
  model: LocalModel,
): Promise<void> {
  const { LLM_MODEL, LLM_BASE_URL, LLM_API_KEY } = model;
  const isSet = [LLM_MODEL, LLM_BASE_URL, LLM_API_KEY].some((value) => value !== undefined);
  const { metadata, spec } = await client.get(sandboxTemplates, namespace, templateName);
  const before = metadata.annotations?.[fromEnvironment];
  if (!isSet && before === undefined) return;
  // Without an address of one's own the provider gets the key that the model's name says: then no
  // other model may be named.
  const isBound = LLM_API_KEY !== undefined && LLM_BASE_URL === undefined;
  const allowedModels = isBound
    ? (spec.agent.allowedModels ?? []).filter(namesProvider)
    : before === 'bound'
      ? null
      : undefined;
  await client.mergePatch(sandboxTemplates, namespace, templateName, {
    metadata: { annotations: { [fromEnvironment]: isSet ? (isBound ? 'bound' : 'true') : null } },
    spec: {
      agent: {
        model: LLM_MODEL ?? null,
        baseUrl: LLM_BASE_URL ?? null,
        credential: LLM_API_KEY === undefined ? null : localCredential,
        ...(allowedModels === undefined ? {} : { allowedModels }),
      },
    },
  });
}
