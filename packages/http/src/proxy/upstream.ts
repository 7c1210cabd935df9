import { Pool, errors } from 'undici';
import { CloseCode, type ForwardingLimits, type Tunnel } from './tunnel.ts';

/** Fault of a forwarded request. `malformed`: undici refuses to send the request. */
export type UpstreamFault = 'timeout' | 'unreachable' | 'malformed';

/** An upstream gave no usable response. Logs, but no responses, contain the `cause`. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly fault: UpstreamFault;

  constructor(fault: UpstreamFault, cause?: unknown) {
    super(`upstream: ${fault}`, { cause });
    this.fault = fault;
  }
}

export function upstreamErrorOf(error: unknown): UpstreamError {
  if (error instanceof errors.ConnectTimeoutError || error instanceof errors.HeadersTimeoutError)
    return new UpstreamError('timeout', error);
  if (error instanceof errors.InvalidArgumentError || error instanceof errors.NotSupportedError)
    return new UpstreamError('malformed', error);
  return new UpstreamError('unreachable', error);
}

/**
 * Maximum idle time of a connection. Common servers close a connection 5 s after their last
 * response. The proxy closes connections earlier, so that no request is lost.
 */
const keepAliveMs = 2500;
const maxHeaderBytes = 64 * 1024;

export interface Target {
  readonly host: string;
  readonly port: number;
  /** Host and port as in a URL and in the header Host. */
  readonly authority: string;
}

export interface UpstreamOptions {
  readonly target: Target;
  readonly limits: ForwardingLimits;
  /** Maximum concurrent connections of requests; further requests wait. */
  readonly connections: number;
}

/** Connections to one server, to which requests and WebSockets are forwarded. */
export class Upstream {
  readonly target: Target;
  readonly tunnels = new Set<Tunnel>();
  readonly #options: UpstreamOptions;
  #pool: Pool | undefined;
  #active = 0;
  #isRetired = false;

  constructor(options: UpstreamOptions) {
    this.target = options.target;
    this.#options = options;
  }

  /** Number of running requests, handshakes and WebSockets. */
  get active(): number {
    return this.#active;
  }

  get isRetired(): boolean {
    return this.#isRetired;
  }

  get pool(): Pool {
    const { limits, connections } = this.#options;
    return (this.#pool ??= new Pool(`http://${this.target.authority}`, {
      connections,
      pipelining: 1,
      allowH2: false,
      connect: { timeout: limits.connectMs },
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      headersTimeout: limits.firstByteMs,
      bodyTimeout: limits.idleMs,
      maxHeaderSize: maxHeaderBytes,
    }));
  }

  begin(): void {
    this.#active += 1;
  }

  end(): void {
    this.#active -= 1;
  }

  /** Closes the WebSockets. Running requests are completed. */
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
