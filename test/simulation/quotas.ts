import { findCondition } from '../../src/resources/conditions.ts';
import { apiVersion } from '../../src/resources/group.ts';
import {
  autoResumePolicies,
  conversationQuotas,
  quotaPolicies,
  type ConversationQuotaSpec,
} from '../../src/resources/conversation-quota.ts';
import { pods } from '../../src/resources/core.ts';
import { quotaRules, ownerRule, type QuotaRule, type QuotaRules } from '../../src/resources/quota-rules.ts';
import {
  SandboxCondition,
  SandboxReason,
  ownerAnnotation,
  sandboxes,
  slotTaken,
  viewOfSandbox,
  type Sandbox,
} from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import { isKnown } from './known-failures.ts';
import type { Random } from './random.ts';
import { Violation, ownerOf } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface QuotasOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly owners: readonly string[];
  /** Whether the agent of this sandbox runs and will never answer again. */
  readonly isSilent: (sandboxUid: string) => boolean;
  /** No quota changes later. */
  readonly untilMs: number;
  /** So long an operator may not know of a change. */
  readonly unknownMs: () => number;
}

interface Limits {
  readonly at: number;
  readonly ofOwner: (owner: string) => number;
  readonly ofNamespace: number;
}

const group = `/apis/${apiVersion}/namespaces/default/${conversationQuotas.plural}`;

/** Somebody who gives quotas and takes them away, and the promises that hold under them. */
export class Quotas {
  readonly #options: QuotasOptions;
  readonly #history: Limits[] = [{ at: 0, ofOwner: () => Infinity, ofNamespace: Infinity }];
  #slots = new Map<string, number>();

  constructor(options: QuotasOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#look(change));
  }

  /** Before anybody else begins: so that in half of the runs the same limits hold all the time. */
  async start(): Promise<void> {
    const { cluster, random, scheduler, untilMs } = this.#options;
    if (random.chance(0.3)) return;
    if (random.chance(0.8)) await this.#put('everyone', { scope: 'Owner', ...this.#wish() });
    if (random.chance(0.3)) await this.#put('namespace', { scope: 'Namespace', ...this.#wish() });
    if (random.chance(0.2)) await this.#put('own', { scope: 'Owner', owner: this.#favourite, ...this.#wish() });
    // What was before them, no operator has known.
    cluster.tell();
    this.#history.splice(0, this.#history.length - 1);
    if (random.chance(0.5)) return;
    for (let count = random.whole(1, 4); count > 0; count--) {
      scheduler.after(random.between(0, untilMs), () => void this.#meddle());
    }
  }

  #wish(): Omit<ConversationQuotaSpec, 'scope' | 'owner'> {
    const { random } = this.#options;
    const pick = <T>(values: readonly T[], otherwise: T): T => values[random.whole(0, values.length - 1)] ?? otherwise;
    return {
      limit: random.chance(0.05) ? 0 : random.chance(0.6) ? 1 : random.whole(1, 4),
      onExceeded: random.chance(0.6) ? 'PauseOldest' : pick(quotaPolicies, 'PauseOldest'),
      minActiveSeconds: random.chance(0.7) ? 0 : random.whole(1, 20),
      autoResume: random.chance(0.7) ? 'All' : pick(autoResumePolicies, 'All'),
    };
  }

  async #meddle(): Promise<void> {
    const { random, cluster } = this.#options;
    const name = ['everyone', 'namespace', 'own', 'another'][random.whole(0, 3)] ?? 'everyone';
    if (random.chance(0.3)) {
      await cluster.call('kubectl', 'DELETE', `${group}/${name}`);
    } else {
      const scope = name === 'namespace' ? ('Namespace' as const) : ('Owner' as const);
      await this.#put(name, { scope, ...(name === 'own' ? { owner: this.#favourite } : {}), ...this.#wish() });
    }
    cluster.tell();
  }

  async #put(name: string, spec: ConversationQuotaSpec): Promise<void> {
    const { cluster } = this.#options;
    const object = { apiVersion, kind: conversationQuotas.kind, metadata: { name, namespace: 'default' }, spec };
    const { status } = await cluster.call('kubectl', 'POST', group, object);
    if (status === 409) await cluster.call('kubectl', 'PATCH', `${group}/${name}`, { spec });
  }

  /** The one owner who has a quota of their own: a spec names its owner for good. */
  get #favourite(): string {
    return this.#options.owners.at(-1) ?? 'alice';
  }

  #look({ plural, object }: Change): void {
    const { cluster, scheduler } = this.#options;
    const now = scheduler.monotonic();
    if (plural === conversationQuotas.plural) {
      const rules = quotaRules(cluster.quotas);
      this.#history.push({
        at: now,
        ofOwner: (owner) => ownerRule(rules, owner)?.limit ?? Infinity,
        ofNamespace: rules.namespace?.limit ?? Infinity,
      });
    }
    if (plural !== sandboxes.plural && plural !== pods.plural) return;
    const slots = this.#slotsTaken(`${plural}/${object.metadata.name}`);
    const before = this.#slots;
    this.#slots = slots;
    const total = (counts: ReadonlyMap<string, number>) => [...counts.values()].reduce((sum, count) => sum + count, 0);
    const exceeded = (taken: number, limit: number, whose: string) =>
      new Violation('the limit is never exceeded', `${taken} slots ${whose}, limit ${limit}, after ${plural}/${object.metadata.name}`);
    const known = this.#known(now);
    const allowed = Math.max(...known.map(({ ofNamespace }) => ofNamespace));
    if (total(slots) > total(before) && total(slots) > allowed) throw exceeded(total(slots), allowed, 'in the namespace');
    for (const [owner, taken] of slots) {
      const limit = Math.max(...known.map(({ ofOwner }) => ofOwner(owner)));
      if (taken > (before.get(owner) ?? 0) && taken > limit) throw exceeded(taken, limit, `of ${owner}`);
    }
  }

  /** By owner; also the slots of sandboxes that are gone and whose pods are not. */
  #slotsTaken(cause: string): Map<string, number> {
    const { cluster } = this.#options;
    const taken = new Map<string, string>();
    const present = new Set<string>();
    for (const sandbox of cluster.sandboxes) {
      present.add(sandbox.metadata.uid);
      if (slotTaken(sandbox)) taken.set(sandbox.metadata.uid, sandbox.spec.owner);
    }
    for (const pod of cluster.pods) {
      const uid = ownerOf(pod) ?? '';
      if (present.has(uid) && !taken.has(uid))
        throw new Violation('a pod only where a slot is taken', `${pod.metadata.name} (${pod.metadata.uid}) after ${cause}`);
      taken.set(uid, taken.get(uid) ?? pod.metadata.annotations?.[ownerAnnotation] ?? '');
    }
    const counts = new Map<string, number>();
    for (const owner of taken.values()) counts.set(owner, (counts.get(owner) ?? 0) + 1);
    return counts;
  }

  /** The limits that hold now, and those from before of which an operator may not have heard that they are over. */
  #known(now: number): readonly Limits[] {
    const unknownMs = this.#options.unknownMs();
    return this.#history.filter((_, index) => now - (this.#history[index + 1]?.at ?? now) <= unknownMs);
  }

  /** A sandbox that waits for room, and rightly so. */
  waitsRightly(sandbox: Sandbox): boolean {
    return waits(sandbox) && this.unsettled().length === 0;
  }

  /** What is not as the quotas want it once nothing changes any more. */
  unsettled(): readonly string[] {
    const { sandboxes: all, quotas } = this.#options.cluster;
    const rules = quotaRules(quotas);
    const limit = rules.namespace?.limit ?? Infinity;
    const taken = all.filter(slotTaken).length;
    if (taken > limit) return [`${taken} slots are taken of ${limit} in the namespace`];
    const outdated = this.#outdated();
    if (outdated.length > 0) return outdated;
    const { owners, isSilent } = this.#options;
    const groups = owners.map((owner) => groupOf(owner, rules, all));
    // Newcomers that only the namespace's limit keeps out: what makes no room there goes to whoever waits longest.
    const demand = groups.reduce((sum, group) => sum + Math.min(group.queued.length, Math.max(0, group.limit - group.taken)), 0);
    const isFull = rules.namespace !== undefined && !makesRoom(rules.namespace) && taken + demand > limit;
    const holds = (sandbox: Sandbox) => slotTaken(sandbox) && isSilent(sandbox.metadata.uid);
    if (isKnown('a silent agent keeps its slot') && all.some(holds)) return [];
    return groups.flatMap((group) => unsettledIn(group, { rule: rules.namespace, limit, taken, isFull }));
  }

  /** Quotas that do not say what is true. */
  #outdated(): readonly string[] {
    const { quotas, sandboxes: all } = this.#options.cluster;
    const { owners } = quotaRules(quotas);
    return quotas.flatMap(({ metadata, spec, status }) => {
      const isFor = (owner: string) => spec.scope === 'Namespace' || (spec.owner === undefined ? !owners.has(owner) : spec.owner === owner);
      const active = all.filter((sandbox) => slotTaken(sandbox) && isFor(sandbox.spec.owner)).length;
      if (status?.observedGeneration !== metadata.generation) return [`quota ${metadata.name} was not looked at`];
      return status.active === active ? [] : [`quota ${metadata.name} shows ${status.active ?? 'no'} active of ${active}`];
    });
  }
}

interface OwnerGroup {
  readonly owner: string;
  readonly rule: QuotaRule | undefined;
  readonly limit: number;
  readonly taken: number;
  readonly queued: readonly Sandbox[];
  /** Paused by a quota, to come back by themselves. */
  readonly paused: readonly Sandbox[];
}

function groupOf(owner: string, rules: QuotaRules, all: readonly Sandbox[]): OwnerGroup {
  const own = all.filter((sandbox) => sandbox.spec.owner === owner);
  const rule = ownerRule(rules, owner);
  const comeBack = [rule, rules.namespace].every((one) => one === undefined || one.autoResume === 'All');
  const isPaused = (sandbox: Sandbox) => {
    const { reason, phase } = viewOfSandbox(sandbox);
    return phase === 'PAUSED' && reason === SandboxReason.quota;
  };
  return {
    ...{ owner, rule, limit: rule?.limit ?? Infinity, taken: own.filter(slotTaken).length },
    queued: own.filter(waits),
    paused: comeBack ? own.filter(isPaused) : [],
  };
}

function unsettledIn(
  { owner, rule, limit, taken, queued, paused }: OwnerGroup,
  namespace: { readonly rule: QuotaRule | undefined; readonly limit: number; readonly taken: number; readonly isFull: boolean },
): readonly string[] {
  if (taken > limit) return [`${taken} slots are taken of ${limit} of ${owner}`];
  const eligible = [...queued, ...paused].map((sandbox) => `${sandbox.metadata.name} (${admittedReason(sandbox) ?? ''})`);
  if (taken < limit && namespace.taken < namespace.limit && eligible.length > 0)
    return [`${taken} of ${limit} slots of ${owner} are taken, and ${eligible.join(' ')} wait`];
  if (queued.length === 0) return [];
  // The policy of the limit that stands in the way; the owner's where both do.
  const isCrowded = taken >= limit && limit > 0 && (rule === undefined || makesRoom(rule)) && !namespace.isFull;
  const isOutside = taken < limit && namespace.limit > 0 && (namespace.rule === undefined || makesRoom(namespace.rule));
  return isCrowded || isOutside ? [`${queued.length} of ${owner} wait although others may be paused`] : [];
}

const makesRoom = ({ onExceeded }: QuotaRule): boolean => onExceeded.startsWith('Pause');
const admittedReason = ({ status }: Sandbox) => findCondition(status?.conditions, SandboxCondition.admitted)?.reason;
/** Not by what it shows: of one that was let in a moment ago that is still from before. */
const waits = (sandbox: Sandbox): boolean =>
  viewOfSandbox(sandbox).phase === 'STARTING' && admittedReason(sandbox) === SandboxReason.waitingForQuota;
