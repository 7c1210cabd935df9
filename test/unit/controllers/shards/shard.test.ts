import fc from 'fast-check';
import { shardOf } from '../../../../src/controllers/shards/shard.ts';

describe('shardOf', () => {
  it.each([
    ['default', 4, 0],
    ['team-a', 4, 0],
    ['team-b', 4, 1],
    ['', 64, 11],
  ])('puts %j of %i shards into shard %i, in every release', (namespace, shards, shard) => {
    expect(shardOf(namespace, shards)).toBe(shard);
  });

  it('puts every namespace into one shard', () => {
    fc.assert(
      fc.property(fc.string(), fc.integer({ min: 1, max: 64 }), (namespace, shards) => {
        const owners = Array.from({ length: shards }, (_, shard) => shard).filter(
          (shard) => shardOf(namespace, shards) === shard,
        );
        expect(owners).toHaveLength(1);
        expect(shardOf(namespace, shards)).toBe(owners[0]);
      }),
    );
  });

  it.each([
    ['numbered', (index: number) => `team-${index}`],
    ['repeated', (index: number) => `${index}-${index}`],
  ])('spreads %s names evenly', (_pattern, nameOf) => {
    for (const shards of [2, 4, 7, 16, 64]) {
      const counts = new Array<number>(shards).fill(0);
      for (let index = 0; index < 200 * shards; index++) {
        const shard = shardOf(nameOf(index), shards);
        counts[shard] = (counts[shard] ?? 0) + 1;
      }
      expect(Math.min(...counts)).toBeGreaterThan(140);
      expect(Math.max(...counts)).toBeLessThan(260);
    }
  });
});
