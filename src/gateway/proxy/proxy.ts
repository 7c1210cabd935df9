import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../../observability/metrics.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import { requestIdOf } from '../stages/access-log.ts';
import { referenceIn } from '../../agent/keys.ts';
import type { KeyRing } from '../auth/key-ring.ts';
import { ProblemError, notFound, unavailable } from '../errors/problem-error.ts';
import { toProblem } from '../errors/to-problem.ts';
import type { ClientAddress } from '../limits/client-address.ts';
import type { Cache } from '../lookup/cache.ts';
import type { OwnerConnections } from '../limits/owner-connections.ts';
import type { FairScheduler } from '../limits/fair-scheduler.ts';
import type { SlowReaderGuard } from '../limits/slow-reader-guard.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import { isOpen, type PortName, type ProxyAddress } from './address.ts';
import { withKeyReplaced } from './auth-message.ts';
import type { Addressing } from './addressing.ts';
import { refuseConnection, sendProblem } from '../http/send-problem.ts';
import { ForwardedRequest } from './forward.ts';
import { CloseCode } from './frames.ts';
import { readHandshake } from './websocket-handshake.ts';
import { upgrade } from './upgrade.ts';
import { requestHeaders, type RequestFacts } from './headers.ts';
import { hasBody, keysOfHandshake, keysOfRequest, refuseUnsafe, withAgentKey, withoutQuery } from './request-keys.ts';
import type { ProxyLimits } from './limits.ts';
import { OpenSessions } from './open-sessions.ts';
import type { SessionKeys } from './session-keys.ts';
import type { Tunnel } from './tunnel.ts';
import type { Upstream } from './upstream.ts';
import { Upstreams } from './upstreams.ts';

export interface ProxyOptions {
  readonly sandboxes: Cache<Sandbox>;
  readonly feed: ObjectFeed<Sandbox>;
  readonly namespace: string;
  readonly keys: SessionKeys;
  readonly ring: KeyRing;
  readonly addressing: Addressing;
  readonly limits: ProxyLimits;
  readonly connections: OwnerConnections;
  /** What waits to be read by clients and agents. */
  readonly waiting: SlowReaderGuard;
  readonly scheduler: FairScheduler;
  readonly clientAddress: ClientAddress;
  /** Counts a request without a right key of an address; throws what it is told instead, once there were too many. */
  readonly failedKey: (address: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Of all proxied requests, in metrics. */
const httpRoute = '/sandboxes/{id}/{port}';
const webSocketRoute = `${httpRoute} (WebSocket)`;
/** How long a request waits for what this replica may only not have heard of yet. */
const patienceMs = 1000;
/** What any session key looks like: nobody is made to wait for another. */
const sessionKeyShape = /^[A-Za-z0-9_-]{32,128}$/;
const startingRetryAfter = '2';
const pausedRetryAfter = '10';

const unauthorized = () => new ProblemError('unauthorized', 'The session key is missing or not valid.');

const notRunning = (phase: string, retryAfter: string) =>
  new ProblemError('sandbox-not-running', `The sandbox is ${phase}.`, { headers: { 'retry-after': retryAfter } });

/** The way to sandboxes' agents. Where a request goes to is decided by the Sandbox resource, and who may send it by the sandbox's key. */
export class Proxy {
  readonly #options: ProxyOptions;
  readonly #upstreams: Upstreams;
  readonly #sessions: OpenSessions;
  /** Connections that want to become WebSockets. */
  readonly #waiting = new Set<Duplex>();

  constructor(options: ProxyOptions) {
    this.#options = options;
    const { sandboxes, namespace, feed, keys, ring, limits, clock } = options;
    const lookUp = (name: string) => sandboxes.store.get(namespace, name);
    this.#upstreams = new Upstreams({ feed, keys, limits, clock, lookUp });
    this.#sessions = new OpenSessions({ feed, keys, ring, clock, lookUp });
  }

  /** Requests, handshakes and WebSockets under way. */
  get active(): number {
    return this.#upstreams.active;
  }

  /** Never rejects. Headers that are set on the response already go to the client too. */
  async handle(request: IncomingMessage, response: ServerResponse, address: ProxyAddress): Promise<void> {
    const { clock, connections, limits, scheduler, waiting } = this.#options;
    const requestId = requestIdOf(request.headers['x-request-id']);
    this.#measure(request, response);
    const onProblem = (problem: ProblemError) => {
      this.#log(problem, address, requestId);
      sendProblem(response, problem, requestId);
    };
    try {
      refuseUnsafe(request, address.path);
      const keys = keysOfRequest(request);
      const isOpenToAll = isOpen(request.method, address.path);
      const upstream = await this.#upstreamFor(address, keys, isOpenToAll);
      // The client may have gone while its request waited.
      if (response.destroyed) return;
      const over = this.#begin(address, keys, () => response.destroy());
      if (over !== undefined) response.once('close', over);
      // On an open path a key may be shown that is another's. It is nothing that this agent should see.
      const hasKey = over !== undefined;
      if (!hasKey && !isOpenToAll) throw unauthorized();
      if (hasKey) connections.attribute(request.socket, upstream.owner);
      // It would have a place as long as it likes to send.
      if (!hasKey && hasBody(request)) throw new ProblemError('malformed-request', 'Without its key nothing is sent to an agent.');
      response.once('close', this.#upstreams.begin(upstream, { isKeyless: !hasKey }));
      const facts = this.#facts(request, { address, upstream, requestId, hasKey });
      const exchange = new ForwardedRequest({
        request,
        response,
        upstream,
        path: hasKey ? withAgentKey(address.path, upstream.sessionKey) : withoutQuery(address.path),
        headers: requestHeaders(request.rawHeaders, facts),
        facts,
        isLast: () => this.#upstreams.isDraining,
        clientIdleMs: limits.clientIdleMs,
        clock,
        onStall: () => waiting.add(response, upstream.owner, () => response.destroy()),
        onProblem,
      });
      await scheduler.run(upstream.owner, () => {
        // As above: it may have had to wait for its turn.
        if (!response.destroyed) exchange.start();
      });
    } catch (error) {
      onProblem(this.#problemOf(error, request));
    }
  }

  /** Never rejects. */
  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer, address: ProxyAddress): Promise<void> {
    const { clock, connections, limits, metrics, waiting } = this.#options;
    const requestId = requestIdOf(request.headers['x-request-id']);
    const count = (status: number) => metrics.httpRequests.inc({ method: 'GET', route: webSocketRoute, status });
    socket.on('error', () => socket.destroy());
    this.#waiting.add(socket);
    socket.once('close', () => this.#waiting.delete(socket));
    try {
      if (this.#upstreams.isDraining) throw unavailable();
      refuseUnsafe(request, address.path);
      const handshake = readHandshake(request);
      const keys = keysOfHandshake(request, address.path);
      const hasKey = keys.length > 0;
      // Without one the agent takes it in the first frame.
      const upstream = await this.#upstreamFor(address, keys, !hasKey);
      if (socket.destroyed) return;
      let opened: Tunnel | undefined;
      const ended = () => (opened === undefined ? socket.destroy() : opened.close(CloseCode.authenticationFailed));
      const begin = (shown: readonly string[]): boolean => {
        const over = this.#begin(address, shown, ended);
        if (over !== undefined) socket.once('close', over);
        return over !== undefined;
      };
      if (hasKey && !begin(keys)) throw unauthorized();
      if (hasKey) connections.attribute(request.socket, upstream.owner);
      let release = this.#upstreams.begin(upstream, { isKeyless: !hasKey });
      const facts = this.#facts(request, { address, upstream, requestId, hasKey });
      const authenticate = (message: string): string | CloseCode => {
        const shown = withKeyReplaced(message, upstream.sessionKey);
        if (shown === undefined || !begin([shown.key])) {
          this.#countFailure(unauthorized(), request);
          return CloseCode.authenticationFailed;
        }
        try {
          connections.attribute(request.socket, upstream.owner);
          const keyed = this.#upstreams.begin(upstream, { isKeyless: false });
          release();
          release = keyed;
          return shown.message;
        } catch {
          return CloseCode.tryAgainLater;
        }
      };
      upgrade({
        socket,
        head,
        upstream,
        path: withAgentKey(address.path, upstream.sessionKey),
        headers: requestHeaders(request.rawHeaders, facts),
        // The first message has to be read, so it must not be compressed.
        handshake: hasKey ? handshake : { ...handshake, extensions: undefined },
        authenticate: hasKey ? undefined : authenticate,
        requestId,
        limits,
        clock,
        onStatus: count,
        onOpen: (tunnel) => {
          opened = tunnel;
          this.#waiting.delete(socket);
          upstream.tunnels.add(tunnel);
          metrics.proxyWebSockets.inc();
          if (this.#upstreams.isDraining) tunnel.close(CloseCode.serviceRestart);
          else if (upstream.isRetired) tunnel.close(CloseCode.goingAway);
        },
        onStall: (side) => waiting.add(side, upstream.owner, () => side.destroy()),
        onClose: () => {
          release();
          if (opened === undefined) return;
          upstream.tunnels.delete(opened);
          metrics.proxyWebSockets.dec();
        },
      });
    } catch (error) {
      const problem = this.#problemOf(error, request);
      count(problem.status);
      this.#log(problem, address, requestId);
      refuseConnection(socket, problem, requestId);
    }
  }

  /** For a shutdown: WebSockets are told to come back, to another replica; requests under way go on. */
  drain(): void {
    this.#upstreams.drain();
    for (const socket of this.#waiting) refuseConnection(socket, unavailable(), randomUUID());
  }

  /** Ends what is left. */
  close(): Promise<void> {
    this.#sessions.close();
    return this.#upstreams.close();
  }

  /**
   * Throws when there is none for whoever shows these keys. A sandbox that does not exist, and one that they do not open, are answered
   * alike and after the same time: nobody learns so which ones others have.
   */
  async #upstreamFor(address: ProxyAddress, keys: readonly string[], isOpenToAll: boolean): Promise<Upstream> {
    const { feed, ring, clock } = this.#options;
    const beganMs = clock.monotonic();
    const isOpened = (sandbox: Sandbox | undefined) => isOpenToAll || this.#isOpenedBy(sandbox, keys);
    const known = this.#sandbox(address);
    const upstream = isOpened(known) ? this.#admit(known, address.portName) : undefined;
    if (upstream !== undefined) return upstream;
    const plausible = keys.filter((key) => sessionKeyShape.test(key));
    if ((known !== undefined && isOpened(known)) || plausible.length > 0) {
      if (!isOpened(known)) await Promise.all(plausible.map((key) => ring.appears(referenceIn(key), patienceMs)));
      const isUp = (sandbox: Sandbox | undefined) => sandbox !== undefined && viewOfSandbox(sandbox).phase !== 'STARTING';
      const leftMs = Math.max(0, beganMs + patienceMs - clock.monotonic());
      await feed.settled(address.sandbox, (sandbox) => isUp(sandbox) && isOpened(sandbox), leftMs);
    }
    const sandbox = this.#sandbox(address);
    if (!isOpened(sandbox)) throw unauthorized();
    if (sandbox === undefined) throw notFound('sandbox');
    const later = this.#admit(sandbox, address.portName);
    if (later === undefined) throw notRunning('STARTING', startingRetryAfter);
    return later;
  }

  #problemOf(error: unknown, request: IncomingMessage): ProblemError {
    const problem = toProblem(error);
    return problem.code === 'unauthorized' ? this.#countFailure(problem, request) : problem;
  }

  /** Counts a request without a right key, and returns the answer to it: after too many of these another one. */
  #countFailure(problem: ProblemError, request: IncomingMessage): ProblemError {
    try {
      this.#options.failedKey(this.#options.clientAddress(request));
      return problem;
    } catch (limited) {
      return toProblem(limited);
    }
  }

  #sandbox(address: ProxyAddress): Sandbox | undefined {
    const { sandboxes, namespace } = this.#options;
    return sandboxes.store.get(namespace, address.sandbox);
  }

  #isOpenedBy(sandbox: Sandbox | undefined, shown: readonly string[]): boolean {
    if (sandbox === undefined || shown.length === 0) return false;
    return shown.every((candidate) => this.#options.keys.opening(sandbox, candidate) !== undefined);
  }

  /**
   * Registers a request or a WebSocket under its session keys, and returns a function that ends the registration; `end` is called when one of
   * the keys opens the sandbox no longer. Undefined unless all of them open it now.
   */
  #begin(address: ProxyAddress, shown: readonly string[], end: () => void): (() => void) | undefined {
    const sandbox = this.#sandbox(address);
    return sandbox === undefined || shown.length === 0 ? undefined : this.#sessions.begin(sandbox, shown, end);
  }

  /** For whom it is open. Undefined for a sandbox that is not known or on its way up. */
  #admit(sandbox: Sandbox | undefined, portName: PortName): Upstream | undefined {
    if (sandbox === undefined) return undefined;
    const { phase } = viewOfSandbox(sandbox);
    if (phase === 'MISSING') throw notFound('sandbox');
    if (phase === 'PAUSED') throw notRunning('PAUSED', pausedRetryAfter);
    if (phase === 'ERROR') throw new ProblemError('sandbox-failed', 'The sandbox has failed.');
    return this.#upstreams.of(sandbox, portName);
  }

  #facts(
    request: IncomingMessage,
    about: { readonly address: ProxyAddress; readonly upstream: Upstream; readonly requestId: string; readonly hasKey: boolean },
  ): RequestFacts {
    const { address, upstream, requestId, hasKey } = about;
    return {
      clientAddress: this.#options.clientAddress(request),
      ...this.#options.addressing.seenBy(address),
      requestId,
      authority: upstream.target.authority,
      sessionKey: hasKey ? upstream.sessionKey : undefined,
      hasBody: hasBody(request),
    };
  }

  #measure(request: IncomingMessage, response: ServerResponse): void {
    const { clock, metrics } = this.#options;
    const began = clock.monotonic();
    response.once('close', () => {
      // A client that went away before its answer has no status.
      const status = response.headersSent ? response.statusCode : 0;
      metrics.httpRequests.inc({ method: request.method ?? '', route: httpRoute, status });
      metrics.httpSeconds.observe({ route: httpRoute }, (clock.monotonic() - began) / 1000);
    });
  }

  #log(problem: ProblemError, { sandbox }: ProxyAddress, requestId: string): void {
    const { logger } = this.#options;
    const { code, cause } = problem;
    if (problem.status === 500) logger.error('A request to an agent failed', { requestId, sandbox, error: cause });
    else if (problem.status === 502 || problem.status === 504)
      logger.warn('An agent did not answer', { requestId, sandbox, code, error: cause });
    else if (logger.enabled('debug')) logger.debug('A request to an agent was refused', { requestId, sandbox, code });
  }
}
