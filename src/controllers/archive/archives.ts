import type { Request } from '@conversation-operator/kube/controller';
import type { MeasuredStore } from '../../archive/measured-store.ts';
import type { Stores } from '../caches.ts';
import { Archiver, type ArchiverOptions, type ArchiveWriting } from './archiver.ts';
import { OwnerBytes } from './owner-bytes.ts';
import { ArchiveReconciler } from './reconcile.ts';
import { SandboxSeal } from './seal.ts';
import { ArchiveSweep } from './sweep.ts';

export interface ArchiveOptions extends ArchiveWriting {
  readonly store: MeasuredStore;
}

export interface ArchivesOptions extends Omit<ArchiverOptions, 'ownerBytes' | 'stores'> {
  readonly archive: ArchiveOptions;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'templates' | 'quotas'>;
  readonly enqueue: (request: Request, delayMs?: number) => void;
}

/** The parts of the operator that write archives and delete them. */
export function createArchives(options: ArchivesOptions) {
  const ownerBytes = new OwnerBytes(options.stores);
  const archiver = new Archiver({
    ...options,
    ownerBytes: (conversation) => ownerBytes.leftFor(conversation),
  });
  const { store } = options.archive;
  return {
    ownerBytes,
    reconciler: new ArchiveReconciler({ ...options, archiver }),
    seal: new SandboxSeal({ ...options, archiver, isStoreFailing: () => store.isFailing }),
    sweep: new ArchiveSweep(options),
  };
}
