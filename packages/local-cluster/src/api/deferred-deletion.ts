import type { OwnerReference } from '@conversation-operator/kube/object';
import { equal, objectAt } from '../json/json.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import type { Change } from '../storage/changes.ts';
import { withMeta, withoutFinalizer, type ApiObject, namespacesKey } from './api-object.ts';
import type { PlaneContext } from './context.ts';
import type { Timer } from '@conversation-operator/base/clock';
import type { Runtime } from '@conversation-operator/base/runtime';
import {
  cleanupFinalizer,
  customResource,
  definitionResource,
} from '../registry/custom-resource.ts';

/** Serves the kinds of stored CRDs. Deletes the objects of deleted namespaces and CRDs. */
export class Lifecycle {
  readonly #context: PlaneContext;
  readonly #work: DeferredWork;

  constructor(context: PlaneContext) {
    this.#context = context;
    this.#work = new DeferredWork({ ...context, run: (key) => this.#visit(key) });
    context.store.onChange((change) => this.#observe(change));
  }

  start(): void {
    const { store } = this.#context;
    for (const { object } of store.list(definitionResource.key)) {
      this.#serve(object);
      this.#work.add(`crd ${object.metadata.name}`);
    }
    for (const { object } of store.list(namespacesKey))
      this.#work.add(`namespace ${object.metadata.name}`);
  }

  stop(): void {
    this.#work.stop();
  }

  #serve(definition: ApiObject): void {
    try {
      this.#context.registry.set(customResource(definition));
    } catch (error) {
      this.#context.logger.error('A stored CustomResourceDefinition cannot be served', {
        name: definition.metadata.name,
        error,
      });
    }
  }

  #observe(change: Change): void {
    const { resource, namespace, name, after, deleted } = change;
    if (resource === definitionResource.key) this.#observeDefinition(change);
    if (resource === namespacesKey && after.object.metadata.deletionTimestamp !== undefined)
      this.#work.add(`namespace ${name}`);
    if (!deleted) return;
    if (this.#isTerminating(namespacesKey, namespace)) this.#work.add(`namespace ${namespace}`);
    const definition = definitionNameOf(resource);
    if (this.#isTerminating(definitionResource.key, definition))
      this.#work.add(`crd ${definition}`);
  }

  #observeDefinition({ after: { object: definition }, before, deleted }: Change): void {
    const { name, deletionTimestamp } = definition.metadata;
    if (deleted) {
      const key = `${name.slice(name.indexOf('.') + 1)}/${name.slice(0, name.indexOf('.'))}`;
      this.#context.registry.delete(key);
      this.#context.hub.end(key);
      return;
    }
    if (before?.object['spec'] !== definition['spec']) this.#serve(definition);
    if (deletionTimestamp !== undefined) this.#work.add(`crd ${name}`);
  }

  #isTerminating(key: string, name: string): boolean {
    return this.#context.store.get(key, '', name)?.object.metadata.deletionTimestamp !== undefined;
  }

  #visit(key: string): void {
    const [kind, name = ''] = key.split(' ');
    const object = this.#context.store.get(
      kind === 'crd' ? definitionResource.key : namespacesKey,
      '',
      name,
    )?.object;
    if (object?.metadata.deletionTimestamp === undefined) return;
    if (kind === 'crd') this.#endDefinition(object);
    else this.#endNamespace(object);
  }

  #endNamespace(namespace: ApiObject): void {
    const { store, registry, writer } = this.#context;
    const { name } = namespace.metadata;
    const namespaced = registry.all().filter((resource) => resource.namespaced);
    for (const resource of namespaced) {
      for (const { object } of [...store.list(resource.key, name)])
        if (object.metadata.deletionTimestamp === undefined) writer.delete(resource, object);
    }
    const empty = namespaced.every(({ key }) => store.list(key, name).next().done === true);
    const resource = registry.byKey(namespacesKey);
    if (!empty || resource === undefined) return;
    writer.store(resource, {
      ...namespace,
      spec: { ...objectAt(namespace, 'spec'), finalizers: [] },
    });
  }

  #endDefinition(definition: ApiObject): void {
    const { store, registry, writer } = this.#context;
    const resource = customResource(definition);
    const served = registry.byKey(resource.key) ?? resource;
    for (const { object } of [...store.list(resource.key)])
      if (object.metadata.deletionTimestamp === undefined) writer.delete(served, object);
    if (store.count(resource.key) > 0) return;
    writer.store(definitionResource, withoutFinalizer(definition, cleanupFinalizer));
  }
}

const definitionNameOf = (resource: string): string => {
  const slash = resource.lastIndexOf('/');
  return `${resource.slice(slash + 1)}.${resource.slice(0, slash)}`;
};

const retryDelayMs = 1000;

interface Options extends Pick<Runtime, 'clock' | 'logger'> {
  readonly run: (key: string) => void;
}

/** Runs `run` in a later turn of the event loop, once for each added key; again after a failure. */
export class DeferredWork {
  readonly #options: Options;
  readonly #keys = new Set<string>();
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: Options) {
    this.#options = options;
  }

  add(key: string): void {
    this.#keys.add(key);
    this.#schedule(0);
  }

  #schedule(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer ??= this.#options.clock.after(delayMs, () => {
      this.#timer = undefined;
      this.#drain();
    });
  }

  #drain(): void {
    const { run, logger } = this.#options;
    const keys = [...this.#keys];
    this.#keys.clear();
    for (const key of keys) {
      try {
        run(key);
      } catch (error) {
        logger.error('Background work of the control plane failed and will be retried', {
          key,
          error,
        });
        this.#keys.add(key);
      }
    }
    if (this.#keys.size > 0) this.#schedule(retryDelayMs);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#keys.clear();
  }
}

const separator = '\0';
const idOf = (resource: string, namespace: string, name: string): string =>
  [resource, namespace, name].join(separator);

/** Deletes objects whose last owner is gone. */
export class GarbageCollector {
  readonly #context: PlaneContext;
  readonly #work: DeferredWork;
  readonly #dependents = new Map<string, Set<string>>();

  constructor(context: PlaneContext) {
    this.#context = context;
    this.#work = new DeferredWork({ ...context, run: (id) => this.#visit(id) });
    context.store.onChange((change) => this.#observe(change));
  }

  /** Checks every object that has owners, because an owner may have been deleted before a crash. */
  start(): void {
    for (const resource of this.#context.store.resources) {
      for (const { object } of this.#context.store.list(resource)) {
        const id = idOf(resource, object.metadata.namespace ?? '', object.metadata.name);
        this.#index(id, undefined, object);
        if (object.metadata.ownerReferences !== undefined) this.#work.add(id);
      }
    }
  }

  stop(): void {
    this.#work.stop();
  }

  #observe({ resource, namespace, name, before, after, deleted }: Change): void {
    const id = idOf(resource, namespace, name);
    const { metadata } = after.object;
    this.#index(id, before?.object, deleted ? undefined : after.object);
    if (deleted) {
      for (const dependent of this.#dependents.get(metadata.uid) ?? []) this.#work.add(dependent);
      return;
    }
    if (!equal(metadata.ownerReferences, before?.object.metadata.ownerReferences))
      this.#work.add(id);
  }

  #index(id: string, before: ApiObject | undefined, after: ApiObject | undefined): void {
    if (
      before?.metadata.ownerReferences === undefined &&
      after?.metadata.ownerReferences === undefined
    )
      return;
    for (const { uid } of before?.metadata.ownerReferences ?? []) {
      const ids = this.#dependents.get(uid);
      ids?.delete(id);
      if (ids?.size === 0) this.#dependents.delete(uid);
    }
    for (const { uid } of after?.metadata.ownerReferences ?? []) {
      const ids = this.#dependents.get(uid) ?? new Set<string>();
      this.#dependents.set(uid, ids.add(id));
    }
  }

  #resourceOf({ apiVersion, kind }: OwnerReference): ApiResource | undefined {
    const slash = apiVersion.indexOf('/');
    return this.#context.registry.byKind(slash === -1 ? '' : apiVersion.slice(0, slash), kind);
  }

  /** Deletes the object if all its owners are gone, or removes the references to missing owners. */
  #visit(id: string): void {
    const { registry, store, writer } = this.#context;
    const [key = '', namespace = '', name = ''] = id.split(separator);
    const resource = registry.byKey(key);
    const object = store.get(key, namespace, name)?.object;
    if (resource === undefined || object === undefined) return;
    const { uid, deletionTimestamp, ownerReferences = [] } = object.metadata;
    if (deletionTimestamp !== undefined) return;
    const kept = ownerReferences.filter((reference) => this.#isPresent(reference, namespace));
    if (kept.length === ownerReferences.length) return;
    if (kept.length > 0) writer.store(resource, withMeta(object, { ownerReferences: kept }));
    else writer.delete(resource, object, { uid });
  }

  #isPresent(reference: OwnerReference, namespace: string): boolean {
    const resource = this.#resourceOf(reference);
    // An owner of an unknown kind counts as present, because a wrong deletion would lose data.
    if (resource === undefined) return true;
    const owner = this.#context.store.get(
      resource.key,
      resource.namespaced ? namespace : '',
      reference.name,
    );
    return owner?.object.metadata.uid === reference.uid;
  }
}
