import fc from 'fast-check';
import { TokenBucket } from '../src/token-bucket.ts';

it('never lets more pass than its burst, and one for each interval', () => {
  const step = fc.record({ waitMs: fc.nat(3_000), holdMs: fc.option(fc.nat(5_000), { freq: 8 }) });
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 1, max: 2_000 }),
      fc.array(step, { maxLength: 200 }),
      (burst, intervalMs, steps) => {
        const ramp = new TokenBucket({ burst, intervalMs });
        let [now, heldUntil] = [1_000_000, 0];
        const passed: number[] = [];
        for (const { waitMs, holdMs } of steps) {
          now += waitMs;
          if (holdMs !== null) {
            heldUntil = Math.max(heldUntil, now + holdMs);
            ramp.hold(now + holdMs);
          }
          const full = passed.filter((at) => now - at < burst * intervalMs).length;
          // A bucket from which nothing was taken for this time is full.
          if (full === 0 && now >= heldUntil) expect(ramp.readyAt).toBeLessThanOrEqual(now);
          if (ramp.readyAt > now) continue;
          expect(now).toBeGreaterThanOrEqual(heldUntil);
          ramp.take(now);
          passed.push(now);
          for (const [index, from] of passed.entries())
            expect(passed.length - index).toBeLessThanOrEqual(
              burst + Math.floor((now - from) / intervalMs),
            );
        }
      },
    ),
  );
});
