import type { Metrics } from './metrics.ts';
import type { PlainGauge } from './closed-metrics.ts';

/**
 * The part of one leader in a gauge of its process: leaders of several shards set the same gauge,
 * which shows the sum of their parts.
 */
class GaugeShare<L extends string> implements PlainGauge<L> {
  readonly #gauge: PlainGauge<L>;
  /** By the labels as JSON. */
  readonly #parts = new Map<string, number>();

  constructor(gauge: PlainGauge<L>) {
    this.#gauge = gauge;
  }

  set(labels: Readonly<Partial<Record<L, string>>>, value: number): void {
    this.inc(labels, value - (this.#parts.get(JSON.stringify(labels)) ?? 0));
  }

  inc(labels: Readonly<Partial<Record<L, string>>>, value = 1): void {
    const key = JSON.stringify(labels);
    this.#parts.set(key, (this.#parts.get(key) ?? 0) + value);
    this.#gauge.inc(labels, value);
  }

  dec(labels: Readonly<Partial<Record<L, string>>>, value = 1): void {
    this.inc(labels, -value);
  }

  labels(labels: Readonly<Partial<Record<L, string>>>) {
    return { set: (value: number) => this.set(labels, value) };
  }

  /** Removes the part from the gauge. */
  end(): void {
    for (const key of this.#parts.keys())
      this.set(JSON.parse(key) as Readonly<Partial<Record<L, string>>>, 0);
  }
}

/** The metrics of a process for the leader of one shard, and the function that ends its part. */
export function shareOfMetrics(metrics: Metrics): {
  readonly metrics: Metrics;
  readonly end: () => void;
} {
  const queueDepth = new GaugeShare(metrics.queueDepth);
  const quotaSlots = new GaugeShare(metrics.quotaSlots);
  const sandboxes = new GaugeShare(metrics.sandboxes);
  return {
    metrics: { ...metrics, queueDepth, quotaSlots, sandboxes },
    end: () => {
      for (const share of [queueDepth, quotaSlots, sandboxes]) share.end();
    },
  };
}
