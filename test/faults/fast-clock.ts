import { systemClock, type Clock } from '@conversation-operator/base/clock';

/**
 * A clock that goes `factor` times as fast, so that back-off and watchdogs that take minutes are
 * over in a second.
 */
export const fastClock = (factor: number): Clock => ({
  now: () => systemClock.now(),
  monotonic: () => systemClock.monotonic() * factor,
  after: (delayMs, callback) => systemClock.after(delayMs / factor, callback),
});
