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

/** Label of all objects that checks create. Its value is the id of one run of the command. */
export const checkLabel = `${group}/check`;
/** Annotation with the time after which another run deletes the object. */
export const expiryAnnotation = `${group}/check-expires`;

/** The lifetime exceeds the sum of all time limits of one run. */
const lifetimeMs = 10 * 60_000;
/** Maximum duration of the calls that delete the objects of a run. */
const cleanUpMs = 15_000;

export interface TemporaryObjectsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly namespace: string;
  /** Id of this run of the command: letters, digits and hyphens. */
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
 * Creates objects for checks, and deletes them. The deletion by label also finds an object whose
 * creation got no response. Without the right to list objects, deletes objects by their names.
 */
export class TemporaryObjects {
  readonly #options: TemporaryObjectsOptions;
  readonly #created: Created[] = [];
  /** Requests without an answer, which may have created an object with an unknown name. */
  readonly #unanswered = new Set<Pick<Created, 'plural'>>();

  constructor(options: TemporaryObjectsOptions) {
    this.#options = options;
  }

  /** Creates an object with a generated name, and returns the stored object. */
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
          // With these annotations, service meshes add no sidecar to the pods of a check.
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

  /** Value of the label by which network policies select the pods of this run. */
  get run(): string {
    return this.#options.run;
  }

  /** Deletes expired objects of earlier runs if RBAC allows this. Returns their number. */
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

  /** Deletes all objects of this run. Returns a message for each object that may still exist. */
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
