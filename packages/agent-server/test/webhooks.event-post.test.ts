import { jest } from '@jest/globals';
import { EventPost, type EventPostOptions } from '../src/webhooks.ts';

/** A receiver that takes as many requests as it is allowed to, at most one at a time. */
function setUp(options: Partial<EventPostOptions> = {}) {
  const bodies: string[] = [];
  let refusals = 0;
  let under = 0;
  let most = 0;
  const waiting: (() => void)[] = [];
  const closing = new AbortController();
  const post = new EventPost({
    bufferSize: 3,
    flushDelayMs: 1,
    retries: 0,
    retryDelayMs: 1,
    maxQueuedEvents: 10,
    maxQueuedBytes: 1_000_000,
    maxBatchBytes: 1_000_000,
    log: () => undefined,
    post: {
      closing: closing.signal,
      send: async (body) => {
        most = Math.max(most, ++under);
        await new Promise((resolve) => setImmediate(resolve));
        under--;
        if (refusals > 0) {
          refusals--;
          throw new Error('no');
        }
        bodies.push(body);
        for (const check of waiting.splice(0)) check();
      },
    },
    ...options,
  });
  const taken = async (count: number): Promise<readonly unknown[]> => {
    while (bodies.flatMap((body) => JSON.parse(body) as unknown[]).length < count)
      await new Promise<void>((resolve) => void waiting.push(resolve));
    return bodies.flatMap((body) => JSON.parse(body) as unknown[]);
  };
  return {
    post,
    bodies,
    taken,
    closing,
    refuse: (count: number) => (refusals = count),
    most: () => most,
  };
}

const numbers = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index);

describe('EventPost', () => {
  it('sends what has waited for long enough', async () => {
    const { post, taken, bodies } = setUp();
    post.add('1');
    post.add('2');
    expect(await taken(2)).toEqual([1, 2]);
    expect(bodies).toEqual(['[1,2]']);
  });

  it('sends what has waited for long enough although further events come, and what has come during a request', async () => {
    jest.useFakeTimers();
    try {
      const bodies: string[] = [];
      const answer = Promise.withResolvers<undefined>();
      const send = async (body: string) => {
        bodies.push(body);
        await answer.promise;
      };
      const { post } = setUp({
        bufferSize: 100,
        flushDelayMs: 1_000,
        post: { closing: new AbortController().signal, send },
      });
      for (const number of numbers(1, 4)) {
        post.add(String(number));
        await jest.advanceTimersByTimeAsync(300);
      }
      expect(bodies).toEqual(['[1,2,3,4]']);
      post.add('5');
      await jest.advanceTimersByTimeAsync(2_000);
      answer.resolve(undefined);
      await jest.advanceTimersByTimeAsync(1_000);
      expect(bodies).toEqual(['[1,2,3,4]', '[5]']);
    } finally {
      jest.useRealTimers();
    }
  });

  it('sends a full buffer at once, in order, one request at a time', async () => {
    const { post, taken, bodies, most } = setUp({ flushDelayMs: 60_000, maxQueuedEvents: 100 });
    for (const number of numbers(1, 12)) post.add(String(number));
    expect(await taken(12)).toEqual(numbers(1, 12));
    expect(bodies.every((body) => (JSON.parse(body) as unknown[]).length <= 3)).toBe(true);
    expect(most()).toBe(1);
  });

  it('keeps the order of what is not taken at first', async () => {
    const { post, taken, refuse } = setUp({ retries: 1 });
    refuse(5);
    for (const number of numbers(1, 8)) post.add(String(number));
    expect(await taken(8)).toEqual(numbers(1, 8));
  });

  it('keeps the last 1000 events of a receiver that takes nothing', async () => {
    const { post, taken, refuse } = setUp({ maxQueuedEvents: 4 });
    refuse(6);
    for (const number of numbers(1, 50)) post.add(String(number));
    const got = await taken(4);
    expect(got.slice(-2)).toEqual([49, 50]);
    expect(got.length).toBeLessThanOrEqual(7);
  });

  it('makes no request larger than it may be, but for one event alone', async () => {
    const { post, taken, bodies } = setUp({ bufferSize: 10, maxBatchBytes: 5 });
    for (const text of ['"aa"', '"bbbbbbbbbbbbb"', '1', '2']) post.add(text);
    await taken(4);
    expect(bodies).toEqual(['["aa"]', '["bbbbbbbbbbbbb"]', '[1,2]']);
  });

  it('sends what waits when it is closed, and takes no more', async () => {
    const { post, bodies } = setUp({ flushDelayMs: 60_000 });
    post.add('1');
    await post.close();
    post.add('2');
    await post.close();
    expect(bodies).toEqual(['[1]']);
  });

  it('does not wait for a receiver that takes nothing when it is closed', async () => {
    const { post, bodies, refuse } = setUp({
      flushDelayMs: 60_000,
      retries: 5,
      retryDelayMs: 60_000,
    });
    refuse(100);
    post.add('1');
    await post.close();
    expect(bodies).toEqual([]);
  });

  it('gives up a wait for the next attempt when all ends', async () => {
    const { post, closing, refuse } = setUp({ bufferSize: 1, retries: 5, retryDelayMs: 60_000 });
    refuse(100);
    post.add('1');
    await new Promise((resolve) => setTimeout(resolve, 5));
    closing.abort();
    await post.close();
  });
});
