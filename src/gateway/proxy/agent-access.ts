import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ClientAddress } from '@conversation-operator/http/limits/client-address';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { Connections } from '@conversation-operator/http/limits/connections';
import type { SlowReaderGuard } from '@conversation-operator/http/limits/slow-clients';
import { referenceIn, type SandboxKeys } from '../../agent/keys.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import type { KeyChain, KeyRing } from '../auth/key-ring.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound, unavailable } from '../errors/common-problems.ts';
import { toProblem } from '../errors/problem-response.ts';
import { refuseConnection } from '../http/send-bytes.ts';
import type { Cache } from '../lookup/cache.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import { exposedBy, type Exposure } from '../presenters/sandbox.ts';
import { type ProxyAddress, Addressing, HostTemplate } from './addressing.ts';
import { unauthorized, Upstreams, type AgentUpstream, type UpstreamsOptions } from './upstreams.ts';
import { LoopbackOrigins, type Memory } from './loopback-origins.ts';
import { keysOfRequest } from './request-keys.ts';
import { SessionKeys } from '../auth/session-keys.ts';
import type { MeasuredRuntime } from '../../observability/metrics.ts';

/** Id of a request, and address of its client. */
interface RequestOrigin {
  readonly requestId: string;
  readonly client: string;
}

export interface AgentAccessOptions extends Pick<MeasuredRuntime, 'clock' | 'logger' | 'metrics'> {
  readonly sandboxes: Cache<Sandbox>;
  readonly namespace: string;
  /** Called with every connection to one of the loopback addresses. */
  readonly accept: (socket: Socket) => void;
  /** The port that the service itself listens on. */
  readonly port: () => number;
  readonly feed: ObjectFeed<Sandbox>;
  readonly keys: Pick<SandboxKeys, 'sessionKey' | 'clientKey' | 'knows'>;
  readonly ring: KeyRing;
  /** URL of the service, without a slash at the end. */
  readonly publicUrl: () => string;
  readonly urlTemplate?: string | undefined;
  readonly loopbackOrigins?: Memory | undefined;
  readonly limits: UpstreamsOptions['limits'];
  /** Semaphores: `keyed` for requests and WebSockets with a session key, `keyless` for others. */
  readonly places: Pick<UpstreamsOptions, 'keyed' | 'keyless' | 'connections'>;
  readonly connections: Connections;
  /** Limits the bytes that clients and agents have not read yet. */
  readonly slowReaders: SlowReaderGuard;
  readonly scheduler: FairScheduler;
  readonly clientAddress: ClientAddress;
  /**
   * Counts a request without a valid key. After too many such requests from the address, throws the
   * problem that the client gets instead.
   */
  readonly failedKey: (address: string) => void;
  /** Records a refused request in the audit log. */
  readonly refused: (
    request: RequestOrigin & {
      readonly action: string;
      readonly sandbox: string;
      readonly status: number;
      readonly outcome: string;
    },
  ) => void;
}

/** Maximum wait of a request until the caches show a new key or a new sandbox. */
const maxCacheWaitMs = 1000;
/** Form of every session key. The gateway does not wait for a key of another form. */
const sessionKeyShape = /^[A-Za-z0-9_-]{32,128}$/;

const notRunning = (phase: string, retryAfterSeconds: number) =>
  new ProblemError('sandbox-not-running', `The sandbox is ${phase}.`, { retryAfterSeconds });

/**
 * Access to the agents of sandboxes: their URLs, and who may use them. The Sandbox resource decides
 * where a request is forwarded, and the session keys of the sandbox authorize it.
 */
export class AgentAccess {
  readonly exposure: Exposure;
  readonly options: AgentAccessOptions;
  readonly clientAddress: ClientAddress;
  readonly addressing: Addressing;
  readonly upstreams: Upstreams;
  /** Connections that are being upgraded to WebSockets. */
  readonly handshakes = new Set<Duplex>();
  readonly #keys: SessionKeys;
  readonly #origins: LoopbackOrigins | undefined;
  readonly #sessions: OpenSessions;

  /** Throws if `urlTemplate` has an invalid form. */
  constructor(options: AgentAccessOptions) {
    const { loopbackOrigins, urlTemplate, keys, ring, clock, logger, limits, places } = options;
    const { sandboxes, namespace, publicUrl, port, accept, feed } = options;
    this.options = options;
    this.clientAddress = options.clientAddress;
    this.#keys = new SessionKeys({ keys, ring, logger });
    this.#origins =
      loopbackOrigins &&
      new LoopbackOrigins({ sandboxes, namespace, port, accept, memory: loopbackOrigins, logger });
    const template = urlTemplate === undefined ? undefined : new HostTemplate(urlTemplate);
    this.addressing = new Addressing({ publicUrl, template, addresses: this.#origins });
    this.exposure = exposedBy({
      agentUrlOf: (sandbox) => this.addressing.urlOf(sandbox),
      keys: this.#keys,
    });
    const find = (name: string) => this.#sandbox(name);
    this.upstreams = new Upstreams({ feed, keys: this.#keys, limits, clock, find, ...places });
    this.#sessions = new OpenSessions({ feed, keys: this.#keys, ring, find });
  }

  /**
   * The owner of a sandbox, and the chain of the API key to which the session key in `headers`
   * belongs. Undefined unless this session key opens the sandbox and the sandbox is RUNNING.
   */
  opensSession(
    name: string,
    headers: IncomingHttpHeaders,
  ): { readonly owner: string; readonly chain: KeyChain } | undefined {
    const [key] = keysOfRequest({ headers });
    const sandbox = this.#sandbox(name);
    if (key === undefined || sandbox === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING')
      return undefined;
    const chain = this.#keys.opening(sandbox, key);
    return chain && { owner: sandbox.spec.owner, chain };
  }

  /** Opens the loopback addresses. The caller calls `open` once the service listens. */
  async open(): Promise<void> {
    await this.#origins?.open();
  }

  /**
   * Announces a shutdown. WebSockets are closed, so that clients connect to another replica;
   * requests in progress continue.
   */
  drain(): void {
    this.#origins?.close();
    this.upstreams.drain();
    for (const socket of this.handshakes) refuseConnection(socket, unavailable(), randomUUID());
  }

  /** Ends all requests and WebSockets in progress. */
  close(): Promise<void> {
    this.#sessions.close();
    return this.upstreams.close();
  }

  /**
   * The upstream for a request with these keys. Throws if the sandbox does not run, or the keys do
   * not open it. A missing sandbox and a sandbox that the keys do not open get the same response
   * after the same time, so that no response discloses whether a sandbox exists.
   */
  async upstreamFor(
    { sandbox: name }: ProxyAddress,
    { keys, isOpenToAll }: { readonly keys: readonly string[]; readonly isOpenToAll: boolean },
  ): Promise<AgentUpstream> {
    const { feed, ring, clock } = this.options;
    const beganMs = clock.monotonic();
    const isOpened = (sandbox: Sandbox | undefined) =>
      isOpenToAll || (sandbox !== undefined && this.#isOpenedBy(sandbox, keys));
    const known = this.#sandbox(name);
    const upstream = isOpened(known) ? this.#runningUpstream(known) : undefined;
    if (upstream !== undefined) return upstream;
    const plausible = keys.filter((key) => sessionKeyShape.test(key));
    if ((known !== undefined && isOpened(known)) || plausible.length > 0) {
      if (!isOpened(known))
        await Promise.all(
          plausible.map((key) =>
            ring.appears('sessionReference', referenceIn(key), maxCacheWaitMs),
          ),
        );
      const isUp = (sandbox: Sandbox | undefined) =>
        sandbox !== undefined && viewOfSandbox(sandbox).phase !== 'STARTING';
      const leftMs = Math.max(0, beganMs + maxCacheWaitMs - clock.monotonic());
      await feed.settled(name, (sandbox) => isUp(sandbox) && isOpened(sandbox), leftMs);
    }
    const sandbox = this.#sandbox(name);
    if (!isOpened(sandbox)) throw unauthorized();
    if (sandbox === undefined) throw notFound('sandbox');
    const later = this.#runningUpstream(sandbox);
    if (later === undefined) throw notRunning('STARTING', 2);
    return later;
  }

  /**
   * Registers a request or a WebSocket under its session keys, and returns a function that ends the
   * registration. `end` is called when one of the keys stops opening the sandbox. Returns undefined
   * unless there are keys, and all of them open the sandbox now.
   */
  register(
    { sandbox: name }: ProxyAddress,
    shown: readonly string[],
    end: () => void,
  ): (() => void) | undefined {
    const sandbox = this.#sandbox(name);
    return sandbox === undefined || shown.length === 0
      ? undefined
      : this.#sessions.begin(sandbox, shown, end);
  }

  /**
   * The problem of a failed request. Requests without a valid key are counted by client address,
   * and get another problem after too many of them.
   */
  problemOf(error: unknown, request: Pick<IncomingMessage, 'headers' | 'socket'>): ProblemError {
    const problem = toProblem(error);
    if (problem.code !== 'unauthorized') return problem;
    try {
      this.options.failedKey(this.clientAddress(request));
      return problem;
    } catch (limited) {
      return toProblem(limited);
    }
  }

  logProblem(
    problem: ProblemError,
    { sandbox }: ProxyAddress,
    { requestId, client }: RequestOrigin,
  ): void {
    const { logger, refused } = this.options;
    const { code, cause, status } = problem;
    refused({ requestId, client, action: 'passToAgent', sandbox, status, outcome: code });
    if (problem.status === 500)
      logger.error('A request to an agent failed', { requestId, sandbox, error: cause });
    else if (problem.status === 502 || problem.status === 504)
      logger.warn('An agent did not answer', { requestId, sandbox, code, error: cause });
    else if (logger.enabled('debug'))
      logger.debug('A request to an agent was refused', { requestId, sandbox, code });
  }

  #sandbox(name: string): Sandbox | undefined {
    const { sandboxes, namespace } = this.options;
    return sandboxes.store.get(namespace, name);
  }

  #isOpenedBy(sandbox: Sandbox, shown: readonly string[]): boolean {
    return shown.length > 0 && shown.every((key) => this.#keys.opening(sandbox, key) !== undefined);
  }

  /**
   * The upstream of a sandbox that is RUNNING; undefined if the sandbox is unknown or STARTING.
   * Throws for any other phase.
   */
  #runningUpstream(sandbox: Sandbox | undefined): AgentUpstream | undefined {
    if (sandbox === undefined) return undefined;
    const { phase } = viewOfSandbox(sandbox);
    if (phase === 'MISSING') throw notFound('sandbox');
    if (phase === 'PAUSED') throw notRunning('PAUSED', 10);
    if (phase === 'ERROR') throw new ProblemError('sandbox-failed', 'The sandbox has failed.');
    return this.upstreams.of(sandbox);
  }
}

/** All requests and WebSockets that one session key has opened at one sandbox. */
interface Session {
  readonly sandbox: string;
  readonly key: string;
  readonly endings: Set<() => void>;
  readonly unsubscribe: () => void;
  /** Ends the subscription to changes of the API key of the session key, and of its issuers. */
  unfollow: () => void;
}

interface OpenSessionsOptions {
  readonly keys: Pick<SessionKeys, 'opening'>;
  readonly ring: Pick<KeyRing, 'follow'>;
  readonly feed: Pick<ObjectFeed<Sandbox>, 'on'>;
  readonly find: (name: string) => Sandbox | undefined;
}

/**
 * Ends the requests and WebSockets of a session key as soon as the key stops opening the sandbox:
 * after a rotation, and when its API key, or an issuer of that API key, is deleted, disabled or
 * expired. A change of an API key or a sandbox only causes checks of the sessions that use it, so
 * that the changes of one owner cost nothing for the sessions of other owners.
 */
export class OpenSessions {
  readonly #options: OpenSessionsOptions;
  /** Sessions by sandbox name and session key. */
  readonly #sessions = new Map<string, Session>();

  constructor(options: OpenSessionsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /**
   * Registers a request or a WebSocket. The caller calls the returned function at the end of
   * either. `end` is called when one of the keys stops opening the sandbox. Returns undefined
   * unless all keys open the sandbox now.
   */
  begin(sandbox: Sandbox, keys: readonly string[], end: () => void): (() => void) | undefined {
    const sessions = keys.map((key) => this.#sessionOf(sandbox, key));
    const found = sessions.filter((session) => session !== undefined);
    const over = () => {
      for (const session of found) {
        session.endings.delete(end);
        if (session.endings.size === 0) this.#forget(session);
      }
    };
    if (found.length < sessions.length) {
      over();
      return undefined;
    }
    for (const session of found) session.endings.add(end);
    return over;
  }

  close(): void {
    for (const session of this.#sessions.values()) this.#forget(session);
  }

  #sessionOf(sandbox: Sandbox, key: string): Session | undefined {
    const { keys, feed } = this.#options;
    const { name } = sandbox.metadata;
    if (keys.opening(sandbox, key) === undefined) return undefined;
    const known = this.#sessions.get(`${name}/${key}`);
    if (known !== undefined) return known;
    const made: Session = {
      sandbox: name,
      key,
      endings: new Set(),
      unsubscribe: feed.on(name, (object) => this.#review(made, object)),
      unfollow: () => undefined,
    };
    this.#sessions.set(`${name}/${key}`, made);
    this.#review(made, sandbox);
    return made;
  }

  #review(session: Session, sandbox: Sandbox | undefined): void {
    const { keys, ring, find } = this.#options;
    if (this.#sessions.get(`${session.sandbox}/${session.key}`) !== session) return;
    const chain = sandbox && keys.opening(sandbox, session.key);
    session.unfollow();
    if (chain !== undefined)
      session.unfollow = ring.follow(chain, () => this.#review(session, find(session.sandbox)));
    else {
      this.#forget(session);
      for (const end of [...session.endings]) end();
    }
  }

  #forget(session: Session): void {
    const id = `${session.sandbox}/${session.key}`;
    if (this.#sessions.get(id) !== session) return;
    this.#sessions.delete(id);
    session.unsubscribe();
    session.unfollow();
  }
}
