import { isIP } from 'node:net';
import { hostInUrl } from '@conversation-operator/base/addresses';
import type { Sandbox } from '../resources/sandbox.ts';
import type { AgentEndpoint } from './agent.ts';
import type { SandboxKeys } from './keys.ts';

export const defaultAgentPort = 8000;

/**
 * How to reach the agent of a sandbox; undefined while it has no pod with an address. The address
 * comes from the resource alone.
 */
export function agentEndpointOf(
  sandbox: Sandbox,
  keys: Pick<SandboxKeys, 'sessionKey'>,
): AgentEndpoint | undefined {
  const { podIP, agentPort, agentKind, masterKeyId } = sandbox.status ?? {};
  if (podIP === undefined || isIP(podIP) === 0) return undefined;
  return {
    baseUrl: `http://${hostInUrl(podIP)}:${agentPort ?? defaultAgentPort}`,
    sessionKey: keys.sessionKey(sandbox.metadata.uid, masterKeyId),
    ...(agentKind === undefined ? {} : { kind: agentKind }),
  };
}
