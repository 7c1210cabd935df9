import type { KubeClient } from '@conversation-operator/kube/client';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { RuntimeOptions } from '@conversation-operator/kube/runtime-options';
import type { BackOffLimits } from './container-record.ts';

export interface ProcessRequest {
  /** Command of at least one element. The first is searched in the PATH of `env`. */
  readonly command: readonly string[];
  /** Complete environment; nothing else is inherited. */
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string;
  /** Unique id of the run, which every process of the run has in its environment. */
  readonly runId: string;
  /** Called with the output in order, one chunk after the other. The promise never rejects. */
  readonly output: (chunk: Uint8Array) => Promise<void>;
}

export interface ProcessExit {
  /** 128 + n when signal n ended the process. */
  readonly exitCode: number;
}

/** A process and all processes that it has started. */
export interface RunningProcess {
  /** Resolves when all these processes have ended and `output` has received everything. */
  readonly exited: Promise<ProcessExit>;
  /** Sends SIGTERM to the process group. */
  terminate(): void;
  /** Sends SIGKILL to all processes. */
  kill(): void;
}

export interface ProcessRunner {
  /** Kills the processes that an earlier run of this node has left. Resolves when none remains. */
  recover(): Promise<void>;
  /** Rejects with the system's error if the program cannot be started. */
  start(request: ProcessRequest): Promise<RunningProcess>;
  /** Kills all processes of the node. No calls may follow. */
  close(): Promise<void>;
}

/** Program that runs in place of an image, because the node pulls no images. */
export interface ImageProgram {
  /** Command in place of the image's entry point. Its first element is a path or a name in PATH. */
  readonly command: readonly string[];
  /** Environment of the image. Variables of the pod take precedence. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface EventSink {
  record(
    object: KubeObject,
    event: {
      readonly type: 'Normal' | 'Warning';
      readonly reason: string;
      readonly message: string;
    },
  ): void;
}

export interface LocalKubeletOptions extends RuntimeOptions {
  readonly client: KubeClient;
  /** Folder for volumes, logs and the id of the node. At most one running node uses the folder. */
  readonly dataDir: string;
  /** Programs by the exact image name in the spec of a pod. */
  readonly images: Readonly<Record<string, ImageProgram>>;
  /** Name of the Node object; default `local`. */
  readonly name?: string;
  /** Environment to inherit from; default process.env. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly events?: EventSink;
  /**
   * Delays between restarts. Default as in a kubelet: 0 for the first restart, then 10 s, doubling
   * up to 5 min, and reset after 10 min of running.
   */
  readonly backOff?: Partial<BackOffLimits>;
  /** Delay between SIGTERM and SIGKILL in `stop`; default 5000 ms. */
  readonly stopGraceMs?: number;
  /** Size of a container log before rotation, which keeps one older part; default 10 MiB. */
  readonly maxLogBytes?: number;
  /** Port on which this process listens to reserve the address of a pod; default 10250. */
  readonly reservationPort?: number;
  /** Default: a `LocalRunner`, which runs processes of this machine. */
  readonly runner?: ProcessRunner;
}

export type NodeSettings = Required<
  Omit<LocalKubeletOptions, 'metrics' | 'events' | 'backOff' | 'runner'>
> &
  Pick<LocalKubeletOptions, 'metrics'> & {
    readonly backOff: BackOffLimits;
    readonly events: EventSink;
  };
