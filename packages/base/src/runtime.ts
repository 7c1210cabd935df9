import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';

/** Parts of a process that most classes take; tests and the simulation have their own. */
export interface Runtime {
  readonly clock: Clock;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly logger: Logger;
}
