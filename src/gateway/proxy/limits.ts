/** What the proxy allows. Times in milliseconds. */
export interface ProxyLimits {
  /** To the agent. */
  readonly connectMs: number;
  /** Of an agent's answer. Some of its calls answer only when a command has ended. */
  readonly firstByteMs: number;
  /** Between two pieces of an answer, and without a byte in either direction on a WebSocket. */
  readonly idleMs: number;
  /** Between two pieces of what a client sends, or takes. */
  readonly clientIdleMs: number;
  /** For the first frame of a WebSocket that was opened without a key. The agent itself gives it 10 s. */
  readonly firstFrameMs: number;
  /** Of one sandbox: requests without a key, and WebSockets that were opened without a key and have not shown one yet. */
  readonly waitingForKey: number;
  /** Requests and WebSockets at once: of one sandbox, and of all of this process. Those of one owner may take a quarter of all. */
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
