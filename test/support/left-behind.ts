import { getEventListeners } from 'node:events';
import { VirtualClock } from './virtual-clock.ts';

/** A clock and a signal that outlive some work, and the count of what the work has left there. */
export interface Outliving {
  /** A clock whose time passes only when the test says so. */
  readonly clock: VirtualClock;
  readonly signal: AbortSignal;
  readonly left: () => { readonly timers: number; readonly listeners: number };
}

/** The count for work that has ended, whether well or with an error. */
export const nothing = { timers: 0, listeners: 0 } as const;

export function outliving(): Outliving {
  const clock = new VirtualClock();
  const { signal } = new AbortController();
  const left = () => ({
    timers: clock.timers,
    listeners: getEventListeners(signal, 'abort').length,
  });
  return { clock, signal, left };
}
