import { PoolPace } from '../../../../src/controllers/pool/pace.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const refill = { maxPerMinute: 60, delay: '0s' };

let clock: VirtualClock;
beforeEach(() => (clock = new VirtualClock()));

/** Milliseconds until warm sandboxes may be created. */
async function heldFor(pace: PoolPace): Promise<number> {
  const beganAt = clock.monotonic();
  while (pace.allowance === 0) await clock.advance(100);
  return clock.monotonic() - beganAt;
}

describe('spares that do not boot', () => {
  it('hold the others back, twice as long with each in a row, and up to 5 min', async () => {
    const pace = new PoolPace(clock, refill, 0);
    const delays: number[] = [];
    for (let failures = 0; failures < 7; failures++) {
      pace.failed();
      expect(pace.nextMs(1)).toBe(Math.min(300_000, 10_000 * 2 ** failures));
      delays.push(await heldFor(pace));
    }
    expect(delays).toEqual([10_000, 20_000, 40_000, 80_000, 160_000, 300_000, 300_000]);
    expect(pace.failures).toBe(7);
  });

  it('hold them back for 10 s again after one that has booted', async () => {
    const pace = new PoolPace(clock, refill, 0);
    pace.failed();
    pace.failed();
    pace.booted(clock.now());
    pace.failed();
    expect(await heldFor(pace)).toBe(10_000);
  });

  it('are not forgiven by one that was created before the failure', () => {
    const pace = new PoolPace(clock, refill, 0);
    pace.failed();
    pace.booted(clock.now() - 1);
    expect(pace.failures).toBe(1);
  });

  it('hold them back after a change of the leader as long as before', async () => {
    expect(await heldFor(new PoolPace(clock, refill, 3))).toBe(40_000);
  });
});

describe('the rate of a pool', () => {
  it('lets a sixth of a minute begin at once, and asks for a reconcile when the next may', async () => {
    const pace = new PoolPace(clock, refill, 0);
    expect(pace.allowance).toBe(10);
    for (let warmSandboxes = 0; warmSandboxes < 10; warmSandboxes++) pace.created();
    expect(pace.allowance).toBe(0);
    const nextMs = pace.nextMs(1);
    expect(nextMs).toBe(1_200);
    await clock.advance(nextMs - 1);
    expect(pace.allowance).toBe(0);
    await clock.advance(1);
    expect(pace.allowance).toBe(1);
  });
});
