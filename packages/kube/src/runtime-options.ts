import type { Runtime } from '@conversation-operator/base/runtime';
import type { KubeMetrics } from './metrics.ts';

/** Options that all parts of the client runtime have in common. */
export interface RuntimeOptions extends Runtime {
  readonly metrics?: KubeMetrics;
}
