import type { Clock } from '@conversation-operator/base/clock';
import {
  equal,
  isObject,
  objectAt,
  stringAt,
  without,
  type Json,
  type JsonArray,
  type JsonObject,
} from '../json/json.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import { invalidValue } from '../schema/field-error.ts';
import { validate } from '../schema/validate.ts';
import type { ObjectStore } from '../storage/object-store.ts';
import { serverFields, timestampOf, withMeta, type ApiObject, type Meta } from './api-object.ts';
import { embeddedErrors } from './embedded-objects.ts';
import { metadataErrors } from './metadata.ts';
import { scaleErrors } from './scale.ts';
import { nameSuffix, randomUuid } from './random-id.ts';
import {
  alreadyExists,
  badRequest,
  conflict,
  deletionConflict,
  forbidden,
  invalid,
  notFound,
  StatusError,
} from './status-error.ts';

export interface WriteOptions {
  readonly dryRun?: boolean;
  /** managedFields after this write. Absent: unchanged. */
  readonly managedFields?: JsonArray;
}

export interface DeleteOptions extends WriteOptions {
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: string;
}

export interface Deletion {
  readonly object: ApiObject;
  /** False: the object waits for its finalizers or its grace period. */
  readonly gone: boolean;
}

export type Part = 'main' | 'status';

export const namespacesKey = '/namespaces';
/** Namespaces that always exist and cannot be deleted. */
const protectedNamespaces: ReadonlySet<string> = new Set(['default', 'kube-system']);
const policyFinalizers = ['orphan', 'foregroundDeletion'];

/**
 * Changes objects by the rules that hold for every kind. Every change completes in one turn of the
 * event loop, so no other change interleaves.
 */
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

  /** Creates an object from a decoded body with known fields and defaults. */
  create(
    resource: ApiResource,
    namespace: string | undefined,
    object: JsonObject,
    options: WriteOptions = {},
  ): ApiObject {
    const sent = objectAt(object, 'metadata') ?? {};
    const sentNamespace = stringAt(sent, 'namespace');
    if (sentNamespace !== undefined && sentNamespace !== '' && sentNamespace !== namespace) {
      throw badRequest(
        `the namespace of the provided object does not match the namespace sent on the request`,
      );
    }
    if (
      stringAt(sent, 'resourceVersion') !== undefined &&
      stringAt(sent, 'resourceVersion') !== ''
    ) {
      throw new StatusError(
        500,
        'InternalError',
        'resourceVersion should not be set on objects to be created',
      );
    }
    const name = this.#nameOf(resource, namespace, sent);
    const metadata: Meta = {
      ...withoutEmpty(
        sent,
        'selfLink',
        'deletionTimestamp',
        'deletionGracePeriodSeconds',
        'managedFields',
      ),
      ...(namespace === undefined ? {} : { namespace }),
      name,
      uid: randomUuid(this.#random),
      resourceVersion: '',
      ...(resource.hasGeneration ? { generation: 1 } : {}),
      creationTimestamp: timestampOf(this.#clock.now()),
      ...(options.managedFields === undefined ? {} : { managedFields: options.managedFields }),
    };
    const parts = resource.hasStatus ? without(object, 'status') : object;
    const complete: ApiObject = {
      ...parts,
      apiVersion: apiVersionOf(resource),
      kind: resource.kind,
      metadata,
    };
    this.#check(resource, complete, undefined);
    const initial = resource.initial?.(complete) ?? complete;
    if (namespace !== undefined) this.#checkNamespace(resource, namespace, name);
    const present = this.#store.get(resource.key, namespace ?? '', name)?.object.metadata;
    if (present !== undefined)
      throw alreadyExists(resource, name, present.deletionTimestamp !== undefined);
    return options.dryRun === true
      ? withMeta(initial, { resourceVersion: undefined })
      : this.#store.put(resource.key, initial).object;
  }

  #nameOf(resource: ApiResource, namespace: string | undefined, sent: JsonObject): string {
    const name = stringAt(sent, 'name') ?? '';
    const base = stringAt(sent, 'generateName') ?? '';
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

  #check(resource: ApiResource, object: ApiObject, old: ApiObject | undefined): void {
    const errors = [
      ...metadataErrors(object, resource, old),
      ...(resource.builtin ? [] : embeddedErrors(without(object, 'metadata'), resource.schema)),
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

  get(resource: ApiResource, namespace: string | undefined, name: string): ApiObject {
    const stored = this.#store.get(resource.key, namespace ?? '', name);
    if (stored === undefined) throw notFound(resource, name);
    return stored.object;
  }

  /**
   * Replaces the addressed part of an object by a decoded body: the main resource without status,
   * or the status alone. Metadata that only the server sets remain unchanged.
   */
  update(
    resource: ApiResource,
    old: ApiObject,
    sent: JsonObject,
    part: Part,
    options: WriteOptions = {},
  ): ApiObject {
    const merged = this.#merge(resource, old, sent, part);
    const { managedFields } = options;
    // An empty list removes all managers.
    const next =
      managedFields === undefined
        ? merged
        : withMeta(merged, {
            managedFields: managedFields.length === 0 ? undefined : managedFields,
          });
    if (equal(next, old)) return old;
    const changed =
      resource.hasGeneration &&
      part === 'main' &&
      !equal(generationPart(next, resource), generationPart(old, resource));
    const versioned = changed
      ? withMeta(next, { generation: (old.metadata.generation ?? 0) + 1 })
      : next;
    this.#check(resource, versioned, old);
    return this.store(resource, versioned, options);
  }

  /**
   * Stores an object as given, or removes an object that is being deleted and has neither
   * finalizers nor a remaining grace period.
   */
  store(resource: ApiResource, object: ApiObject, options: WriteOptions = {}): ApiObject {
    if (options.dryRun === true) return object;
    const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = object.metadata;
    const ends =
      deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0 && !isHeld(object);
    return (ends ? this.#store.remove(resource.key, object) : this.#store.put(resource.key, object))
      .object;
  }

  #merge(resource: ApiResource, old: ApiObject, sent: JsonObject, part: Part): ApiObject {
    const metadata = objectAt(sent, 'metadata') ?? {};
    this.#checkIdentity(resource, old, metadata);
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

  #checkIdentity(resource: ApiResource, old: ApiObject, metadata: JsonObject): void {
    const { name, namespace, uid, resourceVersion } = old.metadata;
    const sentName = stringAt(metadata, 'name');
    if (sentName !== undefined && sentName !== name) {
      throw badRequest(
        `the name of the object (${sentName}) does not match the name on the URL (${name})`,
      );
    }
    const sentNamespace = stringAt(metadata, 'namespace');
    if (sentNamespace !== undefined && sentNamespace !== '' && sentNamespace !== namespace) {
      throw badRequest(
        'the namespace of the provided object does not match the namespace sent on the request',
      );
    }
    const sentUid = stringAt(metadata, 'uid');
    if (sentUid !== undefined && sentUid !== '' && sentUid !== uid) {
      throw conflict(
        resource,
        name,
        `Precondition failed: UID in precondition: ${sentUid}, UID in object meta: ${uid}`,
      );
    }
    const sentVersion = stringAt(metadata, 'resourceVersion') ?? '';
    if (sentVersion !== '' && sentVersion !== resourceVersion) throw conflict(resource, name);
  }

  /** A PUT of a custom resource requires a resourceVersion. */
  requireVersion(resource: ApiResource, name: string, sent: JsonObject): void {
    if (resource.builtin || (stringAt(objectAt(sent, 'metadata'), 'resourceVersion') ?? '') !== '')
      return;
    throw invalid(resource, name, [
      invalidValue('metadata.resourceVersion', 0, 'must be specified for an update'),
    ]);
  }

  delete(resource: ApiResource, object: ApiObject, options: DeleteOptions = {}): Deletion {
    const { metadata } = object;
    this.#checkPreconditions(resource, metadata, options);
    if (resource.key === namespacesKey && protectedNamespaces.has(metadata.name))
      throw forbidden(resource, metadata.name, 'this namespace may not be deleted');
    const grace = Math.max(
      0,
      resource.graceSeconds === undefined
        ? 0
        : this.#graceOf(resource.graceSeconds(object), options),
    );
    const marked = withMeta(object, {
      finalizers: finalizersFor(
        metadata.finalizers ?? [],
        options.propagationPolicy,
        metadata.deletionTimestamp !== undefined,
      ),
    });
    const waits = grace > 0 || isHeld(marked);
    if (metadata.deletionTimestamp !== undefined && waits)
      return { object: this.#hasten(resource, marked, grace, options), gone: false };
    if (!waits)
      return {
        object: options.dryRun === true ? object : this.#store.remove(resource.key, object).object,
        gone: true,
      };
    const deleting = withMeta(marked, {
      deletionTimestamp: timestampOf(this.#clock.now() + grace * 1000),
      deletionGracePeriodSeconds: grace,
      ...(metadata.generation === undefined ? {} : { generation: metadata.generation + 1 }),
    });
    const terminating =
      resource.key === namespacesKey ? withStatus(deleting, { phase: 'Terminating' }) : deleting;
    return { object: this.store(resource, terminating, options), gone: false };
  }

  /**
   * Returns the effective grace period. An object with a grace period of 0, such as a pod without a
   * node, is deleted at once, whatever the client requests.
   */
  #graceOf(own: number, { gracePeriodSeconds }: DeleteOptions): number {
    return own === 0 ? 0 : (gracePeriodSeconds ?? own);
  }

  /** Applies a repeated deletion, which may shorten the grace period and never extends it. */
  #hasten(
    resource: ApiResource,
    object: ApiObject,
    grace: number,
    options: WriteOptions,
  ): ApiObject {
    const before = this.#store.get(
      resource.key,
      object.metadata.namespace ?? '',
      object.metadata.name,
    )?.object;
    const present = object.metadata.deletionGracePeriodSeconds ?? 0;
    const hastened =
      grace < present
        ? withMeta(object, {
            deletionGracePeriodSeconds: grace,
            deletionTimestamp: timestampOf(this.#clock.now() + grace * 1000),
          })
        : object;
    return before !== undefined && equal(before, hastened)
      ? before
      : this.store(resource, hastened, options);
  }

  #checkPreconditions(
    resource: ApiResource,
    { name, uid, resourceVersion }: Meta,
    options: DeleteOptions,
  ): void {
    if (options.uid !== undefined && options.uid !== uid) {
      throw deletionConflict(
        resource,
        name,
        `the UID in the precondition (${options.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`,
      );
    }
    if (options.resourceVersion !== undefined && options.resourceVersion !== resourceVersion) {
      throw deletionConflict(
        resource,
        name,
        `the ResourceVersion in the precondition (${options.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`,
      );
    }
  }
}

/** Removes empty maps and lists of metadata, as the encoder of Go does. */
const withoutEmpty = (metadata: JsonObject, ...keys: readonly string[]): JsonObject =>
  Object.fromEntries(
    Object.entries(metadata).filter(
      ([key, value]) =>
        !keys.includes(key) &&
        !(typeof value === 'object' && value !== null && Object.keys(value).length === 0),
    ),
  );

const withStatus = (object: ApiObject, status: Json | undefined): ApiObject => {
  if (status !== undefined) return { ...object, status };
  const { status: _, ...rest } = object;
  return rest;
};

/** Returns whether finalizers, or the contents of a namespace, block the removal of an object. */
function isHeld(object: ApiObject): boolean {
  if ((object.metadata.finalizers ?? []).length > 0) return true;
  const own = objectAt(object, 'spec')?.['finalizers'];
  return (
    object.kind === 'Namespace' &&
    object.apiVersion === 'v1' &&
    Array.isArray(own) &&
    own.length > 0
  );
}

function finalizersFor(
  present: readonly string[],
  policy: string | undefined,
  deleting: boolean,
): readonly string[] | undefined {
  const rest = present.filter((name) => !policyFinalizers.includes(name));
  const wanted = (): readonly string[] => {
    if (policy === 'Foreground') return [...rest, 'foregroundDeletion'];
    if (policy === 'Orphan') return [...rest, 'orphan'];
    return policy === 'Background' ? rest : present;
  };
  const finalizers = deleting && policy === undefined ? present : wanted();
  return finalizers.length === 0 ? undefined : finalizers;
}

const generationPart = (object: ApiObject, resource: ApiResource): JsonObject => {
  if (resource.builtin) return isObject(object['spec']) ? object['spec'] : {};
  return resource.hasStatus ? without(object, 'metadata', 'status') : without(object, 'metadata');
};
