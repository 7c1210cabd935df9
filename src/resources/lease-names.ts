/** Name of the operator's Lease. With shards, the Lease's `holderIdentity` has their number. */
export const operatorLeaseName = 'conversation-operator';

export const shardLeaseName = (name: string, shard: number): string => `${name}-${shard}`;

/** The `holderIdentity` of the operator's Lease in an operator with this number of shards. */
export const shardsHolder = (shards: number): string => `shards-${shards}`;

/** The number of shards in a `holderIdentity`; undefined for an operator without shards. */
export function shardsOfHolder(holder: string): number | undefined {
  const [, shards] = /^shards-(\d{1,4})$/.exec(holder) ?? [];
  return shards === undefined ? undefined : Number(shards);
}
