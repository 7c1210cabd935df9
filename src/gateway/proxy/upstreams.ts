import { hostInUrl } from '@conversation-operator/base/addresses';
import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Shares } from '@conversation-operator/base/shares';
import { CloseCode, type ForwardingLimits } from '@conversation-operator/http/proxy/tunnel';
import {
  Upstream,
  type Target,
  type UpstreamError,
} from '@conversation-operator/http/proxy/upstream';
import type { Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { SessionKeys } from '../auth/session-keys.ts';
import { isIP, isIPv6, BlockList } from 'node:net';
import { defaultAgentPort } from '../../agent/kinds.ts';
import { ProblemError } from '../errors/problem-error.ts';

export const unauthorized = () =>
  new ProblemError('unauthorized', 'The session key is missing or not valid.');

/** The problem of a request without a valid session key in the body of another request. */
export const notOpened = () =>
  new ProblemError('forbidden', 'The session key in the request is missing or not valid.');

export const agentTimeout = (cause?: unknown) =>
  new ProblemError('agent-timeout', 'The agent did not answer in time.', {
    retryAfterSeconds: 1,
    cause,
  });

export function agentProblem({ fault, cause }: UpstreamError): ProblemError {
  switch (fault) {
    case 'timeout':
      return agentTimeout(cause);
    case 'unreachable':
      return new ProblemError('agent-unreachable', 'The agent can not be reached at the moment.', {
        retryAfterSeconds: 1,
        cause,
      });
    case 'malformed':
      return new ProblemError('malformed-request', 'The request could not be read.', { cause });
  }
}

/**
 * Addresses that no pod has: unspecified, multicast and link-local addresses, and further addresses
 * of cloud metadata services.
 */
const reserved = new BlockList();
reserved.addSubnet('0.0.0.0', 8, 'ipv4');
reserved.addSubnet('169.254.0.0', 16, 'ipv4');
reserved.addSubnet('224.0.0.0', 3, 'ipv4');
reserved.addAddress('::', 'ipv6');
reserved.addSubnet('fe80::', 10, 'ipv6');
reserved.addSubnet('ff00::', 8, 'ipv6');
reserved.addAddress('fd00:ec2::254', 'ipv6');
reserved.addAddress('fd20:ce::254', 'ipv6');

/** Whether no request may be forwarded to this IP address. */
const isReservedAddress = (address: string): boolean =>
  reserved.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');

/**
 * The address of a sandbox's agent, from the Sandbox resource only. Undefined unless the sandbox is
 * RUNNING in a pod with an address.
 */
function targetOf(sandbox: Sandbox): Target | undefined {
  const host = sandbox.status?.podIP;
  if (host === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING') return undefined;
  if (isIP(host) === 0 || isReservedAddress(host)) return undefined;
  const port = sandbox.status?.agentPort ?? defaultAgentPort;
  return { host, port, authority: `${hostInUrl(host)}:${port}` };
}

const sweepMs = 5000;
/** Maximum duration of requests after their sandbox has stopped running. */
const retiredMs = 5000;

interface Entry {
  readonly agent: AgentUpstream;
  readonly unsubscribe: () => void;
  /** The Sandbox object with which the upstream was checked last. */
  seen: Sandbox;
}

/** The agent of a sandbox, as long as it runs in the same pod and has the same key. */
export interface AgentUpstream {
  readonly upstream: Upstream;
  /** The key that the agent expects. */
  readonly sessionKey: string;
  /** Identifies the pod and the key of the agent. A change of the identity ends the upstream. */
  readonly identity: string;
  readonly owner: string;
}

export interface UpstreamsOptions {
  readonly feed: Pick<ObjectFeed<Sandbox>, 'on'>;
  readonly find: (name: string) => Sandbox | undefined;
  readonly keys: Pick<SessionKeys, 'agentKeyOf'>;
  readonly limits: ForwardingLimits;
  readonly connections: number;
  /** Semaphores: `keyed` for requests and WebSockets with a session key, `keyless` for others. */
  readonly keyed: Shares;
  readonly keyless: Shares;
  readonly clock: Clock;
}

/**
 * Holds one upstream for each agent in use. A pause, a new pod, another key of the agent, or the
 * end of the sandbox ends the upstream.
 */
export class Upstreams {
  readonly #options: UpstreamsOptions;
  /** Entries by sandbox name. */
  readonly #entries = new Map<string, Entry>();
  readonly #retired = new Map<Upstream, Timer>();
  #sweep: Timer | undefined;
  #closed = false;

  constructor(options: UpstreamsOptions) {
    this.#options = options;
  }

  /** The upstream of a sandbox; undefined unless the sandbox is RUNNING and its key is known. */
  of(sandbox: Sandbox): AgentUpstream | undefined {
    const { name } = sandbox.metadata;
    const known = this.#entries.get(name);
    // The key is not derived for every request; `#keepSweeping` detects a new master key.
    if (known?.seen === sandbox) return known.agent;
    const wanted = this.#identify(sandbox);
    if (wanted === undefined) return undefined;
    if (known?.agent.identity === wanted.identity) {
      known.seen = sandbox;
      return known.agent;
    }
    if (known !== undefined) this.#retire(name, known);
    const { target, sessionKey, identity } = wanted;
    const { limits, connections } = this.#options;
    const agent = {
      upstream: new Upstream({ target, limits, connections }),
      sessionKey,
      identity,
      owner: sandbox.spec.owner,
    };
    const unsubscribe = this.#options.feed.on(name, (object) => this.#review(name, object));
    this.#entries.set(name, { agent, unsubscribe, seen: sandbox });
    this.#keepSweeping();
    return agent;
  }

  /**
   * Counts a request or a WebSocket. The caller calls the returned function at the end of either.
   * Throws if no permit is free. Requests without a key have separate permits, so that clients that
   * only know a URL can not use up the permits of owners.
   */
  begin(
    { upstream, owner, identity }: AgentUpstream,
    { isKeyless }: { readonly isKeyless: boolean },
  ): () => void {
    const { keyed, keyless } = this.#options;
    const release = (isKeyless ? keyless : keyed).take({ owner, sandbox: identity });
    upstream.begin();
    let over = false;
    return () => {
      if (over) return;
      over = true;
      release();
      upstream.end();
    };
  }

  /** Closes every WebSocket for a shutdown; new WebSockets are closed at once. */
  drain(): void {
    this.#closed = true;
    for (const { agent } of this.#entries.values())
      for (const tunnel of agent.upstream.tunnels) tunnel.close(CloseCode.serviceRestart);
  }

  get isDraining(): boolean {
    return this.#closed;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#sweep?.cancel();
    this.#sweep = undefined;
    for (const timer of this.#retired.values()) timer.cancel();
    const upstreams = [
      ...this.#retired.keys(),
      ...[...this.#entries.values()].map(({ agent }) => agent.upstream),
    ];
    for (const { unsubscribe } of this.#entries.values()) unsubscribe();
    this.#entries.clear();
    this.#retired.clear();
    await Promise.all(upstreams.map((upstream) => upstream.destroy()));
  }

  #identify(
    sandbox: Sandbox,
  ): ({ readonly target: Target } & Pick<AgentUpstream, 'sessionKey' | 'identity'>) | undefined {
    const target = targetOf(sandbox);
    const sessionKey = target && this.#options.keys.agentKeyOf(sandbox);
    if (target === undefined || sessionKey === undefined) return undefined;
    const identity = `${sandbox.metadata.uid} ${sandbox.status?.podUID ?? ''} ${target.authority} ${sessionKey}`;
    return { target, sessionKey, identity };
  }

  #review(name: string, sandbox: Sandbox | undefined): void {
    const entry = this.#entries.get(name);
    if (entry === undefined) return;
    const now = sandbox && this.#identify(sandbox);
    if (now?.identity !== entry.agent.identity) this.#retire(name, entry);
  }

  #retire(name: string, { agent: { upstream }, unsubscribe }: Entry): void {
    unsubscribe();
    this.#entries.delete(name);
    upstream.retire();
    const timer = this.#options.clock.after(retiredMs, () => {
      this.#retired.delete(upstream);
      void upstream.destroy();
    });
    this.#retired.set(upstream, timer);
  }

  /** Detects changes that cause no event: a new master key, and WebSockets without traffic. */
  #keepSweeping(): void {
    if (this.#sweep !== undefined || this.#closed) return;
    this.#sweep = this.#options.clock.after(sweepMs, () => {
      this.#sweep = undefined;
      const now = this.#options.clock.monotonic();
      for (const [name, entry] of [...this.#entries]) {
        this.#review(name, this.#options.find(name));
        for (const tunnel of entry.agent.upstream.tunnels) tunnel.review(now);
        if (entry.agent.upstream.active === 0) this.#retire(name, entry);
      }
      if (this.#entries.size > 0) this.#keepSweeping();
    });
  }
}
