/** Maximum times of what is forwarded, in milliseconds. */
export interface ForwardingLimits {
  /** Maximum time for a connection to the upstream. */
  readonly connectMs: number;
  /**
   * Maximum time until the first byte of a response. Some upstreams respond only when a long task
   * has ended.
   */
  readonly firstByteMs: number;
  /**
   * Maximum time between two chunks of a response, and without a byte in either direction on a
   * WebSocket.
   */
  readonly idleMs: number;
  /** Maximum time between two chunks that a client sends or reads. */
  readonly clientIdleMs: number;
  /** Maximum time until the first message of a WebSocket that has to authenticate its client. */
  readonly firstFrameMs: number;
}

export const defaultForwardingLimits: ForwardingLimits = {
  connectMs: 5000,
  firstByteMs: 600_000,
  idleMs: 600_000,
  clientIdleMs: 60_000,
  firstFrameMs: 15_000,
};
