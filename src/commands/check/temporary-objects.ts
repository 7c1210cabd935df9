import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { ApiError, isNotFound } from '@conversation-operator/kube/errors';
import {
  apiVersionOf,
  type KubeObject,
  type ResourceDefinition,
} from '@conversation-operator/kube/object';
import { group } from '../../resources/group.ts';
import { networkPolicies } from './resources.ts';

/** Label of everything that a check creates; the value names the run. */
export const checkLabel = `${group}/check`;
/** Annotation of the same: time after which no run needs the object any more. */
export const expiryAnnotation = `${group}/check-expires`;

/** Longer than all time limits of one run together. */
const lifetimeMs = 10 * 60_000;
/** Maximum duration of the calls that delete the objects of a run. */
const cleanUpMs = 15_000;

export interface TemporaryObjectsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly namespace: string;
  /** Name of this run: letters, digits and hyphens. */
  readonly run: string;
}

const kinds = [pods, persistentVolumeClaims, networkPolicies] as const;

/**
 * Objects that checks create. They are found by their label and not by their names, so that an
 * object whose creation was interrupted before its answer is deleted as well.
 */
export class TemporaryObjects {
  readonly #options: TemporaryObjectsOptions;
  #hasCreated = false;

  constructor(options: TemporaryObjectsOptions) {
    this.#options = options;
  }

  /** Creates an object with a generated name, and returns it as stored. */
  async create<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    {
      labels = {},
      ...body
    }: { readonly labels?: Readonly<Record<string, string>>; readonly spec: object },
    signal: AbortSignal,
  ): Promise<T> {
    const { client, clock, namespace, run } = this.#options;
    signal.throwIfAborted();
    this.#hasCreated = true;
    return client.create(
      resource,
      {
        apiVersion: apiVersionOf(resource),
        kind: resource.kind,
        metadata: {
          namespace,
          generateName: 'check-',
          labels: { ...labels, [checkLabel]: run },
          annotations: {
            [expiryAnnotation]: isoTime({ ...clock, now: () => clock.now() + lifetimeMs }),
            // Pods of a check need no sidecar; known meshes leave them alone.
            'sidecar.istio.io/inject': 'false',
            'linkerd.io/inject': 'disabled',
          },
        },
        ...body,
      } as unknown as Parameters<typeof client.create<T>>[1],
      { signal },
    );
  }

  /** Label by which the policies of one run select its pods. */
  get run(): string {
    return this.#options.run;
  }

  /** Deletes what earlier runs have left; returns how many objects. */
  async deleteLeftovers(signal: AbortSignal): Promise<number> {
    const { clock } = this.#options;
    return this.#delete(checkLabel, signal, ({ metadata }) => {
      const expires = Date.parse(metadata.annotations?.[expiryAnnotation] ?? '');
      return !(expires > clock.now());
    });
  }

  /** Deletes everything that this run has created, also after an interruption. */
  async close(): Promise<void> {
    if (!this.#hasCreated) return;
    const signal = AbortSignal.timeout(cleanUpMs);
    await this.#delete(`${checkLabel}=${this.#options.run}`, signal, () => true);
  }

  async #delete(
    labelSelector: string,
    signal: AbortSignal,
    isChosen: (object: KubeObject) => boolean,
  ): Promise<number> {
    const { client, namespace } = this.#options;
    let deleted = 0;
    const deleteAll = async <T extends KubeObject>(resource: ResourceDefinition<T>) => {
      const { items } = await client.list(resource, { namespace, labelSelector, signal });
      for (const item of items.filter(isChosen)) {
        const { name, uid } = item.metadata;
        try {
          await client.delete(resource, namespace, name, { uid, gracePeriodSeconds: 0, signal });
          deleted++;
        } catch (error) {
          if (!isNotFound(error)) throw error;
        }
      }
    };
    for (const resource of kinds) {
      try {
        await deleteAll<KubeObject>(resource);
      } catch (error) {
        // Without the kind, or the right to read it, this run has created none of it.
        if (!(error instanceof ApiError) || (error.status !== 403 && error.status !== 404))
          throw error;
      }
    }
    return deleted;
  }
}
