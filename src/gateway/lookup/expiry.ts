import type { Clock } from '@conversation-operator/base/clock';

/** Options of an `LRUCache` whose entries expire by this clock, to the millisecond. */
export const expiryBy = (clock: Clock) => ({
  ttlResolution: 0,
  perf: { now: () => clock.monotonic() },
});
