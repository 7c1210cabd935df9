export interface ShardsObserved {
  /** Identity of the replica that decides. */
  readonly self: string;
  /** Identities of the replicas that live, in one order for all replicas. */
  readonly members: readonly string[];
  /** The replica that leads each shard; undefined: the shard has no leader. */
  readonly holders: readonly (string | undefined)[];
  /** Shards without a leader for so long that any replica takes them. */
  readonly neglected: ReadonlySet<number>;
}

export interface Balance {
  /** Shards that the replica tries to lead. */
  readonly take: readonly number[];
  /** A shard that the replica hands over. */
  readonly handOver?: number;
}

/**
 * Decides which shards a replica takes and which one it hands over, so that the loads of two
 * replicas differ by one shard at most. Replicas that have observed different states may take the
 * same shard, or hand over one too many: the Leases exclude two leaders, and the next decision
 * corrects the load. While a shard has no leader, no replica hands over another one.
 */
export function balance({ self, members, holders, neglected }: ShardsObserved): Balance {
  const replicas = [...new Set([...members, self])].sort();
  const loadOf = (replica: string) => holders.filter((holder) => holder === replica).length;
  const load = loadOf(self);
  const least = Math.floor(holders.length / replicas.length);
  const most = Math.ceil(holders.length / replicas.length);
  const missing = replicas
    .filter((replica) => replica !== self)
    .reduce((sum, replica) => sum + Math.max(0, least - loadOf(replica)), 0);
  const free = inOrderOf(self, replicas, holders).filter((shard) => holders[shard] === undefined);
  if (free.length > 0) {
    const own = Math.max(0, least - load);
    // The shards beyond the least share of every replica go to the first ones that ask.
    const spare = free.length - own - missing > 0 && load + own < most ? 1 : 0;
    const share = free.slice(0, own + spare);
    return { take: free.filter((shard) => share.includes(shard) || neglected.has(shard)) };
  }
  const isFirstOfMost =
    replicas.find((replica) => replicas.every((other) => loadOf(other) <= loadOf(replica))) ===
    self;
  const isTooMuch = load > most || (load > least && missing > 0 && isFirstOfMost);
  const handOver = holders.findLastIndex((holder) => holder === self);
  return isTooMuch ? { take: [], handOver } : { take: [] };
}

/** All shards, beginning where the share of the replica would begin: replicas seldom collide. */
function inOrderOf(
  self: string,
  replicas: readonly string[],
  holders: readonly (string | undefined)[],
): readonly number[] {
  const first = Math.floor((replicas.indexOf(self) * holders.length) / replicas.length);
  return holders.map((_, index) => (first + index) % holders.length);
}
