import { objectAt } from '../json/json.ts';
import {
  cleanupFinalizer,
  customResource,
  definitionResource,
} from '../registry/custom-resource.ts';
import type { Change } from '../storage/change.ts';
import { namespacesKey, withoutFinalizer, type ApiObject } from './api-object.ts';
import type { PlaneContext } from './context.ts';
import { DeferredWork } from './deferred-work.ts';

/**
 * Deletes the contents of a namespace or CustomResourceDefinition before the object itself, and
 * serves a kind as soon as its definition is stored.
 */
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

  #observe({ resource, namespace, name, after, deleted, before }: Change): void {
    if (resource === definitionResource.key)
      this.#observeDefinition(after.object, before?.object, deleted);
    if (resource === namespacesKey && after.object.metadata.deletionTimestamp !== undefined)
      this.#work.add(`namespace ${name}`);
    if (!deleted) return;
    if (this.#isTerminating(namespacesKey, namespace)) this.#work.add(`namespace ${namespace}`);
    const definition = definitionNameOf(resource);
    if (this.#isTerminating(definitionResource.key, definition))
      this.#work.add(`crd ${definition}`);
  }

  #observeDefinition(definition: ApiObject, before: ApiObject | undefined, deleted: boolean): void {
    const { name, deletionTimestamp } = definition.metadata;
    if (deleted) {
      const key = `${name.slice(name.indexOf('.') + 1)}/${name.slice(0, name.indexOf('.'))}`;
      this.#context.registry.delete(key);
      this.#context.hub.end(key);
      return;
    }
    if (before?.['spec'] !== definition['spec']) this.#serve(definition);
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

/** Returns `conversations.example.com` for `example.com/conversations`. */
const definitionNameOf = (resource: string): string => {
  const slash = resource.lastIndexOf('/');
  return `${resource.slice(slash + 1)}.${resource.slice(0, slash)}`;
};
