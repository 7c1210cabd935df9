import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { ApiError, isNotFound, mayBeExecuted } from '@conversation-operator/kube/errors';
import {
  apiVersionOf,
  type KubeObject,
  type ResourceDefinition,
} from '@conversation-operator/kube/object';
import { group } from '../../resources/group.ts';
import { networkPolicies } from './resources.ts';
import { oneLine } from '../terminal.ts';

/** Label of everything that a check creates; the value names the run. */
export const checkLabel = `${group}/check`;
/** Annotation of the same objects: time after which no run needs the object any more. */
export const expiryAnnotation = `${group}/check-expires`;

/** The lifetime exceeds all time limits of one run together. */
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

const reasonOf = (error: unknown): string =>
  oneLine(error instanceof Error ? error.message : String(error));

interface Created {
  readonly plural: string;
  readonly metadata: Pick<KubeObject['metadata'], 'name' | 'uid'>;
}

/**
 * Objects that checks create. They are found by their label, so that an object whose creation was
 * interrupted before its answer is deleted as well, and by their names where there is no right to
 * list them.
 */
export class TemporaryObjects {
  readonly #options: TemporaryObjectsOptions;
  readonly #created: Created[] = [];
  /** Creations that may have left an object whose name is not known. */
  readonly #unanswered = new Set<Pick<Created, 'plural'>>();

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
    const { plural } = resource;
    const sent = { plural };
    this.#unanswered.add(sent);
    const object = {
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
    } as unknown as Parameters<typeof client.create<T>>[1];
    try {
      const stored = await client.create(resource, object, { signal });
      this.#created.push({ plural, metadata: stored.metadata });
      this.#unanswered.delete(sent);
      return stored;
    } catch (error) {
      if (error instanceof ApiError && !mayBeExecuted(error)) this.#unanswered.delete(sent);
      throw error;
    }
  }

  /** Label by which the policies of one run select its pods. */
  get run(): string {
    return this.#options.run;
  }

  /** Deletes what earlier runs have left, as far as there are rights; returns how many objects. */
  async deleteLeftovers(signal: AbortSignal): Promise<number> {
    const { clock } = this.#options;
    let deleted = 0;
    for (const resource of kinds) {
      try {
        const listed = await this.#listed(resource, checkLabel, signal);
        const expired = listed.filter(({ metadata }) => {
          const expires = Date.parse(metadata.annotations?.[expiryAnnotation] ?? '');
          return !(expires > clock.now());
        });
        for (const { metadata } of expired) {
          await this.#delete(resource, metadata, signal);
          deleted++;
        }
      } catch (error) {
        if (!(error instanceof ApiError) || (error.status !== 403 && error.status !== 404))
          throw error;
      }
    }
    return deleted;
  }

  /** Deletes all that this run created, also if interrupted; returns what may be left, and why. */
  async close(): Promise<readonly string[]> {
    const { namespace, run } = this.#options;
    const selector = `${checkLabel}=${run}`;
    const signal = AbortSignal.timeout(cleanUpMs);
    const left: string[] = [];
    for (const resource of kinds) {
      const isThis = ({ plural }: Pick<Created, 'plural'>) => plural === resource.plural;
      const known = this.#created.filter(isThis);
      const isWhole = ![...this.#unanswered].some(isThis);
      if (known.length === 0 && isWhole) continue;
      const by = `kubectl -n ${namespace} delete ${resource.plural} -l ${selector}`;
      let objects: readonly Pick<Created, 'metadata'>[];
      try {
        objects = await this.#listed(resource, selector, signal);
      } catch (error) {
        objects = known;
        if (!isWhole)
          left.push(`${resource.plural} may be left: ${reasonOf(error)}; delete them by ${by}`);
      }
      for (const { metadata } of objects) {
        try {
          await this.#delete(resource, metadata, signal);
        } catch (error) {
          left.push(
            `${resource.plural} ${metadata.name} is left: ${reasonOf(error)}; delete it by ${by}`,
          );
        }
      }
    }
    return left;
  }

  async #listed(
    resource: ResourceDefinition<KubeObject>,
    labelSelector: string,
    signal: AbortSignal,
  ): Promise<readonly KubeObject[]> {
    const { client, namespace } = this.#options;
    return (await client.list(resource, { namespace, labelSelector, signal })).items;
  }

  async #delete(
    resource: ResourceDefinition<KubeObject>,
    { name, uid }: Created['metadata'],
    signal: AbortSignal,
  ): Promise<void> {
    const { client, namespace } = this.#options;
    try {
      await client.delete(resource, namespace, name, { uid, gracePeriodSeconds: 0, signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }
}
