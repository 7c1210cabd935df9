import type { Clock } from '@conversation-operator/base/clock';

const minuteMs = 60_000;
/** Number of minutes over which the hit rate is computed. */
const minutes = 10;

interface Minute {
  readonly startedAt: number;
  hits: number;
  misses: number;
}

export interface PoolUse {
  /** Claims in the last minute. */
  readonly claimsPerMinute: number;
  /** Share of claims among the starts of the last 10 minutes, in percent; absent without starts. */
  readonly hitRatePercent?: number;
}

/**
 * StartCounts counts the starts of each template by whether they claimed a spare. The counts are
 * those of this process: a new leader begins with none.
 */
export class StartCounts {
  readonly #clock: Clock;
  /** Counts by `namespace/template`; a template without starts for 10 minutes has none. */
  readonly #counts = new Map<string, { claims: number[]; minutes: Minute[] }>();

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  add(namespace: string, templateName: string, isHit: boolean): void {
    const now = this.#clock.monotonic();
    const key = `${namespace}/${templateName}`;
    const counts = this.#counts.get(key) ?? { claims: [], minutes: [] };
    this.#counts.set(key, counts);
    let minute = counts.minutes.at(-1);
    if (minute === undefined || now - minute.startedAt >= minuteMs)
      counts.minutes.push((minute = { startedAt: now, hits: 0, misses: 0 }));
    if (isHit) minute.hits += 1;
    else minute.misses += 1;
    if (isHit) counts.claims.push(now);
    this.#forgetOld(key, now);
  }

  of(namespace: string, templateName: string): PoolUse {
    const key = `${namespace}/${templateName}`;
    this.#forgetOld(key, this.#clock.monotonic());
    const counts = this.#counts.get(key);
    if (counts === undefined) return { claimsPerMinute: 0 };
    const sum = (of: (minute: Minute) => number) =>
      counts.minutes.reduce((total, minute) => total + of(minute), 0);
    const [hits, misses] = [sum((minute) => minute.hits), sum((minute) => minute.misses)];
    return {
      claimsPerMinute: counts.claims.length,
      hitRatePercent: Math.round((100 * hits) / (hits + misses)),
    };
  }

  #forgetOld(key: string, now: number): void {
    const counts = this.#counts.get(key);
    if (counts === undefined) return;
    counts.claims = counts.claims.filter((at) => now - at < minuteMs);
    counts.minutes = counts.minutes.filter(({ startedAt }) => now - startedAt < minutes * minuteMs);
    if (counts.minutes.length === 0) this.#counts.delete(key);
  }
}
