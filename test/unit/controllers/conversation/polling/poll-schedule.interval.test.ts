import {
  intervalMs,
  isStateStale,
  maxForIdleTimeout,
  nextOnGrid,
  phaseOf,
  slotMs,
  type IntervalInput,
} from '../../../../../src/controllers/conversation/polling/poll-schedule.ts';
import {
  executionStatuses,
  type ConversationStatus,
} from '../../../../../src/resources/conversation-status.ts';
import { noon, noonMs } from '../../../../support/builders.ts';

describe('the delay before the next poll', () => {
  const cases: [string, Partial<IntervalInput>, number][] = [
    [
      'a run in which something has just changed: half a second',
      { executionStatus: 'running', quietMs: 0 },
      500,
    ],
    [
      'a run that has been the same for 10 s: longer',
      { executionStatus: 'running', quietMs: 10_000 },
      2_000,
    ],
    [
      'a run that has been the same for an hour: 4 s, so that a change is known within 5',
      { executionStatus: 'running' },
      4_000,
    ],
    [
      '… and longer where its agent is heard',
      { executionStatus: 'running', notifies: true },
      16_000,
    ],
    [
      '… but not where a limit says so',
      { executionStatus: 'running', notifies: true, maxMs: 4_000 },
      4_000,
    ],
    ['… and no sooner where it is paused', { executionStatus: 'idle', notifies: true }, 64_000],
    ['one that has just finished: not soon', { executionStatus: 'finished', quietMs: 0 }, 16_000],
    ['one that has been idle for an hour: a minute', { executionStatus: 'idle' }, 64_000],
    [
      'one that waits for a person: sooner than an idle one',
      { executionStatus: 'waiting_for_confirmation' },
      16_000,
    ],
    [
      'an idle one to which something has just been said: half a second',
      { executionStatus: 'idle', attentive: true },
      500,
    ],
    [
      'an idle one whose idle time is limited: in time for that',
      { executionStatus: 'idle', maxMs: 5_000 },
      4_000,
    ],
    ['however short that limit is', { executionStatus: 'idle', maxMs: 1 }, 500],
    [
      'a run is polled as often as ever then',
      { executionStatus: 'running', quietMs: 0, maxMs: 60_000 },
      500,
    ],
    ['one whose agent reports an unknown status', { executionStatus: undefined }, 64_000],
  ];
  it.each(cases)('%s', (_, quiet, expected) => {
    expect(
      intervalMs({
        executionStatus: 'running',
        quietMs: 3_600_000,
        attentive: false,
        notifies: false,
        ...quiet,
      }),
    ).toBe(expected);
  });

  it('no status has an interval beyond a minute, nor one below half a second, and it never shrinks with quiet', () => {
    for (const executionStatus of executionStatuses) {
      let before = 0;
      for (let quietMs = 0; quietMs < 1_000_000; quietMs += 777) {
        const interval = intervalMs({
          executionStatus,
          quietMs,
          attentive: false,
          notifies: false,
        });
        expect(interval).toBeGreaterThanOrEqual(Math.max(500, before));
        expect(interval).toBeLessThanOrEqual(64_000);
        before = interval;
      }
    }
  });

  it('a quarter of the idle timeout is the most', () => {
    expect([maxForIdleTimeout(undefined), maxForIdleTimeout(20_000)]).toEqual([undefined, 5_000]);
  });
});

describe('the grid', () => {
  it('is met within one interval, and never now', () => {
    for (const interval of [500, 4_000, 64_000])
      for (let now = 0; now < 200_000; now += 1_237) {
        const next = nextOnGrid(now, interval, phaseOf('a sandbox'));
        expect(next - now).toBeGreaterThan(0);
        expect(next - now).toBeLessThanOrEqual(interval);
      }
  });

  it('brings the conversations of one sandbox together, whatever their intervals', () => {
    const phase = phaseOf('a sandbox');
    const slow = nextOnGrid(1_000_000, 64_000, phase);
    expect(nextOnGrid(slow - 1, 4_000, phase)).toBe(slow);
    expect(nextOnGrid(slow - 1, 500, phase)).toBe(slow);
  });

  it('spreads sandboxes', () => {
    const seconds = Array.from({ length: 1000 }, (_, index) =>
      Math.floor((phaseOf(`uid-${index}-of-a-sandbox`) % 4_000) / 1000),
    );
    for (const second of [0, 1, 2, 3])
      expect(seconds.filter((each) => each === second).length).toBeGreaterThan(150);
  });

  it('has sandboxes meet in slots, whatever their intervals', () => {
    const due = Array.from({ length: 1000 }, (_, index) =>
      nextOnGrid(12_345.678, index % 2 === 0 ? 500 : 4_000, phaseOf(`uid-${index}`)),
    );
    expect(due.filter((at) => at % slotMs !== 0)).toEqual([]);
    expect(new Set(due).size).toBeGreaterThan(35);
  });
});

describe('whether something was just said to the agent', () => {
  const ready = (time: string): ConversationStatus => ({
    start: { status: 'READY', transitions: [{ status: 'READY', time }] },
  });
  const cases: [string, ConversationStatus, boolean][] = [
    ['the start has just ended', ready(noon), true],
    ['the start has ended long ago', ready('2020-01-01T00:00:00Z'), false],
    [
      'a message has just been delivered',
      { messages: { lastDelivered: 1, lastDeliveredTime: noon } },
      true,
    ],
    [
      'a run was just continued',
      {
        executionStatus: 'running',
        interruption: { reason: 'Loss', time: noon, lastResumeTime: noon },
      },
      true,
    ],
    [
      'a run was just interrupted',
      { executionStatus: 'paused', interruption: { reason: 'Loss', time: noon } },
      false,
    ],
    [
      'another process has a clock that is ahead',
      { messages: { lastDelivered: 1, lastDeliveredTime: '2099-01-01T00:00:00Z' } },
      false,
    ],
    ['nothing is known', {}, false],
  ];
  it.each(cases)('%s', (_, status, expected) => {
    expect(isStateStale(status, noonMs + 1_000)).toBe(expected);
  });
});
