import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import type { WatchedCaches } from '../caches.ts';
import type { Archives } from './archives.ts';
import {
  handle,
  observe,
  requestOf,
  watch,
  type ControllerSpec,
  type EventSource,
} from '../event-source.ts';
import { maxPerOwner, ownerShare, workers } from '../workers.ts';

/** Whether an update of a conversation may make a step of its archive due. */
const isRelevant = (conversation: CachedConversation, old: CachedConversation): boolean =>
  startStatusOf(conversation) !== startStatusOf(old) ||
  conversation.metadata.uid !== old.metadata.uid ||
  conversation.metadata.deletionTimestamp !== old.metadata.deletionTimestamp ||
  conversation.status?.sandboxStatus !== old.status?.sandboxStatus ||
  conversation.status?.executionStatus !== old.status?.executionStatus;

export interface ArchiveControllersOptions {
  readonly caches: Pick<WatchedCaches, 'conversations' | 'templates'>;
  readonly archives: Pick<Archives, 'reconciler' | 'ownerBytes' | 'sweep'>;
  /** Conversations whose agent may have new events. */
  readonly requested: EventSource;
}

/** Copies the events of agents to archives, and deletes archives. */
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

/** Deletes archives without a conversation, in each namespace that has conversations or templates. */
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

/** Delay before the first sweep of a process, and after the next conversation, in milliseconds. */
const sweepDelayMs = 60_000;
