import { timestampOf } from '@conversation-operator/kube/object';
import type { Clock } from '@conversation-operator/base/clock';
import {
  equal,
  isObject,
  objectAt,
  stringAt,
  without,
  type JsonObject,
  numberAt,
  valueAt,
  withValueAt,
} from '../json/json.ts';
import { apiVersionOf, type ApiResource, type ScalePaths } from '../registry/api-resource.ts';
import { invalidValue, type FieldError } from '../schema/field-error.ts';
import { validate } from '../schema/validate.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import {
  namespacesKey,
  serverFields,
  withMeta,
  withStatus,
  type ApiObject,
  type Meta,
  nameSuffix,
  randomUuid,
} from './api-object.ts';
import { checkDeletion, deleted, isHeld, type DeleteOptions, type Deletion } from './deletion.ts';
import { metadataErrors } from './metadata.ts';
import {
  alreadyExists,
  badRequest,
  conflict,
  forbidden,
  invalid,
  notFound,
  StatusError,
} from './status-error.ts';

export interface WriteOptions {
  readonly dryRun?: boolean;
  readonly isPatch?: boolean;
}

export type Part = 'main' | 'status';

/** Creates, updates and deletes objects of all kinds, each within one turn of the event loop. */
export class ObjectWriter {
  readonly #store: ObjectStore;
  readonly #clock: Clock;
  readonly #random: () => number;

  constructor(options: {
    readonly store: ObjectStore;
    readonly clock: Clock;
    readonly random: () => number;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#random = options.random;
  }

  create(
    resource: ApiResource,
    namespace: string | undefined,
    object: JsonObject,
    options: WriteOptions = {},
  ): ApiObject {
    const sent = objectAt(object, 'metadata') ?? {};
    checkNamespaceSent(sent, namespace);
    if (sentText(sent, 'resourceVersion') !== '')
      throw new StatusError(
        500,
        'InternalError',
        'resourceVersion should not be set on objects to be created',
      );
    const name = this.#nameOf(resource, namespace, sent);
    const metadata: Meta = {
      ...withoutEmpty(sent, 'selfLink', 'deletionTimestamp', 'deletionGracePeriodSeconds'),
      ...(namespace === undefined ? {} : { namespace }),
      name,
      uid: randomUuid(this.#random),
      resourceVersion: '',
      ...(resource.hasGeneration ? { generation: 1 } : {}),
      creationTimestamp: timestampOf(this.#clock.now()),
    };
    const parts = resource.hasStatus ? without(object, 'status') : object;
    const complete: ApiObject = {
      ...parts,
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata,
    };
    checkObject(resource, complete, undefined);
    const initial = resource.initial?.(complete) ?? complete;
    if (namespace !== undefined) this.#checkNamespace(resource, namespace, name);
    const present = this.#store.get(resource.key, namespace ?? '', name)?.object.metadata;
    if (present !== undefined)
      throw alreadyExists(resource, name, { deleting: present.deletionTimestamp !== undefined });
    return options.dryRun === true
      ? withMeta(initial, { resourceVersion: undefined })
      : this.#store.put(resource.key, initial).object;
  }

  #nameOf(resource: ApiResource, namespace: string | undefined, sent: JsonObject): string {
    const name = sentText(sent, 'name');
    const base = sentText(sent, 'generateName');
    if (name !== '' || base === '') return name;
    for (;;) {
      const generated = `${base.slice(0, 58)}${nameSuffix(this.#random)}`;
      if (this.#store.get(resource.key, namespace ?? '', generated) === undefined) return generated;
    }
  }

  #checkNamespace(resource: ApiResource, namespace: string, name: string): void {
    const stored = this.#store.get(namespacesKey, '', namespace);
    if (stored === undefined)
      throw notFound({ group: '', plural: 'namespaces', kind: 'Namespace' }, namespace);
    if (stored.object.metadata.deletionTimestamp === undefined) return;
    throw forbidden(
      resource,
      name,
      `unable to create new content in namespace ${namespace} because it is being terminated`,
      {
        reason: 'NamespaceTerminating',
        message: `namespace ${namespace} is being terminated`,
        field: 'metadata.namespace',
      },
    );
  }

  get(resource: ApiResource, namespace: string | undefined, name: string): ApiObject {
    const stored = this.#store.get(resource.key, namespace ?? '', name);
    if (stored === undefined) throw notFound(resource, name);
    return stored.object;
  }

  /** Replaces an object except its status, or only the status. `serverFields` keep their values. */
  update(
    resource: ApiResource,
    old: ApiObject,
    sent: JsonObject,
    part: Part,
    options: WriteOptions = {},
  ): ApiObject {
    const { isPatch = false } = options;
    const next = this.#merge(resource, old, sent, { part, isPatch });
    if (equal(next, old)) return old;
    const changed =
      resource.hasGeneration &&
      part === 'main' &&
      !equal(generationPart(next, resource), generationPart(old, resource));
    const versioned = changed
      ? withMeta(next, { generation: (old.metadata.generation ?? 0) + 1 })
      : next;
    checkObject(resource, versioned, old);
    return this.store(resource, versioned, options);
  }

  /** Stores an object, or removes it if it is deleted and no finalizer or grace period holds it. */
  store(resource: ApiResource, object: ApiObject, options: WriteOptions = {}): ApiObject {
    if (options.dryRun === true) return object;
    const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = object.metadata;
    const ends =
      deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0 && !isHeld(object);
    return (ends ? this.#store.remove(resource.key, object) : this.#store.put(resource.key, object))
      .object;
  }

  #merge(
    resource: ApiResource,
    old: ApiObject,
    sent: JsonObject,
    { part, isPatch }: { readonly part: Part; readonly isPatch: boolean },
  ): ApiObject {
    const metadata = objectAt(sent, 'metadata') ?? {};
    this.#checkIdentity(resource, old, { metadata, isPatch });
    if (part === 'status') return withStatus(old, sent['status']);
    const free = without(metadata, ...serverFields);
    const kept = Object.fromEntries(
      serverFields.flatMap((key) =>
        old.metadata[key] === undefined ? [] : [[key, old.metadata[key]]],
      ),
    );
    const next: ApiObject = {
      ...sent,
      apiVersion: old.apiVersion,
      kind: old.kind,
      metadata: { ...withoutEmpty(free, 'selfLink'), ...kept } as Meta,
    };
    return resource.hasStatus ? withStatus(next, old['status']) : next;
  }

  #checkIdentity(
    resource: ApiResource,
    old: ApiObject,
    { metadata, isPatch }: { readonly metadata: JsonObject; readonly isPatch: boolean },
  ): void {
    const { name, namespace, resourceVersion } = old.metadata;
    checkName(name, metadata);
    checkNamespaceSent(metadata, namespace);
    const uid = sentText(metadata, 'uid');
    if (!isPatch) checkUid(resource, old.metadata, uid);
    const sentVersion = sentText(metadata, 'resourceVersion');
    if (sentVersion !== '' && sentVersion !== resourceVersion) throw conflict(resource, name);
    // As in Kubernetes, the uid of a PUT is a precondition, and that of a patch changes the field.
    if (uid !== '' && uid !== old.metadata.uid)
      throw invalid(resource, name, [invalidValue('metadata.uid', uid, 'field is immutable')]);
  }

  requireVersion(resource: ApiResource, name: string, sent: JsonObject): void {
    if (resource.builtin || sentText(objectAt(sent, 'metadata'), 'resourceVersion') !== '') return;
    throw invalid(resource, name, [
      invalidValue('metadata.resourceVersion', 0, 'must be specified for an update'),
    ]);
  }

  delete(resource: ApiResource, object: ApiObject, options: DeleteOptions = {}): Deletion {
    checkDeletion(resource, object.metadata, options);
    const { object: next, gone } = deleted(resource, object, options, this.#clock.now());
    if (options.dryRun === true || (!gone && equal(next, object))) return { object: next, gone };
    const stored = gone
      ? this.#store.remove(resource.key, object).object
      : this.store(resource, next);
    return { object: stored, gone };
  }
}

/**
 * Checks metadata, schema and rules of a complete object, and the change from `old` to it.
 * @throws StatusError 422
 */
export function checkObject(
  resource: ApiResource,
  object: ApiObject,
  old: ApiObject | undefined,
): void {
  const errors = [
    ...metadataErrors(object, resource, old),
    ...scaleErrors(object, resource),
    ...(resource.builtin
      ? []
      : validate(
          without(object, 'metadata'),
          resource.schema,
          '',
          old === undefined ? undefined : without(old, 'metadata'),
        )),
    ...(resource.validate?.(object, old) ?? []),
  ];
  if (errors.length > 0) throw invalid(resource, object.metadata.name, errors);
}

const sentText = (metadata: JsonObject | undefined, key: string): string =>
  stringAt(metadata, key) ?? '';

/** @throws StatusError 400 if the metadata has another name */
export function checkName(name: string, metadata: JsonObject): void {
  const sent = stringAt(metadata, 'name');
  if (sent !== undefined && sent !== name)
    throw badRequest(
      `the name of the object (${sent}) does not match the name on the URL (${name})`,
    );
}

function checkNamespaceSent(metadata: JsonObject, namespace: string | undefined): void {
  const sent = sentText(metadata, 'namespace');
  if (sent !== '' && sent !== namespace)
    throw badRequest(
      'the namespace of the provided object does not match the namespace sent on the request',
    );
}

/** @throws StatusError 409 for the uid of another object; '' matches any object */
export function checkUid(resource: ApiResource, { name, uid }: Meta, sent: string): void {
  if (sent !== '' && sent !== uid)
    throw conflict(
      resource,
      name,
      `Precondition failed: UID in precondition: ${sent}, UID in object meta: ${uid}`,
    );
}

/** Removes the given keys, and empty maps and lists, which the encoder of Go omits. */
const withoutEmpty = (metadata: JsonObject, ...keys: readonly string[]): JsonObject =>
  Object.fromEntries(
    Object.entries(metadata).filter(
      ([key, value]) =>
        !keys.includes(key) &&
        !(typeof value === 'object' && value !== null && Object.keys(value).length === 0),
    ),
  );

const generationPart = (object: ApiObject, resource: ApiResource): JsonObject => {
  if (resource.builtin) return isObject(object['spec']) ? object['spec'] : {};
  return resource.hasStatus ? without(object, 'metadata', 'status') : without(object, 'metadata');
};

export function scaleOf(object: ApiObject, paths: ScalePaths) {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const replicas = (path: readonly string[]): number => Number(valueAt(object, path) ?? 0);
  const selector = paths.selector === undefined ? undefined : valueAt(object, paths.selector);
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
      creationTimestamp,
    },
    spec: { replicas: replicas(paths.spec) },
    status: {
      replicas: replicas(paths.status),
      ...(typeof selector === 'string' ? { selector } : {}),
    },
  };
}

const maxReplicas = 2_147_483_647;

/** Checks the values at the paths of `scale`. Kubernetes reports the paths with a leading dot. */
function scaleErrors(object: ApiObject, { scale }: ApiResource): readonly FieldError[] {
  return (scale === undefined ? [] : [scale.spec, scale.status]).flatMap((path) => {
    const replicas = valueAt(object, path);
    if (typeof replicas !== 'number') return [];
    const field = `.${path.join('.')}`;
    if (replicas < 0) return [invalidValue(field, replicas, 'should be a non-negative integer')];
    return replicas > maxReplicas
      ? [invalidValue(field, replicas, `should be less than or equal to ${maxReplicas}`)]
      : [];
  });
}

/** Returns the object with a Scale's replicas. A resourceVersion of the Scale is a precondition. */
export function withScale(object: ApiObject, scale: JsonObject, paths: ScalePaths): JsonObject {
  const replicas = numberAt(scale['spec'], 'replicas') ?? 0;
  const { name, namespace, uid, resourceVersion } = objectAt(scale, 'metadata') ?? {};
  const claimed = Object.fromEntries(
    Object.entries({ name, namespace, uid, resourceVersion }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  return {
    ...withValueAt(object, paths.spec, replicas),
    metadata: { ...object.metadata, ...claimed },
  };
}
