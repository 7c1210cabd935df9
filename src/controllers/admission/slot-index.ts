import { isDeepStrictEqual } from 'node:util';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { isNewerVersion } from '@conversation-operator/kube/object';
import { quotaCaps } from '../../resources/quota-caps.ts';
import { quotaRules } from '../../resources/quota-rules.ts';
import { slotTaken, type Sandbox } from '../../resources/sandbox.ts';
import { AdmissionQueue } from '../../quota/admission-queue.ts';
import type { Slot, SlotState } from '../../quota/slot.ts';

/** A sandbox of which it is not known what became of the last write, or that can't be written for now. */
export interface Assumed {
  readonly sandbox: Sandbox;
  /** What it counts as meanwhile. */
  readonly state: SlotState;
  readonly taken: boolean;
  /** By the monotonic clock: from then on the write has been executed or never will be. */
  readonly until: number;
}

/** A slot of a sandbox that is gone, whose pod may not be. */
export interface OrphanedSlot {
  readonly sandboxUid: string;
  readonly namespace: string;
  readonly podName: string;
}

interface Namespace {
  readonly queue: AdmissionQueue;
  readonly quotas: Map<string, ConversationQuota>;
  /** Quotas that are gone, by name: each holds on for a moment, because another one may take its place. */
  readonly vanished: Map<string, Vanished>;
  /** By the names of their pods. */
  readonly orphaned: Map<string, readonly OrphanedSlot[]>;
  /** The rules have to be made again of the quotas. */
  stale: boolean;
}

interface Vanished {
  readonly quota: ConversationQuota;
  readonly until: number;
}

/** `kubectl replace --force`, and tools that delete and create, are done in less. */
const replacementMs = 5_000;

export interface SlotIndexOptions {
  /** By a clock that never goes back. */
  readonly now: () => number;
  readonly classify: (sandbox: Sandbox) => Slot;
  /** A slot has become another. Of a leftover both have the state freeing. */
  readonly onChange: (namespace: string, before: Slot | undefined, after: Slot | undefined) => void;
  /** A pod of a sandbox that is gone has to be asked for. */
  readonly onOrphaned: (leftover: OrphanedSlot) => void;
}

/** Of the very same version of the sandbox, with nothing else that is different. */
const isSameSlot = (one: Slot, other: Slot): boolean =>
  (Object.keys(one) as (keyof Slot)[]).every(
    (key) => one[key] === other[key] || (key === 'expiry' && isDeepStrictEqual(one[key], other[key])),
  );

/** Nothing is to be decided of it. */
const decidedOn = { releasable: false, expiry: undefined, undecided: false } as const;

const isForTheSame = ({ spec }: ConversationQuota, other: ConversationQuota): boolean =>
  spec.scope === other.spec.scope && spec.owner === other.spec.owner;

/** Whoever comes waits until it is clear that the quota is gone; nobody is paused or refused for one that is. */
const letWait = (quota: ConversationQuota): ConversationQuota => ({ ...quota, spec: { ...quota.spec, onExceeded: 'Queue' } });

const orphanedUid = (sandboxUid: string): string => `leftover/${sandboxUid}`;

/**
 * The newest that is known of every sandbox and quota, from watches, from reads and from what was written here, whichever came
 * last. So what was written counts from then on, not from when a watch shows it.
 */
export class SlotIndex {
  readonly #options: SlotIndexOptions;
  readonly #namespaces = new Map<string, Namespace>();
  /** By uid. */
  readonly #known = new Map<string, Sandbox>();
  /** By uid, of the known ones. Apart, since most are settled. */
  readonly #assumed = new Map<string, Assumed>();

  constructor(options: SlotIndexOptions) {
    this.#options = options;
  }

  /** Under the rules of the quotas that are known now: made once for any number of changes. */
  queue(namespace: string): AdmissionQueue {
    const entry = this.#namespace(namespace);
    const now = this.#options.now();
    for (const [name, { until }] of entry.vanished) {
      if (until > now) continue;
      entry.vanished.delete(name);
      entry.stale = true;
    }
    if (entry.stale) {
      entry.stale = false;
      const quotas = [...entry.quotas.values()];
      const holdingOn = [...entry.vanished.values()].filter((gone) => !quotas.some((quota) => isForTheSame(quota, gone.quota)));
      const all = [...quotas, ...holdingOn.map(({ quota }) => letWait(quota))];
      entry.queue.setRules(quotaRules(all), quotaCaps(all));
    }
    return entry.queue;
  }

  /** When the rules of a namespace change by time alone. */
  rulesChangeAt(namespace: string): number {
    return Math.min(Infinity, ...[...this.#namespace(namespace).vanished.values()].map(({ until }) => until));
  }

  get namespaces(): Iterable<string> {
    return this.#namespaces.keys();
  }

  sandbox(uid: string): Sandbox | undefined {
    return this.#known.get(uid);
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

  /** Older versions than the one that is known change nothing. A newer one says what became of every earlier write. */
  observe(sandbox: Sandbox): void {
    const { uid } = sandbox.metadata;
    const known = this.#known.get(uid);
    if (known !== undefined && !isNewerVersion(sandbox, known)) {
      // The copy of the cache takes the place of an answer's: one of them is enough.
      if (this.#assumed.has(uid) || known.metadata.resourceVersion !== sandbox.metadata.resourceVersion) return;
      if (known === sandbox) return;
    }
    this.#known.set(uid, sandbox);
    this.#assumed.delete(uid);
    this.reclassify(uid);
  }

  /** What is known of it otherwise has changed. */
  reclassify(uid: string): void {
    const sandbox = this.#known.get(uid);
    if (sandbox === undefined) return;
    const unsettled = this.#assumed.get(uid);
    const slot = this.#options.classify(sandbox);
    this.#put(
      sandbox.metadata.namespace,
      unsettled === undefined ? slot : { ...slot, state: unsettled.state, taken: unsettled.taken || slot.taken, ...decidedOn },
    );
  }

  assume(sandbox: Sandbox, unsettled: Pick<Assumed, 'state' | 'taken' | 'until'>): void {
    const { uid } = sandbox.metadata;
    const known = this.#known.get(uid);
    // What the watch has shown meanwhile is the outcome.
    if (known === undefined || isNewerVersion(known, sandbox)) return;
    this.#known.set(uid, sandbox);
    this.#assumed.set(uid, { sandbox, ...unsettled });
    this.reclassify(uid);
  }

  forgetAssumed(sandbox: Sandbox): void {
    const { uid } = sandbox.metadata;
    if (!this.#assumed.delete(uid)) return;
    this.#known.set(uid, sandbox);
    this.reclassify(uid);
  }

  /** It does not exist any more. Its pod may: the slot stays taken until somebody has looked. */
  forget(gone: Sandbox): void {
    const { uid, name, namespace } = gone.metadata;
    const known = this.#known.get(uid) ?? gone;
    const unsettled = this.#assumed.get(uid);
    this.#known.delete(uid);
    this.#assumed.delete(uid);
    const entry = this.#namespace(namespace);
    const taken = slotTaken(known) || slotTaken(gone) || unsettled?.taken === true;
    // First the one, then the other: in between it must not seem free.
    if (taken) this.addOrphaned({ sandboxUid: uid, namespace, podName: name }, known);
    const before = entry.queue.remove(uid);
    if (before !== undefined) this.#options.onChange(namespace, before, undefined);
  }

  addOrphaned(leftover: OrphanedSlot, sandbox: Sandbox): void {
    const { namespace, podName, sandboxUid } = leftover;
    const others = this.orphanedSlots(namespace, podName).filter((other) => other.sandboxUid !== sandboxUid);
    this.#namespace(namespace).orphaned.set(podName, [...others, leftover]);
    this.#options.onOrphaned(leftover);
    const slot = this.#options.classify(sandbox);
    const uid = orphanedUid(sandboxUid);
    this.#put(namespace, { ...slot, uid, state: 'freeing', taken: true, stored: false, ...decidedOn });
  }

  removeOrphaned({ namespace, podName, sandboxUid }: OrphanedSlot): void {
    const entry = this.#namespace(namespace);
    const others = this.orphanedSlots(namespace, podName).filter((other) => other.sandboxUid !== sandboxUid);
    if (others.length > 0) entry.orphaned.set(podName, others);
    else entry.orphaned.delete(podName);
    const before = entry.queue.remove(orphanedUid(sandboxUid));
    if (before !== undefined) this.#options.onChange(namespace, before, undefined);
  }

  /** Returns whether other rules follow from it. */
  observeQuota(quota: ConversationQuota): boolean {
    const { uid, namespace } = quota.metadata;
    const entry = this.#namespace(namespace);
    const known = entry.quotas.get(uid);
    if (known !== undefined && !isNewerVersion(quota, known)) return false;
    entry.quotas.set(uid, quota);
    if (known !== undefined && known.metadata.generation === quota.metadata.generation) return false;
    entry.stale = true;
    return true;
  }

  forgetQuota({ metadata: { uid, name, namespace } }: ConversationQuota): void {
    const entry = this.#namespace(namespace);
    const quota = entry.quotas.get(uid);
    if (quota === undefined) return;
    entry.quotas.delete(uid);
    entry.stale = true;
    const now = this.#options.now();
    entry.queue.quotaDeleted(now);
    entry.vanished.set(name, { quota, until: now + replacementMs });
  }

  #put(namespace: string, slot: Slot): void {
    const { queue: domain } = this.#namespace(namespace);
    const before = domain.slot(slot.uid);
    if (before !== undefined && isSameSlot(before, slot)) return;
    domain.put(slot);
    this.#options.onChange(namespace, before, slot);
  }

  #namespace(name: string): Namespace {
    let entry = this.#namespaces.get(name);
    if (entry === undefined) {
      entry = { queue: new AdmissionQueue(), quotas: new Map(), vanished: new Map(), orphaned: new Map(), stale: false };
      this.#namespaces.set(name, entry);
    }
    return entry;
  }
}
