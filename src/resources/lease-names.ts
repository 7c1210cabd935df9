/** Name of the Lease of the operator; with shards, of the one that its replicas hold together. */
export const operatorLeaseName = 'conversation-operator';

/** Name of the Lease of a shard. */
export const shardLeaseName = (name: string, shard: number): string => `${name}-${shard}`;

/** The holder of the common Lease, which is the number of shards. */
export const shardsHolder = (shards: number): string => `shards-${shards}`;

/** The number of shards that a holder names; undefined for a single leader. */
export function shardsOfHolder(holder: string): number | undefined {
  const [, shards] = /^shards-(\d{1,4})$/.exec(holder) ?? [];
  return shards === undefined ? undefined : Number(shards);
}
