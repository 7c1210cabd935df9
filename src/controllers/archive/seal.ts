import type { AgentCredentials } from '../../agent/credentials.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { hiding } from '../../archive/agent-source.ts';
import { folderOf, keyOf, positionOf } from '../../archive/layout.ts';
import { keysOf } from '../../archive/stored-archives.ts';
import { storeSnapshot, type WorkspaceSnapshot } from '../../archive/workspace-snapshot.ts';
import { takeSnapshot } from '../../archive/take-snapshot.ts';
import type { AgentEndpoint } from '../../agent/agent.ts';
import { AgentError } from '../../agent/errors.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { archiveRulesOf } from '../../resources/sandbox-template.ts';
import { StoreError } from '@conversation-operator/object-store/object-store';
import { abortedAfter } from '../agent-calls/aborted-after.ts';
import { bySandbox, type Stores } from '../caches.ts';
import {
  type Archiver,
  type ArchiveTarget,
  archiveSecrets,
  type ArchiveWriting,
} from './archiver.ts';
import { ArchiveReason } from './archive-status.ts';

/** Completes the archives of a sandbox before its pod is deleted. */
export interface SandboxArchives {
  /**
   * Archives all events that the agent has when the call begins. The call ends within `maxMs`;
   * events that are not archived by then stay on the volume.
   */
  seal(sandbox: Sandbox, endpoint: AgentEndpoint, options: SealOptions): Promise<void>;
}

export interface SealOptions {
  /** Maximum milliseconds of the call; 0: only record that the archive is incomplete. */
  readonly maxMs: number;
  /** Whether the pod is deleted after this call. Otherwise runs may still be in progress. */
  readonly isLast: boolean;
  readonly signal: AbortSignal;
}

export interface SandboxSealOptions {
  readonly keys: SandboxKeys;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly credentials: AgentCredentials;
  readonly archive: ArchiveWriting;
  readonly archiver: Archiver;
  readonly stores: Pick<Stores, 'conversations' | 'templates'>;
  /** Whether the last request to the store failed a short time ago. */
  readonly isStoreFailing: () => boolean;
}

interface Sealing {
  readonly target: Omit<ArchiveTarget, 'conversation'>;
  readonly isLast: boolean;
  /** Aborted at the end of `maxMs`. */
  readonly bounded: AbortSignal;
  readonly signal: AbortSignal;
  /** The files of the sandbox; undefined if the agent can not list them in time. */
  readonly snapshot: Promise<WorkspaceSnapshot | undefined>;
}

/** Maximum time in milliseconds by which a failing store delays a pause. */
const failingStoreMs = 1_000;
/** Maximum time in milliseconds by which the snapshot of files delays a pause. */
const snapshotMs = 3_000;
const maxAttempts = 3;

export class SandboxSeal implements SandboxArchives {
  readonly #options: SandboxSealOptions;

  constructor(options: SandboxSealOptions) {
    this.#options = options;
  }

  async seal(
    sandbox: Sandbox,
    endpoint: AgentEndpoint,
    { maxMs, isLast, signal }: SealOptions,
  ): Promise<void> {
    const { stores, clock, metrics, isStoreFailing } = this.#options;
    const { namespace, name } = sandbox.metadata;
    const template = stores.templates.get(namespace, sandbox.spec.templateName);
    const conversations = stores.conversations
      .byIndex(bySandbox, `${namespace}/${name}`)
      .filter((conversation) => isIn(conversation, sandbox));
    if (conversations.length === 0 || !archiveRulesOf(template).enabled) return;
    const startedAt = clock.monotonic();
    const limitMs = isStoreFailing() ? Math.min(failingStoreMs, maxMs) : maxMs;
    const bounded = abortedAfter(clock, Math.max(0, limitMs), signal);
    if (limitMs <= 0) bounded.abort();
    const target = { sandbox, endpoint };
    const snapshot =
      isLast && limitMs > 0 ? this.#snapshot(endpoint, conversations, bounded.signal) : undefined;
    // This prevents an unhandled rejection if the call ends before the snapshot does.
    snapshot?.catch(() => undefined);
    const sealing: Sealing = {
      target,
      isLast,
      bounded: bounded.signal,
      signal,
      snapshot: snapshot ?? Promise.resolve(undefined),
    };
    try {
      // All calls end within `maxMs`, even if one of them fails.
      const seals = await Promise.allSettled(
        conversations.map(async (conversation) => {
          const isComplete = await this.#sealOne(conversation, sealing);
          if (isLast) metrics.archiveSeals.inc({ result: isComplete ? 'complete' : 'incomplete' });
        }),
      );
      for (const one of seals) if (one.status === 'rejected') throw one.reason;
    } finally {
      bounded.cancel();
      metrics.archiveSealSeconds.observe((clock.monotonic() - startedAt) / 1000);
    }
  }

  /** Returns whether the archive is complete. */
  async #sealOne(known: CachedConversation, sealing: Sealing): Promise<boolean> {
    const { archiver } = this.#options;
    const { bounded, signal, isLast } = sealing;
    const { namespace, name, uid } = known.metadata;
    // The name may belong to another conversation by now, which has none of this agent's events.
    const newest = () => {
      const conversation = archiver.conversation(namespace, name);
      return conversation?.metadata.uid === uid ? conversation : known;
    };
    const result = await this.#copyAll(newest, sealing);
    if (!isLast || result === 'reported') return false;
    if (result === 'incomplete') {
      await archiver.record(newest(), { reason: ArchiveReason.incomplete }, signal);
      return false;
    }
    const before = newest().status?.archive?.files;
    const files = await this.#storeFiles(newest(), sealing);
    const { archive } = newest().status ?? {};
    const change =
      files === undefined || archive === undefined ? {} : { archive: { ...archive, files } };
    const reason = ArchiveReason.complete;
    const stored = await archiver.record(newest(), { ...change, reason }, signal);
    if (stored)
      await this.#deleteReplaced(newest(), files === undefined ? undefined : before, bounded);
    return stored;
  }

  /** Copies all new events. `reported`: the condition Archived explains what is missing. */
  async #copyAll(
    newest: () => CachedConversation,
    { target, bounded, signal }: Sealing,
  ): Promise<'complete' | 'incomplete' | 'reported'> {
    let isReported = false;
    try {
      for (let attempt = 1; attempt <= maxAttempts;) {
        const conversation = newest();
        const { kind } = await this.#options.archiver.extend({ ...target, conversation }, bounded);
        if (kind === 'end') return 'complete';
        if (kind === 'limit') return 'reported';
        isReported = kind === 'failed';
        if (kind !== 'more') attempt++;
      }
    } catch (error) {
      if (!bounded.aborted || signal.aborted) throw error;
    }
    return isReported ? 'reported' : 'incomplete';
  }

  /** The files of the folder in which the first conversation of the sandbox works. */
  async #snapshot(
    endpoint: AgentEndpoint,
    [first]: readonly CachedConversation[],
    signal: AbortSignal,
  ): Promise<WorkspaceSnapshot | undefined> {
    const { archive, clock } = this.#options;
    const { workingDir } = first?.status ?? {};
    if (archive.files === undefined || workingDir === undefined) return undefined;
    const bounded = abortedAfter(clock, snapshotMs, signal);
    try {
      const options = { signal: bounded.signal, takenAt: isoTime(clock) };
      return await takeSnapshot(archive.files, endpoint, workingDir, options);
    } catch (error) {
      if (error instanceof AgentError || bounded.signal.aborted) return undefined;
      throw error;
    } finally {
      bounded.cancel();
    }
  }

  async #storeFiles(
    conversation: CachedConversation,
    { snapshot, target, bounded }: Sealing,
  ): Promise<string | undefined> {
    const { archive, stores } = this.#options;
    const { namespace, uid } = conversation.metadata;
    const { sandbox } = target;
    try {
      const files = await snapshot;
      const { events } = conversation.status?.archive ?? {};
      if (files === undefined || events === undefined) return undefined;
      const template = stores.templates.get(namespace, sandbox.spec.templateName);
      const secrets = await archiveSecrets(this.#options, { conversation, sandbox, template });
      const options = { events, hide: hiding(secrets), signal: bounded };
      return await storeSnapshot(archive, { namespace, uid }, files, options);
    } catch (error) {
      if (error instanceof StoreError || bounded.aborted) return undefined;
      throw error;
    }
  }

  /** Deletes the previous snapshot of files, and heads that no status names. */
  async #deleteReplaced(
    { metadata, status }: CachedConversation,
    before: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { store } = this.#options.archive;
    const { head, files } = status?.archive ?? {};
    const folder = `${folderOf(metadata)}h/`;
    try {
      if (before !== undefined && before !== files)
        await store.delete([keyOf(metadata, 'f', before)], { signal });
      if (head === undefined) return;
      for await (const keys of keysOf(store, folder, signal)) {
        const old = keys.filter((key) => isOlder(key.slice(folder.length), head));
        if (old.length > 0) await store.delete(old, { signal });
      }
    } catch (error) {
      // The archive is complete even if this deletion fails.
      if (!(error instanceof StoreError) && !signal.aborted) throw error;
    }
  }
}

/** Whether a head contains no more events than the current one, and so never replaces it. */
const isOlder = (name: string, current: string): boolean =>
  name !== current && (positionOf(name) ?? Infinity) <= (positionOf(current) ?? 0);

const isIn = (conversation: CachedConversation, { metadata, spec }: Sandbox): boolean =>
  conversation.status?.sandboxUID === metadata.uid &&
  conversation.spec.owner === spec.owner &&
  conversation.metadata.deletionTimestamp === undefined &&
  startStatusOf(conversation) === 'READY';
