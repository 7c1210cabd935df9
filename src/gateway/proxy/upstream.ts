import { Pool } from 'undici';
import type { ProxyLimits } from './limits.ts';
import type { Target } from './target.ts';
import type { Tunnel } from './tunnel.ts';
import { CloseCode } from './frames.ts';

/**
 * Maximum idle time of a connection. Agents close one 5 s after its last answer; the gateway does
 * before, so that no request is lost.
 */
const keepAliveMs = 2500;
const maxHeaderBytes = 64 * 1024;

/**
 * The connections to one port of one sandbox, as long as it runs in the same pod and its agent has
 * the same key.
 */
export class Upstream {
  readonly target: Target;
  /** The key that the agent itself demands. */
  readonly sessionKey: string;
  /**
   * Identifies the pod and the key of the agent. When the identity of the sandbox changes, the
   * upstream ends.
   */
  readonly identity: string;
  /** The owner of the sandbox. */
  readonly owner: string;
  readonly tunnels = new Set<Tunnel>();
  readonly #limits: ProxyLimits;
  #pool: Pool | undefined;
  #active = 0;
  #isRetired = false;

  constructor(options: {
    readonly target: Target;
    readonly sessionKey: string;
    readonly identity: string;
    readonly owner: string;
    readonly limits: ProxyLimits;
  }) {
    this.target = options.target;
    this.sessionKey = options.sessionKey;
    this.identity = options.identity;
    this.owner = options.owner;
    this.#limits = options.limits;
  }

  /** Requests, handshakes and WebSockets under way. */
  get active(): number {
    return this.#active;
  }

  get isRetired(): boolean {
    return this.#isRetired;
  }

  get pool(): Pool {
    return (this.#pool ??= new Pool(`http://${this.target.authority}`, {
      connections: this.#limits.perSandbox,
      pipelining: 1,
      allowH2: false,
      connect: { timeout: this.#limits.connectMs },
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      headersTimeout: this.#limits.firstByteMs,
      bodyTimeout: this.#limits.idleMs,
      maxHeaderSize: maxHeaderBytes,
    }));
  }

  begin(): void {
    this.#active += 1;
  }

  end(): void {
    this.#active -= 1;
  }

  /** Closes the WebSockets. Requests under way may end while the pod still runs. */
  retire(): void {
    this.#isRetired = true;
    for (const tunnel of this.tunnels) tunnel.close(CloseCode.goingAway);
    this.#pool?.close().catch(() => undefined);
  }

  async destroy(): Promise<void> {
    for (const tunnel of this.tunnels) tunnel.destroy();
    await this.#pool?.destroy();
  }
}
