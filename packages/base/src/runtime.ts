import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';

/** Dependencies of most classes. Tests replace them. */
export interface Runtime {
  readonly clock: Clock;
  /** Returns a random number from 0 to below 1. */
  readonly random: () => number;
  readonly logger: Logger;
}

export interface CounterOf<L extends string> {
  inc(labels: Readonly<Record<L, string>>): void;
}

export interface SecondsOf<L extends string> {
  observe(labels: Readonly<Record<L, string>>, seconds: number): void;
  labels(labels: Readonly<Record<L, string>>): { observe(seconds: number): void };
}

export interface GaugeOf<L extends string> {
  labels(labels: Readonly<Record<L, string>>): { set(value: number): void };
}
