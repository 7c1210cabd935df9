/** Name of the operator's Lease; with shards, the holder of this Lease states their number. */
export const operatorLeaseName = 'conversation-operator';

export const shardLeaseName = (name: string, shard: number): string => `${name}-${shard}`;

/** Holder of the operator's Lease that states the number of shards. */
export const shardsHolder = (shards: number): string => `shards-${shards}`;

/** The number of shards in the name of a holder; undefined for a single leader. */
export function shardsOfHolder(holder: string): number | undefined {
  const [, shards] = /^shards-(\d{1,4})$/.exec(holder) ?? [];
  return shards === undefined ? undefined : Number(shards);
}
