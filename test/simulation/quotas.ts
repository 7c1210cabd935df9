import { findCondition } from '../../src/resources/conditions.ts';
import { apiVersion } from '../../src/resources/group.ts';
import {
  autoResumePolicies,
  conversationQuotas,
  quotaPolicies,
  type ConversationQuotaSpec,
} from '../../src/resources/conversation-quota.ts';
import { isStartOver, startStatusOf, type Conversation } from '../../src/resources/conversation.ts';
import { pods } from '@conversation-operator/kube/core';
import { quotaRules, ownerRule, type QuotaRule, type QuotaRules } from '../../src/quota/rules.ts';
import {
  SandboxCondition,
  SandboxReason,
  sandboxes,
  type Sandbox,
} from '../../src/resources/sandbox.ts';
import { slotTaken, viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { Change, Cluster } from './cluster.ts';
import { isFailedStart } from './failed-start.ts';
import { isIn } from './made-for.ts';
import type { Random } from './random.ts';
import { Violation, ownerOf } from './safety.ts';
import type { Scheduler } from './scheduler.ts';
import { isUnfinished, works } from './stored-work.ts';

export type QuotaStyle = 'tight' | 'automatic';

export interface QuotasOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly owners: readonly string[];
  /**
   * Tight: each owner has a limit of one or two, which mostly makes room. Automatic: the same, and
   * what it pauses resumes automatically, for the whole run. Default: any quota or none.
   */
  readonly style?: QuotaStyle | undefined;
  /** Whether there are pools: then more quotas limit the namespace, under every policy. */
  readonly besidePools: boolean;
  /** No quota changes later. */
  readonly untilMs: number;
  /** Maximum time for which an operator may not know of a change. */
  readonly unknownMs: () => number;
}

interface Limits {
  readonly at: number;
  /** The deletion of a quota made these limits: the limits before may hold on for `holdsOnMs`. */
  readonly afterDeletion: boolean;
  readonly ofOwner: (owner: string) => number;
  readonly ofNamespace: number;
}

/** Maximum time for which a deleted quota's rules hold on, since a replacement may follow. */
export const holdsOnMs = 5_000;
/** Number of automatic resumes of a sandbox within the time in which everything has to settle. */
const soonAgain = 3;

const group = `/apis/${apiVersion}/namespaces/default/${conversationQuotas.plural}`;

/** A person who creates and deletes quotas, and the promises that hold under them. */
export class Quotas {
  readonly #options: QuotasOptions;
  readonly #history: Limits[] = [
    { at: 0, afterDeletion: false, ofOwner: () => Infinity, ofNamespace: Infinity },
  ];
  #slots = new Map<string, number>();

  constructor(options: QuotasOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  /** Runs before everything else, so that in half of the runs the same limits hold all the time. */
  async start(): Promise<void> {
    const { cluster, random, scheduler, untilMs, style, besidePools } = this.#options;
    const tight = style !== undefined;
    if (!tight && random.chance(besidePools ? 0.1 : 0.3)) return;
    if (tight || random.chance(0.8))
      await this.#put('everyone', { scope: 'Owner', ...this.#wish() });
    if (random.chance(0.3)) await this.#put('namespace', { scope: 'Namespace', ...this.#wish() });
    if (random.chance(tight ? 0.6 : 0.2))
      await this.#put('own', { scope: 'Owner', owner: this.#favourite, ...this.#wish() });
    if (besidePools) await this.#putBesidePools();
    // No operator has known the state before the quotas.
    cluster.notify();
    this.#history.splice(0, this.#history.length - 1);
    if (style === 'automatic' || random.chance(0.5)) return;
    for (let count = random.whole(1, 4); count > 0; count--) {
      scheduler.after(random.between(0, untilMs), () => void this.#meddle());
    }
  }

  /** A limit that warm sandboxes may fill, and maximum numbers of stored sandboxes. */
  async #putBesidePools(): Promise<void> {
    const random = this.#options.random.fork('beside-pools');
    const onExceeded = random.pick(quotaPolicies) ?? 'Queue';
    const wish = this.#wish();
    if (random.chance(0.6))
      await this.#put('namespace', {
        ...wish,
        scope: 'Namespace',
        limit: random.whole(2, 4),
        onExceeded,
      });
    if (random.chance(0.4))
      await this.#put('cap', {
        ...wish,
        scope: random.pick(['Owner', 'Namespace'] as const) ?? 'Owner',
        limit: 100,
        maxSandboxes: random.whole(3, 8),
      });
  }

  #wish(): Omit<ConversationQuotaSpec, 'scope' | 'owner'> {
    const { random, style } = this.#options;
    const tight = style !== undefined;
    if (style === 'automatic')
      return {
        limit: random.whole(1, 2),
        onExceeded: 'PauseOldest',
        minActiveSeconds: 0,
        autoResume: 'All',
      };
    const pick = <T>(values: readonly T[], otherwise: T): T =>
      values[random.whole(0, values.length - 1)] ?? otherwise;
    return {
      limit: tight
        ? random.whole(1, 2)
        : random.chance(0.05)
          ? 0
          : random.chance(0.6)
            ? 1
            : random.whole(1, 4),
      onExceeded: random.chance(tight ? 0.9 : 0.6)
        ? 'PauseOldest'
        : pick(quotaPolicies, 'PauseOldest'),
      minActiveSeconds: random.chance(tight ? 0.5 : 0.7) ? 0 : random.whole(1, 20),
      autoResume: random.chance(tight ? 0.4 : 0.7) ? 'All' : pick(autoResumePolicies, 'All'),
    };
  }

  async #meddle(): Promise<void> {
    const { random, cluster } = this.#options;
    const name = ['everyone', 'namespace', 'own', 'another'][random.whole(0, 3)] ?? 'everyone';
    if (random.chance(0.3)) {
      await cluster.call('kubectl', 'DELETE', `${group}/${name}`);
    } else {
      const scope = name === 'namespace' ? ('Namespace' as const) : ('Owner' as const);
      await this.#put(name, {
        scope,
        ...(name === 'own' ? { owner: this.#favourite } : {}),
        ...this.#wish(),
      });
    }
    cluster.notify();
  }

  async #put(name: string, spec: ConversationQuotaSpec): Promise<void> {
    const { cluster } = this.#options;
    const object = {
      apiVersion,
      kind: conversationQuotas.kind,
      metadata: { name, namespace: 'default' },
      spec,
    };
    const { status } = await cluster.call('kubectl', 'POST', group, object);
    if (status === 409) await cluster.call('kubectl', 'PATCH', `${group}/${name}`, { spec });
  }

  /** The one owner who has a quota of their own: a spec names its owner for good. */
  get #favourite(): string {
    return this.#options.owners.at(-1) ?? 'alice';
  }

  #observe({ plural, type, object }: Change): void {
    const { cluster, scheduler } = this.#options;
    const now = scheduler.monotonic();
    if (plural === conversationQuotas.plural) {
      const rules = quotaRules(cluster.quotas);
      this.#history.push({
        at: now,
        afterDeletion: type === 'DELETED',
        ofOwner: (owner) => ownerRule(rules, owner)?.limit ?? Infinity,
        ofNamespace: rules.namespace?.limit ?? Infinity,
      });
    }
    if (plural !== sandboxes.plural && plural !== pods.plural) return;
    const slots = this.#slotsTaken(`${plural}/${object.metadata.name}`);
    const before = this.#slots;
    this.#slots = slots;
    const total = (counts: ReadonlyMap<string, number>) =>
      [...counts.values()].reduce((sum, count) => sum + count, 0);
    const exceeded = (taken: number, limit: number, whose: string) =>
      new Violation(
        'the limit is never exceeded',
        `${taken} slots ${whose}, limit ${limit}, after ${plural}/${object.metadata.name}`,
      );
    const known = this.#known(now);
    const allowed = Math.max(...known.map(({ ofNamespace }) => ofNamespace));
    if (total(slots) > total(before) && total(slots) > allowed)
      throw exceeded(total(slots), allowed, 'in the namespace');
    for (const [owner, taken] of slots) {
      // Warm sandboxes have no owner.
      if (owner === '') continue;
      const limit = Math.max(...known.map(({ ofOwner }) => ofOwner(owner)));
      if (taken > (before.get(owner) ?? 0) && taken > limit)
        throw exceeded(taken, limit, `of ${owner}`);
    }
  }

  /** By owner; also the slots of sandboxes that are gone and whose pods are not. */
  #slotsTaken(cause: string): Map<string, number> {
    const { cluster } = this.#options;
    const taken = new Map<string, string>();
    const present = new Set<string>();
    for (const sandbox of [...cluster.sandboxes, ...cluster.warmSandboxes]) {
      present.add(sandbox.metadata.uid);
      if (slotTaken(sandbox)) taken.set(sandbox.metadata.uid, sandbox.spec.owner);
    }
    for (const pod of cluster.pods) {
      const uid = ownerOf(pod) ?? '';
      if (present.has(uid) && !taken.has(uid))
        throw new Violation(
          'only a sandbox with a slot has a pod',
          `${pod.metadata.name} (${pod.metadata.uid}) after ${cause}`,
        );
      taken.set(uid, taken.get(uid) ?? cluster.ownerOfPod(pod));
    }
    const counts = new Map<string, number>();
    for (const owner of taken.values()) counts.set(owner, (counts.get(owner) ?? 0) + 1);
    return counts;
  }

  /**
   * The limits that hold now, and those from before of which an operator may not have heard that
   * they are over. The limits before a deletion hold on for a moment longer: a deleted quota may be
   * higher than the quota that holds without it.
   */
  #known(now: number): readonly Limits[] {
    const unknownMs = this.#options.unknownMs();
    return this.#history.filter((_, index) => {
      const { at, afterDeletion } = this.#history[index + 1] ?? { at: now, afterDeletion: false };
      return now - at <= unknownMs + (afterDeletion ? holdsOnMs : 0);
    });
  }

  /** A sandbox that waits for room, and rightly so. */
  waitsRightly(sandbox: Sandbox): boolean {
    return waits(sandbox) && this.unsettled().length === 0;
  }

  /**
   * The sandboxes of an owner that resume automatically as soon as there is room, and have not
   * resumed automatically before. Empty while the limit of the owner leaves no room.
   */
  resumable(owner: string): readonly Sandbox[] {
    const { quotas, sandboxes: all, conversations } = this.#options.cluster;
    const group = groupOf(owner, quotaRules(quotas), all, conversations);
    const taken = this.#slots.get(owner) ?? 0;
    const isFirst = ({ status }: Sandbox): boolean => status?.automaticResumes === undefined;
    return taken < group.limit ? group.paused.filter(isFirst) : [];
  }

  /** Sentences about everything that violates the quotas once nothing changes any more. */
  unsettled(): readonly string[] {
    const { cluster, owners } = this.#options;
    const { quotas, conversations } = cluster;
    const all = cluster.sandboxes.filter(
      (sandbox) => slotTaken(sandbox) || !isFailedStart(cluster, sandbox),
    );
    const rules = quotaRules(quotas);
    const limit = rules.namespace?.limit ?? Infinity;
    const taken = [...all, ...cluster.warmSandboxes].filter(slotTaken).length;
    if (taken > limit) return [`${taken} slots are taken of ${limit} in the namespace`];
    const outdated = this.#outdated();
    if (outdated.length > 0) return outdated;
    const groups = owners.map((owner) => groupOf(owner, rules, all, conversations));
    // Newcomers that only the limit of the namespace keeps out: a slot there goes to the newcomer
    // that waits longest.
    const demand = groups.reduce(
      (sum, group) => sum + Math.min(group.queued.length, Math.max(0, group.limit - group.taken)),
      0,
    );
    const isFull =
      rules.namespace !== undefined && !makesRoom(rules.namespace) && taken + demand > limit;
    const idle = groups.reduce((sum, group) => sum + group.idle, 0);
    const warmSandbox = rules.namespace && cluster.warmSandboxes.find(slotTaken)?.metadata.name;
    return groups.flatMap((group) =>
      unsettledIn(group, { rule: rules.namespace, limit, taken, isFull, idle, warmSandbox }),
    );
  }

  /** Sentences about quotas whose status is wrong. */
  #outdated(): readonly string[] {
    const { quotas, sandboxes: all } = this.#options.cluster;
    const { owners } = quotaRules(quotas);
    return quotas.flatMap(({ metadata, spec, status }) => {
      const isFor = (owner: string) =>
        spec.scope === 'Namespace' ||
        (spec.owner === undefined ? !owners.has(owner) : spec.owner === owner);
      // Warm sandboxes are room.
      const active = all.filter(
        (sandbox) => slotTaken(sandbox) && isFor(sandbox.spec.owner),
      ).length;
      if (status?.observedGeneration !== metadata.generation)
        return [`quota ${metadata.name} was not reconciled`];
      return status.active === active
        ? []
        : [`quota ${metadata.name} shows ${status.active ?? 'no'} active of ${active}`];
    });
  }
}

interface OwnerGroup {
  readonly owner: string;
  readonly rule: QuotaRule | undefined;
  readonly limit: number;
  readonly taken: number;
  readonly queued: readonly Sandbox[];
  /** The number of newcomers that have something to do. */
  readonly demanding: number;
  /** Slots where nothing starts or waits for a person: a bare resume may take their places. */
  readonly idle: number;
  /** Paused by a quota, to come back by themselves. */
  readonly paused: readonly Sandbox[];
}

function groupOf(
  owner: string,
  rules: QuotaRules,
  all: readonly Sandbox[],
  conversations: readonly Conversation[],
): OwnerGroup {
  const own = all.filter((sandbox) => sandbox.spec.owner === owner);
  const rule = ownerRule(rules, owner);
  const policies = [rule?.autoResume, rules.namespace?.autoResume];
  const inIt = (sandbox: Sandbox) =>
    conversations.filter((conversation) => isIn(sandbox, conversation));
  const queued = own.filter(waits);
  return {
    owner,
    rule,
    limit: rule?.limit ?? Infinity,
    taken: own.filter(slotTaken).length,
    queued,
    demanding: queued.filter((sandbox) => admittedReason(sandbox) === SandboxReason.waitingForQuota)
      .length,
    idle: own.filter(
      (sandbox) => slotTaken(sandbox) && !inIt(sandbox).some((one) => isHeld(one, sandbox)),
    ).length,
    paused: own.filter((sandbox) => comesBack(sandbox, inIt(sandbox), policies)),
  };
}

/** Whether something starts, waits for a person or may work: no bare resume evicts the sandbox. */
const isHeld = (conversation: Conversation, sandbox: Sandbox): boolean =>
  !isStartOver(startStatusOf(conversation)) ||
  conversation.status?.executionStatus === 'waiting_for_confirmation' ||
  (isSilent(sandbox) && works(conversation));

/**
 * Whether it is unknown, and may stay so, that the agent resumes a run: only its kubelet, a person
 * or a newcomer with something to do ends that state. With any other agent every run ends, so a
 * sandbox that still holds its place is no excuse.
 */
function isSilent(sandbox: Sandbox): boolean {
  const { phase, reason } = viewOfSandbox(sandbox);
  return (
    phase === 'STARTING' &&
    (reason === SandboxReason.agentSilent || reason === SandboxReason.waitingForAgent)
  );
}

/** Whether the sandbox soon resumes by itself: the first time always, later for unfinished work. */
function comesBack(
  sandbox: Sandbox,
  inIt: readonly Conversation[],
  policies: readonly (QuotaRule['autoResume'] | undefined)[],
): boolean {
  const { reason, phase } = viewOfSandbox(sandbox);
  const continues = inIt.some(
    (one) => works(one) && one.status?.executionStatus !== 'waiting_for_confirmation',
  );
  if (
    phase !== 'PAUSED' ||
    (reason !== SandboxReason.quota && !(reason === SandboxReason.idle && continues))
  )
    return false;
  const { automaticResumes, interruptedConversationIDs: interrupted = [] } = sandbox.status ?? {};
  const unfinished = interrupted.length > 0 || inIt.some(isUnfinished);
  if (
    !policies.every((policy = 'All') => policy === 'All' || (policy === 'Unfinished' && unfinished))
  )
    return false;
  return automaticResumes === undefined || (automaticResumes.count <= soonAgain && unfinished);
}

interface NamespaceGroup {
  readonly rule: QuotaRule | undefined;
  readonly limit: number;
  readonly taken: number;
  readonly isFull: boolean;
  readonly idle: number;
  /** A warm sandbox that holds a slot of the limit. */
  readonly warmSandbox: string | undefined;
}

function unsettledIn(group: OwnerGroup, namespace: NamespaceGroup): readonly string[] {
  const { owner, rule, limit, taken, queued, demanding, paused, idle } = group;
  if (taken > limit) return [`${taken} slots are taken of ${limit} of ${owner}`];
  const eligible = [...queued, ...paused].map(
    (sandbox) => `${sandbox.metadata.name} (${admittedReason(sandbox) ?? ''})`,
  );
  if (taken < limit && namespace.taken < namespace.limit && eligible.length > 0)
    return [`${taken} of ${limit} slots of ${owner} are taken, and ${eligible.join(' ')} wait`];
  if (taken < limit && namespace.warmSandbox !== undefined && eligible.length > 0)
    return [
      `${eligible.join(' ')} of ${owner} wait while the warm sandbox ${namespace.warmSandbox} has a slot`,
    ];
  if (queued.length === 0) return [];
  // The policy of the limit that keeps the newcomers out; the owner's where both limits do.
  const isCrowded =
    taken >= limit && limit > 0 && (rule === undefined || makesRoom(rule)) && !namespace.isFull;
  const isOutside =
    taken < limit &&
    namespace.limit > 0 &&
    (namespace.rule === undefined || makesRoom(namespace.rule));
  const hasVictims = demanding > 0 || (isCrowded ? idle : namespace.idle) > 0;
  return hasVictims && (isCrowded || isOutside)
    ? [`${queued.length} of ${owner} wait although others may be paused`]
    : [];
}

const makesRoom = ({ onExceeded }: QuotaRule): boolean => onExceeded.startsWith('Pause');
const admittedReason = ({ status }: Sandbox) =>
  findCondition(status?.conditions, SandboxCondition.admitted)?.reason;
const waitingReasons: ReadonlySet<string> = new Set([
  SandboxReason.waitingForQuota,
  SandboxReason.waitingForIdleSandbox,
]);
/** Ignores the phase: that of a sandbox that was admitted a moment ago is still from before. */
const waits = (sandbox: Sandbox): boolean =>
  viewOfSandbox(sandbox).phase === 'STARTING' && waitingReasons.has(admittedReason(sandbox) ?? '');
