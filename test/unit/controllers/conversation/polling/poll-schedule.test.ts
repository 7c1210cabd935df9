import {
  PollSchedule,
  notificationBudget,
  type PollOutcome,
} from '../../../../../src/controllers/conversation/polling/poll-schedule.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

function setUp() {
  const clock = new VirtualClock();
  const schedule = new PollSchedule({ clock });
  const poll = (seen: Partial<PollOutcome> = {}) =>
    schedule.record('a', {
      beganAt: clock.monotonic(),
      subject: 's',
      sandboxUid: 'u',
      agent: 'c',
      status: { executionStatus: 'finished' },
      isRunning: false,
      changed: false,
      notifiable: false,
      ...seen,
    });
  return { clock, schedule, poll };
}

describe('PollSchedule', () => {
  it('what is not known is due', () => {
    expect(setUp().schedule.waitMs('a', 's')).toBe(0);
  });

  it('a polled subject waits, and another subject is due at once', () => {
    const { schedule, poll } = setUp();
    expect(poll()).toBeGreaterThan(0);
    expect(schedule.waitMs('a', 's')).toBeGreaterThan(0);
    expect(schedule.waitMs('a', 'another')).toBe(0);
  });

  it('a run is polled within 4 s, however long nothing changes', async () => {
    const { clock, poll } = setUp();
    for (let count = 0; count < 50; count++) {
      const waitMs = poll({ status: { executionStatus: 'running' }, isRunning: true });
      expect(waitMs).toBeLessThanOrEqual(4_000);
      await clock.advance(waitMs);
    }
  });

  it('a run that the agent shows counts as one, also while it is not believed', () => {
    expect(
      setUp().poll({ status: { executionStatus: 'paused' }, isRunning: true }),
    ).toBeLessThanOrEqual(4_000);
  });

  it('what has to be done again sooner is', () => {
    expect(setUp().poll({ againAfterMs: 77 })).toBe(77);
  });

  it('a notification makes it due, but not a subject that is not polled', async () => {
    const { clock, schedule, poll } = setUp();
    expect(schedule.notify('a')).toBeUndefined();
    poll();
    await clock.advance(1_000);
    expect(schedule.notify('a')).toBe(0);
    expect(schedule.waitMs('a', 's')).toBe(0);
  });

  it('a poll that was under way when the notification came does not answer it', async () => {
    const { clock, schedule, poll } = setUp();
    poll();
    await clock.advance(5_000);
    const beganAt = clock.monotonic();
    await clock.advance(50);
    schedule.notify('a');
    poll({ beganAt });
    expect(schedule.waitMs('a', 's')).toBeLessThanOrEqual(200);
    await clock.advance(200);
    poll();
    // Still attentive: what is stored may lag behind.
    expect(schedule.waitMs('a', 's')).toBe(500);
  });

  it('after a notification it is polled again until the stored state has caught up, and no longer', async () => {
    const { clock, schedule, poll } = setUp();
    poll();
    await clock.advance(5_000);
    schedule.notify('a');
    const waits: number[] = [];
    for (let count = 0; count < 6; count++) {
      waits.push(poll());
      await clock.advance(waits.at(-1) ?? 0);
    }
    expect(waits.slice(0, 4)).toEqual([500, 500, 500, 500]);
    expect(waits.slice(4).every((waitMs) => waitMs > 500 || waitMs < 64_000)).toBe(true);
    expect((waits[4] ?? 0) + (waits[5] ?? 0)).toBeGreaterThan(8_000);
  });

  it('once the change is found it is polled once more, and no longer', async () => {
    const { clock, schedule, poll } = setUp();
    poll({ status: { executionStatus: 'running' }, isRunning: true });
    await clock.advance(5_000);
    schedule.notify('a');
    expect(poll({ changed: true, notifiable: true })).toBe(500);
    await clock.advance(500);
    expect(poll()).toBeGreaterThan(500);
  });

  it('an agent that notifications all the time is asked once in two seconds', async () => {
    const { clock, schedule, poll } = setUp();
    poll();
    let polls = 0;
    for (let passed = 0; passed < 100_000; passed += 100) {
      await clock.advance(100);
      schedule.notify('a');
      if (schedule.waitMs('a', 's') > 0) continue;
      polls++;
      poll();
    }
    expect(polls).toBeGreaterThan(45);
    expect(polls).toBeLessThan(75);
  });

  it('notifications count at once at first, then at a limited rate', async () => {
    const { clock, schedule, poll } = setUp();
    const { burst, intervalMs } = notificationBudget;
    poll();
    await clock.advance(1_000);
    const waits: (number | undefined)[] = [];
    for (let index = 0; index < burst + 2; index++) {
      waits.push(schedule.notify('a'));
      poll({ beganAt: clock.monotonic() });
    }
    // Two polls have 200 ms between them at least.
    expect(waits.slice(0, burst)).toEqual([0, ...Array.from({ length: burst - 1 }, () => 200)]);
    expect(waits.slice(burst)).toEqual([intervalMs, 2 * intervalMs]);
  });

  it('notifications are followed closely only as long as they are rare', async () => {
    const { clock, schedule, poll } = setUp();
    poll();
    await clock.advance(1_000);
    // The attention for one notification ends before the next one, which costs the budget more.
    const waits: number[] = [];
    for (let index = 0; index < 8; index++) {
      for (let repeated = 0; repeated < 6; repeated++) {
        schedule.notify('a');
        poll({ beganAt: clock.monotonic() });
      }
      waits.push(poll());
      await clock.advance(2_001);
    }
    expect(waits.at(0)).toBeLessThanOrEqual(500);
    expect(waits.at(-1)).toBeGreaterThan(500);
    await clock.advance(200_000);
    schedule.notify('a');
    expect(poll()).toBeLessThanOrEqual(500);
  });

  describe('a run that has been the same for minutes', () => {
    const run: Partial<PollOutcome> = { status: { executionStatus: 'running' }, isRunning: true };
    /** The interval after ten more minutes; the first poll after a change may come sooner. */
    const later = async (
      { clock, poll }: Pick<ReturnType<typeof setUp>, 'clock' | 'poll'>,
      seen = run,
    ) => {
      await clock.advance(600_000);
      await clock.advance(poll(seen));
      return poll(seen);
    };
    const afterMinutes = async (notifications: boolean) => {
      const { clock, schedule, poll } = setUp();
      poll(run);
      if (notifications) schedule.notify('a');
      for (let passed = 0; passed < 600_000;) {
        const waitMs = poll(run);
        await clock.advance(waitMs);
        passed += waitMs;
      }
      return { clock, schedule, poll };
    };

    it('is polled every 4 s where its agent has never sent a notification', async () => {
      expect((await afterMinutes(false)).poll(run)).toBe(4_000);
    });

    it('is polled every 16 s where it has', async () => {
      expect((await afterMinutes(true)).poll(run)).toBe(16_000);
    });

    it('is polled more often again after a change without a notification', async () => {
      const at = await afterMinutes(true);
      at.poll({ ...run, changed: true, notifiable: true });
      expect(await later(at)).toBe(4_000);
    });

    it('is not when the agent did say so', async () => {
      const at = await afterMinutes(true);
      await at.clock.advance(5_000);
      at.schedule.notify('a');
      at.poll({ ...run, changed: true, notifiable: true });
      expect(await later(at)).toBe(16_000);
    });

    it('is not when only the title has changed, which comes without a notification', async () => {
      const at = await afterMinutes(true);
      at.poll({ ...run, changed: true });
      expect(await later(at)).toBe(16_000);
    });

    it('is polled more often again in the next container', async () => {
      const at = await afterMinutes(true);
      const next = { ...run, agent: 'another' };
      at.poll(next);
      expect(await later(at, next)).toBe(4_000);
    });
  });

  it('forgets', () => {
    const { schedule, poll } = setUp();
    poll();
    schedule.forget('a');
    expect([schedule.size, schedule.notify('a'), schedule.waitMs('a', 's')]).toEqual([
      0,
      undefined,
      0,
    ]);
  });
});
