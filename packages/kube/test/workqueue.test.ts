import * as fc from 'fast-check';
import { Workqueue } from '../src/workqueue.ts';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';

const keys = ['a', 'b', 'c', 'd'] as const;
const key = fc.constantFrom(...keys);
const command = fc.oneof(
  fc.record({ do: fc.constant('add'), key }),
  fc.record({ do: fc.constant('addAfter'), key, ms: fc.integer({ min: -1, max: 50 }) }),
  fc.record({ do: fc.constant('addRateLimited'), key }),
  fc.record({ do: fc.constant('forget'), key }),
  fc.record({ do: fc.constant('get') }),
  fc.record({ do: fc.constant('done'), key }),
  fc.record({ do: fc.constant('advance'), ms: fc.integer({ min: 0, max: 60 }) }),
) as fc.Arbitrary<Command>;

type Command =
  | { readonly do: 'add' | 'addRateLimited' | 'forget' | 'done'; readonly key: string }
  | { readonly do: 'addAfter'; readonly key: string; readonly ms: number }
  | { readonly do: 'get' }
  | { readonly do: 'advance'; readonly ms: number };

/** The queue as one would write it without a thought for speed. */
class Model {
  now = 0;
  waiting: string[] = [];
  readonly processing = new Set<string>();
  readonly again = new Set<string>();
  delayed: { key: string; at: number; order: number }[] = [];
  readonly failures = new Map<string, number>();
  #order = 0;

  add(added: string): void {
    if (this.processing.has(added)) this.again.add(added);
    else if (!this.waiting.includes(added)) this.waiting.push(added);
  }

  addAfter(added: string, ms: number): void {
    if (ms <= 0) {
      this.add(added);
      return;
    }
    const at = this.now + ms;
    const present = this.delayed.find((entry) => entry.key === added);
    if (present !== undefined && present.at <= at) return;
    this.delayed = [
      ...this.delayed.filter((entry) => entry !== present),
      { key: added, at, order: this.#order++ },
    ];
  }

  addRateLimited(added: string): void {
    const failures = (this.failures.get(added) ?? 0) + 1;
    this.failures.set(added, failures);
    this.addAfter(added, Math.min(5 * 2 ** (failures - 1), 60_000));
  }

  get(): string | undefined {
    const next = this.waiting.shift();
    if (next !== undefined) this.processing.add(next);
    return next;
  }

  done(finished: string): void {
    this.processing.delete(finished);
    if (this.again.delete(finished)) this.waiting.push(finished);
  }

  advance(ms: number): void {
    this.now += ms;
    const due = this.delayed
      .filter(({ at }) => at <= this.now)
      .sort((one, other) => one.at - other.at || one.order - other.order);
    this.delayed = this.delayed.filter(({ at }) => at > this.now);
    for (const entry of due) this.add(entry.key);
  }
}

const aQueue = () => {
  const clock = new VirtualClock();
  return { clock, queue: new Workqueue<string>({ clock, random: () => 0.5 }) };
};

describe('Workqueue', () => {
  it('behaves like its model for any sequence of calls', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 60 }), async (commands) => {
        const { clock, queue } = aQueue();
        const model = new Model();
        for (const step of commands) {
          switch (step.do) {
            case 'addAfter':
              queue.addAfter(step.key, step.ms);
              model.addAfter(step.key, step.ms);
              break;
            case 'get':
              if (model.waiting.length > 0) expect(await queue.get()).toBe(model.get());
              break;
            case 'done':
              if (!model.processing.has(step.key)) break;
              queue.done(step.key);
              model.done(step.key);
              break;
            case 'advance':
              await clock.advance(step.ms);
              model.advance(step.ms);
              break;
            case 'forget':
              queue.forget(step.key);
              model.failures.delete(step.key);
              break;
            default:
              queue[step.do](step.key);
              model[step.do](step.key);
          }
          expect(queue.depth).toBe(model.waiting.length);
        }
        expect(clock.timers).toBe(model.delayed.length);
      }),
      { numRuns: 300 },
    );
  });

  it('hands a key out once though it is said to be done before it was handed out, or twice', async () => {
    const { queue } = aQueue();
    queue.add('a');
    queue.done('a');
    expect(queue.depth).toBe(1);
    expect(await queue.get()).toBe('a');
    queue.add('a');
    queue.done('a');
    queue.done('a');
    expect(queue.depth).toBe(1);
  });

  it('never hands a key to two workers, and loses no addition, with workers that take their time', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(key, fc.integer({ min: 0, max: 20 })), { maxLength: 60 }),
        async (additions) => {
          const { clock, queue } = aQueue();
          const running = new Set<string>();
          const lastBegun = new Map<string, number>();
          const work = async () => {
            for (let next = await queue.get(); next !== undefined; next = await queue.get()) {
              const taken = next;
              expect(running.has(taken)).toBe(false);
              running.add(taken);
              lastBegun.set(taken, clock.monotonic());
              await new Promise<void>((resolve) => clock.after(7, resolve));
              running.delete(taken);
              queue.done(taken);
            }
          };
          const workers = [work(), work(), work()];
          const lastAdded = new Map<string, number>();
          for (const [added, pause] of additions) {
            await clock.advance(pause);
            queue.add(added);
            lastAdded.set(added, clock.monotonic());
          }
          await clock.advance(1000);
          for (const [added, at] of lastAdded)
            expect(lastBegun.get(added)).toBeGreaterThanOrEqual(at);
          await queue.shutDown();
          await Promise.all(workers);
        },
      ),
      { numRuns: 50 },
    );
  });

  it('gives keys to waiting workers in the order in which the workers came', async () => {
    const { queue } = aQueue();
    const first = queue.get();
    const second = queue.get();
    queue.add('a');
    queue.add('b');
    expect(await Promise.all([first, second])).toEqual(['a', 'b']);
  });

  it('keeps the longer delay when a failure asks for one', async () => {
    const { clock, queue } = aQueue();
    queue.addRateLimited('a', 3000);
    await clock.advance(2999);
    expect(queue.depth).toBe(0);
    await clock.advance(1);
    expect(queue.depth).toBe(1);
  });

  it('waits a millisecond where the rest of a wait is too little for the clock', async () => {
    const { clock, queue } = aQueue();
    await clock.advance(1_000_000);
    queue.addAfter('a', 1e-12);
    await clock.advance(0);
    expect(queue.depth).toBe(0);
    await clock.advance(1);
    expect(queue.depth).toBe(1);
  });

  it('shuts down at once when nothing is being done, and drops what waits', async () => {
    const { clock, queue } = aQueue();
    queue.add('a');
    queue.addAfter('b', 10);
    await queue.shutDown();
    queue.add('c');
    expect(await queue.get()).toBeUndefined();
    expect(clock.timers).toBe(0);
  });

  it('shuts down when the key that is being done is done, added again meanwhile or not', async () => {
    const { queue } = aQueue();
    queue.add('a');
    await queue.get();
    queue.add('a');
    let down = false;
    const shutDown = queue.shutDown().then(() => {
      down = true;
    });
    await Promise.resolve();
    expect(down).toBe(false);
    queue.done('a');
    await shutDown;
    expect(await queue.get()).toBeUndefined();
  });

  it('says how deep it is and how long keys waited', async () => {
    const clock = new VirtualClock();
    const depths: number[] = [];
    const waits: number[] = [];
    const queue = new Workqueue<string>({
      clock,
      random: () => 0,
      onDepth: (depth) => depths.push(depth),
      onWaited: (waitedMs) => waits.push(waitedMs),
    });
    queue.add('a');
    await clock.advance(12);
    await queue.get();
    expect({ depths, waits }).toEqual({ depths: [1, 0], waits: [12] });
  });

  describe('with shares', () => {
    const keysOf = ['alice/1', 'alice/2', 'alice/3', 'bob/1', 'bob/2', 'carol/1'];
    const ownerOf = (taken: string): string => taken.split('/')[0] ?? '';
    const shared = (maxPerShare: number) => {
      const clock = new VirtualClock();
      return {
        clock,
        queue: new Workqueue<string>({ clock, random: () => 0.5, shareOf: ownerOf, maxPerShare }),
      };
    };

    it('keeps every promise of a queue within each share, and lets none have more workers than it may', async () => {
      const action = fc.oneof(
        fc.record({ do: fc.constant('add' as const), key: fc.constantFrom(...keysOf) }),
        fc.record({ do: fc.constant('done' as const), key: fc.constantFrom(...keysOf) }),
        fc.record({ do: fc.constant('get' as const) }),
      );
      await fc.assert(
        fc.asyncProperty(
          fc.array(action, { maxLength: 100 }),
          fc.integer({ min: 1, max: 3 }),
          async (actions, maxPerShare) => {
            const { queue } = shared(maxPerShare);
            const models = new Map(['alice', 'bob', 'carol'].map((owner) => [owner, new Model()]));
            const modelOf = (taken: string) => models.get(ownerOf(taken));
            const mayGet = () =>
              [...models.values()].some(
                ({ waiting, processing }) => waiting.length > 0 && processing.size < maxPerShare,
              );
            for (const next of actions) {
              if (next.do === 'add') {
                queue.add(next.key);
                modelOf(next.key)?.add(next.key);
              } else if (next.do === 'done') {
                if (modelOf(next.key)?.processing.has(next.key) !== true) continue;
                queue.done(next.key);
                modelOf(next.key)?.done(next.key);
              } else if (mayGet()) {
                const taken = (await queue.get()) ?? '';
                expect(modelOf(taken)?.get()).toBe(taken);
                expect(modelOf(taken)?.processing.size).toBeLessThanOrEqual(maxPerShare);
              }
              expect(queue.depth).toBe(
                [...models.values()].reduce((sum, { waiting }) => sum + waiting.length, 0),
              );
            }
          },
        ),
        { numRuns: 300 },
      );
    });

    it('hands out round robin, however many keys of one share came before', async () => {
      const { queue } = shared(Infinity);
      for (const added of ['alice/1', 'alice/2', 'alice/3', 'bob/1', 'bob/2', 'carol/1'])
        queue.add(added);
      const order = [];
      for (let count = 0; count < 6; count++) order.push(await queue.get());
      expect(order).toEqual(['alice/1', 'bob/1', 'carol/1', 'alice/2', 'bob/2', 'alice/3']);
    });

    it('leaves a worker waiting rather than give a share more than it may have, and serves it once there is room', async () => {
      const { queue } = shared(1);
      for (const added of ['alice/1', 'alice/2']) queue.add(added);
      expect(await queue.get()).toBe('alice/1');
      const waiting = queue.get();
      queue.add('bob/1');
      expect(await waiting).toBe('bob/1');
      const next = queue.get();
      queue.done('alice/1');
      expect(await next).toBe('alice/2');
    });

    it('counts a key against the share that it was handed out for, also when it belongs to another by then', async () => {
      const clock = new VirtualClock();
      let owner = 'alice';
      const queue = new Workqueue<string>({
        clock,
        random: () => 0.5,
        shareOf: () => owner,
        maxPerShare: 1,
      });
      queue.add('a');
      expect(await queue.get()).toBe('a');
      owner = 'bob';
      queue.add('a');
      queue.done('a');
      expect(await queue.get()).toBe('a');
      owner = 'alice';
      queue.add('b');
      expect(await queue.get()).toBe('b');
    });
  });
});
