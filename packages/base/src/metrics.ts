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
