import { Paces, type Seen } from '../../../../../src/controllers/conversation/polling/poll-schedule.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

function setUp() {
  const clock = new VirtualClock();
  const paces = new Paces({ clock });
  const look = (seen: Partial<Seen> = {}) =>
    paces.looked('a', {
      ...{
        beganAt: clock.monotonic(),
        subject: 's',
        sandboxUid: 'u',
        agent: 'c',
        status: { executionStatus: 'finished' },
        runs: false,
        changed: false,
        telling: false,
      },
      ...seen,
    });
  return { clock, paces, look };
}

describe('Paces', () => {
  it('what is not known is due', () => {
    expect(setUp().paces.waitMs('a', 's')).toBe(0);
  });

  it('what was looked at waits, and another subject is due at once', () => {
    const { paces, look } = setUp();
    expect(look()).toBeGreaterThan(0);
    expect(paces.waitMs('a', 's')).toBeGreaterThan(0);
    expect(paces.waitMs('a', 'another')).toBe(0);
  });

  it('a run is looked at within 4 s, however long nothing changes', async () => {
    const { clock, look } = setUp();
    for (let count = 0; count < 50; count++) {
      const waitMs = look({ status: { executionStatus: 'running' }, runs: true });
      expect(waitMs).toBeLessThanOrEqual(4_000);
      await clock.advance(waitMs);
    }
  });

  it('a run that the agent shows counts as one, also while it is not believed', () => {
    expect(setUp().look({ status: { executionStatus: 'paused' }, runs: true })).toBeLessThanOrEqual(4_000);
  });

  it('what has to be done again sooner is', () => {
    expect(setUp().look({ againAfterMs: 77 })).toBe(77);
  });

  it('a hint makes it due, but not for what nobody looks at', async () => {
    const { clock, paces, look } = setUp();
    expect(paces.hint('a')).toBeUndefined();
    look();
    await clock.advance(1_000);
    expect(paces.hint('a')).toBe(0);
    expect(paces.waitMs('a', 's')).toBe(0);
  });

  it('a look that was under way when the hint came does not answer it', async () => {
    const { clock, paces, look } = setUp();
    look();
    await clock.advance(5_000);
    const beganAt = clock.monotonic();
    await clock.advance(50);
    paces.hint('a');
    look({ beganAt });
    expect(paces.waitMs('a', 's')).toBeLessThanOrEqual(200);
    await clock.advance(200);
    look();
    // Still attentive: what is stored may lag behind.
    expect(paces.waitMs('a', 's')).toBe(500);
  });

  it('after a hint it is looked at again until the stored state has caught up, and no longer', async () => {
    const { clock, paces, look } = setUp();
    look();
    await clock.advance(5_000);
    paces.hint('a');
    const waits: number[] = [];
    for (let count = 0; count < 6; count++) {
      waits.push(look());
      await clock.advance(waits.at(-1) ?? 0);
    }
    expect(waits.slice(0, 4)).toEqual([500, 500, 500, 500]);
    expect(waits.slice(4).every((waitMs) => waitMs > 500 || waitMs < 64_000)).toBe(true);
    expect((waits[4] ?? 0) + (waits[5] ?? 0)).toBeGreaterThan(8_000);
  });

  it('once the change is found it is looked at once more, and no longer', async () => {
    const { clock, paces, look } = setUp();
    look({ status: { executionStatus: 'running' }, runs: true });
    await clock.advance(5_000);
    paces.hint('a');
    expect(look({ changed: true, telling: true })).toBe(500);
    await clock.advance(500);
    expect(look()).toBeGreaterThan(500);
  });

  it('an agent that hints all the time is asked once in two seconds', async () => {
    const { clock, paces, look } = setUp();
    look();
    let looks = 0;
    for (let passed = 0; passed < 100_000; passed += 100) {
      await clock.advance(100);
      paces.hint('a');
      if (paces.waitMs('a', 's') > 0) continue;
      looks++;
      look();
    }
    expect(looks).toBeGreaterThan(45);
    expect(looks).toBeLessThan(75);
  });

  describe('a run that has been the same for minutes', () => {
    const run: Partial<Seen> = { status: { executionStatus: 'running' }, runs: true };
    /** The interval after ten more minutes; the first look after a change may come sooner. */
    const later = async ({ clock, look }: Pick<ReturnType<typeof setUp>, 'clock' | 'look'>, seen = run) => {
      await clock.advance(600_000);
      await clock.advance(look(seen));
      return look(seen);
    };
    const afterMinutes = async (hints: boolean) => {
      const { clock, paces, look } = setUp();
      look(run);
      if (hints) paces.hint('a');
      for (let passed = 0; passed < 600_000;) {
        const waitMs = look(run);
        await clock.advance(waitMs);
        passed += waitMs;
      }
      return { clock, paces, look };
    };

    it('is looked at every 4 s where its agent was never heard', async () => {
      expect((await afterMinutes(false)).look(run)).toBe(4_000);
    });

    it('is looked at every 16 s where it was', async () => {
      expect((await afterMinutes(true)).look(run)).toBe(16_000);
    });

    it('is looked at more often again once something has changed of which its agent said nothing', async () => {
      const at = await afterMinutes(true);
      at.look({ ...run, changed: true, telling: true });
      expect(await later(at)).toBe(4_000);
    });

    it('is not when the agent did say so', async () => {
      const at = await afterMinutes(true);
      await at.clock.advance(5_000);
      at.paces.hint('a');
      at.look({ ...run, changed: true, telling: true });
      expect(await later(at)).toBe(16_000);
    });

    it('is not when only the title has changed, which comes without a word', async () => {
      const at = await afterMinutes(true);
      at.look({ ...run, changed: true });
      expect(await later(at)).toBe(16_000);
    });

    it('is looked at more often again in the next container', async () => {
      const at = await afterMinutes(true);
      const next = { ...run, agent: 'another' };
      at.look(next);
      expect(await later(at, next)).toBe(4_000);
    });
  });

  it('forgets', () => {
    const { paces, look } = setUp();
    look();
    paces.forget('a');
    expect([paces.size, paces.hint('a'), paces.waitMs('a', 's')]).toEqual([0, undefined, 0]);
  });
});
