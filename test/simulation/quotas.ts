import { findCondition } from '../../src/resources/conditions.ts';
import { apiVersion } from '../../src/resources/group.ts';
import {
  autoResumePolicies,
  conversationQuotas,
  quotaPolicies,
  type ConversationQuotaSpec,
} from '../../src/resources/conversation-quota.ts';
import { pods } from '../../src/resources/core.ts';
import { quotaRules, ownerRule, type QuotaRule } from '../../src/resources/quota-rules.ts';
import { SandboxCondition, SandboxReason, sandboxes, slotTaken, viewOfSandbox, type Sandbox } from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import type { Random } from './random.ts';
import { Violation, ownerOf } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface QuotasOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly random: Random;
  /** No quota changes later. */
  readonly untilMs: number;
  /** So long an operator may not know of a change. */
  readonly unknownMs: () => number;
}

interface Limits {
  readonly at: number;
  readonly owner: number;
  readonly namespace: number;
}

const group = `/apis/${apiVersion}/namespaces/default/${conversationQuotas.plural}`;

/** Somebody who gives quotas and takes them away, and the promises that hold under them. There is one owner. */
export class Quotas {
  readonly #options: QuotasOptions;
  readonly #history: Limits[] = [{ at: 0, owner: Infinity, namespace: Infinity }];
  #slots = 0;

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
    if (random.chance(0.2)) await this.#put('own', { scope: 'Owner', owner: 'alice', ...this.#wish() });
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
      await this.#put(name, { scope, ...(name === 'own' ? { owner: 'alice' } : {}), ...this.#wish() });
    }
    cluster.tell();
  }

  async #put(name: string, spec: ConversationQuotaSpec): Promise<void> {
    const { cluster } = this.#options;
    const object = { apiVersion, kind: conversationQuotas.kind, metadata: { name, namespace: 'default' }, spec };
    const { status } = await cluster.call('kubectl', 'POST', group, object);
    if (status === 409) await cluster.call('kubectl', 'PATCH', `${group}/${name}`, { spec });
  }

  get #rules(): readonly [QuotaRule | undefined, QuotaRule | undefined] {
    const rules = quotaRules(this.#options.cluster.quotas);
    return [ownerRule(rules, 'alice'), rules.namespace];
  }

  #look({ plural, object }: Change): void {
    const { cluster, scheduler } = this.#options;
    const now = scheduler.monotonic();
    if (plural === conversationQuotas.plural) {
      const [owner, namespace] = this.#rules;
      this.#history.push({ at: now, owner: owner?.limit ?? Infinity, namespace: namespace?.limit ?? Infinity });
    }
    if (plural !== sandboxes.plural && plural !== pods.plural) return;
    const taken = new Set(cluster.sandboxes.filter(slotTaken).map(({ metadata }) => metadata.uid));
    const present = new Set(cluster.sandboxes.map(({ metadata }) => metadata.uid));
    for (const pod of cluster.pods) {
      const owner = ownerOf(pod) ?? '';
      if (present.has(owner) && !taken.has(owner))
        throw new Violation(
          'a pod only where a slot is taken',
          `${pod.metadata.name} (${pod.metadata.uid}) after ${plural}/${object.metadata.name}`,
        );
      taken.add(owner);
    }
    const before = this.#slots;
    this.#slots = taken.size;
    if (taken.size <= before) return;
    const { owner, namespace } = this.#allowed(now);
    if (taken.size > Math.min(owner, namespace))
      throw new Violation(
        'the limit is never exceeded',
        `${taken.size} slots, limits ${owner} and ${namespace}, after ${plural}/${object.metadata.name}`,
      );
  }

  /** The highest that an operator may take for the limits: those that hold now, and those from before of which it may not have heard. */
  #allowed(now: number): Omit<Limits, 'at'> {
    const unknownMs = this.#options.unknownMs();
    const relevant = this.#history.filter((_, index) => now - (this.#history[index + 1]?.at ?? now) <= unknownMs);
    return {
      owner: Math.max(...relevant.map(({ owner }) => owner)),
      namespace: Math.max(...relevant.map(({ namespace }) => namespace)),
    };
  }

  /** A sandbox that waits for room, and rightly so. */
  waitsRightly(sandbox: Sandbox): boolean {
    return waits(sandbox) && this.unsettled().length === 0;
  }

  /** What is not as the quotas want it once nothing changes any more. */
  unsettled(): readonly string[] {
    const [owner, namespace] = this.#rules;
    const limit = Math.min(owner?.limit ?? Infinity, namespace?.limit ?? Infinity);
    const { sandboxes: all } = this.#options.cluster;
    const taken = all.filter(slotTaken).length;
    if (taken > limit) return [`${taken} slots are taken of ${limit}`];
    const outdated = this.#outdated(taken);
    if (outdated.length > 0) return outdated;
    const policies = [owner?.autoResume, namespace?.autoResume];
    const eligible = all.filter((sandbox) => {
      const { reason, phase } = viewOfSandbox(sandbox);
      return (
        waits(sandbox) || (phase === 'PAUSED' && reason === 'Quota' && policies.every((policy) => policy === undefined || policy === 'All'))
      );
    });
    const queued = all.filter(waits);
    if (taken < limit && eligible.length > 0)
      return [
        `${taken} of ${limit} slots are taken, and ${eligible.map((sandbox) => `${sandbox.metadata.name} (${admittedReason(sandbox) ?? ''})`).join(' ')} wait`,
      ];
    const pauses = (rule: QuotaRule | undefined) => rule === undefined || rule.onExceeded.startsWith('Pause');
    // The policy of the limit that stands in the way; the owner's where both do.
    const makesRoom = pauses(taken >= (owner?.limit ?? Infinity) ? owner : namespace);
    return makesRoom && limit > 0 && queued.length > 0 ? [`${queued.length} wait although others may be paused`] : [];
  }

  /** Quotas that do not say what is true. */
  #outdated(taken: number): readonly string[] {
    const { quotas } = this.#options.cluster;
    const { owners } = quotaRules(quotas);
    return quotas.flatMap(({ metadata, spec, status }) => {
      const mine = spec.scope === 'Namespace' || (spec.owner ?? (owners.has('alice') ? '' : 'alice')) === 'alice';
      const active = mine ? taken : 0;
      if (status?.observedGeneration !== metadata.generation) return [`quota ${metadata.name} was not looked at`];
      return status.active === active ? [] : [`quota ${metadata.name} shows ${status.active ?? 'no'} active of ${active}`];
    });
  }
}

const admittedReason = ({ status }: Sandbox) => findCondition(status?.conditions, SandboxCondition.admitted)?.reason;
/** Not by what it shows: of one that was let in a moment ago that is still from before. */
const waits = (sandbox: Sandbox): boolean =>
  viewOfSandbox(sandbox).phase === 'STARTING' && admittedReason(sandbox) === SandboxReason.waitingForQuota;
