import { EventEmitter, once } from 'node:events';
import { randomUUID } from 'node:crypto';
import jsonPatch, { type Operation } from 'fast-json-patch';
import { ApiError } from '@conversation-operator/kube/errors';
import type {
  KubeClient,
  ListOptions,
  WatchEvent,
  WatchOptions,
  DeleteOptions,
  CallOptions,
  StatusOptions,
  StatusUpdate,
  Subresource,
  Mapping,
} from '@conversation-operator/kube/client';
import { statusPatch } from '../../packages/kube/src/status-patch.ts';
import type { KubeObject, NewObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { admittedObject } from './admitted-object.ts';

type Json = Record<string, unknown>;
interface Stored extends KubeObject {
  readonly spec?: Json;
  readonly status?: Json;
}
interface Change {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly plural: string;
  readonly version: number;
  readonly object: Stored;
}

const isJson = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function merge(target: unknown, patch: unknown): unknown {
  if (!isJson(patch)) return patch;
  const result: Json = isJson(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) Reflect.deleteProperty(result, key);
    else result[key] = merge(result[key], value);
  }
  return result;
}

/** The status after a client's patch, by an API server's rules: an absent path is an error. */
function patchedStatus(
  { metadata, status }: Stored,
  next: object,
  from: object | undefined,
): unknown {
  const patch = JSON.parse(
    JSON.stringify(statusPatch(metadata.resourceVersion, next, from)),
  ) as Operation[];
  const stored = structuredClone({ metadata, ...(status === undefined ? {} : { status }) });
  const { newDocument } = jsonPatch.applyPatch<{ readonly status?: unknown }>(
    stored,
    patch,
    true,
    true,
    false,
  );
  return newDocument.status;
}

const failure = (status: number, reason: string, message: string) =>
  new ApiError(status, { code: status, reason, message });

function matchesLabels(object: Stored, selector: string | undefined): boolean {
  if (selector === undefined || selector === '') return true;
  const labels: Readonly<Record<string, string>> = object.metadata.labels ?? {};
  return selector.split(',').every((term) => {
    const [key = '', value] = term.split('=');
    return value === undefined ? key in labels : labels[key] === value;
  });
}

/**
 * An API server's storage in memory, with the semantics that controllers lean on: resource versions
 * and conflicts, watches from a version, preconditions of a delete, graceful deletion of bound
 * pods, finalizers. Objects of the product's kinds are validated and defaulted by their
 * definitions; those of other kinds are stored as they are.
 */
export class FakeKubeClient implements KubeClient {
  readonly #objects = new Map<string, Stored>();
  readonly #changes: Change[] = [];
  readonly #changed = new EventEmitter().setMaxListeners(0);
  #version = 0;
  /** Errors of writes that the definition of a kind has refused. */
  readonly refusals: ApiError[] = [];
  /** The clock of creation timestamps, which have whole seconds. */
  now: () => number = Date.now;
  /** Set it to make calls fail: what it returns is thrown. */
  fault: (call: {
    readonly verb: string;
    readonly plural: string;
    readonly name?: string;
  }) => Error | undefined = () => undefined;

  async get<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
  ): Promise<T> {
    await this.#call('get', resource, name);
    return this.#typed(resource, this.#stored(resource, namespace, name));
  }

  async list<T extends KubeObject>(resource: ResourceDefinition<T>, options: ListOptions = {}) {
    await this.#call('list', resource);
    const items = [...this.#objects]
      .filter(
        ([key, object]) => key.startsWith(`${resource.plural}/`) && this.#selected(object, options),
      )
      .map(([, object]) => this.#typed(resource, object));
    return { items, resourceVersion: String(this.#version) };
  }

  async listMapped<T extends KubeObject, R>(
    resource: ResourceDefinition<T>,
    map: Mapping<T, R>,
    options?: ListOptions,
  ) {
    const { items, resourceVersion } = await this.list(resource, options);
    return {
      items: items.map((item) => map(item)).filter((item) => item !== undefined),
      resourceVersion,
    };
  }

  async *watch<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    options: WatchOptions,
  ): AsyncIterable<WatchEvent<T>> {
    await this.#call('watch', resource);
    const end = AbortSignal.any([
      options.signal,
      AbortSignal.timeout(options.timeoutSeconds * 1000),
    ]);
    let next = this.#changes.findIndex(({ version }) => version > Number(options.resourceVersion));
    if (next < 0) next = this.#changes.length;
    while (!end.aborted) {
      const change = this.#changes[next];
      if (change === undefined) {
        await once(this.#changed, 'change', { signal: end }).catch(() => undefined);
        continue;
      }
      next += 1;
      if (change.plural === resource.plural && this.#selected(change.object, options)) {
        yield { type: change.type, object: this.#typed(resource, change.object) };
      }
    }
    options.signal.throwIfAborted();
  }

  async create<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: NewObject<T>,
    options: CallOptions = {},
  ): Promise<T> {
    await this.#call('create', resource, object.metadata.name);
    const name =
      object.metadata.name ?? `${object.metadata.generateName ?? ''}${randomUUID().slice(0, 5)}`;
    const namespace = resource.namespaced ? (object.metadata.namespace ?? 'default') : undefined;
    const key = this.#key(resource, namespace ?? '', name);
    if (this.#objects.has(key))
      throw failure(409, 'AlreadyExists', `${resource.plural} "${name}" already exists`);
    const created = this.#admitted(resource, {
      ...structuredClone(object),
      metadata: {
        ...structuredClone(object.metadata),
        ...(namespace === undefined ? {} : { namespace }),
        name,
        uid: randomUUID(),
        creationTimestamp: `${new Date(this.now()).toISOString().slice(0, 19)}Z`,
        generation: 1,
        resourceVersion: '0',
      },
    } as unknown as Stored);
    return this.#typed(
      resource,
      options.dryRun === true ? created : this.#store('ADDED', resource, key, created),
    );
  }

  /** Stores a whole object as if it had always been there, without the fields of caches. */
  put<T extends KubeObject>(resource: ResourceDefinition<T>, object: T): T {
    const key = this.#key(resource, object.metadata.namespace ?? '', object.metadata.name);
    const stored = this.#admitted(resource, object, { validation: 'Ignore' });
    return this.#typed(resource, this.#store('ADDED', resource, key, stored));
  }

  async update<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: NoInfer<T>,
  ): Promise<T> {
    await this.#call('update', resource, object.metadata.name);
    const next = structuredClone(object) as unknown as Stored;
    return this.#typed(
      resource,
      this.#replace(resource, object, (old) => ({
        ...next,
        ...(old.status === undefined ? {} : { status: old.status }),
      })),
    );
  }

  async updateStatus<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: StatusUpdate<T>,
    { from }: StatusOptions = {},
  ): Promise<T> {
    await this.#call('updateStatus', resource, object.metadata.name);
    const { status } = structuredClone(object) as unknown as Stored;
    return this.#typed(
      resource,
      this.#replace(resource, object, (old) => ({
        ...old,
        ...(status === undefined ? {} : { status: patchedStatus(old, status, from) as Json }),
      })),
    );
  }

  async mergePatch<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    patch: object,
    options: CallOptions & { readonly subresource?: Subresource } = {},
  ): Promise<T> {
    await this.#call('patch', resource, name);
    const old = this.#stored(resource, namespace, name);
    const merged = merge(old, structuredClone(patch)) as Stored;
    const next = (present: Stored): Stored =>
      options.subresource === 'status'
        ? { ...present, ...(merged.status === undefined ? {} : { status: merged.status }) }
        : { ...merged, ...(present.status === undefined ? {} : { status: present.status }) };
    return this.#typed(resource, this.#replace(resource, merged, next, true));
  }

  async delete<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    options: DeleteOptions = {},
  ) {
    await this.#call('delete', resource, name);
    const object = this.#stored(resource, namespace, name);
    if (
      (options.uid ?? object.metadata.uid) !== object.metadata.uid ||
      (options.resourceVersion ?? object.metadata.resourceVersion) !==
        object.metadata.resourceVersion
    ) {
      throw failure(409, 'Conflict', 'Precondition failed');
    }
    const key = this.#key(resource, namespace, name);
    const grace =
      resource.plural === 'pods' && object.spec?.['nodeName'] !== undefined
        ? (options.gracePeriodSeconds ?? Number(object.spec['terminationGracePeriodSeconds'] ?? 30))
        : 0;
    if (grace === 0 && (object.metadata.finalizers ?? []).length === 0) {
      this.#store('DELETED', resource, key, object);
      return;
    }
    const {
      deletionTimestamp = new Date(Date.now() + grace * 1000).toISOString(),
      deletionGracePeriodSeconds = grace,
    } = object.metadata;
    const metadata = {
      ...object.metadata,
      deletionTimestamp,
      deletionGracePeriodSeconds: Math.min(deletionGracePeriodSeconds, grace),
    };
    this.#store('MODIFIED', resource, key, { ...object, metadata });
  }

  async createSubresource<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    subresource: Subresource,
    body: object,
  ): Promise<void> {
    await this.#call(subresource, resource, name);
    if (subresource !== 'binding') throw failure(404, 'NotFound', `no subresource ${subresource}`);
    const pod = this.#stored(resource, namespace, name);
    if (pod.spec?.['nodeName'] !== undefined)
      throw failure(409, 'Conflict', `pod ${name} is already assigned to a node`);
    const { target } = body as { readonly target: { readonly name: string } };
    const conditions = [
      { type: 'PodScheduled', status: 'True', lastTransitionTime: pod.metadata.creationTimestamp },
    ];
    const key = this.#key(resource, namespace, name);
    this.#store('MODIFIED', resource, key, {
      ...pod,
      spec: { ...pod.spec, nodeName: target.name },
      status: { ...pod.status, conditions },
    });
  }

  #key(
    resource: Pick<ResourceDefinition<KubeObject>, 'plural' | 'namespaced'>,
    namespace: string,
    name: string,
  ): string {
    return `${resource.plural}/${resource.namespaced ? namespace : ''}/${name}`;
  }

  #stored<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
  ): Stored {
    const object = this.#objects.get(this.#key(resource, namespace, name));
    if (object === undefined)
      throw failure(404, 'NotFound', `${resource.plural} "${name}" not found`);
    return object;
  }

  #admitted(
    resource: Pick<ResourceDefinition<KubeObject>, 'group' | 'plural'>,
    object: Stored,
    options?: Parameters<typeof admittedObject<Stored>>[2],
  ): Stored {
    try {
      return admittedObject(resource, object, options);
    } catch (error) {
      if (error instanceof ApiError) this.refusals.push(error);
      throw error;
    }
  }

  #selected(object: Stored, options: ListOptions): boolean {
    if (options.namespace !== undefined && object.metadata.namespace !== options.namespace)
      return false;
    return matchesLabels(object, options.labelSelector);
  }

  #replace<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    given: KubeObject,
    change: (old: Stored) => Stored,
    isPatch = false,
  ): Stored {
    const { namespace = '', name, resourceVersion, uid } = given.metadata;
    const old = this.#stored(resource, namespace, name);
    const isOther = uid !== old.metadata.uid;
    if (resourceVersion !== old.metadata.resourceVersion || (isOther && !isPatch)) {
      throw failure(409, 'Conflict', `${resource.plural} "${name}" has been modified`);
    }
    if (isOther)
      throw new ApiError(422, {
        reason: 'Invalid',
        message: 'metadata.uid: field is immutable',
        details: { causes: [{ field: 'metadata.uid', message: 'field is immutable' }] },
      });
    const next = this.#admitted(resource, change(old), { old });
    if (JSON.stringify(next) === JSON.stringify(old)) return old;
    const gone =
      next.metadata.deletionTimestamp !== undefined &&
      (next.metadata.finalizers ?? []).length === 0 &&
      next.spec?.['nodeName'] === undefined;
    const generation =
      (old.metadata.generation ?? 1) +
      (JSON.stringify(next.spec) === JSON.stringify(old.spec) ? 0 : 1);
    const metadata = { ...next.metadata, generation };
    return this.#store(
      gone ? 'DELETED' : 'MODIFIED',
      resource,
      this.#key(resource, namespace, name),
      { ...next, metadata },
    );
  }

  #store(
    type: Change['type'],
    resource: Pick<ResourceDefinition<KubeObject>, 'plural'>,
    key: string,
    object: Stored,
  ): Stored {
    this.#version += 1;
    const stored: Stored = {
      ...object,
      metadata: { ...object.metadata, resourceVersion: String(this.#version) },
    };
    if (type === 'DELETED') this.#objects.delete(key);
    else this.#objects.set(key, stored);
    this.#changes.push({ type, plural: resource.plural, version: this.#version, object: stored });
    this.#changed.emit('change');
    return stored;
  }

  async #call(
    verb: string,
    resource: Pick<ResourceDefinition<KubeObject>, 'plural'>,
    name?: string,
  ): Promise<void> {
    await Promise.resolve();
    const error = this.fault({
      verb,
      plural: resource.plural,
      ...(name === undefined ? {} : { name }),
    });
    if (error !== undefined) throw error;
  }

  #typed<T extends KubeObject>(resource: ResourceDefinition<T>, object: Stored): T {
    const copy: unknown = structuredClone(object);
    if (resource.accepts?.(copy) === false)
      throw new Error(`the test stored a ${resource.kind} that its own schema refuses`);
    return copy;
  }
}
