import { RateLimits } from '../../src/limits/rate-limits.ts';
import { silentLogger } from '@conversation-operator/kube/logger';
import { VirtualClock } from '../../../../test/support/virtual-clock.ts';

const metrics = { rateLimited: { inc: () => undefined } };

describe('the rate limits of an owner', () => {
  const setUp = (limits = { readsPerSecond: 100, writesPerSecond: 100 }) => {
    const clock = new VirtualClock();
    return {
      clock,
      limits: new RateLimits({ limits, clock, metrics, logger: silentLogger }),
    };
  };
  /** How many requests are let through at once. */
  const allowed = (limits: RateLimits, owner: string, kind: 'reads' | 'writes') => {
    for (let count = 0; ; count++) {
      try {
        limits.request(owner, kind);
      } catch {
        return count;
      }
    }
  };

  it('count large bodies, large stored objects and large answers as several requests', () => {
    const { limits } = setUp();
    limits.written('alice', 1024 * 1024);
    expect(allowed(limits, 'alice', 'writes')).toBe(200 - 16);
    limits.answered('alice', 'reads', (256 + 64) * 1024);
    expect(allowed(limits, 'alice', 'reads')).toBe(200 - 2);
    limits.written('bob', 1000);
    limits.answered('bob', 'reads', 1000);
    expect([allowed(limits, 'bob', 'writes'), allowed(limits, 'bob', 'reads')]).toEqual([200, 200]);
  });

  it('are refused more slowly to an owner that keeps asking, at no more than 250 a second, and to no other owner', async () => {
    const { clock, limits } = setUp();
    const delays = Array.from({ length: 350 }, () => limits.refused('alice').delayMs);
    expect(delays.slice(0, 100)).toEqual(Array.from({ length: 100 }, () => 0));
    expect(delays[149]).toBe(200);
    expect(delays[349]).toBe(1000);
    expect(limits.refused('bob').delayMs).toBe(0);
    for (let more = 0; more < 2000; more++) limits.refused('alice');
    expect(limits.refused('alice').delayMs).toBe(2000);
    await clock.advance(3000);
    expect(limits.refused('alice').delayMs).toBe(0);
  });

  it('are refused as much more slowly as there is more of a body to read, and beyond two seconds without reading it', async () => {
    const { clock, limits } = setUp();
    const delays = Array.from({ length: 12 }, () => limits.refused('alice', 960 * 1024).delayMs);
    expect(delays.slice(0, 8)).toEqual([0, 0, 0, 0, 0, 0, 48, 112]);
    expect(limits.refused('alice', 960 * 1024).isTooMuch).toBe(false);
    for (let more = 0; more < 40; more++) limits.refused('alice', 960 * 1024);
    expect(limits.refused('alice', 960 * 1024)).toEqual({ delayMs: 2000, isTooMuch: true });
    expect(limits.refused('bob', 960 * 1024)).toEqual({ delayMs: 0, isTooMuch: false });
    await clock.advance(2000);
    expect(limits.refused('alice').isTooMuch).toBe(false);
  });
});
