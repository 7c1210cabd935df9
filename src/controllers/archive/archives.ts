import {
  type RecordingNeeds,
  ownerShare,
  maxPerOwner,
  workers,
  handle,
  observe,
  requestOf,
  watch,
  type ControllerSpec,
  type EventSource,
} from '../controller-spec.ts';
import type { AgentCredentials } from '../../agent/credentials.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { Request } from '@conversation-operator/kube/controller';
import type { MeasuredStore } from '../../archive/measured-store.ts';
import type { Stores, WatchedCaches } from '../caches.ts';
import { Archiver, type ArchiveWriting, NamespaceUids } from './archiver.ts';
import { ArchiveReconciler } from './reconcile.ts';
import { SandboxSeal } from './seal.ts';
import { ArchiveSweep, type SweepLimits } from './sweep.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { capsOf, quotaCaps } from '../../quota/caps.ts';
import { startStatusOf } from '../../resources/conversation.ts';

/** Sums the stored bytes of archives by owner and by namespace. */
export class OwnerBytes {
  readonly #quotas: Stores['quotas'];
  readonly #known = new Map<
    string,
    { readonly shares: readonly string[]; readonly bytes: number }
  >();
  readonly #sums = new Map<string, number>();

  constructor({ quotas }: Pick<Stores, 'quotas'>) {
    this.#quotas = quotas;
  }

  observe(conversation: CachedConversation): void {
    const { metadata, status } = conversation;
    this.forget(conversation);
    const bytes = status?.archive?.bytes ?? 0;
    if (bytes === 0) return;
    const shares = [ownerShare(conversation), metadata.namespace];
    this.#known.set(metadata.uid, { shares, bytes });
    this.#add(shares, bytes);
  }

  forget({ metadata: { uid } }: Pick<CachedConversation, 'metadata'>): void {
    const known = this.#known.get(uid);
    if (known === undefined) return;
    this.#known.delete(uid);
    this.#add(known.shares, -known.bytes);
  }

  /** Bytes by which a conversation's archive may grow under the quotas; Infinity: no limit. */
  leftFor(conversation: CachedConversation): number {
    const { namespace } = conversation.metadata;
    const quotas = this.#quotas.list().filter(({ metadata }) => metadata.namespace === namespace);
    const caps = quotaCaps(quotas);
    return Math.min(
      ...capsOf(caps, conversation.spec.owner, 'maxArchivedBytes').map(({ limit, scope }) => {
        const share = scope === 'Owner' ? ownerShare(conversation) : namespace;
        return Math.max(0, limit - (this.#sums.get(share) ?? 0));
      }),
    );
  }

  #add(shares: readonly string[], bytes: number): void {
    for (const share of shares) {
      const sum = (this.#sums.get(share) ?? 0) + bytes;
      if (sum === 0) this.#sums.delete(share);
      else this.#sums.set(share, sum);
    }
  }
}

export interface ArchiveOptions extends ArchiveWriting {
  readonly store: MeasuredStore;
}

export interface ArchivesOptions extends RecordingNeeds {
  readonly keys: SandboxKeys;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly metrics: Metrics;
  readonly credentials: AgentCredentials;
  readonly archive: ArchiveOptions;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'templates' | 'quotas'>;
  readonly enqueue: (request: Request, delayMs?: number) => void;
  readonly sweep?: Partial<SweepLimits>;
}

export type Archives = ReturnType<typeof createArchives>;

export function createArchives(options: ArchivesOptions) {
  const {
    client,
    clock,
    random,
    logger,
    metrics,
    events,
    stores,
    keys,
    credentials,
    archive,
    enqueue,
    sweep,
  } = options;
  const ownerBytes = new OwnerBytes(options.stores);
  const namespaceUids = new NamespaceUids(options);
  const archiver = new Archiver({
    client,
    clock,
    logger,
    metrics,
    stores,
    keys,
    credentials,
    archive,
    namespaceUids,
    ownerBytes: (conversation) => ownerBytes.leftFor(conversation),
  });
  const isStoreFailing = () => options.archive.store.isFailing;
  return {
    ownerBytes,
    reconciler: new ArchiveReconciler({
      clock,
      random,
      logger,
      metrics,
      stores,
      keys,
      archive,
      enqueue,
      archiver,
    }),
    seal: new SandboxSeal({
      clock,
      metrics,
      stores,
      keys,
      credentials,
      archive,
      archiver,
      isStoreFailing,
    }),
    sweep: new ArchiveSweep({
      client,
      clock,
      logger,
      metrics,
      events,
      stores,
      keys,
      archive,
      sweep,
      namespaceUids,
    }),
  };
}

/** Whether an update of a conversation may make a step of its archive due. */
const isRelevant = (conversation: CachedConversation, old: CachedConversation): boolean =>
  startStatusOf(conversation) !== startStatusOf(old) ||
  conversation.metadata.uid !== old.metadata.uid ||
  conversation.metadata.deletionTimestamp !== old.metadata.deletionTimestamp ||
  conversation.status?.sandboxStatus !== old.status?.sandboxStatus ||
  conversation.status?.executionStatus !== old.status?.executionStatus;

interface ArchiveControllersOptions {
  readonly caches: Pick<WatchedCaches, 'conversations' | 'templates'>;
  readonly archives: Pick<Archives, 'reconciler' | 'ownerBytes' | 'sweep'>;
  readonly requested: EventSource;
}

export function archiveController(options: ArchiveControllersOptions): ControllerSpec {
  const { caches, archives, requested } = options;
  const { reconciler, ownerBytes } = archives;
  const conversations = caches.conversations.store;
  return {
    name: 'archive',
    workers: workers.archive,
    shareOf: ({ namespace, name }) => ownerShare(conversations.get(namespace, name)),
    maxPerShare: maxPerOwner('archive'),
    sources: [
      observe(
        caches.conversations,
        (conversation) => ownerBytes.observe(conversation),
        (conversation) => ownerBytes.forget(conversation),
      ),
      handle(caches.conversations, {
        updated: (conversation, old) => {
          if (conversation.metadata.uid !== old.metadata.uid) reconciler.forget(old, 'observed');
        },
        deleted: (conversation, finality) => reconciler.forget(conversation, finality),
      }),
      watch(caches.conversations, (conversation) => [requestOf(conversation)], { isRelevant }),
      requested,
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
  };
}

/** Deletes archives without a conversation, in namespaces with conversations or templates. */
export function archiveSweepController(
  options: Pick<ArchiveControllersOptions, 'caches' | 'archives'>,
): ControllerSpec {
  const { caches, archives } = options;
  const namespaceOf = ({ metadata: { namespace } }: { metadata: { namespace: string } }) => [
    { namespace, name: '' },
  ];
  const isRelevant = () => false;
  const delayMs = sweepDelayMs;
  return {
    name: 'archive-sweep',
    workers: workers['archive-sweep'],
    sources: [
      watch(caches.conversations, namespaceOf, { isRelevant, delayMs }),
      watch(caches.templates, namespaceOf, { isRelevant, delayMs }),
    ],
    reconcile: (request, signal) => archives.sweep.reconcile(request, signal),
  };
}

/** Delay in milliseconds of the first sweep, and of a sweep after a new conversation. */
const sweepDelayMs = 60_000;
