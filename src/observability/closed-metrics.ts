import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { STATUS_CODES } from 'node:http';

/** Allowed values of a label: a closed set, or a function that maps each value to a bounded set. */
export type LabelRule = readonly string[] | ((value: string) => string);

/** Label value that replaces all unknown values. */
const otherValue = 'other';

/** Returns a function that keeps values of the closed set, and replaces others by `other`. */
export function oneOf(values: readonly string[]): (value: string) => string {
  const known = new Set(values);
  return (value) => (known.has(value) ? value : otherValue);
}

/**
 * Returns a function that keeps the first `max` values, and replaces later ones by `other`. Only
 * for names that the source code defines, such as routes.
 */
export function firstValues(max: number): (value: string) => string {
  const known = new Set<string>();
  return (value) => {
    if (known.size < max) known.add(value);
    return known.has(value) ? value : otherValue;
  };
}

/** The methods of RFC 9110, and PATCH. */
export const httpMethod = oneOf([
  ...['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE'],
]);

/**
 * Keeps a status that Node knows, and `0` for a missing response. Another status from 100 to 599
 * becomes its class, such as `4xx`, and any other text becomes `other`.
 */
export function httpStatus(status: string): string {
  if (status === '0' || Object.hasOwn(STATUS_CODES, status)) return status;
  return /^[1-5]\d\d$/.test(status) ? `${status.charAt(0)}xx` : otherValue;
}

/** A gauge without the methods that only its registry needs. */
export interface PlainGauge<L extends string> {
  set(labels: Readonly<Partial<Record<L, string>>>, value: number): void;
  inc(labels: Readonly<Partial<Record<L, string>>>, value?: number): void;
  dec(labels: Readonly<Partial<Record<L, string>>>, value?: number): void;
  labels(labels: Readonly<Partial<Record<L, string>>>): { set(value: number): void };
}

export type LabelRules = Readonly<Record<string, LabelRule>>;
type ValueOf<R extends LabelRule> = R extends readonly (infer V extends string)[] ? V : string;
type Labels<R extends LabelRules> = { readonly [L in keyof R]: ValueOf<R[L]> };

/** Settings of a metric. The rules of its labels bound the number of its series. */
export interface ClosedMetricOptions<R extends LabelRules> {
  readonly name: string;
  readonly help: string;
  readonly labels: R;
  readonly registers: Registry[];
}

class ClosedLabels {
  readonly labelNames: string[];
  readonly #rules: ReadonlyMap<string, (value: string) => string>;

  constructor(rules: LabelRules) {
    this.labelNames = Object.keys(rules);
    this.#rules = new Map(
      Object.entries(rules).map(([name, rule]) => [
        name,
        typeof rule === 'function' ? rule : oneOf(rule),
      ]),
    );
  }

  /** Applies the rules. A label without a rule stays unchanged, and the metric rejects it. */
  protected closed(labels: Readonly<Record<string, string | undefined>>): Record<string, string> {
    return Object.fromEntries(
      Object.entries(labels).map(([name, value = '']) => [
        name,
        this.#rules.get(name)?.(value) ?? value,
      ]),
    );
  }
}

export class ClosedCounter<const R extends LabelRules> extends ClosedLabels {
  readonly #counter: Counter;

  constructor({ labels, ...options }: ClosedMetricOptions<R>) {
    super(labels);
    this.#counter = new Counter({ ...options, labelNames: this.labelNames });
  }

  inc(labels: Labels<R>, value = 1): void {
    this.#counter.inc(this.closed(labels), value);
  }

  get(): ReturnType<Counter['get']> {
    return this.#counter.get();
  }
}

export class ClosedHistogram<const R extends LabelRules> extends ClosedLabels {
  readonly #histogram: Histogram;

  constructor({ labels, ...options }: ClosedMetricOptions<R> & { readonly buckets: number[] }) {
    super(labels);
    this.#histogram = new Histogram({ ...options, labelNames: this.labelNames });
  }

  observe(labels: Labels<R>, value: number): void {
    this.#histogram.observe(this.closed(labels), value);
  }

  labels(labels: Labels<R>): { observe(value: number): void } {
    return this.#histogram.labels(this.closed(labels));
  }
}

export class ClosedGauge<L extends string> extends ClosedLabels implements PlainGauge<L> {
  readonly #gauge: Gauge;

  constructor({ labels, ...options }: ClosedMetricOptions<Readonly<Record<L, LabelRule>>>) {
    super(labels);
    this.#gauge = new Gauge({ ...options, labelNames: this.labelNames });
  }

  set(labels: Readonly<Partial<Record<L, string>>>, value: number): void {
    this.#gauge.set(this.closed(labels), value);
  }

  inc(labels: Readonly<Partial<Record<L, string>>>, value?: number): void {
    this.#gauge.inc(this.closed(labels), value);
  }

  dec(labels: Readonly<Partial<Record<L, string>>>, value?: number): void {
    this.#gauge.dec(this.closed(labels), value);
  }

  labels(labels: Readonly<Partial<Record<L, string>>>): { set(value: number): void } {
    return this.#gauge.labels(this.closed(labels));
  }
}
