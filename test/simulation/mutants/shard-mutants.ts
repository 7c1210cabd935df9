import type { Mutant } from './mutant.ts';

/** Mistakes in the leadership of shards of namespaces. */
export const shardMutants = {
  'the leader of a shard acts in the namespaces of later shards': {
    file: 'src/controllers/shards/leadership.ts',
    from: 'shardOf(namespace, shards) === shard',
    to: 'shardOf(namespace, shards) >= shard',
    faults: 'none',
    shards: 2,
    rule: /no controller acts on a version that it has overwritten|only the leader writes/,
  },
} as const satisfies Readonly<Record<string, Mutant>>;
