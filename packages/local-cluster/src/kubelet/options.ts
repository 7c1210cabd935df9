import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { KubeMetrics } from '@conversation-operator/kube/metrics';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { BackOffLimits } from './back-off.ts';
import type { ProcessRunner } from './process-runner.ts';

/** What stands behind the name of an image on this node: nothing is ever pulled. */
export interface ImageProgram {
  /** Takes the place of the image's entry point; the first element is a path of this machine or found in PATH. */
  readonly command: readonly string[];
  /** The image's own environment; the pod's wins. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Where events about pods go; an `EventRecorder` is one. */
export interface EventSink {
  record(object: KubeObject, event: { readonly type: 'Normal' | 'Warning'; readonly reason: string; readonly message: string }): void;
}

export interface ProcessNodeOptions {
  readonly client: KubeClient;
  /** Volumes, logs and the node's own id live below this folder. One running node per folder. */
  readonly dataDir: string;
  /** By the exact name that a pod's spec uses. */
  readonly images: Readonly<Record<string, ImageProgram>>;
  readonly clock: Clock;
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics?: KubeMetrics;
  /** Name of the Node object. Default: local. */
  readonly name?: string;
  /** Default: process.env. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly events?: EventSink;
  /** Default: a kubelet's: at once, then 10 s doubling up to 5 min, forgotten after 10 min of running. */
  readonly backOff?: Partial<BackOffLimits>;
  /** How long `stop` waits between SIGTERM and SIGKILL, in milliseconds. Default: 5000. */
  readonly stopGraceMs?: number;
  /** A container's log is rotated at this size; one older part is kept. Default: 10 MiB. */
  readonly maxLogBytes?: number;
  /** A pod's address is reserved on the machine by listening on this port of it. Default: 10250. */
  readonly reservationPort?: number;
  /** Default: real processes. */
  readonly runner?: ProcessRunner;
}

/** What the parts of the node share, with defaults filled in. */
export type NodeSettings = Required<Omit<ProcessNodeOptions, 'metrics' | 'events' | 'backOff' | 'runner'>> & {
  readonly backOff: BackOffLimits;
  readonly events: EventSink;
  readonly metrics?: KubeMetrics;
};
