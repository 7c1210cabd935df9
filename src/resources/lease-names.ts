/** Name of the Lease of the operator; with shards, of the common one of its replicas. */
export const operatorLeaseName = 'conversation-operator';

export const shardLeaseName = (name: string, shard: number): string => `${name}-${shard}`;

/** The holder of the common Lease, which states the number of shards. */
export const shardsHolder = (shards: number): string => `shards-${shards}`;

/** The number of shards of a holder; undefined for a single leader. */
export function shardsOfHolder(holder: string): number | undefined {
  const [, shards] = /^shards-(\d{1,4})$/.exec(holder) ?? [];
  return shards === undefined ? undefined : Number(shards);
}
