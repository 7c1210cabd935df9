import type { Runtime } from '@conversation-operator/base/runtime';
import { namespacesKey } from './api/api-object.ts';
import type { PlaneContext } from './api/context.ts';
import { decode } from './api/decode.ts';
import { protectedNamespaces } from './api/deletion.ts';
import { GarbageCollector, Lifecycle } from './api/deferred-deletion.ts';
import { ObjectWriter } from './api/object-writer.ts';
import type { PodLogs } from './api/pod-logs.ts';
import { type PlaneRequest, type PlaneResponse, errorResponse } from './api/request.ts';
import { route } from './api/route.ts';
import { internalError, StatusError } from './api/status-error.ts';
import { WatchHub } from './api/watch-hub.ts';
import { OpenApi } from './discovery/discovery.ts';
import { objectAt, type Json, mergeObject } from './json/json.ts';
import { builtinResources } from './registry/builtin-resources.ts';
import { definitionResource } from './registry/custom-resource.ts';
import { Registry } from './registry/api-resource.ts';
import { volatileJournal, StorageError, ObjectStore } from './storage/object-store.ts';
import { SqliteJournal } from './storage/sqlite-journal.ts';

export interface ControlPlaneOptions extends Runtime {
  /** With a file, every acknowledged write is kept, even when the process is killed. */
  readonly storage: { readonly file: string } | 'memory';
  /** Maximum number of recent changes from which a watch can start; default 10 000. */
  readonly logCapacity?: number;
  /** Maximum number of unread events before a watch is closed; default 10 000. */
  readonly maxWatchBacklog?: number;
}

/**
 * A Kubernetes API server without a network: `handle` takes a request and returns the response. All
 * timers use the given clock, so that a simulation can run the control plane in virtual time.
 */
export class ControlPlane {
  readonly #context: PlaneContext;
  readonly #collector: GarbageCollector;
  readonly #lifecycle: Lifecycle;
  readonly #openApi: OpenApi;
  #closed = false;

  /** @throws StorageError when the file is in use, damaged, or written by a later version */
  constructor({
    storage,
    clock,
    random,
    logger,
    logCapacity = 10_000,
    maxWatchBacklog = 10_000,
  }: ControlPlaneOptions) {
    const journal = storage === 'memory' ? volatileJournal : new SqliteJournal(storage.file);
    const store = new ObjectStore({ journal, logCapacity });
    const registry = new Registry();
    for (const resource of [...builtinResources, definitionResource]) registry.set(resource);
    const hub = new WatchHub({ store, clock, maxLines: maxWatchBacklog });
    const writer = new ObjectWriter({ store, clock, random });
    this.#context = { store, registry, writer, hub, clock, random, logger, podLogs: undefined };
    this.#lifecycle = new Lifecycle(this.#context);
    this.#collector = new GarbageCollector(this.#context);
    this.#openApi = new OpenApi(registry);
  }

  /** Serves the stored objects, and completes deletions that a crash has interrupted. */
  async start(): Promise<void> {
    const { store, writer, registry } = this.#context;
    this.#lifecycle.start();
    this.#collector.start();
    const namespaces = registry.byKey(namespacesKey);
    for (const name of protectedNamespaces) {
      if (namespaces === undefined || store.get(namespacesKey, '', name) !== undefined) continue;
      writer.create(namespaces, undefined, { metadata: { name } });
    }
    await store.committed();
  }

  /** Resolves when everything in the response is durable. An error becomes a `Status` response. */
  async handle(request: PlaneRequest): Promise<PlaneResponse> {
    try {
      if (this.#closed)
        throw new StatusError(503, 'ServiceUnavailable', 'the control plane is shutting down');
      const response = route(this.#context, this.#openApi, request);
      await this.#context.store.committed();
      return response;
    } catch (error) {
      if (error instanceof StatusError) {
        // An error may describe stored state too, so the response waits for durability.
        await this.#context.store.committed().catch(() => undefined);
        return errorResponse(error);
      }
      this.#context.logger.error('A request to the control plane failed', {
        method: request.method,
        path: request.path,
        error,
      });
      if (error instanceof StorageError)
        return errorResponse(
          new StatusError(500, 'InternalError', error.message, undefined, { cause: error }),
        );
      return errorResponse(internalError(error));
    }
  }

  /** Creates or updates CustomResourceDefinitions. Does not write unchanged definitions. */
  async applyCrds(
    manifests: readonly { readonly metadata: { readonly name: string } }[],
  ): Promise<void> {
    const { store, writer } = this.#context;
    for (const manifest of manifests) {
      const plain = JSON.parse(JSON.stringify(manifest)) as Json;
      const definition = decode(plain, definitionResource, {
        validation: 'Strict',
        warn: () => undefined,
      });
      const old = store.get(definitionResource.key, '', manifest.metadata.name)?.object;
      if (old === undefined) writer.create(definitionResource, undefined, definition);
      else {
        // Labels and annotations that other clients have set remain.
        const metadata = mergeObject(old.metadata, objectAt(definition, 'metadata') ?? {});
        writer.update(definitionResource, old, { ...definition, metadata }, 'main');
      }
    }
    await store.committed();
  }

  /** Sets the reader of GET pods/log. Without a reader, no pod has logs. */
  setPodLogs(podLogs: PodLogs | undefined): void {
    this.#context.podLogs = podLogs;
  }

  get revision(): number {
    return this.#context.store.revision;
  }

  /** Drops changes up to a version, like etcd's compaction: earlier watches and lists get 410. */
  compactTo(version: number): void {
    this.#context.store.compactTo(version);
  }

  /** Ends the watches, writes pending changes, and closes the file of `storage`. */
  close(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    this.#closed = true;
    this.#collector.stop();
    this.#lifecycle.stop();
    this.#context.hub.end();
    this.#context.store.close();
    return Promise.resolve();
  }
}
