import type { CommonNeeds } from '../controller-spec.ts';
import { isDeepStrictEqual } from 'node:util';
import { sleep } from '@conversation-operator/base/clock';
import { backoffDelayMs } from '@conversation-operator/base/backoff';
import { found, isAlreadyExists, isInvalid } from '@conversation-operator/kube/errors';
import type { ResourceDefinition } from '@conversation-operator/kube/object';
import type { InitialObject } from '../../config/initial-objects.ts';
import { conversationQuotas } from '../../resources/conversation-quota.ts';
import { apiVersion, type CustomObject, group } from '../../resources/group.ts';
import { sandboxTemplates } from '../../resources/sandbox-template.ts';
import { z } from 'zod';

/**
 * Annotation with the spec, as JSON, that the operator has applied to an initial object. Only an
 * object that still has exactly this spec is updated to new chart values.
 */
export const initialSpecAnnotation = `${group}/initial-spec`;

/** The label that identifies objects of earlier chart versions, which lack the annotation. */
const nameLabel = 'app.kubernetes.io/name';
const instanceLabel = 'app.kubernetes.io/instance';

const liveSchema = z.object({
  metadata: z.object({
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
    managedFields: z
      .array(
        z.object({
          manager: z.string().default(''),
          subresource: z.string().optional(),
          fieldsV1: z.record(z.string(), z.unknown()).default({}),
        }),
      )
      .default([]),
  }),
  spec: z.unknown(),
});

type InitialObjectStep =
  /** The operator has applied the wanted spec. People may have changed the object since. */
  | { readonly do: 'nothing' }
  /** The operator does not update the object, because people have changed or created it. */
  | { readonly do: 'leave' }
  /** The operator has applied `spec`. The object is updated if a dry run finds no change since. */
  | { readonly do: 'compare'; readonly spec: Readonly<Record<string, unknown>> }
  | { readonly do: 'replace' };

/** Parses the annotation `initialSpecAnnotation`; undefined for text that is no JSON object. */
function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return z.record(z.string(), z.unknown()).safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

const labelFields = z.object({
  'f:metadata': z.object({ 'f:labels': z.object({ [`f:${instanceLabel}`]: z.looseObject({}) }) }),
});
const setsInstance = (fields: unknown): boolean => labelFields.safeParse(fields).success;

/**
 * Decides what to do with an existing object. Earlier chart versions installed these objects as
 * resources of the Helm release, with the chart's labels and without the annotation. People have
 * not changed such an object if the manager of those labels in `managedFields` is the only manager
 * of spec fields.
 */
function decideInitialObject(wanted: InitialObject, live: unknown): InitialObjectStep {
  const { metadata } = liveSchema.parse(live);
  const given = metadata.annotations[initialSpecAnnotation];
  if (given !== undefined) {
    const spec = parsed(given);
    if (spec === undefined) return { do: 'leave' };
    return isDeepStrictEqual(spec, wanted.spec) ? { do: 'nothing' } : { do: 'compare', spec };
  }
  const isOfChart =
    metadata.labels[instanceLabel] !== undefined &&
    metadata.labels[nameLabel] === wanted.metadata.labels[nameLabel];
  // The creator still manages the label, even if people have set every field of the spec.
  const authors = new Set(
    metadata.managedFields
      .filter(
        ({ subresource, fieldsV1 }) =>
          subresource === undefined && ('f:spec' in fieldsV1 || setsInstance(fieldsV1)),
      )
      .map(({ manager }) => manager),
  );
  return { do: isOfChart && authors.size === 1 ? 'replace' : 'leave' };
}

type AnyObject = CustomObject<Readonly<Record<string, unknown>>, unknown>;

const hasSpec = (object: unknown): object is AnyObject =>
  typeof object === 'object' && object !== null && 'spec' in object;

/** `accepts` permits any spec here, because the API server validates the chart values. */
const resources: Readonly<Record<InitialObject['kind'], ResourceDefinition<AnyObject>>> = {
  ConversationQuota: { ...conversationQuotas, accepts: hasSpec },
  SandboxTemplate: { ...sandboxTemplates, accepts: hasSpec },
};

export interface InitialObjectsOptions extends CommonNeeds {
  readonly objects: readonly InitialObject[];
  readonly random: () => number;
}

/**
 * - absent: the object does not exist, and `create` is false.
 * - left: people have changed the object, so the chart values do not apply to it.
 */
type Outcome = 'absent' | 'created' | 'replaced' | 'kept' | 'left';

interface Permitted {
  readonly create: boolean;
  /** Action for an existing object: none, a dry run of the update, or the update. */
  readonly existing: 'ignore' | 'judge' | 'replace';
  readonly signal: AbortSignal;
}

/** Delay between two checks that the objects exist. */
const checkMs = 15_000;
const retries = { baseMs: 500, capMs: 15_000, jitter: 0.2 } as const;

/**
 * The initial objects of an installation: the default quota and templates in the chart values.
 * People may change an object, and the operator then leaves the object alone. The operator creates
 * a deleted object again.
 */
export class InitialObjects {
  readonly #options: InitialObjectsOptions;

  constructor(options: InitialObjectsOptions) {
    this.#options = options;
  }

  /**
   * Resolves once every object exists and the API server accepts its values, so that a process with
   * invalid values never becomes ready. Rejects with the reason of an aborted signal.
   */
  async ensure(signal: AbortSignal): Promise<void> {
    for (const object of this.#options.objects)
      await this.#persistently(object, { create: true, existing: 'judge', signal });
  }

  /**
   * Updates every object to the chart values and recreates deleted objects, until the signal is
   * aborted; then rejects with the signal's reason. Only one process may call this: during an
   * upgrade, the processes of the earlier release have other chart values.
   */
  async maintain(signal: AbortSignal): Promise<never> {
    const { objects, clock, logger } = this.#options;
    for (const object of objects) {
      const outcome = await this.#persistently(object, {
        create: true,
        existing: 'replace',
        signal,
      });
      if (outcome === 'left')
        logger.info('an initial object was changed, so the values do not count for it', {
          kind: object.kind,
          name: object.metadata.name,
        });
    }
    let absent = new Set<InitialObject>();
    for (;;) {
      await sleep(clock, checkMs, signal);
      const stillAbsent = new Set<InitialObject>();
      for (const object of objects) {
        // An object is created only after two checks without it: `kubectl replace --force` deletes
        // an object for a moment.
        const create = absent.has(object);
        const outcome = await this.#persistently(object, { create, existing: 'ignore', signal });
        if (outcome === 'absent') stillAbsent.add(object);
      }
      absent = stillAbsent;
    }
  }

  async #persistently(object: InitialObject, permitted: Permitted): Promise<Outcome> {
    const { clock, random, logger } = this.#options;
    const { kind, metadata } = object;
    for (let failures = 1; ; failures += 1) {
      try {
        const outcome = await this.#reconcile(object, permitted);
        if (outcome === 'created' || outcome === 'replaced')
          logger.info(`an initial object was ${outcome}`, { kind, name: metadata.name });
        return outcome;
      } catch (error) {
        permitted.signal.throwIfAborted();
        logger.warn('an initial object can not be stored', { kind, name: metadata.name, error });
        await sleep(clock, backoffDelayMs(retries, failures, random), permitted.signal);
      }
    }
  }

  async #reconcile(
    object: InitialObject,
    { create, existing, signal }: Permitted,
  ): Promise<Outcome> {
    const { client } = this.#options;
    const resource = resources[object.kind];
    const { name, namespace, labels } = object.metadata;
    const given = { [initialSpecAnnotation]: JSON.stringify(object.spec) };
    const live = await found(
      client.get(resource, namespace, name, { signal, managedFields: true }),
    );
    if (live === undefined) {
      if (!create) return 'absent';
      const metadata = { name, namespace, labels, annotations: given };
      const { kind, spec } = object;
      try {
        await client.create(resource, { apiVersion, kind, metadata, spec }, { signal });
      } catch (error) {
        // Another process of the operator has created the object.
        if (!isAlreadyExists(error)) throw error;
        return 'kept';
      }
      return 'created';
    }
    if (existing === 'ignore') return 'kept';
    const step = decideInitialObject(object, live);
    if (step.do === 'nothing') return 'kept';
    if (step.do === 'leave') return 'left';
    if (step.do === 'compare' && !(await this.#has(resource, live, step.spec, signal)))
      return 'left';
    const annotations = { ...live.metadata.annotations, ...given };
    await client.update(
      resource,
      { ...live, metadata: { ...live.metadata, annotations }, spec: object.spec },
      { signal, dryRun: existing === 'judge' },
    );
    return existing === 'judge' ? 'kept' : 'replaced';
  }

  /** Whether the object has this spec, after a dry run in which the API server adds defaults. */
  async #has(
    resource: ResourceDefinition<AnyObject>,
    live: AnyObject,
    spec: AnyObject['spec'],
    signal: AbortSignal,
  ): Promise<boolean> {
    try {
      const filled = await this.#options.client.update(
        resource,
        { ...live, spec },
        { signal, dryRun: true },
      );
      return isDeepStrictEqual(filled.spec, live.spec);
    } catch (error) {
      // The object can not have a spec that the API server rejects.
      if (isInvalid(error)) return false;
      throw error;
    }
  }
}
