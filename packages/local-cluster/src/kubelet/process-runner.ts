/** One program to be run as a container's process. */
export interface ProcessRequest {
  /** At least one element; the first is looked up in the PATH of `env`. */
  readonly command: readonly string[];
  /** The whole environment: nothing is inherited beside it. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string;
  /** Carried by every process of the run, and unique to it. */
  readonly runId: string;
  /** Takes what the processes print, in order; the next chunk comes when it has resolved. Never rejects. */
  readonly output: (chunk: Uint8Array) => Promise<void>;
}

export interface ProcessExit {
  /** 128 + n when signal n ended it. */
  readonly exitCode: number;
}

/** A process and everything it has started. */
export interface RunningProcess {
  /** Resolves when the process has ended, everything it started is gone, and its output has been handed over. */
  readonly exited: Promise<ProcessExit>;
  /** SIGTERM to its process group. */
  terminate(): void;
  /** SIGKILL to all of it. */
  kill(): void;
}

/** The seam between the node and the machine. */
export interface ProcessRunner {
  /** Ends what an earlier process of this node has left running, and resolves when nothing of it is left. */
  recover(): Promise<void>;
  /** Rejects with the system's error when the program can't be started. */
  start(request: ProcessRequest): Promise<RunningProcess>;
  /** No more calls after this one. */
  close(): Promise<void>;
}
