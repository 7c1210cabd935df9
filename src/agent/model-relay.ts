import { upstreamOf } from '../models/upstreams.ts';
import { acpAgentNames } from '../resources/acp-settings.ts';
import { defaultAgentKind } from '../resources/agent-settings.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import { conversationIdOf } from '../resources/ids.ts';
import { keySeedOf, type Sandbox } from '../resources/sandbox.ts';
import type { SandboxTemplate } from '../resources/sandbox-template.ts';
import { agentKindOf, agentNameOf } from './kinds.ts';
import type { SandboxKeys } from './keys.ts';

/** Where the agent of a conversation reaches its model, and with which token in place of a key. */
export interface ModelRelayAccess {
  /** Base URL without a slash at its end, to which the agent appends the path of its API. */
  readonly baseUrl: string;
  readonly token: string;
}

/** Whether the template lets the relay, and not the agent, hold the key of the model. */
export const isRelayed = (template: Pick<SandboxTemplate, 'spec'> | undefined): boolean =>
  template?.spec.models?.relay !== false;

/** Folder of the relay at the callback server; a sandbox and a conversation follow in the path. */
export const modelsFolder = 'models';

export function modelRelayAccessOf(
  {
    conversation,
    sandbox,
  }: {
    readonly conversation: Pick<CachedConversation, 'metadata'>;
    readonly sandbox: Pick<Sandbox, 'metadata' | 'spec' | 'status'>;
  },
  { url, keys }: { readonly url: string; readonly keys: Pick<SandboxKeys, 'modelsToken'> },
): ModelRelayAccess {
  const id = conversationIdOf(conversation);
  const { name } = sandbox.metadata;
  return {
    baseUrl: `${url.replace(/\/+$/, '')}/${modelsFolder}/${encodeURIComponent(name)}/${id}`,
    token: keys.modelsToken(keySeedOf(sandbox), id, sandbox.status?.masterKeyId),
  };
}

/**
 * Base URL to which the relay forwards the requests of a conversation; undefined if unknown.
 * @param sandbox Absent: the start has not got one yet, and the template decides on the agent.
 */
export function upstreamOfConversation(
  model: string,
  {
    sandbox = {},
    template,
  }: {
    readonly sandbox?: Pick<Sandbox, 'status'> | undefined;
    readonly template: Pick<SandboxTemplate, 'spec'> | undefined;
  },
): string | undefined {
  const name = template && agentNameOf(sandbox, template);
  return upstreamOf({
    model,
    agentKind: template === undefined ? defaultAgentKind : agentKindOf(sandbox, template),
    acpAgent: acpAgentNames.find((known) => known === name),
    baseUrl: template?.spec.agent.baseUrl,
  });
}
