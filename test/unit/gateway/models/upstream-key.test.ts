import fc from 'fast-check';
import {
  UpstreamKey,
  type Attempt,
  type ExpectedWait,
  type KeyedCall,
  type UpstreamKeyOptions,
  type WaitedTooLong,
} from '../../../../src/gateway/models/upstream-key.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

/** A call, and what has come of it. */
class Call {
  readonly owner: string;
  attempt: Attempt | undefined;
  late: WaitedTooLong | undefined;
  hasLeft = false;
  isOver = false;
  readonly told: ExpectedWait[] = [];
  readonly #agent = new AbortController();
  readonly #bench: Bench;
  readonly #tokens: number;
  readonly #arrivedMs: number;
  #given: KeyedCall | undefined;

  constructor(bench: Bench, owner: string, tokens: number) {
    [this.#bench, this.owner, this.#tokens] = [bench, owner, tokens];
    this.#arrivedMs = bench.clock.monotonic() + bench.calls.length / 1_000;
  }

  get waits(): boolean {
    return this.attempt === undefined && this.late === undefined && !this.hasLeft;
  }

  get isUnderWay(): boolean {
    return this.attempt !== undefined && !this.isOver;
  }

  begin(maxWaitMs = 120_000): void {
    const { owner, told } = this;
    this.#given ??= {
      owner,
      tokens: this.#tokens,
      arrivedMs: this.#arrivedMs,
      signal: this.#agent.signal,
      onWait: (expected: ExpectedWait) => void told.push(expected),
    };
    this.#take(this.#bench.key.begin(this.#given, maxWaitMs));
  }

  #take(begun: Promise<Attempt | WaitedTooLong>): void {
    begun.then(
      (outcome) => {
        if ('reason' in outcome) this.late = outcome;
        else {
          this.attempt = outcome;
          this.#bench.order.push(this);
        }
      },
      () => {
        this.hasLeft = true;
      },
    );
  }

  leave(): void {
    this.#agent.abort(new Error('the agent has left'));
    this.end();
  }

  end(): void {
    if (this.attempt === undefined) return;
    this.attempt.end();
    this.isOver = true;
  }

  /** The provider refuses the call, which waits for another attempt. Returns the new rest. */
  refuse(restMs?: number, maxWaitMs = 120_000): number | undefined {
    const { attempt } = this;
    this.attempt = undefined;
    const known = this.#bench.rests.length;
    if (attempt !== undefined) this.#take(attempt.refuse(restMs, maxWaitMs));
    return this.#bench.rests[known];
  }
}

class Bench {
  readonly clock = new VirtualClock();
  readonly rests: number[] = [];
  readonly waited: [reason: string, ms: number][] = [];
  readonly key: UpstreamKey;
  readonly calls: Call[] = [];
  /** Calls in the order in which they have begun. */
  readonly order: Call[] = [];

  constructor(limits: UpstreamKeyOptions['limits'] = {}) {
    this.key = new UpstreamKey({
      limits,
      clock: this.clock,
      random: () => 1,
      onRest: (ms) => this.rests.push(ms),
      onWaited: (reason, ms) => this.waited.push([reason, ms]),
    });
  }

  call(owner: string, tokens = 1): Call {
    const call = new Call(this, owner, tokens);
    this.calls.push(call);
    call.begin();
    return call;
  }

  flood(owner: string, count: number): readonly Call[] {
    return Array.from({ length: count }, () => this.call(owner));
  }

  get underWay(): readonly Call[] {
    return this.calls.filter(({ isUnderWay }) => isUnderWay);
  }

  /** Ends calls one by one until this one is under way; returns how many. */
  async endsUntil(call: Call): Promise<number> {
    let ends = 0;
    await this.clock.settle();
    while (call.waits) {
      this.underWay.at(0)?.end();
      ends += 1;
      await this.clock.settle();
    }
    return ends;
  }
}

describe('calls of a key without limits', () => {
  it('are all made at once, without a timer', async () => {
    const bench = new Bench();
    bench.flood('alice', 100);
    await bench.clock.settle();
    expect([bench.underWay.length, bench.clock.timers, bench.waited]).toEqual([100, 0, []]);
  });
});

describe('calls at once', () => {
  it('of a key wait by owner: one call does not wait behind the flood of another owner', async () => {
    const bench = new Bench({ calls: 2 });
    bench.flood('alice', 1_000);
    const [bob, carol] = [bench.call('bob'), bench.call('carol')];
    expect(await bench.endsUntil(bob)).toBeLessThanOrEqual(2);
    expect(await bench.endsUntil(carol)).toBeLessThanOrEqual(2);
    expect(bench.underWay).toHaveLength(2);
  });

  it('of an owner delay no other owner', async () => {
    const bench = new Bench({ calls: 3, perOwner: { calls: 1 } });
    const [, second] = bench.flood('alice', 5);
    const bob = bench.call('bob');
    await bench.clock.settle();
    expect(bench.order.map(({ owner }) => owner)).toEqual(['alice', 'bob']);
    bob.end();
    await bench.clock.settle();
    expect(second?.waits).toBe(true);
  });

  it('that agents leave are forgotten, and the next one goes', async () => {
    const bench = new Bench({ calls: 1 });
    const first = bench.call('alice');
    const [second, third] = [bench.call('alice'), bench.call('alice')];
    await bench.clock.settle();
    second.leave();
    first.leave();
    await bench.clock.settle();
    expect([second.hasLeft, third.isUnderWay]).toEqual([true, true]);
    third.end();
    expect(bench.clock.timers).toBe(0);
  });

  it('that agents have left before they wait never wait', async () => {
    const bench = new Bench({ calls: 1 });
    bench.call('alice');
    const call = new Call(bench, 'alice', 1);
    call.leave();
    call.begin();
    await bench.clock.settle();
    expect(call.hasLeft).toBe(true);
  });

  it('that wait too long are given up with a time to try again', async () => {
    const bench = new Bench({ calls: 1 });
    const [first, second, third] = bench.flood('alice', 3);
    await bench.clock.advance(120_000);
    expect(second?.late).toEqual({ reason: 'Share', retryAfterMs: 10_000 });
    expect(third?.late).toEqual(second?.late);
    expect(bench.waited).toEqual([
      ['Share', 120_000],
      ['Share', 120_000],
    ]);
    first?.end();
    expect(bench.clock.timers).toBe(0);
  });
});

describe('tokens a minute', () => {
  it('of a key let a call go once there are as many as it needs', async () => {
    const bench = new Bench({ tokensPerMinute: 600 });
    const first = bench.call('alice', 600);
    const second = bench.call('bob', 100);
    await bench.clock.advance(9_000);
    expect([first.isUnderWay, second.waits]).toEqual([true, true]);
    await bench.clock.advance(1_001);
    expect(second.isUnderWay).toBe(true);
  });

  it('let no small call overtake a large one of another owner', async () => {
    const bench = new Bench({ tokensPerMinute: 600 });
    bench.call('alice', 600);
    const large = bench.call('bob', 300);
    const small = bench.call('carol', 1);
    await bench.clock.advance(20_000);
    expect([large.waits, small.waits]).toEqual([true, true]);
    await bench.clock.advance(10_200);
    expect([large.isUnderWay, small.isUnderWay]).toEqual([true, true]);
  });

  it('of an owner delay no other owner', async () => {
    const bench = new Bench({ perOwner: { tokensPerMinute: 60 } });
    bench.call('alice', 60);
    const second = bench.call('alice', 30);
    const bob = bench.call('bob', 60);
    await bench.clock.advance(29_000);
    expect([second.waits, bob.isUnderWay]).toEqual([true, true]);
    await bench.clock.advance(1_001);
    expect(second.isUnderWay).toBe(true);
  });

  it('let a call go that needs more than a minute has, once nothing is owed', async () => {
    const bench = new Bench({ tokensPerMinute: 100 });
    const large = bench.call('alice', 100_000);
    await bench.clock.settle();
    expect(large.isUnderWay).toBe(true);
    const next = bench.call('alice', 100);
    await bench.clock.advance(119_000);
    expect(next.waits).toBe(true);
  });

  it.each<[string, number | undefined, number]>([
    ['fewer tokens than estimated', 100, 10],
    ['as many as estimated', 600, 60],
    ['more', 900, 90],
    ['a false number', 1e308, 120],
    ['none, because it was not made', undefined, 0],
  ])('count %s after the call', async (_what, used, seconds) => {
    const bench = new Bench({ tokensPerMinute: 600 });
    const first = bench.call('alice', 600);
    await bench.clock.settle();
    if (used !== undefined) first.attempt?.use(used);
    first.end();
    first.attempt?.use(1);
    const next = new Call(bench, 'bob', 600);
    next.begin(600_000);
    await bench.clock.runUntil(() => !next.waits);
    expect(bench.clock.monotonic() / 1_000).toBeCloseTo(seconds, 1);
  });
});

describe('after a rate limit', () => {
  it('the key rests as long as the provider says, and the call is made again before others of its owner', async () => {
    const bench = new Bench();
    const refused = bench.call('alice');
    await bench.clock.settle();
    expect(refused.refuse(12_000)).toBe(12_000);
    const [later, bob] = [bench.call('alice'), bench.call('bob')];
    await bench.clock.advance(11_999);
    expect(bench.underWay).toEqual([]);
    await bench.clock.advance(1);
    expect(bench.underWay).toEqual([refused]);
    refused.attempt?.accept();
    await bench.clock.settle();
    expect(bench.underWay).toEqual([refused, bob]);
    bob.attempt?.accept();
    await bench.clock.settle();
    expect(bench.underWay).toEqual([refused, later, bob]);
  });

  it('one more call is made at once for each that was accepted', async () => {
    const bench = new Bench();
    bench.flood('alice', 1);
    await bench.clock.settle();
    bench.calls[0]?.refuse(1_000);
    bench.flood('bob', 50);
    await bench.clock.advance(1_000);
    const sizes: number[] = [];
    for (let round = 0; round < 5; round++) {
      const under = bench.underWay;
      sizes.push(under.length);
      for (const call of under) call.attempt?.accept();
      for (const call of under) call.end();
      await bench.clock.settle();
    }
    expect(sizes).toEqual([1, 2, 4, 8, 16]);
  });

  it('owners take turns while each call is refused', async () => {
    const bench = new Bench();
    bench.flood('alice', 100);
    const bob = bench.call('bob');
    await bench.clock.settle();
    for (const call of bench.underWay) call.refuse(1_000);
    bench.order.length = 0;
    for (let round = 0; round < 6; round++) {
      await bench.clock.advance(1_000);
      expect(bench.underWay).toHaveLength(1);
      bench.underWay[0]?.refuse(1_000);
    }
    expect(bench.order.map(({ owner }) => owner)).toEqual([
      ...['alice', 'bob', 'alice', 'bob', 'alice', 'bob'],
    ]);
    expect(new Set(bench.order)).toEqual(new Set([bench.calls[0], bob]));
  });

  it.each<[string, readonly string[], Readonly<Record<string, number>>]>([
    ['each of two owners comes when it has room', [], { a: 6, b: 6 }],
    ['each of three owners comes when it has room', [], { a: 4, b: 4, c: 4 }],
    ['an owner whose calls are all refused stops no other', ['a'], { a: 0, b: 4, c: 4 }],
  ])('whose provider takes one call at a time %s', async (_what, refused, expected) => {
    const bench = new Bench();
    const taken = Object.fromEntries(Object.keys(expected).map((owner) => [owner, 0]));
    for (const owner of Object.keys(taken)) bench.flood(owner, 20);
    await bench.clock.settle();
    for (const call of bench.underWay) call.refuse(1_000);
    for (let rest = 0; rest < 12; rest++) {
      await bench.clock.advance(1_000);
      const [first] = bench.underWay;
      if (first !== undefined && !refused.includes(first.owner)) {
        taken[first.owner] = (taken[first.owner] ?? 0) + 1;
        first.attempt?.accept();
        await bench.clock.settle();
      }
      for (const call of bench.underWay) if (call !== first) call.refuse(1_000);
      if (first !== undefined && refused.includes(first.owner)) first.refuse(1_000);
      else first?.end();
    }
    expect(taken).toEqual(expected);
  });

  it('without a time the rests double up to half a minute, and begin anew after a success', async () => {
    const bench = new Bench();
    const call = bench.call('alice');
    await bench.clock.settle();
    const rests: (number | undefined)[] = [];
    for (let round = 0; round < 7; round++) {
      rests.push(call.refuse());
      await bench.clock.advance(rests.at(-1) ?? 0);
    }
    expect(rests).toEqual([1_250, 2_500, 5_000, 10_000, 20_000, 30_000, 30_000]);
    call.attempt?.accept();
    expect(call.refuse()).toBe(1_250);
  });

  it('the refusals of calls that were under way together are one', async () => {
    const bench = new Bench();
    const calls = bench.flood('alice', 3);
    await bench.clock.settle();
    expect(calls.map((call) => call.refuse())).toEqual([1_250, undefined, undefined]);
    await bench.clock.advance(1_250);
    expect(bench.underWay).toHaveLength(1);
    expect(bench.underWay[0]?.refuse()).toBe(2_500);
  });

  it('a success of a call from before the rest opens nothing', async () => {
    const bench = new Bench();
    const [old, refused] = bench.flood('alice', 2);
    await bench.clock.settle();
    refused?.refuse(1_000);
    old?.attempt?.accept();
    old?.end();
    bench.flood('bob', 5);
    await bench.clock.advance(1_000);
    expect(bench.underWay).toHaveLength(1);
  });

  it('a call that the provider neither accepts nor refuses holds the others up for five seconds', async () => {
    const bench = new Bench();
    const hanging = bench.call('alice');
    await bench.clock.settle();
    hanging.refuse(1_000);
    const next = bench.call('bob');
    await bench.clock.advance(5_999);
    expect([hanging.isUnderWay, next.waits]).toEqual([true, true]);
    await bench.clock.advance(1);
    expect(next.isUnderWay).toBe(true);
  });

  it('the call that tries the key may leave', async () => {
    const bench = new Bench();
    const first = bench.call('alice');
    await bench.clock.settle();
    first.refuse(1_000);
    const next = bench.call('bob');
    await bench.clock.advance(1_000);
    first.leave();
    await bench.clock.settle();
    expect(next.isUnderWay).toBe(true);
    next.end();
    expect(bench.clock.timers).toBe(0);
  });

  it('a call that waits too long learns how long the key still rests', async () => {
    const bench = new Bench();
    const call = bench.call('alice');
    await bench.clock.settle();
    call.refuse(60_000, 20_000);
    await bench.clock.advance(20_000);
    expect(call.late).toEqual({ reason: 'RateLimit', retryAfterMs: 40_000 });
  });
});

describe('people are told', () => {
  it('of a wait for the provider at once, with its time', async () => {
    const bench = new Bench();
    const call = bench.call('alice');
    await bench.clock.settle();
    call.refuse(12_000);
    await bench.clock.advance(8_000);
    expect(call.told).toEqual([
      { reason: 'RateLimit', ms: 12_000 },
      { reason: 'RateLimit', ms: 9_000 },
      { reason: 'RateLimit', ms: 4_000 },
    ]);
  });

  it('of a wait for other calls once it has lasted three seconds', async () => {
    const bench = new Bench({ calls: 1 });
    bench.call('bob');
    const call = bench.call('alice');
    await bench.clock.advance(2_999);
    expect(call.told).toEqual([]);
    await bench.clock.advance(5_001);
    expect(call.told).toEqual([
      { reason: 'Share', ms: 10_000 },
      { reason: 'Share', ms: 10_000 },
    ]);
  });

  it('of no wait that is shorter', async () => {
    const bench = new Bench();
    const call = bench.call('alice');
    await bench.clock.settle();
    call.refuse(2_900);
    await bench.clock.advance(10_000);
    expect(call.told).toEqual([]);
    expect(bench.waited).toEqual([['RateLimit', 2_900]]);
  });
});

describe('a key', () => {
  it('is unused two minutes after its last call, and not before', async () => {
    const bench = new Bench({ tokensPerMinute: 60, calls: 1 });
    const [first, second] = bench.flood('alice', 2);
    await bench.clock.advance(119_000);
    expect(bench.key.isUnused).toBe(false);
    first?.end();
    await bench.clock.settle();
    second?.end();
    await bench.clock.advance(119_999);
    expect(bench.key.isUnused).toBe(false);
    await bench.clock.advance(1);
    expect(bench.key.isUnused).toBe(true);
  });

  const step = fc.oneof(
    fc.record({
      do: fc.constant('begin' as const),
      owner: fc.constantFrom('a', 'b', 'c'),
      tokens: fc.integer({ min: 0, max: 90 }),
    }),
    fc.record({
      do: fc.constantFrom('end', 'accept', 'refuse', 'use', 'leave'),
      at: fc.nat(30),
      ms: fc.option(fc.integer({ min: 100, max: 20_000 }), { nil: undefined }),
    }),
    fc.record({ do: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 10_000 }) }),
  );
  const maybe = (max: number) => fc.option(fc.integer({ min: 1, max }), { nil: undefined });
  const limits = fc.record({
    calls: maybe(4),
    tokensPerMinute: maybe(200),
    perOwner: fc.record({ calls: maybe(2), tokensPerMinute: maybe(100) }),
  });

  it('keeps its limits, and forgets no call, whatever happens', async () => {
    await fc.assert(
      fc.asyncProperty(limits, fc.array(step, { maxLength: 60 }), async (given, steps) => {
        const bench = new Bench(given);
        const { clock } = bench;
        const check = async (): Promise<void> => {
          await clock.settle();
          expect(bench.underWay.length).toBeLessThanOrEqual(given.calls ?? Infinity);
          for (const owner of ['a', 'b', 'c'])
            expect(
              bench.underWay.filter((call) => call.owner === owner).length,
            ).toBeLessThanOrEqual(given.perOwner.calls ?? Infinity);
        };
        for (const one of steps) {
          if (one.do === 'begin') bench.call(one.owner, one.tokens);
          else if (one.do === 'pass') await clock.advance(one.ms);
          else {
            const live = bench.calls.filter(({ waits, isUnderWay }) => waits || isUnderWay);
            const call = live[one.at % Math.max(1, live.length)];
            if (one.do === 'leave') call?.leave();
            else if (call?.isUnderWay === true) {
              if (one.do === 'end') call.end();
              else if (one.do === 'accept') call.attempt?.accept();
              else if (one.do === 'use') call.attempt?.use(one.at * 10);
              else call.refuse(one.ms);
            }
          }
          await check();
        }
        // Every call comes to its turn as others end, or is given up after its time.
        for (let rounds = 0; bench.calls.some(({ waits }) => waits); rounds++) {
          expect(rounds).toBeLessThan(500);
          for (const call of bench.underWay) call.end();
          await clock.advance(1_000);
        }
        for (const call of bench.underWay) call.end();
        expect(clock.timers).toBe(0);
        await clock.advance(120_000);
        expect(bench.key.isUnused).toBe(true);
      }),
      { numRuns: 300 },
    );
  });
});
