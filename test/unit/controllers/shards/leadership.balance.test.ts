import fc from 'fast-check';
import { balance, type ShardsObserved } from '../../../../src/controllers/shards/leadership.ts';

type Holders = ShardsObserved['holders'];

const free = undefined;
const decide = (self: string, members: readonly string[], holders: Holders, neglected = [-1]) =>
  balance({ self, members, holders, neglected: new Set(neglected) });

describe('balance', () => {
  it.each<[string, string, readonly string[], Holders, readonly number[], number | undefined]>([
    ['takes all shards when it is alone', 'a', ['a'], [free, free], [0, 1], undefined],
    [
      'takes its share of free shards',
      'a',
      ['a', 'b'],
      [free, free, free, free],
      [0, 1],
      undefined,
    ],
    ['begins at its own share', 'b', ['a', 'b'], [free, free, free, free], [2, 3], undefined],
    ['counts itself before the others know it', 'b', ['a'], [free, free], [1], undefined],
    ['leaves a free shard to a replica with less', 'a', ['a', 'b'], ['a', free], [], undefined],
    [
      'takes a warm sandbox shard when every replica has enough',
      'a',
      ['a', 'b'],
      ['a', 'b', free],
      [2],
      undefined,
    ],
    ['hands a shard over when it has too many', 'a', ['a', 'b'], ['a', 'a'], [], 1],
    [
      'hands nothing over while a shard is free',
      'a',
      ['a', 'b'],
      ['a', 'a', 'a', free],
      [],
      undefined,
    ],
    ['hands nothing over at its share', 'a', ['a', 'b'], ['a', 'b', 'a', 'b'], [], undefined],
    [
      'keeps a warm sandbox shard when every replica has enough',
      'a',
      ['a', 'b'],
      ['a', 'a', 'b'],
      [],
      undefined,
    ],
    [
      'gives a replica without a shard one of a warm sandbox',
      'a',
      ['a', 'b', 'c'],
      ['a', 'a', 'b', 'b'],
      [],
      1,
    ],
    [
      'lets one of two replicas hand over',
      'b',
      ['a', 'b', 'c'],
      ['a', 'a', 'b', 'b'],
      [],
      undefined,
    ],
    ['waits for the Lease of a dead replica', 'a', ['a'], ['a', 'dead'], [], undefined],
    ['leads nothing as one replica too many', 'c', ['a', 'b', 'c'], ['a', 'b'], [], undefined],
  ])('%s', (_case, self, members, holders, take, handOver) => {
    expect(decide(self, members, holders)).toEqual(
      handOver === undefined ? { take } : { take, handOver },
    );
  });

  it('takes a neglected shard beyond its share', () => {
    expect(decide('a', ['a', 'b'], ['a', free], [1])).toEqual({ take: [1] });
  });

  it('comes to an even spread from any state, without handing over for ever', () => {
    const state = fc
      .record({ replicas: fc.integer({ min: 1, max: 8 }), shards: fc.integer({ min: 1, max: 64 }) })
      .chain(({ replicas, shards }) =>
        fc.record({
          members: fc.constant(Array.from({ length: replicas }, (_, index) => `replica-${index}`)),
          holders: fc.array(fc.option(fc.nat({ max: replicas - 1 }), { nil: undefined }), {
            minLength: shards,
            maxLength: shards,
          }),
          turns: fc.array(fc.nat({ max: replicas - 1 }), { maxLength: 40 }),
        }),
      );
    fc.assert(
      fc.property(state, ({ members, holders: held, turns }) => {
        const holders = held.map((index) => (index === undefined ? free : members[index]));
        let changes = 0;
        const turn = (self: string) => {
          const { take, handOver } = decide(self, members, holders);
          for (const shard of take) holders[shard] = self;
          if (handOver !== undefined) holders[handOver] = free;
          changes += take.length + (handOver === undefined ? 0 : 1);
        };
        for (const index of turns) turn(members[index] ?? '');
        for (let round = 0; round < 70; round++) members.forEach(turn);
        const before = changes;
        members.forEach(turn);
        expect(changes).toBe(before);
        const loads = members.map((member) => holders.filter((holder) => holder === member).length);
        expect(holders).not.toContain(free);
        expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1);
        // Each replica takes each shard once, and each shard is handed over once, at most.
        expect(changes).toBeLessThanOrEqual(3 * holders.length);
      }),
      { numRuns: 300 },
    );
  });
});
