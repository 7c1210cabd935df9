/** A counter with the labels `L`, for example of prom-client. */
export interface CounterOf<L extends string> {
  inc(labels: Readonly<Record<L, string>>): void;
}

/** A histogram of seconds with the labels `L`, for example of prom-client. */
export interface SecondsOf<L extends string> {
  observe(labels: Readonly<Record<L, string>>, seconds: number): void;
  labels(labels: Readonly<Record<L, string>>): { observe(seconds: number): void };
}

/** A gauge with the labels `L`, for example of prom-client. */
export interface GaugeOf<L extends string> {
  labels(labels: Readonly<Record<L, string>>): { set(value: number): void };
}

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
