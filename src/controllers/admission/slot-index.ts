import { isDeepStrictEqual } from 'node:util';
import { isNewerVersion } from '@conversation-operator/kube/object';
import { ActiveQuotas } from '../../quota/active-quotas.ts';
import { Snapshot } from '../../quota/snapshot.ts';
import type { Slot, SlotState } from '../../quota/slot.ts';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { quotaCaps } from '../../resources/quota-caps.ts';
import { quotaRules } from '../../resources/quota-rules.ts';
import { slotTaken, type Sandbox } from '../../resources/sandbox.ts';

/** A sandbox whose last write is in flight, has an unknown outcome, or was refused. */
export interface Assumed {
  readonly sandbox: Sandbox;
  readonly state: SlotState;
  readonly taken: boolean;
  /**
   * Time by the monotonic clock after which the API server no longer executes the write; Infinity:
   * the write is in flight.
   */
  readonly until: number;
  /** The owner that the write gives to a spare. Absent: the owner stays. */
  readonly owner?: string;
}

/** The slot of a deleted sandbox whose pod may still exist. */
export interface OrphanedSlot {
  readonly sandboxUid: string;
  readonly namespace: string;
  readonly podName: string;
}

interface Namespace {
  readonly snapshot: Snapshot;
  readonly quotas: ActiveQuotas;
  /** Orphaned slots by the names of their pods. */
  readonly orphaned: Map<string, readonly OrphanedSlot[]>;
}

export interface SlotIndexOptions {
  /** Milliseconds of a clock that never goes back. */
  readonly now: () => number;
  readonly classify: (sandbox: Sandbox) => Slot;
  /**
   * Called after every change of a slot; undefined is a slot that does not exist. An orphaned slot
   * has the state freeing.
   */
  readonly onChange: (namespace: string, before: Slot | undefined, after: Slot | undefined) => void;
  /** Called for a pod that has to be read from the API server. */
  readonly onOrphaned: (slot: OrphanedSlot) => void;
}

const isSameSlot = (one: Slot, other: Slot): boolean =>
  (Object.keys(one) as (keyof Slot)[]).every(
    (key) =>
      one[key] === other[key] || (key === 'expiry' && isDeepStrictEqual(one[key], other[key])),
  );

/** An assumed or orphaned slot needs no decision. */
const undecidable = { releasable: false, expiry: undefined, undecided: false } as const;

const orphanedUid = (sandboxUid: string): string => `orphaned/${sandboxUid}`;

/**
 * The newest known version of every sandbox and quota, from watches, from reads, and from the
 * operator's own writes. A write counts from its answer on, before a watch shows it, like a pod
 * that kube-scheduler assumes.
 */
export class SlotIndex {
  readonly #options: SlotIndexOptions;
  readonly #namespaces = new Map<string, Namespace>();
  /** Sandboxes by uid. */
  readonly #sandboxes = new Map<string, Sandbox>();
  /** Assumed writes by the uid of their sandbox. */
  readonly #assumed = new Map<string, Assumed>();

  constructor(options: SlotIndexOptions) {
    this.#options = options;
  }

  /** The snapshot of a namespace, under the rules of the quotas that are known now. */
  snapshot(namespace: string): Snapshot {
    const { snapshot, quotas } = this.#namespace(namespace);
    const changed = quotas.takeChanged(this.#options.now());
    if (changed !== undefined) snapshot.setRules(quotaRules(changed), quotaCaps(changed));
    this.#prune(namespace);
    return snapshot;
  }

  /** Time when the rules of a namespace change without any event; Infinity: never. */
  rulesChangeAt(namespace: string): number {
    return this.#namespace(namespace).quotas.nextChangeAt;
  }

  get namespaces(): Iterable<string> {
    return this.#namespaces.keys();
  }

  sandbox(uid: string): Sandbox | undefined {
    return this.#sandboxes.get(uid);
  }

  sandboxes(): Iterable<Sandbox> {
    return this.#sandboxes.values();
  }

  quotas(namespace: string): Iterable<ConversationQuota> {
    return this.#namespace(namespace).quotas.values();
  }

  assumed(uid: string): Assumed | undefined {
    return this.#assumed.get(uid);
  }

  orphanedSlots(namespace: string, podName: string): readonly OrphanedSlot[] {
    return this.#namespace(namespace).orphaned.get(podName) ?? [];
  }

  /**
   * Takes over a version of a sandbox. Older versions change nothing; a newer one shows the outcome
   * of every earlier write. A write in flight keeps its sandbox from other decisions all the same.
   */
  observe(sandbox: Sandbox): void {
    const { uid } = sandbox.metadata;
    const known = this.#sandboxes.get(uid);
    if (known !== undefined && !isNewerVersion(sandbox, known)) {
      // The object of the cache replaces the one of an answer, so that memory holds one of them.
      if (
        this.#assumed.has(uid) ||
        known.metadata.resourceVersion !== sandbox.metadata.resourceVersion
      )
        return;
      if (known === sandbox) return;
    }
    this.#sandboxes.set(uid, sandbox);
    if (this.#assumed.get(uid)?.until !== Infinity) this.#assumed.delete(uid);
    this.reclassify(uid);
  }

  /** Classifies a sandbox again after a change of another object. */
  reclassify(uid: string): void {
    const sandbox = this.#sandboxes.get(uid);
    if (sandbox === undefined) return;
    const assumed = this.#assumed.get(uid);
    const slot = this.#options.classify(sandbox);
    this.#put(
      sandbox.metadata.namespace,
      assumed === undefined
        ? slot
        : {
            ...slot,
            state: assumed.state,
            taken: assumed.taken || slot.taken,
            ...(assumed.owner === undefined ? {} : { owner: assumed.owner, spare: false }),
            ...undecidable,
          },
    );
  }

  /**
   * Assumes an outcome of a write of this version, unless a watch has shown a newer version
   * meanwhile.
   */
  assume(sandbox: Sandbox, outcome: Omit<Assumed, 'sandbox'>): void {
    const { uid } = sandbox.metadata;
    const known = this.#sandboxes.get(uid);
    if (known === undefined || isNewerVersion(known, sandbox)) return;
    this.#sandboxes.set(uid, sandbox);
    this.#assumed.set(uid, { sandbox, ...outcome });
    this.reclassify(uid);
  }

  /** Forgets what was assumed of a write: its outcome is known. */
  forgetAssumed(uid: string): void {
    if (this.#assumed.delete(uid)) this.reclassify(uid);
  }

  /**
   * Removes a deleted sandbox. Its slot stays taken until a read has shown that its pod is gone.
   */
  forget(deleted: Sandbox): void {
    const { uid, name, namespace } = deleted.metadata;
    const known = this.#sandboxes.get(uid) ?? deleted;
    const isTaken =
      slotTaken(known) || slotTaken(deleted) || this.#assumed.get(uid)?.taken === true;
    this.#sandboxes.delete(uid);
    this.#assumed.delete(uid);
    // Before the slot is removed: in between, the slot must not seem free.
    if (isTaken) this.addOrphaned({ sandboxUid: uid, namespace, podName: name }, known);
    this.#remove(namespace, uid);
  }

  addOrphaned(orphaned: OrphanedSlot, sandbox: Sandbox): void {
    const { namespace, podName, sandboxUid } = orphaned;
    this.#namespace(namespace).orphaned.set(podName, [...this.#othersThan(orphaned), orphaned]);
    this.#options.onOrphaned(orphaned);
    const slot = this.#options.classify(sandbox);
    this.#put(namespace, {
      ...slot,
      uid: orphanedUid(sandboxUid),
      state: 'freeing',
      taken: true,
      stored: false,
      ...undecidable,
    });
  }

  removeOrphaned(orphaned: OrphanedSlot): void {
    const { namespace, podName, sandboxUid } = orphaned;
    const others = this.#othersThan(orphaned);
    if (others.length > 0) this.#namespace(namespace).orphaned.set(podName, others);
    else this.#namespace(namespace).orphaned.delete(podName);
    this.#remove(namespace, orphanedUid(sandboxUid));
  }

  #othersThan({ namespace, podName, sandboxUid }: OrphanedSlot): readonly OrphanedSlot[] {
    return this.orphanedSlots(namespace, podName).filter(
      (other) => other.sandboxUid !== sandboxUid,
    );
  }

  /** Returns whether the rules may have changed. */
  observeQuota(quota: ConversationQuota): boolean {
    return this.#namespace(quota.metadata.namespace).quotas.observe(quota);
  }

  forgetQuota(quota: ConversationQuota): void {
    const { snapshot, quotas } = this.#namespace(quota.metadata.namespace);
    const now = this.#options.now();
    if (quotas.delete(quota, now)) snapshot.quotaDeleted(now);
  }

  #put(namespace: string, slot: Slot): void {
    const { snapshot } = this.#namespace(namespace);
    const before = snapshot.slot(slot.uid);
    if (before !== undefined && isSameSlot(before, slot)) return;
    snapshot.put(slot);
    this.#options.onChange(namespace, before, slot);
  }

  #remove(namespace: string, uid: string): void {
    const before = this.#namespace(namespace).snapshot.remove(uid);
    if (before !== undefined) this.#options.onChange(namespace, before, undefined);
    this.#prune(namespace);
  }

  /** Forgets a namespace without sandboxes and quotas. Its automatic resumes begin at full rate. */
  #prune(name: string): void {
    const { snapshot, quotas } = this.#namespace(name);
    if (snapshot.size === 0 && quotas.isEmpty) this.#namespaces.delete(name);
  }

  #namespace(name: string): Namespace {
    let namespace = this.#namespaces.get(name);
    if (namespace === undefined) {
      namespace = { snapshot: new Snapshot(), quotas: new ActiveQuotas(), orphaned: new Map() };
      this.#namespaces.set(name, namespace);
    }
    return namespace;
  }
}
