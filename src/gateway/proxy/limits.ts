/** Limits of the proxy. Times are in milliseconds. */
export interface ProxyLimits {
  /** Maximum time for a connection to the agent. */
  readonly connectMs: number;
  /**
   * Maximum time until the first byte of an agent's answer. Some of its calls answer only when a
   * command has ended.
   */
  readonly firstByteMs: number;
  /**
   * Maximum time between two chunks of an answer, and without a byte in either direction on a
   * WebSocket.
   */
  readonly idleMs: number;
  /** Maximum time between two chunks that a client sends or reads. */
  readonly clientIdleMs: number;
  /**
   * Maximum time until the first frame of a WebSocket that was opened without a key. The agent
   * itself waits 10 s.
   */
  readonly firstFrameMs: number;
  /**
   * Maximum requests without a key, and WebSockets that have not sent a key yet, of one sandbox.
   */
  readonly waitingForKey: number;
  /**
   * Maximum concurrent requests and WebSockets: of one sandbox, and of this process. One owner may
   * take a quarter of the total.
   */
  readonly perSandbox: number;
  readonly total: number;
}

export const defaultLimits: ProxyLimits = {
  connectMs: 5000,
  firstByteMs: 600_000,
  idleMs: 600_000,
  clientIdleMs: 60_000,
  firstFrameMs: 15_000,
  waitingForKey: 64,
  perSandbox: 256,
  total: 10_000,
};
