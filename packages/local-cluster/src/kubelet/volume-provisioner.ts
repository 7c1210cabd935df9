import { mkdir, readdir } from 'node:fs/promises';
import { Controller, type Request, type Result } from '@conversation-operator/kube/controller';
import { unlessChanged } from '@conversation-operator/kube/errors';
import { isLive } from '@conversation-operator/kube/object';
import type { Store } from '@conversation-operator/kube/store';
import {
  persistentVolumeClaims,
  type PersistentVolumeClaim,
} from '@conversation-operator/kube/core';
import { removeTree, type NodeFolder } from './node-folder.ts';
import type { NodeSettings } from './options.ts';

/** Name of the index of claims by uid. */
export const byUid = 'uid';

/**
 * Returns the request for the folder of a claim uid. Requests for claims have a namespace, requests
 * for folders have none.
 */
export const folderRequest = (claimUid: string): Request => ({ namespace: '', name: claimUid });

interface Options {
  readonly settings: NodeSettings;
  readonly folder: NodeFolder;
  /** Store of claims with the index `byUid`. */
  readonly claims: Store<PersistentVolumeClaim>;
  readonly isUsed: (claimUid: string) => boolean;
}

/**
 * Creates a folder for every claim and removes the folder when the claim is gone and no pod uses it
 * any more.
 */
export class VolumeProvisioner {
  readonly controller: Controller;
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
    this.controller = new Controller({
      ...options.settings,
      name: 'node-volumes',
      workers: 4,
      reconcile: (request) =>
        request.namespace === '' ? this.#removeUnclaimed(request.name) : this.#provide(request),
    });
  }

  /**
   * Checks every folder, because claims may have been deleted while the node did not run. The store
   * must have synced.
   */
  async sweep(): Promise<void> {
    for (const name of await readdir(this.#options.folder.volumes))
      this.controller.enqueue(folderRequest(name));
  }

  async #provide({ namespace, name }: Request): Promise<Result> {
    const claim = this.#options.claims.get(namespace, name);
    if (claim === undefined || !isLive(claim) || claim.status?.phase === 'Bound') return undefined;
    await mkdir(this.#options.folder.volume(claim.metadata.uid), { recursive: true, mode: 0o700 });
    // The watch reports a change, and the claim is reconciled again.
    await unlessChanged(this.#named(claim).then((named) => this.#bind(named)));
    return undefined;
  }

  async #named(claim: PersistentVolumeClaim): Promise<PersistentVolumeClaim> {
    if (claim.spec?.volumeName !== undefined && claim.spec.volumeName !== '') return claim;
    const { namespace = '', name, uid, resourceVersion } = claim.metadata;
    return this.#options.settings.client.mergePatch(persistentVolumeClaims, namespace, name, {
      metadata: { resourceVersion },
      spec: { volumeName: `pvc-${uid}` },
    });
  }

  async #bind(claim: PersistentVolumeClaim): Promise<void> {
    const storage = claim.spec?.resources?.requests?.['storage'];
    await this.#options.settings.client.updateStatus(persistentVolumeClaims, {
      ...claim,
      status: {
        phase: 'Bound',
        ...(claim.spec?.accessModes === undefined ? {} : { accessModes: claim.spec.accessModes }),
        ...(storage === undefined ? {} : { capacity: { storage } }),
      },
    });
  }

  async #removeUnclaimed(claimUid: string): Promise<Result> {
    if (this.#options.claims.byIndex(byUid, claimUid).length > 0 || this.#options.isUsed(claimUid))
      return undefined;
    await removeTree(this.#options.folder.volume(claimUid));
    this.#options.settings.logger.info('The volume of a deleted claim has been removed', {
      claimUid,
    });
    return undefined;
  }
}
