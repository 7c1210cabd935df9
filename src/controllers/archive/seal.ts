import { folderOf, positionOf } from '../../archive/layout.ts';
import { keysOf } from '../../archive/removal.ts';
import type { AgentEndpoint } from '../../agent/agent.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { archiveRulesOf } from '../../resources/sandbox-template.ts';
import { StoreError } from '@conversation-operator/object-store/store-error';
import { abortedAfter } from '../aborted-after.ts';
import { bySandbox, type Stores } from '../caches.ts';
import type { Archiver, ArchiverOptions } from './archiver.ts';
import { ArchiveReason } from './conditions.ts';

/** Archives what an agent has before its pod ends. */
export interface SandboxArchives {
  /**
   * Archives everything that the agent has when the call begins. Ends in time in any case; what is
   * missing then stays on the volume.
   * @param maxMs Maximum milliseconds of the call.
   */
  seal(
    sandbox: Sandbox,
    endpoint: AgentEndpoint,
    maxMs: number,
    signal: AbortSignal,
  ): Promise<void>;
}

export interface SandboxSealOptions extends Omit<ArchiverOptions, 'ownerBytes' | 'stores'> {
  readonly archiver: Archiver;
  readonly stores: Pick<Stores, 'conversations' | 'templates'>;
  /** Whether the last request to the store has failed lately. */
  readonly isStoreFailing: () => boolean;
}

/** Maximum time of a pause for a store that fails, in milliseconds. */
const failingStoreMs = 1_000;
const maxAttempts = 3;

export class SandboxSeal implements SandboxArchives {
  readonly #options: SandboxSealOptions;

  constructor(options: SandboxSealOptions) {
    this.#options = options;
  }

  async seal(
    sandbox: Sandbox,
    endpoint: AgentEndpoint,
    maxMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { stores, clock, metrics, isStoreFailing } = this.#options;
    const { namespace, name } = sandbox.metadata;
    const template = stores.templates.get(namespace, sandbox.spec.templateName);
    if (maxMs <= 0 || !archiveRulesOf(template).enabled) return;
    const targets = stores.conversations
      .byIndex(bySandbox, `${namespace}/${name}`)
      .filter((conversation) => isIn(conversation, sandbox));
    if (targets.length === 0) return;
    const startedAt = clock.monotonic();
    const bounded = abortedAfter(
      clock,
      isStoreFailing() ? Math.min(failingStoreMs, maxMs) : maxMs,
      signal,
    );
    try {
      // All of them end within the bound, also where one fails.
      const seals = await Promise.allSettled(
        targets.map(async (conversation) => {
          const isComplete = await this.#sealOne(conversation, sandbox, endpoint, {
            bounded: bounded.signal,
            signal,
          });
          metrics.archiveSeals.inc({ result: isComplete ? 'complete' : 'incomplete' });
        }),
      );
      for (const one of seals) if (one.status === 'rejected') throw one.reason;
    } finally {
      bounded.cancel();
      metrics.archiveSealSeconds.observe((clock.monotonic() - startedAt) / 1000);
    }
  }

  async #sealOne(
    conversation: CachedConversation,
    sandbox: Sandbox,
    endpoint: AgentEndpoint,
    { bounded, signal }: { readonly bounded: AbortSignal; readonly signal: AbortSignal },
  ): Promise<boolean> {
    const { archiver } = this.#options;
    const { namespace, name, uid } = conversation.metadata;
    // Another conversation may have got the name, and the events of this agent are not its own.
    const newest = () => {
      const known = archiver.conversation(namespace, name);
      return known?.metadata.uid === uid ? known : conversation;
    };
    let isReported = false;
    try {
      for (let attempt = 1; attempt <= maxAttempts;) {
        const target = { conversation: newest(), sandbox, endpoint };
        const { kind } = await archiver.extend(target, bounded, ArchiveReason.complete);
        if (kind === 'end') {
          await this.#deleteOldHeads(newest(), bounded);
          return true;
        }
        if (kind === 'limit') return false;
        isReported = kind === 'failed';
        if (kind !== 'more') attempt++;
      }
    } catch (error) {
      if (!bounded.aborted || signal.aborted) throw error;
    }
    if (!isReported) await archiver.record(newest(), { reason: ArchiveReason.incomplete }, signal);
    return false;
  }

  /** Deletes the heads that processes have left which ended before they could delete them. */
  async #deleteOldHeads(
    { metadata, status }: CachedConversation,
    signal: AbortSignal,
  ): Promise<void> {
    const { archive } = this.#options;
    const { head } = status?.archive ?? {};
    if (head === undefined) return;
    const folder = `${folderOf(metadata)}h/`;
    try {
      for await (const keys of keysOf(archive.store, folder, signal)) {
        const old = keys.filter((key) => isOlder(key.slice(folder.length), head));
        if (old.length > 0) await archive.store.delete(old, { signal });
      }
    } catch (error) {
      // The archive is complete all the same.
      if (!signal.aborted && !(error instanceof StoreError)) throw error;
    }
  }
}

/** A head of fewer events, or of as many, never becomes the current one. */
const isOlder = (name: string, current: string): boolean =>
  name !== current && (positionOf(name) ?? Infinity) <= (positionOf(current) ?? 0);

const isIn = (conversation: CachedConversation, { metadata, spec }: Sandbox): boolean =>
  conversation.status?.sandboxUID === metadata.uid &&
  conversation.spec.owner === spec.owner &&
  conversation.metadata.deletionTimestamp === undefined &&
  startStatusOf(conversation) === 'READY';
