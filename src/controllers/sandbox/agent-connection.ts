import type { AgentClient, AgentEndpoint } from '../../agent/agent.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { webhooksOf, type AgentSide } from './agent-webhook.ts';

/** Gives a dormant agent its keys. True once it has them; false: ask again soon. */
export async function connectAgent(
  agent: AgentClient,
  endpoint: AgentEndpoint,
  sandbox: Sandbox,
  { keys, agentSide }: { readonly keys: SandboxKeys; readonly agentSide?: AgentSide | undefined },
  signal: AbortSignal,
): Promise<boolean> {
  const { metadata, status } = sandbox;
  const { uid } = metadata;
  const state = await agent.probe(endpoint, { signal });
  if (state === 'unreachable') return false;
  if (state === 'dormant') {
    await agent.initialise(
      endpoint,
      {
        bootstrapKey: keys.bootstrapKey(uid, status?.masterKeyId),
        sessionKey: endpoint.sessionKey,
        secretKey: keys.secretKey(uid, status?.masterKeyId),
        env: {},
        webhooks: webhooksOf(agentSide, sandbox),
      },
      { signal },
    );
  }
  // The first call with the key: the agent at this address is the one that has it.
  await agent.runningConversations(endpoint, { signal });
  return true;
}
