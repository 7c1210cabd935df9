import fc from 'fast-check';
import {
  type Countdown,
  decideRetention,
  leadMs,
  type RetentionStep,
} from '../../../../src/controllers/retention/countdown.ts';
import type { Condition } from '../../../../src/resources/conditions.ts';
import { condition, later, noonMs } from '../../../support/builders.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const countdown = (keptMs: number, sinceMs = noonMs): Countdown => ({
  subject: 'conversation',
  rule: 'Finished',
  sinceMs,
  keptMs,
  setting: 'its ttlSecondsAfterFinished is 1',
});
const stored = (step: RetentionStep, atMs: number): Condition => {
  if (step.kind !== 'announce') throw new Error(step.kind);
  return {
    ...condition('Expiring', 'True', step.announcement.reason, later(atMs)),
    message: step.announcement.message,
  };
};
const decide = (atMs: number, what: Countdown | undefined, announced?: Condition) =>
  decideRetention({ countdown: what, announced, nowMs: noonMs + atMs });

describe('the announcement of a deletion', () => {
  it.each([
    ['a minute before, at least', 0, minuteMs],
    ['a minute before, at least', 5 * minuteMs, minuteMs],
    ['a tenth of the time before', 2 * hourMs, 12 * minuteMs],
    ['an hour before, at most', 30 * dayMs, hourMs],
  ])('comes %s, for what is kept for %i ms', (_name, keptMs, expected) => {
    expect(leadMs(keptMs)).toBe(expected);
  });

  it('is waited for, and then made once', () => {
    expect(decide(0, countdown(dayMs))).toEqual({ kind: 'wait', forMs: dayMs - hourMs });
    const step = decide(dayMs - hourMs, countdown(dayMs));
    expect(step).toEqual({
      kind: 'announce',
      atMs: noonMs + dayMs - hourMs,
      announcement: {
        reason: 'Finished',
        message: `The conversation is deleted after ${later(dayMs)}, with its own sandbox: its ttlSecondsAfterFinished is 1. A message, or a resume of its sandbox, postpones that.`,
      },
    });
    const announced = stored(step, dayMs - hourMs);
    expect(decide(dayMs - hourMs, countdown(dayMs), announced)).toEqual({
      kind: 'wait',
      forMs: hourMs,
    });
    const due = { kind: 'due', rule: 'Finished', atMs: Date.parse(later(dayMs)) };
    expect(decide(dayMs, countdown(dayMs), announced)).toEqual(due);
  });

  it('comes first also where the time was over long ago, with the same time to the deletion', () => {
    const step = decide(9 * dayMs, countdown(dayMs));
    const announced = stored(step, 9 * dayMs);
    expect(announced.message).toContain(later(9 * dayMs + hourMs));
    expect(decide(9 * dayMs + 1, countdown(dayMs), announced)).toEqual({
      kind: 'wait',
      forMs: hourMs - 1,
    });
    expect(decide(9 * dayMs + hourMs, countdown(dayMs), announced)).toMatchObject({ kind: 'due' });
  });

  it('is withdrawn when the object was used again, or is kept for longer', () => {
    const announced = stored(decide(dayMs, countdown(dayMs)), dayMs);
    expect(decide(dayMs + 1, undefined, announced)).toEqual({ kind: 'withdraw' });
    expect(decide(dayMs + 1, countdown(dayMs, noonMs + dayMs), announced)).toEqual({
      kind: 'withdraw',
    });
    expect(decide(dayMs + 1, undefined)).toEqual({ kind: 'rest' });
  });

  it('is made again when the deletion comes at another time, or for another reason', () => {
    const announced = stored(decide(dayMs - hourMs, countdown(dayMs)), dayMs - hourMs);
    expect(decide(dayMs, countdown(dayMs, noonMs + minuteMs), announced)).toMatchObject({
      kind: 'announce',
    });
    expect(decide(dayMs, { ...countdown(dayMs), rule: 'Records' }, announced)).toMatchObject({
      kind: 'announce',
    });
  });

  it('is made again after a use that postpones the deletion by nothing', () => {
    const announced = stored(decide(0, countdown(0)), 0);
    expect(decide(2, countdown(0, noonMs + 1), announced)).toMatchObject({ kind: 'announce' });
    const again = stored(decide(2, countdown(0, noonMs + 1), announced), 2);
    expect(decide(3, countdown(0, noonMs + 1), again)).toMatchObject({ kind: 'wait' });
    // An agent whose clock is ahead has no announcement made at each check.
    expect(decide(2, countdown(0, noonMs + 3), announced)).toMatchObject({ kind: 'wait' });
  });

  it('is made again when a clock that was ahead has made it', () => {
    const announced = stored(decide(99 * dayMs, countdown(dayMs)), 99 * dayMs);
    expect(decide(dayMs, countdown(dayMs), announced)).toMatchObject({ kind: 'announce' });
  });
});

it('nothing is due before its time, nor before its announcement is as old as it has to be', () => {
  const times = fc.integer({ min: -2 * dayMs, max: 2 * dayMs });
  fc.assert(
    fc.property(
      times,
      fc.nat({ max: 2 * dayMs }),
      times,
      fc.option(times, { nil: undefined }),
      (since, keptMs, now, announcedAt) => {
        const what = countdown(keptMs, noonMs + since);
        // Announced when the process found it, or by a process whose clock said something else.
        const first = announcedAt === undefined ? undefined : decide(announcedAt, what);
        const announced =
          first?.kind === 'announce' && announcedAt !== undefined
            ? stored(first, announcedAt)
            : undefined;
        const step = decide(now, what, announced);
        if (step.kind !== 'due') return;
        expect(announced).toBeDefined();
        expect(now).toBeGreaterThanOrEqual(since + keptMs);
        expect(now - (announcedAt ?? Infinity)).toBeGreaterThanOrEqual(leadMs(keptMs));
      },
    ),
  );
});
