import type { Request, Result } from '@conversation-operator/kube/controller';
import { StoreError } from '@conversation-operator/object-store/store-error';
import { originOf, type ArchiveOrigin } from '../../archive/installation.ts';
import { archivesOf, removeArchive } from '../../archive/removal.ts';
import { conversations } from '../../resources/conversation.ts';
import { LastingValues } from '../lasting-values.ts';
import type { OperatorRuntime } from '../operator-runtime.ts';
import type { ArchiveWriting } from './archiver.ts';

export interface ArchiveSweepOptions extends OperatorRuntime {
  readonly archive: Pick<ArchiveWriting, 'store' | 'codec'>;
}

const sweepIntervalMs = 3_600_000;
const retryMs = 60_000;
/**
 * Time in milliseconds after which an archive without a head is the remains of a writer that has
 * ended: a step of a writer takes a minute at most.
 */
const headlessForMs = 1_800_000;
const maxForeign = 10_000;

/**
 * Deletes the archives whose conversation was deleted while no operator saw it. The archives of a
 * namespace are listed before its conversations: each of them was written for a conversation that
 * existed, and a UID that is gone never comes back.
 */
export class ArchiveSweep {
  readonly #options: ArchiveSweepOptions;
  /** UIDs of archives that the log has named. */
  readonly #foreign = new Set<string>();
  /** Archives without a head. */
  readonly #headless: LastingValues;
  /** Monotonic time of the last sweep, by namespace. */
  readonly #sweptAt = new Map<string, number>();

  constructor(options: ArchiveSweepOptions) {
    this.#options = options;
    this.#headless = new LastingValues(options);
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
    const { archive, client, keys, logger, metrics } = this.#options;
    const archived: string[] = [];
    for await (const uid of archivesOf(archive.store, namespace, signal)) archived.push(uid);
    if (archived.length === 0) return;
    const { items } = await client.listMapped(conversations, ({ metadata }) => metadata.uid, {
      ...{ namespace, metadataOnly: true, signal },
    });
    const present = new Set(items);
    for (const uid of archived) {
      if (present.has(uid)) continue;
      const origin = await originOf(archive, { namespace, uid }, keys, signal);
      if (origin === 'foreign') this.#reportForeign(namespace, uid);
      if (origin !== 'own' && !this.#isAbandoned(uid, origin)) continue;
      if (await removeArchive(archive.store, { namespace, uid }, signal)) {
        metrics.archiveDeletions.inc({ cause: 'Orphaned' });
        logger.info('An archive without a conversation was deleted', { namespace, uid });
      }
    }
  }
  /** Whether the archive has had no head for so long that none follows. */
  #isAbandoned(uid: string, origin: ArchiveOrigin): boolean {
    if (origin === 'headless') return this.#headless.lastsMs(uid, origin) >= headlessForMs;
    this.#headless.forget(uid);
    return false;
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
