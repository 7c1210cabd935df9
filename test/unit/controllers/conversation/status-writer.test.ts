import { isDeepStrictEqual } from 'node:util';
import { StatusCoalescer } from '../../../../src/controllers/conversation/status-writer.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const stored: ConversationStatus = {
  executionStatus: 'running',
  lastActivityTime: '2030-01-01T00:00:00Z',
  title: 'one',
};
const busier: ConversationStatus = {
  ...stored,
  lastActivityTime: '2030-01-01T00:00:05Z',
  metrics: { promptTokens: 5 },
};

const a = { key: 'a', owner: 'alice' };

describe('StatusCoalescer', () => {
  const written: [string, ConversationStatus, ConversationStatus | undefined][] = [
    [
      'another execution status, with the metrics',
      { ...busier, executionStatus: 'finished' },
      stored,
    ],
    ['another title', { ...busier, title: 'two' }, stored],
    ['an error', { ...busier, executionDetail: 'why' }, stored],
    ['a field that goes', { executionStatus: 'running' }, stored],
    ['another run', { ...stored, executionStatus: 'running' }, { executionStatus: 'idle' }],
    ['the first status', busier, undefined],
  ];
  it.each(written)('%s is written at once', (_, next, before) => {
    expect(new StatusCoalescer({ clock: new VirtualClock() }).withheld(a, next, before)).toBe(
      false,
    );
  });

  it('metrics and activity alone are written once in 30 s', async () => {
    const clock = new VirtualClock();
    const writes = new StatusCoalescer({ clock });
    let status = stored;
    let count = 0;
    for (let second = 0; second < 300; second++) {
      const next = { ...stored, metrics: { promptTokens: second + 1 } };
      if (!writes.withheld(a, next, status)) {
        status = next;
        count++;
      }
      await clock.advance(1_000);
    }
    expect(count).toBe(9);
  });

  const counters = { inputTokens: 0, cachedInputTokens: 0, outputTokens: 0, cost: '1' };
  const usage = (calls: number) => ({ calls, ...counters, byModel: [] });

  it('the usage of models alone is written once in 5 s while the agent works', async () => {
    const clock = new VirtualClock();
    const writes = new StatusCoalescer({ clock });
    let status: ConversationStatus = { ...stored, sandboxStatus: 'RUNNING' };
    let count = 0;
    for (let second = 0; second < 60; second++) {
      const next = { ...status, usage: usage(second + 1) };
      if (!writes.withheld(a, next, status)) {
        status = next;
        count++;
      }
      await clock.advance(1_000);
    }
    expect(count).toBe(10);
  });

  it('the usage of a paused agent is written at once, because no delay outlives a pause', () => {
    const paused: ConversationStatus = { ...stored, sandboxStatus: 'PAUSED', usage: usage(1) };
    const writes = new StatusCoalescer({ clock: new VirtualClock() });
    expect(writes.withheld(a, { ...paused, usage: usage(2) }, paused)).toBe(false);
  });

  it('the result of a run is written with the usage, or with the status of the run', () => {
    const writes = new StatusCoalescer({ clock: new VirtualClock() });
    const over: ConversationStatus = { ...stored, executionStatus: 'finished' };
    const next = { ...over, lastResult: { message: 'Done.' } };
    expect(writes.withheld(a, next, stored)).toBe(false);
    expect(writes.withheld(a, next, over)).toBe(true);
    expect(writes.waitMs('a')).toBe(30_000);
  });

  it('what is withheld makes itself due', async () => {
    const clock = new VirtualClock();
    const writes = new StatusCoalescer({ clock });
    expect(writes.waitMs('a')).toBe(Infinity);
    writes.withheld(a, busier, stored);
    await clock.advance(10_000);
    expect(writes.waitMs('a')).toBe(20_000);
    await clock.advance(20_000);
    expect(writes.withheld(a, busier, stored)).toBe(false);
    expect(writes.waitMs('a')).toBe(Infinity);
  });

  it('a write of something else begins the time anew', async () => {
    const clock = new VirtualClock();
    const writes = new StatusCoalescer({ clock });
    writes.withheld(a, busier, stored);
    await clock.advance(29_000);
    expect(writes.withheld(a, { ...busier, executionStatus: 'idle' }, stored)).toBe(false);
    expect(writes.withheld(a, { ...busier, metrics: { promptTokens: 9 } }, busier)).toBe(true);
    expect(writes.waitMs('a')).toBe(30_000);
  });
});

describe('the reason of a sandbox that starts', () => {
  const starting = (sandboxStatusReason: string): ConversationStatus => ({
    start: { status: 'WAITING_FOR_SANDBOX', transitions: [] },
    sandboxStatus: 'STARTING',
    sandboxStatusReason,
  });
  const next = starting('WaitingForAgent');
  const before = starting('WaitingForPod');

  it('is written three seconds later', async () => {
    const clock = new VirtualClock();
    const writes = new StatusCoalescer({ clock });
    expect(writes.withheld(a, next, before)).toBe(true);
    await clock.advance(2_999);
    expect(writes.withheld(a, next, before)).toBe(true);
    await clock.advance(1);
    expect(writes.withheld(a, next, before)).toBe(false);
  });

  it('is written at once with the cause of a delay', () => {
    const writes = new StatusCoalescer({ clock: new VirtualClock() });
    const start = { status: 'WAITING_FOR_SANDBOX', transitions: [], errorCode: 'ImagePullFailed' };
    expect(writes.withheld(a, { ...next, start } as ConversationStatus, before)).toBe(false);
  });
});

describe('the budget of an owner', () => {
  const pollMs = 500;
  const burst = 100;
  const perSecond = 20;

  /** Conversations of one owner, each with what its agent reports and what is stored. */
  class Conversations {
    readonly clock = new VirtualClock();
    readonly #coalescer = new StatusCoalescer(this);
    readonly #stored = new Map<string, ConversationStatus>();
    writes = 0;

    /** Polls a conversation once. Returns whether its status is stored. */
    poll(key: string, reported: ConversationStatus, owner = 'alice'): boolean {
      const before = this.#stored.get(key) ?? stored;
      if (isDeepStrictEqual(reported, before)) {
        this.#coalescer.settle(key);
        return true;
      }
      if (this.#coalescer.withheld({ key, owner }, reported, before)) return false;
      this.#stored.set(key, reported);
      this.writes += 1;
      return true;
    }

    waitMs = (key: string): number => this.#coalescer.waitMs(key);
    storedOf = (key: string): ConversationStatus => this.#stored.get(key) ?? stored;
  }
  const keys = Array.from({ length: 728 }, (_, index) => `c-${index}`);

  const changing: [string, (turn: number) => ConversationStatus][] = [
    ['titles', (turn) => ({ ...stored, title: `title ${turn}` })],
    [
      'runs that begin and become idle',
      (turn) => ({ ...stored, executionStatus: turn % 2 === 0 ? 'idle' : 'running' }),
    ],
    ['metrics', (turn) => ({ ...stored, metrics: { promptTokens: turn } })],
  ];
  it.each(changing)(
    'bounds the writes of 728 conversations with %s that change at each poll, and the last state is written',
    async (_case, reportAt) => {
      const all = new Conversations();
      const seconds = 120;
      let turn = 1;
      for (; turn <= (seconds * 1000) / pollMs; turn++) {
        for (const key of keys) all.poll(key, reportAt(turn));
        await all.clock.advance(pollMs);
      }
      expect(all.writes).toBeLessThanOrEqual(burst + perSecond * seconds);
      const last = reportAt(turn);
      const waits = keys.map((key) => (all.poll(key, last) ? 0 : all.waitMs(key)));
      const longestMs = Math.max(...waits);
      expect(longestMs).toBeLessThanOrEqual(30_000 + (keys.length / perSecond) * 1000);
      await all.clock.advance(longestMs);
      for (const key of keys) if (!all.poll(key, last)) await all.clock.advance(all.waitMs(key));
      expect(keys.map((key) => all.poll(key, last))).not.toContain(false);
      expect(keys.map(all.storedOf)).toEqual(keys.map(() => last));
    },
  );

  it('bounds what an agent takes that changes its mind at every poll', async () => {
    const all = new Conversations();
    for (let turn = 0; turn < 240; turn++) {
      const reported = turn % 2 === 0 ? { ...stored, title: 'other' } : stored;
      for (const key of keys) all.poll(key, reported);
      await all.clock.advance(pollMs);
    }
    all.poll('c-0', { ...stored, title: 'last' });
    expect(all.waitMs('c-0')).toBeLessThanOrEqual((keys.length / perSecond) * 1000);
  });

  /** Conversations whose owner has used its budget. */
  const exhausted = () => {
    const all = new Conversations();
    for (const key of keys) all.poll(key, { ...stored, title: 'other' });
    expect(all.writes).toBe(burst);
    return all;
  };

  const awaited: [string, ConversationStatus][] = [
    ['finished', { ...stored, executionStatus: 'finished' }],
    ['waiting for a confirmation', { ...stored, executionStatus: 'waiting_for_confirmation' }],
    ['in error', { ...stored, executionStatus: 'error', executionDetail: 'why' }],
    ['stuck', { ...stored, executionStatus: 'stuck' }],
    ['paused', { ...stored, executionStatus: 'paused' }],
    ['paused with its sandbox', { ...stored, sandboxStatus: 'PAUSED' }],
    ['interrupted', { ...stored, interruption: { reason: 'NodeLost', time: 'now' } }],
    ['at another stage of its start', { ...stored, start: { status: 'READY', transitions: [] } }],
    ['with a message under way', { ...stored, messages: { lastDelivered: 1 } }],
    ['of another generation', { ...stored, observedGeneration: 2 }],
  ];
  it.each(awaited)('delays no conversation that is %s', (_case, reported) => {
    const all = exhausted();
    expect(all.poll('c-727', reported)).toBe(true);
    expect(all.poll('c-new', reported)).toBe(true);
  });

  it('delays no first status of a run', () => {
    const coalescer = new StatusCoalescer({ clock: new VirtualClock() });
    const other = { ...stored, title: 'other' };
    const isWithheld = keys.map((key) =>
      coalescer.withheld({ key, owner: 'alice' }, other, stored),
    );
    expect(isWithheld.at(-1)).toBe(true);
    expect(coalescer.withheld(a, stored, { title: 'one' })).toBe(false);
  });

  it('delays no other owner', () => {
    const all = exhausted();
    expect(all.poll('c-bob', { ...stored, title: 'other' }, 'bob')).toBe(true);
    expect(all.poll('c-alice', { ...stored, title: 'other' }, 'alice')).toBe(false);
  });

  it('lets waiting conversations write in the order in which they came', async () => {
    const all = exhausted();
    expect(all.waitMs('c-100')).toBe(1000 / perSecond);
    expect(all.waitMs('c-109')).toBe((10 * 1000) / perSecond);
    await all.clock.advance((10 * 1000) / perSecond);
    const other = { ...stored, title: 'latest' };
    expect(['c-109', 'c-100', 'c-110'].map((key) => all.poll(key, other))).toEqual([
      true,
      true,
      false,
    ]);
    expect(all.storedOf('c-100')).toEqual(other);
  });
});
