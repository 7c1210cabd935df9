import fc from 'fast-check';
import { Shares, type Bound, type Holder, type Release } from '../src/shares.ts';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';

class Refused extends Error {
  readonly bound: Bound;
  constructor(bound: Bound) {
    super(`no place: ${bound}`);
    this.bound = bound;
  }
}
const refuse = (bound: Bound) => new Refused(bound);

describe('a pool with shares', () => {
  const boundOf = (take: () => unknown): string | undefined => {
    try {
      take();
      return undefined;
    } catch (error) {
      return error instanceof Refused ? error.bound : String(error);
    }
  };

  it('refuses an owner beyond its share, and no other owner', () => {
    const shares = new Shares({ total: 4, perOwner: 2, refuse });
    const release = shares.take({ owner: 'alice' });
    shares.take({ owner: 'alice' });
    expect(boundOf(() => shares.take({ owner: 'alice' }))).toBe('owner');
    shares.take({ owner: 'bob' });
    release();
    release();
    shares.take({ owner: 'alice' });
    shares.take({ owner: 'carol' });
    expect(boundOf(() => shares.take({ owner: 'carol' }))).toBe('total');
  });

  it('refuses the calls of one sandbox beyond its share, and not those of another one', () => {
    const shares = new Shares({ total: 9, perOwner: 9, perSandbox: 1, refuse });
    shares.take({ owner: 'alice', sandbox: 'one' });
    expect(boundOf(() => shares.take({ owner: 'alice', sandbox: 'one' }))).toBe('sandbox');
    shares.take({ owner: 'alice', sandbox: 'two' });
  });

  it('counts units, as of bytes', () => {
    const shares = new Shares({ total: 100, perOwner: 60, refuse });
    const release = shares.take({ owner: 'alice' }, 60);
    expect(boundOf(() => shares.take({ owner: 'alice' }, 1))).toBe('owner');
    expect(boundOf(() => shares.take({ owner: 'bob' }, 41))).toBe('total');
    shares.take({ owner: 'bob' }, 40)();
    release();
    expect([shares.inUse, shares.size]).toEqual([0, 0]);
  });

  it('refuses who waits too long, who comes when too many of the same owner wait, and keeps nothing of them', async () => {
    const clock = new VirtualClock();
    const waiting = { clock, maxMs: 1000, total: 10, perOwner: 1 };
    const shares = new Shares({ total: 1, perOwner: 1, refuse, waiting });
    const release = await shares.wait({ owner: 'alice' });
    const late = shares.wait({ owner: 'alice' });
    const seen = expect(late).rejects.toMatchObject({ bound: 'owner' });
    await expect(shares.wait({ owner: 'alice' })).rejects.toMatchObject({ bound: 'owner' });
    await clock.advance(1000);
    await seen;
    release();
    expect([shares.inUse, shares.waiting, shares.size, clock.timers]).toEqual([0, 0, 0, 0]);
  });

  it('lets no caller wait for one that has gone', async () => {
    const clock = new VirtualClock();
    const shares = new Shares({
      total: 1,
      perOwner: 1,
      refuse,
      waiting: { clock, maxMs: 1000, total: 10, perOwner: 10 },
    });
    const release = await shares.wait({ owner: 'alice' });
    const gone = new AbortController();
    const left = shares.wait({ owner: 'bob' }, { signal: gone.signal });
    gone.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    await expect(shares.wait({ owner: 'bob' }, { signal: gone.signal })).rejects.toThrow('gone');
    release();
    (await shares.wait({ owner: 'carol' }))();
    expect([shares.inUse, shares.waiting, shares.size, clock.timers]).toEqual([0, 0, 0, 0]);
  });

  it('lets owners in by turns, however many of one wait', async () => {
    const shares = new Shares({
      total: 1,
      perOwner: 1,
      refuse,
      waiting: { clock: new VirtualClock(), maxMs: 1000, total: 10, perOwner: 10 },
    });
    const order: string[] = [];
    const enter = async (name: string) => {
      const release = await shares.wait({ owner: name.slice(0, 1) });
      order.push(name);
      release();
    };
    const first = shares.take({ owner: 'z' });
    const all = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'].map(enter);
    first();
    await Promise.all(all);
    expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  });

  it('keeps room for work that needs more than is free, until that gives up', async () => {
    const clock = new VirtualClock();
    const shares = new Shares({
      total: 10,
      perOwner: 8,
      refuse,
      waiting: { clock, maxMs: 1000, total: 10, perOwner: 10 },
    });
    const first = await shares.wait({ owner: 'alice' }, { units: 6 });
    const order: string[] = [];
    const large = shares
      .wait({ owner: 'bob' }, { units: 8 })
      .then((release) => (order.push('bob'), release));
    const small = shares
      .wait({ owner: 'carol' }, { units: 1 })
      .then((release) => (order.push('carol'), release));
    await clock.settle();
    expect(order).toEqual([]);
    first();
    await clock.settle();
    expect(order).toEqual(['bob', 'carol']);
    const later = shares.wait({ owner: 'dora' }, { units: 8 });
    const refused = expect(later).rejects.toMatchObject({ bound: 'total' });
    const behind = shares.wait({ owner: 'erik' }, { units: 1 });
    await clock.advance(1000);
    await refused;
    for (const held of [large, small, behind]) (await held)();
    expect([shares.inUse, shares.waiting, shares.size, clock.timers]).toEqual([0, 0, 0, 0]);
  });

  const owners = ['alice', 'bob', 'carol'];
  const holder = fc.record({
    owner: fc.constantFrom(...owners),
    sandbox: fc.option(fc.constantFrom('1', '2'), { nil: undefined }),
  });
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('wait' as const), holder }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('release' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('leave' as const), which: fc.nat() }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('time' as const), ms: fc.nat(600) }) },
  );
  const bounds = fc.record({
    total: fc.integer({ min: 1, max: 5 }),
    perOwner: fc.integer({ min: 1, max: 4 }),
    perSandbox: fc.integer({ min: 1, max: 3 }),
  });

  interface Waiting {
    readonly holder: Holder;
    readonly gone: AbortController;
  }

  /** The callers that hold, wait and were admitted from the queue, after each of these steps. */
  class World {
    readonly clock = new VirtualClock();
    readonly held: { readonly holder: Holder; readonly release: Release }[] = [];
    readonly waiting: Waiting[] = [];
    readonly shares: Shares;
    /** The admissions after a wait, in order, each with the callers that it passed over. */
    readonly turns: { readonly owner: string; readonly passed: readonly Waiting[] }[] = [];
    readonly limits: {
      readonly total: number;
      readonly perOwner: number;
      readonly perSandbox: number;
    };

    constructor(limits: World['limits']) {
      this.limits = limits;
      this.shares = new Shares({
        ...limits,
        refuse,
        waiting: { clock: this.clock, maxMs: 1000, total: 20, perOwner: 8 },
      });
    }

    countOf(matches: (held: Holder) => boolean): number {
      return this.held.filter((each) => matches(each.holder)).length;
    }

    mayEnter({ owner, sandbox }: Holder): boolean {
      const { total, perOwner, perSandbox } = this.limits;
      return (
        this.held.length < total &&
        this.countOf((held) => held.owner === owner) < perOwner &&
        (sandbox === undefined || this.countOf((held) => held.sandbox === sandbox) < perSandbox)
      );
    }

    /** Callers that could enter while another owner entered twice and their own owner never did. */
    get unfair(): readonly Waiting[] {
      return this.turns.flatMap(({ owner }, index) => {
        const again = this.turns.findIndex((turn, at) => at > index && turn.owner === owner);
        if (again < 0) return [];
        const between = this.turns.slice(index, again + 1);
        return (
          between[0]?.passed.filter((waiter) =>
            between.every(
              (turn) => turn.owner !== waiter.holder.owner && turn.passed.includes(waiter),
            ),
          ) ?? []
        );
      });
    }

    async wait(wanted: Holder): Promise<void> {
      const gone = new AbortController();
      const waiter = { holder: wanted, gone };
      const before = this.shares.inUse;
      const entering = this.shares.wait(wanted, { signal: gone.signal });
      const isImmediate = this.shares.inUse > before;
      if (!isImmediate) this.waiting.push(waiter);
      entering.then(
        (release) => {
          const at = this.waiting.indexOf(waiter);
          if (at >= 0) {
            this.waiting.splice(at, 1);
            const passed = this.waiting.filter((other) => this.mayEnter(other.holder));
            this.turns.push({ owner: wanted.owner, passed });
          }
          this.held.push({ holder: wanted, release });
        },
        () => {
          const at = this.waiting.indexOf(waiter);
          if (at >= 0) this.waiting.splice(at, 1);
        },
      );
      await this.clock.settle();
    }
  }

  it('never holds more than the total or a share, leaves no place free for who may have it, is fair, and leaks nothing', async () => {
    await fc.assert(
      fc.asyncProperty(
        bounds,
        fc.array(step, { maxLength: 60, size: 'max' }),
        async (limits, steps) => {
          const world = new World(limits);
          const { shares, held, waiting, clock } = world;
          for (const each of steps) {
            if (each.kind === 'wait') await world.wait(each.holder);
            else if (each.kind === 'time') await clock.advance(each.ms);
            else if (each.kind === 'leave')
              waiting[each.which % waiting.length]?.gone.abort(new Error('gone'));
            else if (held.length > 0) held.splice(each.which % held.length, 1)[0]?.release();
            await clock.settle();
            expect(shares.inUse).toBe(held.length);
            expect(shares.waiting).toBe(waiting.length);
            expect(held.length).toBeLessThanOrEqual(limits.total);
            for (const owner of owners)
              expect(world.countOf((one) => one.owner === owner)).toBeLessThanOrEqual(
                limits.perOwner,
              );
            for (const sandbox of ['1', '2'])
              expect(world.countOf((one) => one.sandbox === sandbox)).toBeLessThanOrEqual(
                limits.perSandbox,
              );
            expect(waiting.filter((one) => world.mayEnter(one.holder))).toEqual([]);
          }
          expect(world.unfair).toEqual([]);
          await clock.advance(1000);
          while (held.length > 0) {
            held.pop()?.release();
            await clock.settle();
          }
          expect([shares.inUse, shares.waiting, shares.size, clock.timers]).toEqual([0, 0, 0, 0]);
        },
      ),
    );
  });
});
