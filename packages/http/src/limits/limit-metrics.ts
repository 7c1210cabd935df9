import type { CounterOf } from '@conversation-operator/base/metrics';

/** Counters of what the limits refuse. The user of the package creates them. */
export interface LimitMetrics {
  readonly droppedConnections: { inc(): void };
  readonly evictedConnections: { inc(): void };
  readonly shedRequests: CounterOf<'kind'>;
  readonly rateLimited: CounterOf<'limit'>;
}
