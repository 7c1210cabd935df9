import type { StorageCaps } from '../lookup/storage-caps.ts';
import type { Exposure } from '../presenters/sandbox.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { Logger } from '@conversation-operator/base/logger';
import type { GatewayOptions } from '../gateway-options.ts';
import { quotaRecord } from '../quota/quota.ts';
import { OwnRecords } from './own-records.ts';
import { every, type Clock, type Timer } from '@conversation-operator/base/clock';
import type { Freshness } from '@conversation-operator/kube/reflector';
import { isLive, type KubeObject } from '@conversation-operator/kube/object';
import type { Runtime } from '@conversation-operator/base/runtime';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Caches } from '../lookup/cache.ts';
import { defaultStreamLimits, type StreamLimits } from './stream-events.ts';
import { OwnerHub, type Follower } from './owner-hub.ts';

interface StalenessOptions {
  readonly caches: readonly { readonly freshness: Freshness }[];
  readonly clock: Clock;
}

/** Delay between two checks (`checkMs`), and minimum duration of an outage (`staleMs`). */
const checkMs = 1_000;
const staleMs = 10_000;

/**
 * Detects that a cache has had no connection to the API server for longer than a reconnection
 * takes. A stream would then show an old state as the current one.
 */
export class Staleness {
  readonly #options: StalenessOptions;
  readonly #listeners = new Set<() => void>();
  #interruptedAtMs: number | undefined;
  #timer: Timer | undefined;

  constructor(options: StalenessOptions) {
    this.#options = options;
  }

  get isStale(): boolean {
    return (
      this.#interruptedAtMs !== undefined &&
      this.#options.clock.monotonic() - this.#interruptedAtMs >= staleMs
    );
  }

  open(): void {
    this.#timer ??= every(this.#options.clock, checkMs, () => this.#check());
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  /** Calls `listener` when the caches become stale. Returns a function that removes it. */
  onStale(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #check(): void {
    if (!this.#options.caches.some(({ freshness }) => freshness.isInterrupted)) {
      this.#interruptedAtMs = undefined;
      return;
    }
    this.#interruptedAtMs ??= this.#options.clock.monotonic();
    if (this.isStale) for (const listener of [...this.#listeners]) listener();
  }
}

interface LiveStateNeeds {
  readonly namespace: string;
  readonly lookup: ResourceLookup;
  readonly caps: StorageCaps;
  readonly exposure: Exposure;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly scheduler: FairScheduler;
}

export type LiveState = ReturnType<typeof createLiveState>;

export function createLiveState(needs: LiveStateNeeds, { caches }: Pick<GatewayOptions, 'caches'>) {
  const { namespace, lookup, caps, exposure, clock, logger, scheduler } = needs;
  const hubs = new OwnerHubs({
    caches,
    namespace,
    lookup,
    clock,
    logger,
    recordsOf: (owner) =>
      new OwnRecords({
        owner,
        lookup,
        exposure,
        quota: (whose) => quotaRecord({ lookup, clock, caps }, whose),
      }),
    charge: (owner, work) => scheduler.now(owner, work),
  });
  const { conversations, sandboxes } = caches;
  const staleness = new Staleness({ caches: [conversations, sandboxes], clock });
  return { hubs, staleness };
}

interface OwnerHubsOptions extends Pick<Runtime, 'clock' | 'logger'> {
  readonly caches: Pick<Caches, 'conversations' | 'sandboxes' | 'quotas' | 'templates'>;
  readonly namespace: string;
  readonly lookup: ResourceLookup;
  readonly recordsOf: (owner: string) => OwnRecords;
  readonly charge: (owner: string, work: () => void) => void;
  readonly limits?: Partial<StreamLimits>;
}

/**
 * The `OwnerHub`s of the owners with open streams. One handler on each cache calls `mark` of the
 * `OwnerHub`s that may show a changed object. Without open streams, a change costs nothing.
 */
export class OwnerHubs {
  readonly #options: OwnerHubsOptions;
  readonly #limits: StreamLimits;
  readonly #hubs = new Map<string, OwnerHub>();
  #removers: readonly (() => void)[] = [];

  constructor(options: OwnerHubsOptions) {
    this.#options = options;
    this.#limits = { ...defaultStreamLimits, ...options.limits };
  }

  get size(): number {
    return this.#hubs.size;
  }

  /** Maximum bytes that may wait for one client. */
  get maxBytes(): number {
    const { maxBytes, totalBytes } = this.#limits;
    return Math.min(maxBytes, totalBytes / this.#hubs.size);
  }

  open(): void {
    if (this.#removers.length > 0) return;
    const { caches } = this.#options;
    const everyQuota = () => this.#markEveryQuota();
    const quotaHandler = { added: everyQuota, updated: everyQuota, deleted: everyQuota };
    this.#removers = [
      caches.conversations.addHandler({
        added: (object) => this.#conversationChanged(object, true),
        updated: (object, old) => {
          const isOther = !isSameChild(object, old);
          this.#conversationChanged(object, isOther);
          // A recreated object of the same name may have another owner or parent.
          if (isOther) this.#conversationChanged(old, true);
        },
        deleted: (object) => this.#conversationChanged(object, true),
      }),
      caches.sandboxes.addHandler({
        added: (object) => this.#sandboxChanged(object),
        // The claim of a warm sandbox gives it an owner.
        updated: (object, old) => this.#sandboxChanged(object, old.spec.owner),
        deleted: (object) => this.#sandboxChanged(object),
      }),
      caches.quotas.addHandler(quotaHandler),
      caches.templates.addHandler(quotaHandler),
    ];
  }

  close(): void {
    for (const remove of this.#removers) remove();
    this.#removers = [];
    for (const hub of this.#hubs.values()) hub.close();
    this.#hubs.clear();
  }

  /** Adds a stream to the `OwnerHub` of an owner, and creates the `OwnerHub` if it is absent. */
  join(owner: string, follower: Follower): OwnerHub {
    const hub = this.#hubs.get(owner) ?? this.#create(owner);
    hub.join(follower);
    return hub;
  }

  leave(hub: OwnerHub, follower: Follower): void {
    hub.leave(follower);
    if (hub.size > 0 || this.#hubs.get(hub.owner) !== hub) return;
    this.#hubs.delete(hub.owner);
    hub.close();
  }

  #create(owner: string): OwnerHub {
    const { recordsOf, clock, logger, charge } = this.#options;
    const hub = new OwnerHub({
      records: recordsOf(owner),
      recordsPerTurn: this.#limits.recordsPerTurn,
      hubs: () => this.#hubs.size,
      clock,
      logger,
      charge,
    });
    this.#hubs.set(owner, hub);
    return hub;
  }

  /** @param isOther Whether the records of the parent and the children may change too. */
  #conversationChanged(conversation: CachedConversation, isOther: boolean): void {
    if (!this.#concerns(conversation)) return;
    const { metadata, spec } = conversation;
    this.#markQuotas(spec.owner);
    const hub = this.#hubs.get(spec.owner);
    if (hub === undefined) return;
    hub.mark('conversation', metadata.name);
    hub.mark('start_task', metadata.name);
    if (!isOther) return;
    if (spec.parent !== undefined) hub.mark('conversation', spec.parent);
    for (const child of this.#options.lookup.children(conversation))
      hub.mark('conversation', child.metadata.name);
  }

  #sandboxChanged(sandbox: Sandbox, oldOwner = sandbox.spec.owner): void {
    if (!this.#concerns(sandbox)) return;
    const { name } = sandbox.metadata;
    for (const owner of new Set([sandbox.spec.owner, oldOwner])) {
      this.#markQuotas(owner);
      this.#hubs.get(owner)?.mark('sandbox', name);
    }
    for (const { metadata, spec } of this.#options.lookup.conversationsNaming(name)) {
      const hub = this.#hubs.get(spec.owner);
      hub?.mark('conversation', metadata.name);
      hub?.mark('start_task', metadata.name);
    }
  }

  #concerns({ metadata }: KubeObject): boolean {
    return this.#hubs.size > 0 && metadata.namespace === this.#options.namespace;
  }

  /** With a quota of the scope Namespace, a change shows in the quota records of all owners. */
  #markQuotas(owner: string): void {
    if (this.#options.lookup.quotas().some(({ spec }) => spec.scope === 'Namespace'))
      this.#markEveryQuota();
    else this.#hubs.get(owner)?.markQuota();
  }

  #markEveryQuota(): void {
    for (const hub of this.#hubs.values()) hub.markQuota();
  }
}

/** Whether the records of the parent and the children stay the same. */
const isSameChild = (object: CachedConversation, old: CachedConversation): boolean =>
  isLive(object) === isLive(old) &&
  object.metadata.uid === old.metadata.uid &&
  object.spec.owner === old.spec.owner &&
  object.spec.parent === old.spec.parent;
