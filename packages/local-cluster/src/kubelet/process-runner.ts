/** Request to run a program as the process of a container. */
export interface ProcessRequest {
  /** Command with at least one element; the first is searched in the PATH of `env`. */
  readonly command: readonly string[];
  /** Complete environment; nothing else is inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string;
  /** Unique id that every process of the run carries. */
  readonly runId: string;
  /**
   * Receives the output of the processes in order; the runner passes the next chunk when the
   * promise has resolved. Never rejects.
   */
  readonly output: (chunk: Uint8Array) => Promise<void>;
}

export interface ProcessExit {
  /** Exit code; 128 + n when signal n ended the process. */
  readonly exitCode: number;
}

/** A process and all processes that it has started. */
export interface RunningProcess {
  /**
   * Resolves when the process has ended, all processes that it started are gone, and the output has
   * been passed on.
   */
  readonly exited: Promise<ProcessExit>;
  /** Sends SIGTERM to the process group. */
  terminate(): void;
  /** Sends SIGKILL to all processes. */
  kill(): void;
}

/** Interface between the node and the machine. */
export interface ProcessRunner {
  /**
   * Ends the processes that an earlier process of this node has left running, and resolves when
   * none remains.
   */
  recover(): Promise<void>;
  /** Rejects with the error of the system when the program cannot be started. */
  start(request: ProcessRequest): Promise<RunningProcess>;
  /** Releases the runner. No calls may follow. */
  close(): Promise<void>;
}
