import fc from 'fast-check';
import { FairScheduler } from '../../src/limits/fair-scheduler.ts';

/** An event loop whose time passes by work, and where there is none, up to the next timer. */
class Loop {
  ms = 0;
  readonly #due: (() => void)[] = [];
  readonly #timers = new Map<() => void, number>();
  readonly scheduler = new FairScheduler({
    clock: {
      monotonic: () => this.ms,
      after: (delayMs, callback) => {
        this.#timers.set(callback, this.ms + delayMs);
        return { cancel: () => void this.#timers.delete(callback) };
      },
    },
    yieldLoop: (callback) => void this.#due.push(callback),
  });
  readonly order: string[] = [];

  /** Runs work of this cost for an owner; resolves to the time of its end. */
  async work(owner: string, costMs: number): Promise<number> {
    return this.scheduler.run(owner, () => {
      this.ms += costMs;
      this.order.push(owner);
      return this.ms;
    });
  }

  /** Runs all waiting work and what follows from it; stops after a maximum of rounds. */
  async drain(goes = Infinity): Promise<void> {
    for (let go = 0; go < goes; go++) {
      const next = this.#due.shift() ?? this.#nextTimer();
      if (next === undefined) return;
      next();
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  #nextTimer(): (() => void) | undefined {
    const [first] = [...this.#timers].sort(([, one], [, other]) => one - other);
    if (first === undefined) return undefined;
    const [callback, at] = first;
    this.#timers.delete(callback);
    this.ms = Math.max(this.ms, at);
    return callback;
  }
}

describe('turns on the event loop', () => {
  it('are had at once while there is little to do', async () => {
    const loop = new Loop();
    const all = ['alice', 'alice', 'bob'].map((owner) => loop.work(owner, 1));
    expect(loop.order).toEqual(['alice', 'alice', 'bob']);
    await Promise.all(all);
    await loop.drain();
    expect([loop.scheduler.waiting, loop.scheduler.size]).toEqual([0, 0]);
  });

  it('are waited for by an owner that has had much, not by one that comes with little', async () => {
    const loop = new Loop();
    const costly = Array.from({ length: 20 }, () => loop.work('alice', 30));
    await loop.drain(3);
    const before = loop.ms;
    const quick = loop.work('bob', 1);
    await loop.drain();
    expect(await quick).toBeLessThanOrEqual(before + 31);
    await Promise.all(costly);
    expect([loop.scheduler.waiting, loop.scheduler.size]).toEqual([0, 0]);
  });

  it('are a third of the time for one owner while another one is there, and all of it where none is', async () => {
    const loop = new Loop();
    const costly = Array.from({ length: 100 }, () => loop.work('alice', 10));
    await loop.drain(20);
    const [alone] = [loop.ms];
    expect(alone).toBeLessThanOrEqual(21 * 10);
    let [used, began] = [0, loop.ms];
    for (let count = 0; count < 30; count++) {
      const before = loop.order.length;
      const bobs = loop.work('bob', 1);
      const until = loop.ms + 20;
      while (loop.ms < until && loop.scheduler.waiting > 0) await loop.drain(1);
      await bobs;
      used += loop.order.slice(before).filter((owner) => owner === 'alice').length * 10;
      if (count === 4) [used, began] = [0, loop.ms];
    }
    expect(used / (loop.ms - began)).toBeLessThan(0.45);
    await loop.drain();
    await Promise.all(costly);
    expect([loop.scheduler.waiting, loop.scheduler.size]).toEqual([0, 0]);
  });

  it('pass on what the work throws, at once or later, and continue', async () => {
    const loop = new Loop();
    const busy = loop.work('alice', 10);
    const broken = loop.scheduler.run('alice', () => {
      throw new Error('broken');
    });
    const rejected = loop.scheduler.run('bob', () => Promise.reject(new Error('rejected')));
    const seen = Promise.all([
      expect(broken).rejects.toThrow('broken'),
      expect(rejected).rejects.toThrow('rejected'),
    ]);
    await loop.drain();
    await seen;
    await busy;
    expect([loop.scheduler.waiting, loop.scheduler.size]).toEqual([0, 0]);
  });

  const owners = ['alice', 'bob', 'carol'];
  const works = fc.array(
    fc.record({ owner: fc.constantFrom(...owners), costMs: fc.integer({ min: 1, max: 20 }) }),
    { minLength: 30, maxLength: 120, size: 'max' },
  );

  it('give all who wait the same time, but for one piece of work of each', async () => {
    await fc.assert(
      fc.asyncProperty(works, async (all) => {
        const loop = new Loop();
        // Fills the first slice, so that everything else waits.
        const done = [loop.work('unknown', 10)];
        const left = new Map(
          owners.map((owner) => [owner, all.filter((work) => work.owner === owner).length]),
        );
        const used = new Map(owners.map((owner) => [owner, 0]));
        for (const { owner, costMs } of all) {
          done.push(
            loop.scheduler.run(owner, () => {
              loop.ms += costMs;
              left.set(owner, (left.get(owner) ?? 0) - 1);
              used.set(owner, (used.get(owner) ?? 0) + costMs);
              const waiting = owners.filter((each) => (left.get(each) ?? 0) > 0);
              const times = waiting.map((each) => used.get(each) ?? 0);
              if (times.length > 1)
                expect(Math.max(...times) - Math.min(...times)).toBeLessThanOrEqual(2 * 20);
              return loop.ms;
            }),
          );
        }
        await loop.drain();
        await Promise.all(done);
        expect([loop.scheduler.waiting, loop.scheduler.size]).toEqual([0, 0]);
      }),
      { numRuns: 30 },
    );
  });
});
