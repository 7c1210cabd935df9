import type { Runtime } from '@conversation-operator/base/runtime';
import type { Metrics } from './metrics.ts';

/** Common parts of every long-running command. */
export interface MeasuredRuntime extends Runtime {
  readonly metrics: Metrics;
}
