import * as fc from 'fast-check';
import { backoffDelayMs } from '../src/backoff.ts';

const options = fc.record({
  baseMs: fc.integer({ min: 1, max: 10_000 }),
  capMs: fc.integer({ min: 10_000, max: 1_000_000 }),
  factor: fc.double({ min: 1, max: 10, noNaN: true }),
  jitter: fc.double({ min: 0, max: 1, noNaN: true }),
});
const failures = fc.integer({ min: 1, max: 100_000 });
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('backoffDelayMs', () => {
  it('starts at the base and doubles up to the cap', () => {
    const delays = [1, 2, 3, 4, 5, 6].map((count) =>
      backoffDelayMs({ baseMs: 100, capMs: 1000 }, count, () => 0.9),
    );
    expect(delays).toEqual([100, 200, 400, 800, 1000, 1000]);
  });

  it('never waits less than the base or more than the cap with its jitter', () => {
    fc.assert(
      fc.property(options, failures, random, (given, count, value) => {
        const delayMs = backoffDelayMs(given, count, () => value);
        expect(delayMs).toBeGreaterThanOrEqual(given.baseMs);
        expect(delayMs).toBeLessThanOrEqual(given.capMs * (1 + given.jitter));
      }),
    );
  });

  it('never waits less after one more failure, jitter aside', () => {
    fc.assert(
      fc.property(options, failures, (given, count) => {
        const steady = { ...given, jitter: 0 };
        expect(backoffDelayMs(steady, count + 1, () => 0)).toBeGreaterThanOrEqual(
          backoffDelayMs(steady, count, () => 0),
        );
      }),
    );
  });
});
