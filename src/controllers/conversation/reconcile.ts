import type { Store } from '@conversation-operator/kube/store';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { NewestStore } from '@conversation-operator/kube/store';
import type { Stores } from '../caches.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import type { ConversationStatus } from '../../resources/conversation-status.ts';
import {
  conversations,
  isStartHeld,
  isStartOver,
  waitingForBudget,
} from '../../resources/conversation.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import { withRunBegun } from './approvals/decide.ts';
import { withoutEarlierResult } from './execution/run-result.ts';
import type { Following } from './follow.ts';
import { cachedUsageOf } from './model-usage.ts';
import type { ConversationPoller } from './polling/conversation-poller.ts';
import { Scope } from './scope.ts';
import { releaseSandbox, releaseUnusedClaims } from './start/sandbox-release.ts';
import type { Start } from './start/start.ts';
import { withTransition } from './start/start-status.ts';
import type { StatusWriter } from './status-writer.ts';
import { storedObject } from '../stored-object.ts';

/** Whether the status says that the sandbox is deleted, even if a lagging cache still shows it. */
const isSandboxGone = ({ sandboxStatus, sandboxUID }: ConversationStatus): boolean =>
  sandboxStatus === 'MISSING' && sandboxUID !== undefined;

export interface SandboxAccess {
  readonly client: Pick<KubeClient, 'get'>;
  readonly store: Pick<Store<Sandbox>, 'get'>;
  readonly signal: AbortSignal;
}

/**
 * The sandbox that the status names; undefined when that sandbox is deleted or another sandbox has
 * its name. A read of the API server confirms a deletion, because the cache may lag.
 */
export async function findSandbox(
  access: SandboxAccess,
  namespace: string,
  status: ConversationStatus,
): Promise<Sandbox | undefined> {
  const { sandboxName: name, sandboxUID: uid } = status;
  if (name === undefined || isSandboxGone(status)) return undefined;
  const cached = access.store.get(namespace, name);
  if (cached !== undefined && (uid === undefined || cached.metadata.uid === uid)) return cached;
  const metadata = { namespace, name, ...(uid === undefined ? {} : { uid }) };
  return storedObject(access, sandboxes, { metadata });
}

/**
 * Copies phase and reason of the sandbox to the status. The cache is read again, because a call to
 * the agent may have taken minutes.
 */
function withSandboxStatus(
  status: ConversationStatus,
  { stored, sandbox }: Scope,
  store: Store<Sandbox>,
): ConversationStatus {
  const { start, sandboxName, sandboxUID } = status;
  // The sandbox of a failed start is deleted, or belongs to another conversation.
  if (start?.status === 'ERROR') {
    const sandboxStatusReason = start.errorCode ?? 'StartFailed';
    return { ...status, sandboxStatus: 'ERROR', sandboxStatusReason };
  }
  if (sandboxName === undefined) {
    const { sandboxStatusReason: _reason, ...rest } = status;
    const reason = isStartHeld({ status }) ? { sandboxStatusReason: waitingForBudget } : {};
    return { ...rest, sandboxStatus: 'STARTING', ...reason };
  }
  if (isSandboxGone(status)) return status;
  const cached = store.get(stored.metadata.namespace, sandboxName);
  const isSame =
    cached !== undefined && cached.metadata.uid === (sandboxUID ?? cached.metadata.uid);
  const { phase, reason } = viewOfSandbox(isSame ? cached : sandbox);
  return { ...status, sandboxStatus: phase, sandboxStatusReason: reason };
}

export interface ConversationReconcilerOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'usageRecords'>;
  readonly start: Start;
  readonly following: Following;
  readonly poller: ConversationPoller;
  readonly writer: StatusWriter;
}

/** Delay before the next reconcile of a conversation whose sandbox the cache lacks. */
const uncachedMs = 5_000;

/**
 * Takes conversations through their start (`start/start.ts`), and then keeps their status up to
 * date with sandbox and agent (`follow.ts`).
 */
export class ConversationReconciler {
  readonly #options: ConversationReconcilerOptions;
  readonly #newest: NewestStore<CachedConversation>;
  /** Includes sandboxes that starts have created and the cache does not show yet. */
  readonly #sandboxes: NewestStore<Sandbox>;

  constructor(options: ConversationReconcilerOptions) {
    const { clock, stores } = options;
    this.#options = options;
    this.#newest = new NewestStore(stores.conversations, clock);
    this.#sandboxes = new NewestStore(stores.sandboxes, clock);
  }

  /**
   * Handles a notification about a conversation. Returns the milliseconds until the poll; undefined
   * when the conversation is not polled.
   */
  notify(request: Request): number | undefined {
    return this.#options.poller.notify(request);
  }

  async reconcile(request: Request, signal: AbortSignal): Promise<Result> {
    const { namespace, name } = request;
    const conversation = this.#newest.get(namespace, name);
    if (conversation === undefined || conversation.metadata.deletionTimestamp !== undefined) {
      this.#options.following.forget(request);
      return undefined;
    }
    const scope = new Scope(conversation, { signal, write: (each) => this.#write(each) });
    const againAfterMs = await this.#advance(scope);
    await this.#write(scope);
    // The failure is stored before the sandbox is deleted, so that after a crash in between another
    // process deletes the sandbox.
    if (scope.startStatus === 'ERROR') await releaseSandbox(this.#options, scope.stored, signal);
    await releaseUnusedClaims(this.#options, scope.stored, signal);
    const { sandbox } = scope;
    // The deletion of an uncached sandbox causes no event, so the next reconcile follows soon.
    const cached = sandbox && this.#options.stores.sandboxes.get(namespace, sandbox.metadata.name);
    if (!isStartOver(scope.startStatus)) this.#sandboxes.created(sandbox);
    const isCached = sandbox === undefined || cached !== undefined;
    const nextMs = this.#nextPollMs(scope, conversation, againAfterMs);
    const requeueAfterMs = isCached ? nextMs : Math.min(nextMs, uncachedMs);
    return requeueAfterMs === Infinity ? undefined : { requeueAfterMs };
  }

  /** Reads a conversation again after a conflict, because the cache lagged. */
  async refresh({ namespace, name }: Request, signal: AbortSignal): Promise<void> {
    const stored = await this.#options.client.get(conversations, namespace, name, { signal });
    if (conversations.accepts?.(stored) !== false) this.#newest.observe(cachedConversation(stored));
  }

  /** Runs the steps that are due. Returns the milliseconds until the next reconcile. */
  async #advance(scope: Scope): Promise<number | undefined> {
    const { client, clock, start, following } = this.#options;
    if (scope.status.start === undefined)
      scope.status = withTransition(scope.status, { status: 'WORKING', time: isoTime(clock) });
    if (scope.startStatus === 'ERROR') return undefined;
    const { namespace } = scope.stored.metadata;
    const access = { client, store: this.#sandboxes, signal: scope.signal };
    scope.sandbox = await findSandbox(access, namespace, scope.status);
    return isStartOver(scope.startStatus) ? following.advance(scope) : start.advance(scope);
  }

  /**
   * Writes a changed status, with phase and reason of the sandbox. Afterwards, `scope.stored` is
   * the version that the API server has returned.
   */
  async #write(scope: Scope): Promise<void> {
    const { status, stored, signal } = scope;
    const { stores, writer } = this.#options;
    const current = withoutEarlierResult(withRunBegun(stored.status, status));
    const usage = cachedUsageOf(stored, stores.usageRecords);
    const next = {
      ...withSandboxStatus(current, scope, stores.sandboxes),
      ...(usage === undefined ? {} : { usage }),
    };
    const isPolled = scope.poll !== undefined;
    const written = await writer.write(stored, { next, isPolled }, signal);
    scope.status = next;
    if (written === undefined) return;
    Object.assign(scope, written);
    this.#newest.observe(written.stored);
  }

  /**
   * Records the poll of this reconcile, whose outcome is stored. Returns the milliseconds until the
   * next reconcile; Infinity for none.
   */
  #nextPollMs(
    { poll, status }: Scope,
    conversation: CachedConversation,
    againAfterMs: number | undefined,
  ): number {
    const { poller, writer } = this.#options;
    const nextMs = Math.min(againAfterMs ?? Infinity, writer.waitMs(conversation.metadata));
    if (poll === undefined) return nextMs;
    const change = { before: conversation.status ?? {}, status, againAfterMs: nextMs };
    return poller.recordPoll(poll, conversation, change);
  }
}
