import { isDeepStrictEqual } from 'node:util';
import type { ConversationQuota } from '../../resources/conversation-quota.ts';
import { isNewerVersion } from '../../resources/object.ts';
import { quotaRules } from '../../resources/quota-rules.ts';
import { slotTaken, type Sandbox } from '../../resources/sandbox.ts';
import { Domain } from './domain.ts';
import type { Slot, SlotState } from '../../quota/slot.ts';

/** A sandbox of which it is not known what became of the last write, or that can't be written for now. */
export interface Unsettled {
  readonly sandbox: Sandbox;
  /** What it counts as meanwhile. */
  readonly state: SlotState;
  readonly taken: boolean;
  /** By the monotonic clock: from then on the write has been executed or never will be. */
  readonly until: number;
}

interface Known {
  readonly sandbox: Sandbox;
  readonly unsettled?: Unsettled;
}

/** A slot of a sandbox that is gone, whose pod may not be. */
export interface Leftover {
  readonly sandboxUid: string;
  readonly namespace: string;
  readonly podName: string;
}

interface Namespace {
  readonly domain: Domain;
  readonly quotas: Map<string, ConversationQuota>;
  readonly unsettled: Map<string, Unsettled>;
  readonly leftovers: Map<string, Leftover>;
  /** The rules have to be made again of the quotas. */
  stale: boolean;
}

export interface SlotIndexOptions {
  readonly classify: (sandbox: Sandbox) => Slot;
  /** A slot has become another. Of a leftover both have the state freeing. */
  readonly onChange: (namespace: string, before: Slot | undefined, after: Slot | undefined) => void;
}

/** Of the very same version of the sandbox, with nothing else that is different. */
const isSameSlot = (one: Slot, other: Slot): boolean =>
  (Object.keys(one) as (keyof Slot)[]).every(
    (key) => one[key] === other[key] || (key === 'expiry' && isDeepStrictEqual(one[key], other[key])),
  );

const leftoverUid = (sandboxUid: string): string => `leftover/${sandboxUid}`;

/**
 * The newest that is known of every sandbox and quota, from watches, from reads and from what was written here, whichever came
 * last. So what was written counts from then on, not from when a watch shows it.
 */
export class SlotIndex {
  readonly #options: SlotIndexOptions;
  readonly #namespaces = new Map<string, Namespace>();
  readonly #known = new Map<string, Known>();

  constructor(options: SlotIndexOptions) {
    this.#options = options;
  }

  /** Under the rules of the quotas that are known now: made once for any number of changes. */
  domain(namespace: string): Domain {
    const entry = this.#namespace(namespace);
    if (entry.stale) {
      entry.stale = false;
      entry.domain.setRules(quotaRules([...entry.quotas.values()]));
    }
    return entry.domain;
  }

  get namespaces(): Iterable<string> {
    return this.#namespaces.keys();
  }

  sandbox(uid: string): Sandbox | undefined {
    return this.#known.get(uid)?.sandbox;
  }

  quotas(namespace: string): Iterable<ConversationQuota> {
    return this.#namespace(namespace).quotas.values();
  }

  unsettled(namespace: string): readonly Unsettled[] {
    return [...this.#namespace(namespace).unsettled.values()];
  }

  leftovers(namespace: string): readonly Leftover[] {
    return [...this.#namespace(namespace).leftovers.values()];
  }

  /** Older versions than the one that is known change nothing. A newer one says what became of every earlier write. */
  observe(sandbox: Sandbox): void {
    const { uid } = sandbox.metadata;
    const known = this.#known.get(uid);
    if (known !== undefined && !isNewerVersion(sandbox, known.sandbox)) {
      // The copy of the cache takes the place of an answer's: one of them is enough.
      if (known.unsettled !== undefined || known.sandbox.metadata.resourceVersion !== sandbox.metadata.resourceVersion) return;
      if (known.sandbox === sandbox) return;
    }
    this.#known.set(uid, { sandbox });
    this.#namespaceOf(sandbox).unsettled.delete(uid);
    this.reclassify(uid);
  }

  /** What is known of it otherwise has changed. */
  reclassify(uid: string): void {
    const known = this.#known.get(uid);
    if (known === undefined) return;
    const { sandbox, unsettled } = known;
    const slot = this.#options.classify(sandbox);
    this.#put(
      sandbox.metadata.namespace,
      unsettled === undefined
        ? slot
        : { ...slot, state: unsettled.state, taken: unsettled.taken || slot.taken, releasable: false, expiry: undefined },
    );
  }

  unsettle(sandbox: Sandbox, unsettled: Pick<Unsettled, 'state' | 'taken' | 'until'>): void {
    const { uid } = sandbox.metadata;
    const known = this.#known.get(uid);
    // What the watch has shown meanwhile is the outcome.
    if (known === undefined || isNewerVersion(known.sandbox, sandbox)) return;
    const entry = { sandbox, ...unsettled };
    this.#known.set(uid, { sandbox, unsettled: entry });
    this.#namespaceOf(sandbox).unsettled.set(uid, entry);
    this.reclassify(uid);
  }

  settle(sandbox: Sandbox): void {
    const { uid } = sandbox.metadata;
    if (!this.#namespaceOf(sandbox).unsettled.delete(uid)) return;
    this.#known.set(uid, { sandbox });
    this.reclassify(uid);
  }

  /** It does not exist any more. Its pod may: the slot stays taken until somebody has looked. */
  forget(gone: Sandbox): void {
    const { uid, name, namespace } = gone.metadata;
    const known = this.#known.get(uid) ?? { sandbox: gone };
    this.#known.delete(uid);
    const entry = this.#namespace(namespace);
    entry.unsettled.delete(uid);
    const taken = slotTaken(known.sandbox) || slotTaken(gone) || known.unsettled?.taken === true;
    // First the one, then the other: in between it must not seem free.
    if (taken) this.addLeftover({ sandboxUid: uid, namespace, podName: name }, known.sandbox);
    const before = entry.domain.remove(uid);
    if (before !== undefined) this.#options.onChange(namespace, before, undefined);
  }

  addLeftover(leftover: Leftover, sandbox: Sandbox): void {
    this.#namespace(leftover.namespace).leftovers.set(leftover.sandboxUid, leftover);
    const slot = this.#options.classify(sandbox);
    const uid = leftoverUid(leftover.sandboxUid);
    this.#put(leftover.namespace, { ...slot, uid, state: 'freeing', taken: true, releasable: false, expiry: undefined });
  }

  removeLeftover({ namespace, sandboxUid }: Leftover): void {
    const entry = this.#namespace(namespace);
    entry.leftovers.delete(sandboxUid);
    const before = entry.domain.remove(leftoverUid(sandboxUid));
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

  forgetQuota({ metadata: { uid, namespace } }: ConversationQuota): void {
    const entry = this.#namespace(namespace);
    if (entry.quotas.delete(uid)) entry.stale = true;
  }

  #put(namespace: string, slot: Slot): void {
    const { domain } = this.#namespace(namespace);
    const before = domain.slot(slot.uid);
    if (before !== undefined && isSameSlot(before, slot)) return;
    domain.put(slot);
    this.#options.onChange(namespace, before, slot);
  }

  #namespaceOf({ metadata: { namespace } }: Sandbox): Namespace {
    return this.#namespace(namespace);
  }

  #namespace(name: string): Namespace {
    let entry = this.#namespaces.get(name);
    if (entry === undefined) {
      entry = { domain: new Domain(), quotas: new Map(), unsettled: new Map(), leftovers: new Map(), stale: false };
      this.#namespaces.set(name, entry);
    }
    return entry;
  }
}
