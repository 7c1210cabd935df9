import type { Runtime, CounterOf, GaugeOf, SecondsOf } from '@conversation-operator/base/runtime';

/** Metrics of clients, controllers and reflectors. The caller creates the metrics. */
export interface KubeMetrics {
  /** Calls to the API server. Status `0` means that no response arrived. */
  readonly apiCalls: CounterOf<'verb' | 'resource' | 'status'>;
  readonly apiCallSeconds: SecondsOf<'verb'>;
  readonly watchRestarts: CounterOf<'resource' | 'cause'>;
  readonly reconciles: CounterOf<'controller' | 'result'>;
  readonly reconcileSeconds: SecondsOf<'controller'>;
  readonly queueDepth: GaugeOf<'controller'>;
  readonly queueWaitSeconds: SecondsOf<'controller'>;
}

export interface RuntimeOptions extends Runtime {
  readonly metrics?: KubeMetrics;
}
