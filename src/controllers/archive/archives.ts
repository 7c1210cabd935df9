import type { EventRecorder } from '@conversation-operator/kube/events';
import type { Request } from '@conversation-operator/kube/controller';
import type { MeasuredStore } from '../../archive/measured-store.ts';
import type { Stores } from '../caches.ts';
import { Archiver, type ArchiverOptions, type ArchiveWriting } from './archiver.ts';
import { NamespaceUids } from './namespace-uids.ts';
import { OwnerBytes } from './owner-bytes.ts';
import { ArchiveReconciler } from './reconcile.ts';
import { SandboxSeal } from './seal.ts';
import { ArchiveSweep, type SweepLimits } from './sweep.ts';

export interface ArchiveOptions extends ArchiveWriting {
  readonly store: MeasuredStore;
}

export interface ArchivesOptions extends Omit<
  ArchiverOptions,
  'ownerBytes' | 'stores' | 'namespaceUids'
> {
  readonly archive: ArchiveOptions;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly stores: Pick<Stores, 'conversations' | 'sandboxes' | 'templates' | 'quotas'>;
  readonly enqueue: (request: Request, delayMs?: number) => void;
  /** Limits of the sweep, where they differ from the defaults. */
  readonly sweep?: Partial<SweepLimits>;
}

/** The parts of the operator that write archives and delete them. */
export function createArchives(options: ArchivesOptions) {
  const ownerBytes = new OwnerBytes(options.stores);
  const namespaceUids = new NamespaceUids(options);
  const archiver = new Archiver({
    ...{ ...options, namespaceUids },
    ownerBytes: (conversation) => ownerBytes.leftFor(conversation),
  });
  const { store } = options.archive;
  return {
    ownerBytes,
    reconciler: new ArchiveReconciler({ ...options, namespaceUids, archiver }),
    seal: new SandboxSeal({
      ...{ ...options, namespaceUids, archiver },
      isStoreFailing: () => store.isFailing,
    }),
    sweep: new ArchiveSweep({ ...options, namespaceUids }),
  };
}
