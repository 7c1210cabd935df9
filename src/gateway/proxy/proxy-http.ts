import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { hasBody } from '@conversation-operator/http/body/json-body';
import { ForwardedRequest } from '@conversation-operator/http/proxy/forwarded-request';
import { ProblemError } from '../errors/problem-error.ts';
import { requestIdOf, sendProblem } from '../http/send-bytes.ts';
import { isOpen, type ProxyAddress } from './addressing.ts';
import type { AgentAccess } from './agent-access.ts';
import { agentProblem, notOpened, unauthorized, type AgentUpstream } from './upstreams.ts';
import {
  keysOfRequest,
  refuseUnsafe,
  withAgentKey,
  withoutQuery,
  sessionKeyHeader,
} from './request-keys.ts';
import { requestHeaders, type ForwardingFacts } from '@conversation-operator/http/proxy/headers';

/** Headers with credentials for agents, which no agent gets from a client. */
const withheld: ReadonlySet<string> = new Set([sessionKeyHeader, 'x-init-api-key']);

interface Forwarding {
  readonly address: ProxyAddress;
  readonly agent: AgentUpstream;
  readonly requestId: string;
  /**
   * Whether the client has a valid key. Otherwise the agent gets no key, and none of the client's
   * credentials.
   */
  readonly hasKey: boolean;
  readonly hidesLocations?: boolean;
}

/** The request headers for an agent, and the facts from which the response headers are derived. */
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

/** Value of the metrics label `route` for all proxied requests. */
export const httpRoute = '/sandboxes/{id}/{port}';

/** A request for an agent: a client's request, or a request inside a client's request body. */
export type AgentRequest = Readable &
  Pick<IncomingMessage, 'method' | 'headers' | 'rawHeaders' | 'socket'>;

interface HttpExchange {
  readonly request: AgentRequest;
  readonly response: ServerResponse;
  readonly address: ProxyAddress;
  /** Whether this request is inside the body of another request; false by default. */
  readonly isContained?: boolean;
}

/** Handles a request for an agent. Never rejects. */
export async function proxyHttp(
  access: AgentAccess,
  { request, response, address, isContained = false }: HttpExchange,
): Promise<void> {
  const { upstreams, options } = access;
  const { clock, connections, limits, scheduler, slowReaders } = options;
  const requestId = requestIdOf(request);
  const client = access.clientAddress(request);
  measure(access, request, response);
  const onProblem = (problem: ProblemError) => {
    access.logProblem(problem, address, { requestId, client });
    sendProblem(response, problem, requestId);
  };
  try {
    refuseUnsafe(request, address.path);
    const keys = keysOfRequest(request);
    // A contained request always needs a session key; only direct requests may use open paths.
    const isOpenToAll = !isContained && isOpen(request.method, address.path);
    const agent = await access.upstreamFor(address, { keys, isOpenToAll });
    // The client may have disconnected while its request waited.
    if (response.destroyed) return;
    const over = access.register(address, keys, () => response.destroy());
    if (over !== undefined) response.once('close', over);
    // On an open path, clients may send the key of another sandbox. This agent must not see it.
    const hasKey = over !== undefined;
    if (!hasKey && !isOpenToAll) throw unauthorized();
    // The connection of a contained request already counts for the client of the outer request.
    if (hasKey && !isContained) connections.attribute(request.socket, { owner: agent.owner });
    // Without this check, a client without a key could hold a permit as long as it sends a body.
    if (!hasKey && hasBody(request))
      throw new ProblemError('malformed-request', 'Without its key nothing is sent to an agent.');
    response.once('close', upstreams.begin(agent, { isKeyless: !hasKey }));
    const { facts, headers } = forwardingOf(access, request, {
      address,
      agent,
      requestId,
      hasKey,
      hidesLocations: isContained,
    });
    const forwarded = new ForwardedRequest({
      request,
      response,
      upstream: agent.upstream,
      path: hasKey ? withAgentKey(address.path, agent.sessionKey) : withoutQuery(address.path),
      headers,
      facts,
      isLast: () => upstreams.isDraining,
      clientIdleMs: limits.clientIdleMs,
      clock,
      onStall: () => slowReaders.add(response, agent.owner, () => response.destroy()),
      onFailure: (error) => onProblem(agentProblem(error)),
    });
    await scheduler.run(agent.owner, () => {
      // The client may have disconnected while its request waited for a permit.
      if (!response.destroyed) forwarded.start();
    });
  } catch (error) {
    const problem = access.problemOf(error, request);
    // The client has signed in, and would interpret a 401 as the end of its browser session.
    onProblem(isContained && problem.code === 'unauthorized' ? notOpened() : problem);
  }
}

function measure(
  { options: { clock, metrics } }: AgentAccess,
  request: AgentRequest,
  response: ServerResponse,
): void {
  const beganMs = clock.monotonic();
  response.once('close', () => {
    // If the client has disconnected before its response, there is no status.
    const status = response.headersSent ? response.statusCode : 0;
    metrics.httpRequests.inc({
      method: request.method ?? '',
      route: httpRoute,
      status: String(status),
    });
    metrics.httpSeconds.observe({ route: httpRoute }, (clock.monotonic() - beganMs) / 1000);
  });
}
