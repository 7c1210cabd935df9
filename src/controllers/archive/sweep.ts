import type { RecordingNeeds } from '../controller-spec.ts';
import type { Metrics } from '../../observability/metrics.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import { isoTime } from '@conversation-operator/base/clock';
import { StoreError } from '@conversation-operator/object-store/object-store';
import { originOf, writerOf } from '../../archive/installation.ts';
import { archivesOf, removeArchive } from '../../archive/stored-archives.ts';
import { findCondition, setConditions } from '../../resources/conditions.ts';
import { conversations } from '../../resources/conversation.ts';
import { sandboxTemplates, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { Stores } from '../caches.ts';
import { ElapsedTimes } from '../elapsed-times.ts';
import type { ArchiveWriting, NamespaceUids } from './archiver.ts';
import { archivesSweptCondition, sweptUpdate, tooManyOrphans } from './archive-status.ts';

export interface ArchiveSweepOptions extends RecordingNeeds {
  readonly keys: SandboxKeys;
  readonly metrics: Metrics;
  readonly archive: Pick<ArchiveWriting, 'store' | 'codec'>;
  readonly stores: Pick<Stores, 'templates'>;
  readonly namespaceUids: NamespaceUids;
  readonly sweep?: Partial<SweepLimits> | undefined;
}

export interface SweepLimits {
  /**
   * Maximum share of archives without a Conversation in a namespace; 0.1 by default. A higher share
   * means that Conversations are missing: the cluster was restored from a backup, or is a copy of
   * another cluster.
   */
  readonly maxOrphanShare: number;
}

const sweepIntervalMs = 3_600_000;
const retryMs = 60_000;
/** Minimum time in milliseconds that an archive has no Conversation before it is deleted. */
const orphanedForMs = 86_400_000;
const maxForeign = 10_000;

interface Found {
  /** UIDs of this installation's archives without a Conversation. */
  readonly orphans: readonly string[];
  /** UIDs of the orphans that have been orphans for `orphanedForMs`. */
  readonly ripe: readonly string[];
  /** Number of archives with a Conversation. */
  readonly used: number;
}

/**
 * Deletes archives whose conversation was deleted while no operator watched. The archives of a
 * namespace are listed before its conversations, so a new conversation never seems to be missing. A
 * restored backup may contain a deleted conversation again. For this reason the sweep waits a day,
 * and deletes nothing if many archives become orphans at the same time.
 */
export class ArchiveSweep {
  readonly #options: ArchiveSweepOptions;
  /** UIDs of other installations' archives that the log has already named. */
  readonly #foreign = new Set<string>();
  /** For how long each archive has had no Conversation, by namespace and UID. */
  readonly #orphans: ElapsedTimes;
  /** Monotonic time of the last sweep, by namespace. */
  readonly #sweptAt = new Map<string, number>();

  constructor(options: ArchiveSweepOptions) {
    this.#options = options;
    this.#orphans = new ElapsedTimes(options);
  }

  async reconcile({ namespace }: Request, signal: AbortSignal): Promise<Result> {
    const { logger, clock } = this.#options;
    const sweptAt = this.#sweptAt.get(namespace) ?? -Infinity;
    const restMs = sweptAt + sweepIntervalMs - clock.monotonic();
    if (restMs > 0) return { requeueAfterMs: restMs };
    try {
      await this.#sweep(namespace, signal);
      this.#sweptAt.set(namespace, clock.monotonic());
      return { requeueAfterMs: sweepIntervalMs };
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      logger.warn('The store of the archive can not be used', { code: error.code, error });
      return { requeueAfterMs: retryMs };
    }
  }

  async #sweep(namespace: string, signal: AbortSignal): Promise<void> {
    const { archive, metrics, logger, sweep } = this.#options;
    const { orphans, ripe, used } = await this.#find(namespace, signal);
    const { maxOrphanShare = 0.1 } = sweep ?? {};
    const archives = orphans.length + used;
    const isStopped = orphans.length > maxOrphanShare * archives;
    await this.#show(
      namespace,
      isStopped ? { orphans: orphans.length, archives } : undefined,
      signal,
    );
    if (isStopped) return;
    for (const uid of ripe)
      if (await removeArchive(archive.store, { namespace, uid }, signal)) {
        metrics.archiveDeletions.inc({ cause: 'Orphaned' });
        logger.info('An archive without a conversation was deleted', { namespace, uid });
      }
  }

  async #find(namespace: string, signal: AbortSignal): Promise<Found> {
    const { archive, client, keys, logger, namespaceUids } = this.#options;
    const archived: string[] = [];
    for await (const uid of archivesOf(archive.store, namespace, signal)) archived.push(uid);
    if (archived.length === 0) return { orphans: [], ripe: [], used: 0 };
    const { items } = await client.listMapped(conversations, ({ metadata }) => metadata.uid, {
      namespace,
      metadataOnly: true,
      signal,
    });
    const present = new Set(items);
    const missing = archived.filter((uid) => !present.has(uid));
    const namespaceUid = await namespaceUids.read(namespace, signal);
    if (namespaceUid === undefined) {
      if (missing.length > 0)
        logger.warn('Archives without a conversation stay: the namespace can not be read', {
          namespace,
          archives: missing.length,
        });
      return { orphans: [], ripe: [], used: archived.length };
    }
    const orphans: string[] = [];
    const ripe: string[] = [];
    for (const uid of archived) {
      const name = `${namespace}/${uid}`;
      const origin = present.has(uid)
        ? undefined
        : originOf(await writerOf(archive, { namespace, uid }, signal), { keys, namespaceUid });
      if (origin === 'foreign') this.#reportForeign(namespace, uid);
      if (origin === undefined || origin === 'foreign') {
        this.#orphans.forget(name);
        continue;
      }
      orphans.push(uid);
      if (this.#orphans.lastsMs(name, origin) >= orphanedForMs) ripe.push(uid);
    }
    return { orphans, ripe, used: archived.length - missing.length };
  }

  /** Sets the condition `ArchivesSwept` of templates. Records an Event if the sweep is stopped. */
  async #show(
    namespace: string,
    stop: { readonly orphans: number; readonly archives: number } | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { stores, events } = this.#options;
    const update = sweptUpdate(stop);
    for (const template of stores.templates.list()) {
      if (template.metadata.namespace !== namespace) continue;
      const { message } = update;
      if (stop !== undefined)
        events.record(template, { type: 'Warning', reason: tooManyOrphans, message });
      await this.#record(template, update, signal);
    }
  }

  async #record(
    template: SandboxTemplate,
    update: ReturnType<typeof sweptUpdate>,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, clock } = this.#options;
    const { metadata, status } = template;
    const shown = findCondition(status?.conditions, archivesSweptCondition);
    // A namespace whose sweeps were never stopped gets no condition.
    if (shown === undefined ? update.status === 'True' : shown.message === update.message) return;
    const { generation } = metadata;
    const conditions = setConditions(status?.conditions, [update], generation, isoTime(clock));
    try {
      await client.updateStatus(
        sandboxTemplates,
        { ...template, status: { ...status, conditions } },
        { signal, from: status },
      );
    } catch (error) {
      // The next sweep writes the condition again.
      if (!isConflict(error) && !isNotFound(error)) throw error;
    }
  }

  #reportForeign(namespace: string, uid: string): void {
    if (!this.#foreign.has(uid))
      this.#options.logger.warn(
        'The store has an archive of another installation, which is not deleted. Give each installation a prefix of its own.',
        { namespace, uid },
      );
    if (this.#foreign.size < maxForeign) this.#foreign.add(uid);
  }
}
