import { AgentError } from '../../../../src/agent/errors.ts';
import { PollBulkhead } from '../../../../src/controllers/agent-calls/poll-bulkhead.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const hangs = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new AgentError('aborted', 'given up')), {
      once: true,
    });
  });
const answers = () => Promise.resolve('idle');
const never = new AbortController().signal;

function setUp() {
  const clock = new VirtualClock();
  return { clock, bulkhead: new PollBulkhead({ clock, random: () => 0, quick: 4, slow: 4 }) };
}

describe('PollBulkhead', () => {
  it('an answer comes through, with the time of its question', async () => {
    const { clock, bulkhead } = setUp();
    await clock.advance(7);
    expect(await bulkhead.poll({ agent: 'a', owner: 'alice' }, answers, never)).toEqual({
      answer: 'idle',
      beganAt: 7,
    });
    expect(bulkhead.inUse).toBe(0);
  });

  it('one that does not answer is given up after 3 s, and left alone for longer each time', async () => {
    const { clock, bulkhead } = setUp();
    const waits: number[] = [];
    for (let count = 0; count < 8; count++) {
      const polled = bulkhead.poll({ agent: 'a', owner: 'alice' }, hangs, never);
      await clock.advance(10_000);
      const result = await polled;
      waits.push('laterMs' in result ? result.laterMs : Number.NaN);
      await clock.advance(waits.at(-1) ?? 0);
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000, 15_000]);
    expect(bulkhead.inUse).toBe(0);
  });

  it('one that is left alone is not asked', async () => {
    const { clock, bulkhead } = setUp();
    const first = bulkhead.poll({ agent: 'a', owner: 'alice' }, hangs, never);
    await clock.advance(3_000);
    await first;
    let asked = 0;
    const count = () => {
      asked++;
      return answers();
    };
    expect(await bulkhead.poll({ agent: 'a', owner: 'alice' }, count, never)).toEqual({
      laterMs: 1_000,
    });
    expect(asked).toBe(0);
    await clock.advance(1_000);
    expect(await bulkhead.poll({ agent: 'a', owner: 'alice' }, count, never)).toMatchObject({
      answer: 'idle',
    });
    expect(asked).toBe(1);
  });

  it('one that says something itself meanwhile is asked at once', async () => {
    const { clock, bulkhead } = setUp();
    const first = bulkhead.poll({ agent: 'a', owner: 'alice' }, hangs, never);
    await clock.advance(3_000);
    await first;
    bulkhead.retryNow('a');
    expect(await bulkhead.poll({ agent: 'a', owner: 'alice' }, answers, never)).toMatchObject({
      answer: 'idle',
    });
  });

  it('another container of the same sandbox begins with a clean slate', async () => {
    const { clock, bulkhead } = setUp();
    const first = bulkhead.poll({ agent: 'a/1', owner: 'alice' }, hangs, never);
    await clock.advance(3_000);
    await first;
    expect(await bulkhead.poll({ agent: 'a/2', owner: 'alice' }, answers, never)).toMatchObject({
      answer: 'idle',
    });
  });

  it.each<[string, (index: number) => string, number]>([
    [
      'of as many owners keep the others waiting for seconds at first, and not at all after that',
      (index) => `owner-${index}`,
      10_000,
    ],
    ['of one owner delay no other owner', () => 'alice', 100],
  ])('a thousand agents that hang %s', async (_sentence, ownerOf, firstMs) => {
    const clock = new VirtualClock();
    const bulkhead = new PollBulkhead({ clock, random: () => 0 });
    let most = 0;
    const hung = Array.from({ length: 1000 }, async (_, index) => {
      for (;;) {
        const polled = await bulkhead.poll(
          { agent: `hung-${index}`, owner: ownerOf(index) },
          hangs,
          never,
        );
        most = Math.max(most, bulkhead.inUse);
        await new Promise<void>(
          (resolve) => void clock.after('laterMs' in polled ? polled.laterMs : 0, resolve),
        );
      }
    });
    expect(hung).toHaveLength(1000);
    const waits: number[] = [];
    for (let count = 0; count < 20; count++) {
      const began = clock.monotonic();
      const healthy = bulkhead
        .poll({ agent: 'healthy', owner: 'healthy' }, answers, never)
        .then(() => waits.push(clock.monotonic() - began));
      while (waits.length <= count) await clock.advance(100);
      await healthy;
      await clock.advance(2_000);
    }
    expect(waits[0]).toBeLessThanOrEqual(firstMs);
    expect(waits.slice(1).every((waitMs) => waitMs <= 100)).toBe(true);
    expect(most).toBeLessThanOrEqual(128);
  });

  it('delays no poll beyond its signal', async () => {
    const clock = new VirtualClock();
    const bulkhead = new PollBulkhead({ clock, random: () => 0, quick: 4, slow: 4, waits: false });
    const held = Array.from({ length: 4 }, (_, index) =>
      bulkhead.poll({ agent: `a${index}`, owner: `owner-${index}` }, hangs, never),
    );
    expect(await bulkhead.poll({ agent: 'b', owner: 'bob' }, answers, never)).toEqual({
      laterMs: 1_000,
    });
    await clock.advance(3_000);
    await Promise.all(held);
    expect(await bulkhead.poll({ agent: 'b', owner: 'bob' }, answers, never)).toMatchObject({
      answer: 'idle',
    });
  });

  it('one that answers with nonsense is asked less often, in a quick place', async () => {
    const { bulkhead } = setUp();
    const nonsense = () => Promise.reject(new AgentError('malformed', 'no', { status: 200 }));
    expect(await bulkhead.poll({ agent: 'a', owner: 'alice' }, nonsense, never)).toMatchObject({
      laterMs: 1_000,
      error: { code: 'malformed' },
    });
  });

  it('what is no fault of the agent is thrown, and its place is free', async () => {
    const { bulkhead } = setUp();
    await expect(
      bulkhead.poll(
        { agent: 'a', owner: 'alice' },
        () => Promise.reject(new TypeError('a bug')),
        never,
      ),
    ).rejects.toThrow('a bug');
    expect(bulkhead.inUse).toBe(0);
  });

  it('does not make an aborted poll wait, and does not blame the agent', async () => {
    const { clock, bulkhead } = setUp();
    const stop = new AbortController();
    const polls = Array.from({ length: 6 }, (_, index) =>
      bulkhead.poll({ agent: `a${index}`, owner: `owner-${index}` }, hangs, stop.signal),
    );
    const settled = Promise.allSettled(polls);
    await clock.advance(100);
    stop.abort(new Error('ending'));
    expect((await settled).every(({ status }) => status === 'rejected')).toBe(true);
    expect(bulkhead.inUse).toBe(0);
    expect(await bulkhead.poll({ agent: 'a0', owner: 'alice' }, answers, never)).toMatchObject({
      answer: 'idle',
    });
  });
});
