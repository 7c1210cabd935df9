import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { Registry } from '../registry/registry.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import type { PodLogs } from './pod-logs.ts';
import type { ObjectWriter } from './object-writer.ts';
import type { WatchHub } from './watch-hub.ts';

/** Components that serve requests. */
export interface PlaneContext {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly writer: ObjectWriter;
  readonly hub: WatchHub;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
  /** Reader of container logs; undefined until a node runs. */
  podLogs: PodLogs | undefined;
}
