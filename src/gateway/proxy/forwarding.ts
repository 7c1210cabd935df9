import type { IncomingMessage } from 'node:http';
import { hasBody } from '@conversation-operator/http/body/json-body';
import { requestHeaders, type ForwardingFacts } from '@conversation-operator/http/proxy/headers';
import type { ProxyAddress } from './addressing.ts';
import type { AgentAccess } from './agent-access.ts';
import type { AgentUpstream } from './upstreams.ts';
import { sessionKeyHeader } from './request-keys.ts';

/** Headers that open an agent, and that no agent gets from a client. */
const withheld: ReadonlySet<string> = new Set([sessionKeyHeader, 'x-init-api-key']);

export interface Forwarding {
  readonly address: ProxyAddress;
  readonly agent: AgentUpstream;
  readonly requestId: string;
  /**
   * Whether the client has shown a right key. Otherwise the agent gets no key, and nothing of what
   * the client has shown.
   */
  readonly hasKey: boolean;
  readonly hidesLocations?: boolean;
}

/** The headers that an agent gets, and the facts that decide those of its answer. */
export function forwardingOf(
  { addressing, clientAddress }: Pick<AgentAccess, 'addressing' | 'clientAddress'>,
  request: Pick<IncomingMessage, 'headers' | 'rawHeaders' | 'socket'>,
  { address, agent, requestId, hasKey, hidesLocations = false }: Forwarding,
): { readonly facts: ForwardingFacts; readonly headers: string[] } {
  const facts: ForwardingFacts = {
    clientAddress: clientAddress(request),
    ...addressing.seenBy(address),
    requestId,
    authority: agent.upstream.target.authority,
    isTrusted: hasKey,
    hasBody: hasBody(request),
    hidesLocations,
  };
  const added = hasKey ? [sessionKeyHeader, agent.sessionKey] : [];
  return { facts, headers: requestHeaders(request.rawHeaders, facts, { withheld, added }) };
}
