import type { KubeClient } from '@conversation-operator/kube/client';
import { sleep } from '@conversation-operator/base/clock';
import { leases, type Lease } from '@conversation-operator/kube/core';
import { fenced } from '@conversation-operator/kube/intercepted-client';
import {
  LeaderElection,
  type LeaderElectionOptions,
} from '@conversation-operator/kube/leader-election';
import { LeaseMembers } from '@conversation-operator/kube/lease';
import { shardLeaseName, shardsHolder } from '../../resources/lease-names.ts';
import { type OwnsNamespace, shardOf } from './shard.ts';

export interface ShardsObserved {
  readonly self: string;
  /** Identities of the live replicas, in the same order on all replicas. */
  readonly members: readonly string[];
  /** The leader of each shard, by its number; undefined for a shard without a leader. */
  readonly holders: readonly (string | undefined)[];
  /** Shards without a leader for longer than the lease duration. Any replica acquires these. */
  readonly neglected: ReadonlySet<number>;
}

interface Balance {
  readonly take: readonly number[];
  readonly handOver?: number;
}

/**
 * Decides which shards a replica acquires and which shard it hands over, so that the numbers of
 * shards of two replicas differ by one at most. Replicas with different observations may acquire
 * the same shard, or hand over one too many: the Leases exclude two leaders, and the next decision
 * corrects the numbers. While a shard has no leader, no replica hands over another shard.
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
    // Shards that remain when every replica has `least` go to the first replicas that try.
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

/** All shards. The first one differs by replica, so that two replicas seldom try the same shard. */
function inOrderOf(
  self: string,
  replicas: readonly string[],
  holders: readonly (string | undefined)[],
): readonly number[] {
  const first = Math.floor((replicas.indexOf(self) * holders.length) / replicas.length);
  return holders.map((_, index) => (first + index) % holders.length);
}

/** One period in which this replica leads a shard. */
export interface Term {
  readonly shard: number;
  /** Absent: there is one shard, with all namespaces. */
  readonly owns?: OwnsNamespace;
  /** Wraps a client: its writes fail unless this replica holds the Leases of the shard. */
  readonly fenced: (client: KubeClient) => KubeClient;
}

export interface LeadershipOptions extends Omit<
  LeaderElectionOptions,
  'members' | 'onStartedLeading' | 'onStoppedLeading'
> {
  readonly shards: number;
  /** Resolves when the process can lead. If there are several shards, it acquires none before. */
  readonly ready: (signal: AbortSignal) => Promise<void>;
  /** Starts the work of the leader of a shard. `LeaderElectionOptions` describes the contract. */
  readonly onStartedLeading: (term: Term, signal: AbortSignal) => Promise<void>;
}

/** Annotation that lists the replicas, on the Lease that all replicas hold together. */
const replicasAnnotation = 'conversation-operator.dev/replicas';
const defaultLeaseDurationMs = 15_000;
const defaultRetryPeriodMs = 2_000;

/** Leads shards until the signal is aborted and the work for all shards has ended. */
export async function lead(options: LeadershipOptions, signal: AbortSignal): Promise<void> {
  const election = options.shards === 1 ? electionOfOne(options) : electionOfShards(options);
  const stopped = () => signal.aborted;
  while (!stopped()) {
    if (options.shards > 1) await options.ready(signal).catch(() => undefined);
    if (!stopped()) await election.run(signal);
  }
}

function electionOfOne({ onStartedLeading, ...options }: LeadershipOptions): LeaderElection {
  const election: LeaderElection = new LeaderElection({
    ...options,
    onStartedLeading: (term) =>
      onStartedLeading({ shard: 0, fenced: (client) => fenced(client, election) }, term),
  });
  return election;
}

/**
 * Several replicas lead shards at once. They share one common Lease, whose holder identity has the
 * number of shards instead of a replica. A replica leads a shard only while it holds the Lease of
 * the shard and the common Lease. A replica with another number of shards, or without shards, can
 * not hold the common Lease at the same time, so no namespace has two leaders.
 */
function electionOfShards(options: LeadershipOptions): LeaderElection {
  const members = new LeaseMembers({
    ...options,
    holder: shardsHolder(options.shards),
    annotation: replicasAnnotation,
  });
  const common: LeaderElection = new LeaderElection({
    ...options,
    members,
    onStartedLeading: (signal) => new ShardElections(options, common, members).run(signal),
  });
  return common;
}

interface Led {
  readonly ended: Promise<void>;
  readonly handOver: AbortController;
}

/** The elections of one replica for the shards, while the replica holds the common Lease. */
class ShardElections {
  readonly #options: LeadershipOptions;
  readonly #members: LeaseMembers;
  readonly #elections: readonly LeaderElection[];
  /** Shards that this replica acquires, leads or hands over. */
  readonly #led = new Map<number, Led>();
  /** Monotonic time at which this replica first observed that a shard has no leader. */
  readonly #freeSince = new Map<number, number>();

  constructor(options: LeadershipOptions, common: LeaderElection, members: LeaseMembers) {
    this.#options = options;
    this.#members = members;
    const { shards, name, onStartedLeading } = options;
    this.#elections = Array.from({ length: shards }, (_, shard) => {
      const election: LeaderElection = new LeaderElection({
        ...options,
        name: shardLeaseName(name, shard),
        onStartedLeading: (signal) =>
          onStartedLeading(
            {
              shard,
              owns: (namespace) => shardOf(namespace, shards) === shard,
              fenced: (client) => fenced(fenced(client, common), election),
            },
            signal,
          ),
      });
      return election;
    });
  }

  /** Resolves when the work for all shards has ended. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, random, logger, retryPeriodMs = defaultRetryPeriodMs } = this.#options;
    const stopped = () => signal.aborted;
    while (!stopped()) {
      try {
        await this.#observe(signal);
        if (!stopped()) this.#balance(signal);
      } catch (error) {
        if (!stopped()) logger.warn('Leases of the shards could not be read', { error });
      }
      await sleep(clock, (retryPeriodMs / 4) * (1 + random()), signal).catch(() => undefined);
    }
    await Promise.all([...this.#led.values()].map(({ ended }) => ended));
  }

  async #observe(signal: AbortSignal): Promise<void> {
    const { client, namespace, name, renewDeadlineMs = 10_000 } = this.#options;
    const deadlineMs = renewDeadlineMs / 2;
    const { items } = await client.list(leases, { namespace, signal, deadlineMs });
    const byName = new Map<string, Lease>(items.map((lease) => [lease.metadata.name, lease]));
    for (const [shard, { observed }] of this.#elections.entries()) {
      // The list may be older than the last renewal of a Lease that this replica holds.
      if (!this.#led.has(shard)) observed.observe(byName.get(shardLeaseName(name, shard)));
    }
  }

  #balance(signal: AbortSignal): void {
    const { identity: self, logger } = this.#options;
    const holders = this.#elections.map(({ observed }, shard) =>
      this.#led.has(shard) ? self : observed.holder,
    );
    const { live: members } = this.#members;
    const neglected = this.#neglected(holders);
    const { take, handOver } = balance({ self, members, holders, neglected });
    for (const shard of take) this.#take(shard, signal);
    if (handOver === undefined || this.#isHandingOver) return;
    logger.info('Handing a shard over', { shard: handOver, replicas: members.length });
    this.#led.get(handOver)?.handOver.abort(new Error('another replica is to lead the shard'));
  }

  /** Whether a hand-over is in progress. A replica hands over one shard after the other. */
  get #isHandingOver(): boolean {
    return [...this.#led.values()].some(({ handOver }) => handOver.signal.aborted);
  }

  #neglected(holders: readonly (string | undefined)[]): ReadonlySet<number> {
    const { clock, leaseDurationMs = defaultLeaseDurationMs } = this.#options;
    const now = clock.monotonic();
    for (const [shard, holder] of holders.entries()) {
      if (holder !== undefined) this.#freeSince.delete(shard);
      else if (!this.#freeSince.has(shard)) this.#freeSince.set(shard, now);
    }
    return new Set(
      [...this.#freeSince].filter(([, at]) => now - at > leaseDurationMs).map(([shard]) => shard),
    );
  }

  #take(shard: number, signal: AbortSignal): void {
    const election = this.#elections[shard];
    if (election === undefined || this.#led.has(shard)) return;
    const handOver = new AbortController();
    const ended = election
      .runOnce(AbortSignal.any([signal, handOver.signal]))
      .finally(() => this.#led.delete(shard));
    this.#led.set(shard, { ended, handOver });
  }
}
