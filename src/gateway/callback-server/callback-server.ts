import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendJson } from '@conversation-operator/http/body/send-json';
import {
  arriveInTime,
  defaultTimeouts,
  createHttpServer,
} from '@conversation-operator/http/server/http-server';
import { closeServer, listenOn } from '@conversation-operator/http/server/listen';
import { Connections } from '@conversation-operator/http/limits/connections';
import { trustedProxies } from '@conversation-operator/http/limits/client-address';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { AuditOrigin } from '../../observability/audit.ts';
import { requestIdOf, refuseConnection, refusedResponse, sendProblem } from '../http/send-bytes.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { toProblem } from '../errors/problem-response.ts';
import { type Cache } from '../lookup/cache.ts';
import { newPool } from '../limits/pools.ts';
import { sessionKeyHeader } from '../proxy/request-keys.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';

/** A request to the callback server. Only its path is checked: the caller need not be a sandbox. */
export interface CallbackRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Id and client of the request, for the audit log. */
  readonly origin: AuditOrigin;
  /** The sandbox that the path names, if cached. No response may disclose whether it exists. */
  readonly sandbox: Sandbox | undefined;
  /** Decoded path segments after the sandbox's name; no segment is empty, `.` or `..`. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  /** Aborts when the caller disconnects or the gateway closes. */
  readonly signal: AbortSignal;
  /**
   * Counts the connection against the limits of the sandbox that the request has authenticated.
   * Throws `too-many-connections` or `share-exceeded` if the sandbox or its owner has too many.
   */
  readonly countFor: (sandbox: Sandbox) => void;
}

/** An endpoint for sandboxes, below `/{name}/{sandbox}/`. */
export interface CallbackHandler {
  readonly name: string;
  /** Whether the handler, instead of the server, limits how long the arrival of a body takes. */
  readonly limitsBody?: boolean;
  /** Authorizes and answers the request. An error before the headers becomes a problem response. */
  handle(call: CallbackRequest): Promise<void>;
  /** Answers a request whose path names no endpoint of the handler. Absent: a problem response. */
  refusePath?(call: Pick<CallbackRequest, 'request' | 'response'>): void;
}

export const bearerTokenOf = ({ headers: { authorization = '' } }: IncomingMessage): string =>
  /^Bearer ([\x21-\x7e]{1,256})$/i.exec(authorization)?.[1] ?? '';

export const noSuchEndpoint = (): ProblemError =>
  new ProblemError('route-not-found', 'There is no such endpoint.');

export interface CallbackServerOptions extends Omit<MeasuredRuntime, 'random'> {
  readonly handlers: readonly CallbackHandler[];
  /** A cache that has the index `podIP` of `gatewayIndexers`. */
  readonly sandboxes: Cache<Sandbox>;
  readonly namespace: string;
  readonly host: string;
  /** Port to listen on; 0 means any free port. */
  readonly port: number;
  /**
   * Maximum concurrent connections with a request in progress; 2000 by default. The sandboxes of
   * one owner may have a quarter of the connections, and one sandbox a sixteenth.
   */
  readonly maxConnections?: number;
  /** Maximum concurrent connections of one client address, usually a sandbox; default: no limit. */
  readonly maxConnectionsPerAddress?: number;
  /** Maximum time for requests in progress after `close`; 5 s by default. */
  readonly graceMs?: number;
}

export interface CallbackServer {
  /** Rejects with a human-readable message when the server can not listen. */
  listen(): Promise<{ readonly port: number }>;
  close(): Promise<void>;
}

/**
 * Maximum connections of one sandbox, for `maxConnectionsPerAddress`. One sandbox needs fewer, and
 * the limit leaves connections for other sandboxes.
 */
export const sandboxConnections = 128;

/**
 * Connections in addition to `maxConnections`, so that a health check is answered even at that
 * maximum. An idle connection is closed when another client needs a connection.
 */
const additionalConnections = 16;

/** Decoded path segments; undefined if one is malformed, empty, `.`, `..`, or contains `/`. */
function segmentsOf(pathname: string): readonly string[] | undefined {
  try {
    const segments = pathname.slice(1).split('/').map(decodeURIComponent);
    return segments.some(
      (segment) => segment === '' || segment === '.' || segment === '..' || segment.includes('/'),
    )
      ? undefined
      : segments;
  } catch {
    return undefined;
  }
}

/** The owner of the sandboxes with this pod IP; undefined for none, and for several owners. */
function ownerOfPod({ store }: Cache<Sandbox>, address: string): string | undefined {
  const owners = new Set(store.byIndex('podIP', address).map(({ spec }) => spec.owner));
  const [owner] = owners;
  return owners.size === 1 ? owner : undefined;
}

/**
 * The callback server is the only server of the installation that sandboxes may reach. Its own port
 * lets a NetworkPolicy block the REST service for sandboxes. Any process in a sandbox may be the
 * client, so no request is trusted.
 */
export function createCallbackServer(options: CallbackServerOptions): CallbackServer {
  const { sandboxes, namespace, clock, metrics, maxConnections = 2000, graceMs = 5000 } = options;
  const logger = options.logger.child({ component: 'agent-side' });
  const handlers = new Map(options.handlers.map((handler) => [handler.name, handler]));
  const closing = new AbortController();
  const places = newPool('connections', clock, {
    total: maxConnections + additionalConnections,
    perOwner: Math.ceil(maxConnections / 4),
    perSandbox: Math.ceil(maxConnections / 16),
  });
  let underWay = 0;
  const connections = new Connections({
    places,
    perAddress: options.maxConnectionsPerAddress,
    proxies: trustedProxies([]),
    ownerOf: (address) => ownerOfPod(sandboxes, address),
    metrics,
    logger,
  });

  const { clientAddress } = trustedProxies([]);
  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    requestId: string,
  ): Promise<void> => {
    const url = new URL(request.url ?? '/', 'http://gateway');
    if (url.pathname === '/alive') {
      sendJson(response, 200, { status: 'ok' });
      return;
    }
    if (underWay >= maxConnections) throw places.refusal('total');
    underWay += 1;
    response.once('close', () => (underWay -= 1));
    const [name, sandboxName, ...path] = segmentsOf(url.pathname) ?? [];
    const handler = handlers.get(name ?? '');
    if (handler === undefined || sandboxName === undefined || path.length === 0) {
      const [, meant = ''] = (request.url ?? '').split('/');
      const addressed = handlers.get(meant);
      if (addressed?.refusePath === undefined) throw noSuchEndpoint();
      addressed.refusePath({ request, response });
      return;
    }
    if (handler.limitsBody !== true)
      arriveInTime(request, response, {
        clock,
        requestMs: defaultTimeouts.requestMs,
        refuse: (refusal) => refuseConnection(request.socket, refusal, requestId),
      });
    const gone = new AbortController();
    response.once('close', () => gone.abort(new Error('the caller has gone')));
    const signal = AbortSignal.any([gone.signal, closing.signal]);
    await handler.handle({
      request,
      response,
      origin: { requestId, client: clientAddress(request) },
      sandbox: sandboxes.store.get(namespace, sandboxName),
      path,
      query: url.searchParams,
      signal,
      countFor: ({ metadata: { uid }, spec: { owner } }) =>
        connections.attribute(request.socket, { owner, sandbox: uid }),
    });
  };

  const server = createHttpServer(
    {
      wantsUpgrade: () => false,
      refuse: refusedResponse,
      request: (request, response) => {
        const requestId = requestIdOf(request);
        answer(request, response, requestId).catch((error: unknown) => {
          const problem = toProblem(error);
          // A disconnect of the caller also causes an error, which is no failure of the service.
          if (problem.code === 'internal')
            logger[response.destroyed ? 'debug' : 'error']('A request of a sandbox failed', {
              error,
            });
          sendProblem(response, problem, requestId);
        });
      },
    },
    { connections, singleHeaders: [sessionKeyHeader] },
  );
  return {
    listen: () => listenOn(server, { name: 'the gateway', host: options.host, port: options.port }),
    close: async () => {
      await closeServer(server, clock, graceMs);
      closing.abort(new Error('the gateway closes'));
    },
  };
}
