import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { KubeMetrics } from './metrics.ts';

/** Options that all parts of the client runtime have in common. */
export interface RuntimeOptions {
  readonly clock: Clock;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics?: KubeMetrics;
}
