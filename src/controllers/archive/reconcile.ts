import type { Metrics } from '../../observability/metrics.ts';
import type { Logger } from '@conversation-operator/base/logger';
import type { SandboxKeys } from '../../agent/keys.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { backoffDelayMs } from '@conversation-operator/base/backoff';
import type { Request, Result } from '@conversation-operator/kube/controller';
import type { Finality } from '@conversation-operator/kube/reflector';
import { StoreError } from '@conversation-operator/object-store/object-store';
import { agentEndpointOf } from '../../agent/kinds.ts';
import type { AgentConversation } from '../../agent/agent.ts';
import { folderOf, isObjectOf, keyOf, positionOf } from '../../archive/layout.ts';
import { newestState, keysOf, removeArchive } from '../../archive/stored-archives.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import { archiveRetentionMs, quotaCaps } from '../../quota/caps.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import { archiveRulesOf } from '../../resources/sandbox-template.ts';
import { abortedAfter } from '../agent-calls/aborted-after.ts';
import type { Stores } from '../caches.ts';
import { requestKey, requestOf } from '../controller-spec.ts';
import { ElapsedTimes } from '../elapsed-times.ts';
import type { Archiver, ArchiveWriting } from './archiver.ts';
import { ArchiveReason, reasonOf } from './archive-status.ts';

/** Milliseconds between two reads of an agent's events, so that events are archived within 30 s. */
export const extendIntervalMs = 28_000;
/** The delay after the end of a run, which is shorter because the sandbox may be deleted then. */
export const endIntervalMs = 5_000;

interface Entry {
  /** Monotonic time at which the last read began; absent if this process has read no events. */
  readonly readAt?: number;
  /** The agent's last report before that read. */
  readonly read?: string;
  readonly reported?: string;
  readonly isRunning?: boolean;
  readonly hasEnded?: boolean;
  /** Whether `expect` has delayed the first read of a new archive. */
  readonly isNew?: boolean;
}

/** Schedules the reads of agents' events, in memory only. A new process reads each agent once. */
export class ArchiveSchedule {
  readonly #clock: Pick<Clock, 'monotonic'>;
  /** Entries by the UID of the conversation. */
  readonly #entries = new Map<string, Entry>();

  constructor({ clock }: { readonly clock: Pick<Clock, 'monotonic'> }) {
    this.#clock = clock;
  }

  /**
   * Records an agent's report, a text that changes when the agent may have new events. Returns the
   * milliseconds until the read that a changed report requires; undefined for an unchanged one.
   */
  observe(uid: string, report: string, isRunning: boolean): number | undefined {
    const entry = this.#entries.get(uid);
    if (entry?.reported === report) return undefined;
    const hasEnded = entry?.hasEnded === true || (entry?.isRunning === true && !isRunning);
    this.#entries.set(uid, { ...entry, reported: report, isRunning, hasEnded });
    return this.waitMs(uid);
  }

  /**
   * Delays the first read of a new archive once: right after a start the agent has hardly any
   * event, and a read would cause a status write for that event alone.
   */
  expect(uid: string): void {
    const entry = this.#entries.get(uid);
    if (entry?.isNew === true || entry?.readAt !== undefined) return;
    this.#entries.set(uid, { ...entry, isNew: true, readAt: this.#clock.monotonic() });
  }

  waitMs(uid: string): number {
    const { readAt = -Infinity, hasEnded } = this.#entries.get(uid) ?? {};
    const intervalMs = hasEnded === true ? endIntervalMs : extendIntervalMs;
    return Math.max(0, readAt + intervalMs - this.#clock.monotonic());
  }

  begin(uid: string): void {
    const { reported, isRunning = false, isNew = false } = this.#entries.get(uid) ?? {};
    this.#entries.set(uid, {
      readAt: this.#clock.monotonic(),
      isRunning,
      isNew,
      ...(reported === undefined ? {} : { reported, read: reported }),
    });
  }

  /** Makes the next read due at once, because the last one failed or did not read everything. */
  retry(uid: string): void {
    const { readAt: _readAt, ...entry } = this.#entries.get(uid) ?? {};
    this.#entries.set(uid, entry);
  }

  /** Whether the agent has sent a new report since the last read began. */
  isBehind(uid: string): boolean {
    const { read, reported } = this.#entries.get(uid) ?? {};
    return reported !== read;
  }

  forget(uid: string): void {
    this.#entries.delete(uid);
  }
}

export interface ArchiveReconcilerOptions {
  readonly keys: SandboxKeys;
  readonly clock: Clock;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly archive: ArchiveWriting;
  readonly archiver: Archiver;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'templates' | 'quotas'>;
  readonly enqueue: (request: Request, delayMs?: number) => void;
}

/** Maximum time of one read of an agent's events, in milliseconds. */
const stepMs = 60_000;
const againMs = 1_000;
const failureBackoff = { baseMs: 5_000, capMs: 60_000, jitter: 0.2 };
/** Maximum time between two checks whether an archive has expired, in milliseconds. */
const retentionCheckMs = 3_600_000;

/**
 * Copies the events of running agents to archives. Deletes the archives of deleted conversations,
 * and archives beyond their retention.
 */
export class ArchiveReconciler {
  readonly #options: ArchiveReconcilerOptions;
  readonly #schedule: ArchiveSchedule;
  /** UIDs of deleted conversations, by namespace and name. */
  readonly #deleted = new Map<string, Set<string>>();
  /** Consecutive failures, by the UID of the conversation. */
  readonly #failures = new Map<string, number>();
  readonly #expired: ElapsedTimes;

  constructor(options: ArchiveReconcilerOptions) {
    this.#options = options;
    this.#schedule = new ArchiveSchedule(options);
    this.#expired = new ElapsedTimes(options);
  }

  observe(conversation: CachedConversation, state: AgentConversation): void {
    const report = `${state.updatedAt ?? ''} ${state.reportedStatus}`;
    const isRunning = state.executionStatus === 'running';
    if (conversation.status?.archive === undefined)
      this.#schedule.expect(conversation.metadata.uid);
    const waitMs = this.#schedule.observe(conversation.metadata.uid, report, isRunning);
    if (waitMs !== undefined) this.#options.enqueue(requestOf(conversation), waitMs);
  }

  /**
   * Requests the deletion of the archive of a deleted conversation. If the caches only assume the
   * deletion (`assumed`), the archive is left to `ArchiveSweep`: after a restore of the cluster
   * many conversations may be missing, and their archives are the only copies.
   */
  forget({ metadata }: CachedConversation, finality: Finality): void {
    this.#schedule.forget(metadata.uid);
    this.#failures.delete(metadata.uid);
    if (finality === 'assumed') return;
    const key = requestKey(metadata);
    const uids = this.#deleted.get(key) ?? new Set();
    this.#deleted.set(key, uids.add(metadata.uid));
  }

  async reconcile(request: Request, signal: AbortSignal): Promise<Result> {
    const { namespace, name } = request;
    const removed = await this.#removeDeleted(request, signal);
    const conversation = this.#options.archiver.conversation(namespace, name);
    if (conversation === undefined || conversation.metadata.deletionTimestamp !== undefined)
      return removed;
    const { uid } = conversation.metadata;
    const sandbox = this.#sandboxOf(conversation);
    const isRunning =
      viewOfSandbox(sandbox).phase === 'RUNNING' && startStatusOf(conversation) === 'READY';
    if (sandbox !== undefined && isRunning) return this.#follow(conversation, sandbox, signal);
    this.#schedule.forget(uid);
    this.#failures.delete(uid);
    return this.#expire(conversation, signal);
  }

  #sandboxOf({ metadata, status }: CachedConversation): Sandbox | undefined {
    const { sandboxName, sandboxUID } = status ?? {};
    if (sandboxName === undefined) return undefined;
    const sandbox = this.#options.stores.sandboxes.get(metadata.namespace, sandboxName);
    return sandbox?.metadata.uid === sandboxUID ? sandbox : undefined;
  }

  async #follow(
    conversation: CachedConversation,
    sandbox: Sandbox,
    signal: AbortSignal,
  ): Promise<Result> {
    const { archiver, keys, clock, random, stores } = this.#options;
    const { uid } = conversation.metadata;
    const { namespace } = sandbox.metadata;
    const template = stores.templates.get(namespace, sandbox.spec.templateName);
    const endpoint = agentEndpointOf(sandbox, keys);
    if (endpoint === undefined || !archiveRulesOf(template).enabled) return undefined;
    if (conversation.status?.archive === undefined) this.#schedule.expect(uid);
    const waitMs = this.#schedule.waitMs(uid);
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    this.#schedule.begin(uid);
    const bounded = abortedAfter(clock, stepMs, signal);
    try {
      const target = { conversation, sandbox, endpoint };
      const outcome = await archiver.extend(target, bounded.signal);
      if (outcome.kind === 'failed') {
        const failures = (this.#failures.get(uid) ?? 0) + 1;
        this.#failures.set(uid, failures);
        this.#schedule.retry(uid);
        return { requeueAfterMs: backoffDelayMs(failureBackoff, failures, random) };
      }
      this.#failures.delete(uid);
      if (outcome.kind === 'more' || outcome.kind === 'again') {
        this.#schedule.retry(uid);
        return { requeueAfterMs: outcome.kind === 'more' ? 0 : againMs };
      }
      const grows =
        outcome.kind === 'unknown' ||
        (outcome.kind === 'end' && outcome.added > 0) ||
        conversation.status?.executionStatus === 'running' ||
        this.#schedule.isBehind(uid);
      return grows ? { requeueAfterMs: this.#schedule.waitMs(uid) } : undefined;
    } catch (error) {
      // Makes the next read due at once, because the caller retries soon.
      this.#schedule.retry(uid);
      if (!bounded.signal.aborted || signal.aborted) throw error;
      return { requeueAfterMs: extendIntervalMs };
    } finally {
      bounded.cancel();
    }
  }

  /** Deletes the archives of deleted conversations with this name. */
  async #removeDeleted({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const key = `${namespace}/${name}`;
    const { archive, metrics, logger } = this.#options;
    for (const uid of this.#deleted.get(key) ?? []) {
      try {
        if (await removeArchive(archive.store, { namespace, uid }, signal))
          metrics.archiveDeletions.inc({ cause: 'Conversation' });
      } catch (error) {
        if (!(error instanceof StoreError)) throw error;
        logger.warn('The archive of a deleted conversation could not be deleted', { name, error });
        return { requeueAfterMs: failureBackoff.capMs };
      }
      this.#deleted.get(key)?.delete(uid);
    }
    this.#deleted.delete(key);
    return undefined;
  }

  /** Deletes an archive beyond its retention, unless the agent of the conversation runs. */
  async #expire(conversation: CachedConversation, signal: AbortSignal): Promise<Result> {
    const { stores, clock } = this.#options;
    const { metadata, spec, status } = conversation;
    const { namespace, uid } = metadata;
    const { head, time = '', expiredTime } = status?.archive ?? {};
    const { lastActivityTime: activeTime = time } = status ?? {};
    if (head === undefined)
      return expiredTime === undefined ? undefined : this.#removeExpired(conversation, signal);
    const template = stores.templates.get(namespace, spec.templateName);
    const quotas = stores.quotas.list().filter((quota) => quota.metadata.namespace === namespace);
    const { retention } = archiveRulesOf(template);
    const keptMs = archiveRetentionMs(quotaCaps(quotas), spec.owner, retention);
    if (keptMs === undefined) return undefined;
    const lastMs = Math.max(Date.parse(time), Date.parse(activeTime));
    const leftMs = lastMs + keptMs - clock.now();
    if (leftMs > 0) {
      this.#expired.forget(uid);
      return { requeueAfterMs: Math.min(leftMs, retentionCheckMs) };
    }
    const waitMs = this.#expired.deletionWaitMs(uid, lastMs);
    return waitMs > 0 ? { requeueAfterMs: waitMs } : this.#removeExpired(conversation, signal);
  }

  /**
   * Stores the newest head of the store in a status whose `head` does not exist there. Such a
   * status comes from a backup, without the time of the last change, so the retention starts again.
   */
  async #adopted(
    conversation: CachedConversation,
    signal: AbortSignal,
  ): Promise<{ readonly requeueAfterMs: number } | undefined> {
    const { archiver, archive, clock } = this.#options;
    const { metadata, status } = conversation;
    const { namespace, uid } = metadata;
    const { expiredTime, bytes = 0 } = status?.archive ?? {};
    const newest = await newestState(archive, { namespace, uid }, expiredTime, signal);
    if (newest === undefined) return undefined;
    const { head, files } = newest;
    const events = positionOf(head) ?? 0;
    const known = { head, events, bytes, time: isoTime(clock) };
    const change = {
      archive: {
        ...known,
        ...(files === undefined ? {} : { files }),
        ...(expiredTime === undefined ? {} : { expiredTime }),
      },
    };
    this.#expired.forget(uid);
    const isStored = await archiver.record(conversation, change, signal);
    return { requeueAfterMs: isStored ? retentionCheckMs : againMs };
  }

  /**
   * Deletes all objects of an expired archive, including those that remain of an earlier attempt
   * whose process ended or whose store failed.
   */
  async #removeExpired(conversation: CachedConversation, signal: AbortSignal): Promise<Result> {
    const { archiver, archive, clock, metrics, logger } = this.#options;
    const { namespace, uid, name } = conversation.metadata;
    const expiredTime = isoTime(clock);
    try {
      const keys: string[] = [];
      for await (const page of keysOf(archive.store, folderOf({ namespace, uid }), signal))
        keys.push(...page.filter((key) => isObjectOf({ namespace, uid }, key)));
      const { head } = conversation.status?.archive ?? {};
      if (head === undefined && keys.length === 0) return undefined;
      if (head === undefined || !keys.includes(keyOf({ namespace, uid }, 'h', head))) {
        const newest = await this.#adopted(conversation, signal);
        if (newest !== undefined) return newest;
      }
      // The keys that are listed before this write belong to the expired archive alone: a new
      // archive uses new names, and a writer that started earlier can not store its `head`.
      const change = {
        archive: { events: 0, bytes: 0, expiredTime },
        reason: ArchiveReason.expired,
      };
      if (!(await archiver.record(conversation, change, signal)))
        return { requeueAfterMs: againMs };
      await archive.store.delete(keys, { signal });
      metrics.archiveDeletions.inc({ cause: 'Expired' });
      return undefined;
    } catch (error) {
      const reason = reasonOf(error);
      if (reason === undefined) throw error;
      logger.warn('An expired archive could not be deleted', { conversation: name, error });
      if (reason !== ArchiveReason.damaged) return { requeueAfterMs: failureBackoff.capMs };
      // Only a person can repair a head that no known key decrypts.
      await archiver.record(conversation, { reason }, signal);
      return { requeueAfterMs: retentionCheckMs };
    }
  }
}
