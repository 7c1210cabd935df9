import type { Runtime, CounterOf, GaugeOf, SecondsOf } from '@conversation-operator/base/runtime';

/** Metrics that the client runtime reports. The user of the runtime creates them. */
export interface KubeMetrics {
  /** Calls to the API server; status `0` means that no response arrived. */
  readonly apiCalls: CounterOf<'verb' | 'resource' | 'status'>;
  readonly apiCallSeconds: SecondsOf<'verb'>;
  readonly watchRestarts: CounterOf<'resource' | 'cause'>;
  readonly reconciles: CounterOf<'controller' | 'result'>;
  readonly reconcileSeconds: SecondsOf<'controller'>;
  /** Number of keys that wait for a worker. */
  readonly queueDepth: GaugeOf<'controller'>;
  readonly queueWaitSeconds: SecondsOf<'controller'>;
}

/** Options that all parts of the client runtime have in common. */
export interface RuntimeOptions extends Runtime {
  readonly metrics?: KubeMetrics;
}
