import type { Runtime } from '@conversation-operator/base/runtime';
import type { Registry } from '../registry/api-resource.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import type { PodLogs } from './pod-logs.ts';
import type { ObjectWriter } from './object-writer.ts';
import type { WatchHub } from './watch-hub.ts';

export interface PlaneContext extends Runtime {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly writer: ObjectWriter;
  readonly hub: WatchHub;
  /** Reader of container logs; undefined until a node runs. */
  podLogs: PodLogs | undefined;
}
