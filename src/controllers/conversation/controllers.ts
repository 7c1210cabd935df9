import type { Request, Result } from '@conversation-operator/kube/controller';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { isStartOver, startStatusOf } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { bySandbox, type WatchedCaches } from '../caches.ts';
import type { ConversationReconciler } from './reconcile.ts';
import { isUnusedBy } from './start/sandbox-release.ts';
import { requestOf, watch, type ControllerSpec, type EventSource } from '../event-source.ts';
import { maxPerOwner, ownerShare, workers } from '../workers.ts';

/** Delay before a conversation is reconciled on which the other controller still works. */
const busyDelayMs = 100;

/**
 * Whether an update of a conversation is an event. After the start, the operator alone writes the
 * status, and the poll of the agent is due by its own schedule. The status of the sandbox is an
 * event all the same: a stale cache may have been its source.
 */
const isRelevant = (conversation: CachedConversation, old: CachedConversation): boolean =>
  !isStartOver(startStatusOf(conversation)) ||
  startStatusOf(conversation) !== startStatusOf(old) ||
  conversation.metadata.generation !== old.metadata.generation ||
  conversation.metadata.deletionTimestamp !== old.metadata.deletionTimestamp ||
  conversation.metadata.uid !== old.metadata.uid ||
  conversation.status?.sandboxStatus !== old.status?.sandboxStatus ||
  conversation.status?.sandboxStatusReason !== old.status?.sandboxStatusReason ||
  conversation.status?.executionStatus !== old.status?.executionStatus;

export interface ConversationControllersOptions {
  readonly caches: Pick<WatchedCaches, 'conversations' | 'sandboxes'>;
  readonly reconciler: Pick<ConversationReconciler, 'reconcile' | 'refresh'>;
  /** Conversations whose agent has sent a notification. */
  readonly notified: EventSource;
}

/**
 * One of two controllers with the same reconcile. A conversation belongs to `start` until its start
 * is over, and to `status` after that, so that long starts delay no status. The event that ends the
 * start reaches both, and each drops the requests of the other.
 */
function conversationController(
  name: 'conversation' | 'status',
  { caches, reconciler }: Pick<ConversationControllersOptions, 'caches' | 'reconciler'>,
  inWork: Set<string>,
  more: readonly EventSource[],
): ControllerSpec {
  const conversations = caches.conversations.store;
  const cachedOf = ({ namespace, name: own }: Request) => conversations.get(namespace, own);
  const isMine = (request: Request): boolean => {
    const cached = cachedOf(request);
    return (cached !== undefined && isStartOver(startStatusOf(cached))) === (name === 'status');
  };
  const usersOf = (sandbox: Sandbox): readonly Request[] => {
    const { namespace, name: own, ownerReferences = [] } = sandbox.metadata;
    const users = conversations.byIndex(bySandbox, `${namespace}/${own}`);
    // The maker deletes a sandbox that it does not use.
    const makers = ownerReferences
      .flatMap((owner) => conversations.get(namespace, owner.name) ?? [])
      .filter((conversation) => isUnusedBy(conversation, sandbox));
    return [...users, ...makers].map(requestOf).filter(isMine);
  };
  return {
    name,
    workers: workers[name],
    shareOf: (request) => ownerShare(cachedOf(request)),
    maxPerShare: maxPerOwner(name),
    sources: [
      watch(caches.conversations, (conversation) => [requestOf(conversation)].filter(isMine), {
        isRelevant,
      }),
      watch(caches.sandboxes, usersOf),
      ...more,
    ],
    refresh: (request, signal) => reconciler.refresh(request, signal),
    reconcile: async (request, signal): Promise<Result> => {
      if (!isMine(request)) return undefined;
      const uid = cachedOf(request)?.metadata.uid;
      if (uid === undefined) return reconciler.reconcile(request, signal);
      // The start that has just ended may still be in the hands of the other controller.
      if (inWork.has(uid)) return { requeueAfterMs: busyDelayMs };
      inWork.add(uid);
      try {
        return await reconciler.reconcile(request, signal);
      } finally {
        inWork.delete(uid);
      }
    },
  };
}

/**
 * The controller that starts conversations, and the one that follows conversations that have
 * started: their agent, their messages and their sandbox.
 */
export function conversationControllers(
  options: ConversationControllersOptions,
): readonly [start: ControllerSpec, status: ControllerSpec] {
  /** Uids of the conversations that one of the two controllers works on. */
  const inWork = new Set<string>();
  return [
    conversationController('conversation', options, inWork, []),
    conversationController('status', options, inWork, [options.notified]),
  ];
}
