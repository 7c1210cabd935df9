import { RateLimits } from '../../src/limits/rate-limits.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { VirtualClock } from '../../../../test/support/virtual-clock.ts';

const metrics = { rateLimited: { inc: () => undefined } };

describe('the rate limits of an owner', () => {
  const setUp = (limits = { readsPerSecond: 100, writesPerSecond: 100 }) => {
    const clock = new VirtualClock();
    return { clock, limits: new RateLimits({ limits, clock, metrics, logger: silentLogger }) };
  };
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
});
