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
import { requestIdOf, refuseConnection, refusedResponse, sendProblem } from '../http/send-bytes.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { toProblem } from '../errors/problem-response.ts';
import { type Cache } from '../lookup/cache.ts';
import { newPool } from '../limits/pools.ts';
import { sessionKeyHeader } from '../proxy/request-keys.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';

/** One request of a sandbox, or of any other caller: only its path has been checked so far. */
export interface CallbackRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** The sandbox in the cache, if any. The response must not disclose whether it exists. */
  readonly sandbox: Sandbox | undefined;
  /** Segments after the sandbox's name, decoded; never empty, `.` or `..`. */
  readonly path: readonly string[];
  readonly query: URLSearchParams;
  /** Aborts when the caller disconnects, or the gateway closes. */
  readonly signal: AbortSignal;
  /**
   * Counts the connection for the sandbox that its credential proves. Throws `too-many-connections`
   * or `share-exceeded` where the sandbox or its owner has too many.
   */
  readonly countFor: (sandbox: Sandbox) => void;
}

/** An endpoint for sandboxes, below `/{name}/{sandbox}/`. */
export interface CallbackHandler {
  readonly name: string;
  /** Whether the handler itself limits the time of a body; by default the server does. */
  readonly limitsBody?: boolean;
  /** Authorizes and answers the request. An error before the headers becomes a problem response. */
  handle(call: CallbackRequest): Promise<void>;
}

/** The Bearer token of a request; empty without one. */
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
  /** 0 means any free port. */
  readonly port: number;
  /**
   * Maximum concurrent connections with a request in progress; 2000 by default. The sandboxes of
   * one owner may have a quarter of the connections, and one sandbox a sixteenth.
   */
  readonly maxConnections?: number;
  /** Maximum concurrent connections of an address, usually a sandbox's; default: no limit. */
  readonly maxConnectionsPerAddress?: number;
  /** Maximum time for requests in progress after `close`; 5 s by default. */
  readonly graceMs?: number;
}

export interface CallbackServer {
  /** Rejects with a message for people where the server can't listen. */
  listen(): Promise<{ readonly port: number }>;
  close(): Promise<void>;
}

/**
 * Connections beyond `maxConnections`, for health checks at the maximum: when all are open, one
 * without a request in progress is closed for a new connection.
 */
const additionalConnections = 16;

/** The decoded segments of a path; undefined for an ambiguous path. */
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

/**
 * The owner of the sandbox with this address; undefined for an address of no sandbox, or of several
 * owners, as on a node's own network.
 */
function ownerOfPod({ store }: Cache<Sandbox>, address: string): string | undefined {
  const owners = new Set(store.byIndex('podIP', address).map(({ spec }) => spec.owner));
  const [owner] = owners;
  return owners.size === 1 ? owner : undefined;
}

/**
 * The callback server is the only part of the installation that sandboxes may reach: a listener of
 * its own, so that a network policy can block the REST service for them. Any process in a sandbox
 * may be the client, so no request is trusted.
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

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
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
    if (handler === undefined || sandboxName === undefined || path.length === 0)
      throw noSuchEndpoint();
    if (handler.limitsBody !== true)
      arriveInTime(request, response, {
        clock,
        requestMs: defaultTimeouts.requestMs,
        refuse: (refusal) => refuseConnection(request.socket, refusal, requestIdOf(request)),
      });
    const gone = new AbortController();
    response.once('close', () => gone.abort(new Error('the caller has gone')));
    const signal = AbortSignal.any([gone.signal, closing.signal]);
    await handler.handle({
      request,
      response,
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
        answer(request, response).catch((error: unknown) => {
          const problem = toProblem(error);
          // A call fails when its caller disconnects, which is no failure of the service.
          if (problem.code === 'internal')
            logger[response.destroyed ? 'debug' : 'error']('A request of a sandbox failed', {
              error,
            });
          sendProblem(response, problem, requestIdOf(request));
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
