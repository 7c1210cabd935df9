import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '@conversation-operator/base/clock';
import { isNewerVersion } from '@conversation-operator/kube/object';
import type { Metrics } from '../../observability/metrics.ts';
import { ActiveQuotas, ownerRule, quotaRules } from '../../quota/rules.ts';
import { Snapshot } from '../../quota/snapshot.ts';
import type { Slot, SlotState } from '../../quota/slot.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { quotaCaps } from '../../quota/caps.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { slotTaken } from '../../status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { byNamed, byTemplate, type Stores } from '../caches.ts';
import type { Channel } from '../controller-spec.ts';
import { SandboxClassifier } from './sandbox-classifier.ts';
import { StoredLimits } from './stored-limits.ts';

/** The state in which a sandbox counts against quotas until the outcome of a write is known. */
export interface Outcome {
  readonly state: SlotState;
  readonly taken: boolean;
  /** Owner that the write gives to a warm sandbox; absent if the write changes no owner. */
  readonly owner?: string;
}

/** A sandbox whose last write is in flight, was rejected, or has an unknown outcome. */
export interface Assumed extends Outcome {
  readonly sandbox: Sandbox;
  /** Monotonic time after which the API server can not execute the write. Infinity: in flight. */
  readonly until: number;
}

export type AdmissionChannels = Readonly<
  Record<'admission' | 'lookup' | 'quota', Pick<Channel, 'enqueue'>>
>;

export interface AdmissionCacheOptions {
  readonly stores: Pick<Stores, 'sandboxes' | 'conversations' | 'templates'>;
  readonly clock: Clock;
  readonly metrics: Pick<Metrics, 'quotaSlots'>;
  /** Queues of the controllers that decide, read the API server, and write quota statuses. */
  readonly channels: AdmissionChannels;
}

/** Delay before the status of a quota is written; changes in the meantime join the same write. */
export const quotaStatusDelayMs = 500;

interface Namespace {
  readonly snapshot: Snapshot;
  readonly quotas: ActiveQuotas;
}

const isSameSlot = (one: Slot, other: Slot): boolean =>
  (Object.keys(one) as (keyof Slot)[]).every(
    (key) =>
      one[key] === other[key] || (key === 'expiry' && isDeepStrictEqual(one[key], other[key])),
  );

/** Fields of a slot whose true state is unknown, so that admission makes no decision on it. */
const undecidable = { releasable: false, expiry: undefined, undecided: false } as const;

const orphanedUid = (sandboxUid: string): string => `orphaned/${sandboxUid}`;

const states = ['active', 'waiting', 'paused'] as const;

const stateOf = ({ state, taken }: Slot): (typeof states)[number] | undefined => {
  if (taken) return 'active';
  if (state === 'waiting') return 'waiting';
  return state === 'resumable' ? 'paused' : undefined;
};

/**
 * The state on which admission decides: the newest known version of every sandbox and quota, from
 * watches, from reads, and from the operator's own writes. No decision waits for a read. A write
 * counts from the moment when it is sent, like an assumed pod in kube-scheduler. A write of unknown
 * outcome, and a pod that may still exist, count as a taken slot until a read shows the outcome.
 */
export class AdmissionCache {
  readonly #options: AdmissionCacheOptions;
  /** Difference between the wall clock and the monotonic clock when this process began. */
  readonly #offsetMs: number;
  readonly #classifier: SandboxClassifier;
  readonly #namespaces = new Map<string, Namespace>();
  readonly #sandboxes = new Map<string, Sandbox>();
  readonly #assumed = new Map<string, Assumed>();
  /** Deleted sandboxes whose pods may still exist, by namespace and name. */
  readonly #orphaned = new Map<string, readonly Sandbox[]>();
  readonly limits: StoredLimits;

  constructor(options: AdmissionCacheOptions) {
    const { stores, clock, metrics } = options;
    this.#options = options;
    this.#offsetMs = clock.now() - clock.monotonic();
    this.#classifier = new SandboxClassifier({ stores, clock, offsetMs: this.#offsetMs });
    for (const state of states) metrics.quotaSlots.set({ state }, 0);
    this.limits = new StoredLimits({
      snapshot: (namespace) => this.snapshot(namespace),
      onChange: (namespace, owner, delayMs) => this.#enqueueQuotasOf(namespace, owner, delayMs),
    });
  }

  /** Milliseconds since 1970, by a clock that never jumps. */
  now(): number {
    return this.#options.clock.monotonic() + this.#offsetMs;
  }

  /** Applies the known quotas to the snapshot of a namespace, and returns the snapshot. */
  snapshot(name: string): Snapshot {
    const { snapshot, quotas } = this.#namespace(name);
    const changed = quotas.takeChanged(this.now());
    if (changed !== undefined) snapshot.setRules(quotaRules(changed), quotaCaps(changed));
    this.#prune(name);
    return snapshot;
  }

  get namespaces(): Iterable<string> {
    return this.#namespaces.keys();
  }

  sandbox(uid: string): Sandbox | undefined {
    return this.#sandboxes.get(uid);
  }

  assumed(uid: string): Assumed | undefined {
    return this.#assumed.get(uid);
  }

  /** Whether this is the newest known version of the sandbox, and none of its writes is pending. */
  isNewest({ metadata: { uid, resourceVersion } }: Sandbox): boolean {
    return (
      !this.#assumed.has(uid) &&
      this.#sandboxes.get(uid)?.metadata.resourceVersion === resourceVersion
    );
  }

  conversationsOf(sandbox: Sandbox): readonly CachedConversation[] {
    return this.#classifier.conversationsOf(sandbox);
  }

  observe(sandbox: Sandbox): void {
    this.#takeOver(sandbox);
    this.#enqueue(sandbox.metadata.namespace);
  }

  /**
   * Stores a version of a sandbox, unless the version is older than the known one. A newer version
   * ends the assumption about an earlier write, except about a write in flight.
   */
  #takeOver(sandbox: Sandbox): void {
    const { uid, resourceVersion } = sandbox.metadata;
    const known = this.#sandboxes.get(uid);
    if (known !== undefined && !isNewerVersion(sandbox, known)) {
      // The object of a watch replaces an equal object of a response, to keep only one in memory.
      if (this.#assumed.has(uid) || known.metadata.resourceVersion !== resourceVersion) return;
      if (known === sandbox) return;
    }
    this.#sandboxes.set(uid, sandbox);
    if (this.#assumed.get(uid)?.until !== Infinity) this.#assumed.delete(uid);
    this.#reclassify(uid);
  }

  /** Removes a deleted sandbox. The slot stays taken until a read shows that the pod is gone. */
  forget(deleted: Sandbox): void {
    const { uid, namespace } = deleted.metadata;
    const known = this.#sandboxes.get(uid) ?? deleted;
    const isTaken =
      slotTaken(known) || slotTaken(deleted) || this.#assumed.get(uid)?.taken === true;
    this.#sandboxes.delete(uid);
    this.#assumed.delete(uid);
    // The orphaned slot is added before the slot is removed, so that the slot never counts as free.
    if (isTaken) this.addOrphaned(known);
    this.#remove(namespace, uid);
    this.#enqueue(namespace);
  }

  /** Keeps the slot of a deleted sandbox whose pod may still exist, and requests a pod read. */
  addOrphaned(sandbox: Sandbox): void {
    const { namespace, name, uid } = sandbox.metadata;
    this.#orphaned.set(`${namespace}/${name}`, [...this.#othersThan(sandbox), sandbox]);
    this.#options.channels.lookup.enqueue({ namespace, name: `pod/${name}` });
    this.#put({
      ...this.#classifier.classify(sandbox),
      uid: orphanedUid(uid),
      state: 'freeing',
      taken: true,
      stored: false,
      ...undecidable,
    });
  }

  removeOrphaned(sandbox: Sandbox): void {
    const { namespace, name, uid } = sandbox.metadata;
    const others = this.#othersThan(sandbox);
    if (others.length > 0) this.#orphaned.set(`${namespace}/${name}`, others);
    else this.#orphaned.delete(`${namespace}/${name}`);
    this.#remove(namespace, orphanedUid(uid));
  }

  /** Deleted sandboxes whose slots stay taken because of the pod of this name. */
  orphanedBy(namespace: string, podName: string): readonly Sandbox[] {
    return this.#orphaned.get(`${namespace}/${podName}`) ?? [];
  }

  #othersThan({ metadata: { namespace, name, uid } }: Sandbox): readonly Sandbox[] {
    return this.orphanedBy(namespace, name).filter(({ metadata }) => metadata.uid !== uid);
  }

  observeConversation(conversation: CachedConversation): void {
    this.limits.observe(conversation);
    this.#reclassifySandboxesOf(conversation);
  }

  forgetConversation(conversation: CachedConversation): void {
    this.limits.forget(conversation);
    this.#classifier.forgetConversation(conversation);
    this.#reclassifySandboxesOf(conversation);
  }

  #reclassifySandboxesOf({ metadata, spec, status }: CachedConversation): void {
    const { namespace, uid } = metadata;
    // The owner references of a sandbox name a conversation before the status of the conversation
    // names the sandbox.
    const { sandboxes } = this.#options.stores;
    const named = [spec.sandboxName, status?.sandboxName].flatMap((name) =>
      name === undefined ? [] : (sandboxes.get(namespace, name) ?? []),
    );
    for (const sandbox of new Set([...sandboxes.byIndex(byNamed, uid), ...named]))
      this.#reclassify(sandbox.metadata.uid);
    this.#enqueue(namespace);
  }

  observeTemplate({ metadata: { namespace, name } }: SandboxTemplate): void {
    const { sandboxes } = this.#options.stores;
    for (const sandbox of sandboxes.byIndex(byTemplate, `${namespace}/${name}`))
      this.#reclassify(sandbox.metadata.uid);
    this.#enqueue(namespace);
  }

  observeQuota(quota: ConversationQuota): void {
    const { namespace } = quota.metadata;
    if (this.#namespace(namespace).quotas.observe(quota)) this.rulesChanged(namespace);
  }

  forgetQuota(quota: ConversationQuota): void {
    const { namespace } = quota.metadata;
    const { snapshot, quotas } = this.#namespace(namespace);
    const now = this.now();
    if (quotas.delete(quota, now)) snapshot.quotaDeleted(now);
    this.rulesChanged(namespace);
  }

  /** Time at which the grace period of a deleted quota in the namespace ends; Infinity: never. */
  rulesChangeAt(namespace: string): number {
    return this.#namespace(namespace).quotas.nextChangeAt;
  }

  rulesChanged(namespace: string): void {
    for (const { metadata } of this.#namespace(namespace).quotas.values())
      this.#enqueueQuota(namespace, metadata.name);
    this.#enqueue(namespace);
  }

  /**
   * Counts a sandbox with the outcome of a write that is sent now, and keeps the sandbox from other
   * decisions until `confirm`, `assume` or `notExecuted` is called. `claimant` is the conversation
   * to which this write assigns a warm sandbox.
   */
  sent(sandbox: Sandbox, outcome: Outcome, claimant?: CachedConversation): void {
    if (claimant !== undefined) this.limits.claimed(sandbox, claimant);
    this.assume(sandbox, { ...outcome, until: Infinity });
  }

  /** Stores the response to a write, unless a watch has shown the deletion of the sandbox. */
  confirm(answer: Sandbox): void {
    if (!this.#sandboxes.has(answer.metadata.uid)) return;
    this.#takeOver(answer);
    this.notExecuted(answer);
  }

  /** Ends the assumption about a write that was not executed, or whose response is stored. */
  notExecuted({ metadata: { uid } }: Sandbox): void {
    if (this.#assumed.delete(uid)) this.#reclassify(uid);
  }

  /**
   * Assumes the outcome of a write based on this version, unless a newer version is known. The
   * assumption ends with a newer version, or with a read after `until`.
   */
  assume(sandbox: Sandbox, outcome: Omit<Assumed, 'sandbox'>): void {
    const { namespace, uid } = sandbox.metadata;
    const known = this.#sandboxes.get(uid);
    if (known === undefined || isNewerVersion(known, sandbox)) {
      this.notExecuted(sandbox);
      return;
    }
    this.#sandboxes.set(uid, sandbox);
    this.#assumed.set(uid, { sandbox, ...outcome });
    this.#reclassify(uid);
    if (outcome.until < Infinity)
      this.#options.channels.lookup.enqueue({ namespace, name: `object/${uid}` });
  }

  #reclassify(uid: string): void {
    const sandbox = this.#sandboxes.get(uid);
    if (sandbox === undefined) return;
    const slot = this.#classifier.classify(sandbox);
    const assumed = this.#assumed.get(uid);
    if (assumed === undefined) this.#put(slot);
    else {
      const { state, taken, owner } = assumed;
      const claimed = owner === undefined ? {} : { owner, warmSandbox: false };
      this.#put({ ...slot, ...claimed, state, taken: taken || slot.taken, ...undecidable });
    }
  }

  #put(slot: Slot): void {
    const { snapshot } = this.#namespace(slot.sandbox.metadata.namespace);
    const before = snapshot.slot(slot.uid);
    if (before !== undefined && isSameSlot(before, slot)) return;
    snapshot.put(slot);
    this.#count(before, slot);
    this.#slotChanged(slot, { isGone: false });
    if (before !== undefined && before.owner !== slot.owner)
      this.#enqueueQuotasOf(slot.sandbox.metadata.namespace, before.owner);
  }

  #remove(namespace: string, uid: string): void {
    const before = this.#namespace(namespace).snapshot.remove(uid);
    if (before !== undefined) {
      this.#count(before, undefined);
      this.#slotChanged(before, { isGone: true });
    }
    this.#prune(namespace);
  }

  #slotChanged(slot: Slot, change: { readonly isGone: boolean }): void {
    this.limits.slotChanged(slot, change);
    this.#enqueueQuotasOf(slot.sandbox.metadata.namespace, slot.owner);
  }

  /** Updates the gauge of slots by state. */
  #count(before: Slot | undefined, after: Slot | undefined): void {
    const { quotaSlots } = this.#options.metrics;
    const old = before && stateOf(before);
    const state = after && stateOf(after);
    if (old === state) return;
    if (old !== undefined) quotaSlots.dec({ state: old });
    if (state !== undefined) quotaSlots.inc({ state });
  }

  #enqueueQuotasOf(namespace: string, owner: string, delayMs?: number): void {
    const { rules } = this.snapshot(namespace);
    for (const rule of [ownerRule(rules, owner), rules.namespace]) {
      if (rule === undefined) continue;
      // Quotas in conflict have the same scope, so the statuses of all of them count this slot.
      for (const name of rules.conflicts.get(rule.quotaName) ?? [rule.quotaName])
        this.#enqueueQuota(namespace, name, delayMs);
    }
  }

  #enqueueQuota(namespace: string, name: string, delayMs = quotaStatusDelayMs): void {
    this.#options.channels.quota.enqueue({ namespace, name }, delayMs);
  }

  #enqueue(namespace: string): void {
    this.#options.channels.admission.enqueue({ namespace, name: '' });
  }

  #namespace(name: string): Namespace {
    let namespace = this.#namespaces.get(name);
    if (namespace === undefined) {
      namespace = { snapshot: new Snapshot(), quotas: new ActiveQuotas() };
      this.#namespaces.set(name, namespace);
    }
    return namespace;
  }

  /** Forgets a namespace without sandboxes and quotas, and the rate limit of its resumes. */
  #prune(name: string): void {
    const { snapshot, quotas } = this.#namespace(name);
    if (snapshot.size === 0 && quotas.isEmpty) this.#namespaces.delete(name);
  }
}
