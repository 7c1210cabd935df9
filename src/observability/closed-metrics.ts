import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { oneOf, type LabelRule } from './label-rules.ts';
import type { PlainGauge } from './plain-gauge.ts';

/** A rule for each label of a metric. */
export type LabelRules = Readonly<Record<string, LabelRule>>;
type ValueOf<R extends LabelRule> = R extends readonly (infer V extends string)[] ? V : string;
type Labels<R extends LabelRules> = { readonly [L in keyof R]: ValueOf<R[L]> };

/** Settings of a metric whose number of series is bounded by the rules of its labels. */
export interface ClosedMetricOptions<R extends LabelRules> {
  readonly name: string;
  readonly help: string;
  readonly labels: R;
  readonly registers: Registry[];
}

/** Applies the rules of a metric to the labels of each call. */
class ClosedLabels {
  readonly names: string[];
  readonly #rules: ReadonlyMap<string, (value: string) => string>;

  constructor(rules: LabelRules) {
    this.names = Object.keys(rules);
    this.#rules = new Map(
      Object.entries(rules).map(([name, rule]) => [
        name,
        typeof rule === 'function' ? rule : oneOf(rule),
      ]),
    );
  }

  /** A label without a rule stays as it is, and the metric refuses it. */
  of(labels: Readonly<Record<string, string | undefined>>): Record<string, string> {
    return Object.fromEntries(
      Object.entries(labels).map(([name, value = '']) => [
        name,
        this.#rules.get(name)?.(value) ?? value,
      ]),
    );
  }
}

/** A counter whose labels have closed sets of values. */
export class ClosedCounter<const R extends LabelRules> {
  readonly labelNames: readonly string[];
  readonly #labels: ClosedLabels;
  readonly #counter: Counter;

  constructor({ labels, ...options }: ClosedMetricOptions<R>) {
    this.#labels = new ClosedLabels(labels);
    this.labelNames = this.#labels.names;
    this.#counter = new Counter({ ...options, labelNames: this.#labels.names });
  }

  inc(labels: Labels<R>): void {
    this.#counter.inc(this.#labels.of(labels));
  }

  get(): ReturnType<Counter['get']> {
    return this.#counter.get();
  }
}

/** A histogram whose labels have closed sets of values. */
export class ClosedHistogram<const R extends LabelRules> {
  readonly labelNames: readonly string[];
  readonly #labels: ClosedLabels;
  readonly #histogram: Histogram;

  constructor({ labels, ...options }: ClosedMetricOptions<R> & { readonly buckets: number[] }) {
    this.#labels = new ClosedLabels(labels);
    this.labelNames = this.#labels.names;
    this.#histogram = new Histogram({ ...options, labelNames: this.#labels.names });
  }

  observe(labels: Labels<R>, value: number): void {
    this.#histogram.observe(this.#labels.of(labels), value);
  }

  labels(labels: Labels<R>): { observe(value: number): void } {
    return this.#histogram.labels(this.#labels.of(labels));
  }
}

/** A gauge whose labels have closed sets of values. */
export class ClosedGauge<L extends string> implements PlainGauge<L> {
  readonly labelNames: readonly string[];
  readonly #labels: ClosedLabels;
  readonly #gauge: Gauge;

  constructor({ labels, ...options }: ClosedMetricOptions<Readonly<Record<L, LabelRule>>>) {
    this.#labels = new ClosedLabels(labels);
    this.labelNames = this.#labels.names;
    this.#gauge = new Gauge({ ...options, labelNames: this.#labels.names });
  }

  set(labels: Readonly<Partial<Record<L, string>>>, value: number): void {
    this.#gauge.set(this.#labels.of(labels), value);
  }

  inc(labels: Readonly<Partial<Record<L, string>>>, value?: number): void {
    this.#gauge.inc(this.#labels.of(labels), value);
  }

  dec(labels: Readonly<Partial<Record<L, string>>>, value?: number): void {
    this.#gauge.dec(this.#labels.of(labels), value);
  }

  labels(labels: Readonly<Partial<Record<L, string>>>): { set(value: number): void } {
    return this.#gauge.labels(this.#labels.of(labels));
  }
}
