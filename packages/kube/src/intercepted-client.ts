import type {
  CallOptions,
  CreateOptions,
  DeleteOptions,
  KubeClient,
  ListOptions,
  ListResult,
  Mapping,
  ShorteningOptions,
  StatusOptions,
  StatusUpdate,
  Subresource,
  WatchEvent,
  WatchOptions,
} from './client.ts';
import type { KubeObject, NewObject, ResourceDefinition } from './object.ts';

type Resource<T extends KubeObject> = ResourceDefinition<T>;

/** A call as an interceptor sees it. */
export interface ClientCall {
  readonly verb: 'get' | 'list' | 'create' | 'update' | 'patch' | 'delete' | 'createSubresource';
  readonly plural: string;
  /** Name of the object; undefined for a list and a creation. */
  readonly name: string | undefined;
  /** The object that is to be created or updated. */
  readonly object?: object;
}

/** Makes a call with other options, later, or not at all. */
export type Interceptor = <R>(
  call: ClientCall,
  options: CallOptions,
  run: (changed?: CallOptions) => Promise<R>,
) => Promise<R>;

/**
 * A client whose calls all go through an interceptor. Watches pass, because they are no single
 * calls.
 */
export class InterceptedClient implements KubeClient {
  readonly #client: KubeClient;
  readonly #intercept: Interceptor;

  constructor(client: KubeClient, intercept: Interceptor) {
    this.#client = client;
    this.#intercept = intercept;
  }

  get<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    options?: CallOptions,
  ): Promise<T> {
    return this.#call('get', resource, { name }, options, (changed) =>
      this.#client.get(resource, namespace, name, changed),
    );
  }

  list<T extends KubeObject>(
    resource: Resource<T>,
    options?: ListOptions & CallOptions,
  ): Promise<ListResult<T>> {
    return this.#call('list', resource, {}, options, (changed) =>
      this.#client.list(resource, changed),
    );
  }

  listMapped<T extends KubeObject, R>(
    resource: Resource<T>,
    map: Mapping<T, R>,
    options?: ListOptions & CallOptions & ShorteningOptions,
  ): Promise<ListResult<R>> {
    return this.#call('list', resource, {}, options, (changed) =>
      this.#client.listMapped(resource, map, changed),
    );
  }

  watch<T extends KubeObject>(
    resource: Resource<T>,
    options: WatchOptions,
  ): AsyncIterable<WatchEvent<T>> {
    return this.#client.watch(resource, options);
  }

  create<T extends KubeObject>(
    resource: Resource<T>,
    object: NewObject<T>,
    options?: CreateOptions,
  ): Promise<T> {
    return this.#call('create', resource, { object }, options, (changed) =>
      this.#client.create(resource, object, changed),
    );
  }

  update<T extends KubeObject>(
    resource: Resource<T>,
    object: NoInfer<T>,
    options?: CallOptions,
  ): Promise<T> {
    const { name } = object.metadata;
    return this.#call('update', resource, { name, object }, options, (changed) =>
      this.#client.update(resource, object, changed),
    );
  }

  updateStatus<T extends KubeObject>(
    resource: Resource<T>,
    object: StatusUpdate<T>,
    options?: StatusOptions,
  ): Promise<T> {
    const { name } = object.metadata;
    return this.#call('update', resource, { name, object }, options, (changed) =>
      this.#client.updateStatus(resource, object, changed),
    );
  }

  mergePatch<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    patch: object,
    options?: CallOptions & { readonly subresource?: Subresource },
  ): Promise<T> {
    return this.#call('patch', resource, { name }, options, (changed) =>
      this.#client.mergePatch(resource, namespace, name, patch, changed),
    );
  }

  delete<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    options?: DeleteOptions,
  ): Promise<void> {
    return this.#call('delete', resource, { name }, options, (changed) =>
      this.#client.delete(resource, namespace, name, changed),
    );
  }

  createSubresource<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    subresource: Subresource,
    body: object,
    options?: CallOptions,
  ): Promise<void> {
    return this.#call('createSubresource', resource, { name }, options, (changed) =>
      this.#client.createSubresource(resource, namespace, name, subresource, body, changed),
    );
  }

  #call<O extends CallOptions, R>(
    verb: ClientCall['verb'],
    { plural }: { readonly plural: string },
    { name, object }: { readonly name?: string; readonly object?: object },
    options: O | undefined,
    run: (options: O | undefined) => Promise<R>,
  ): Promise<R> {
    const call = { verb, plural, name, ...(object === undefined ? {} : { object }) };
    return this.#intercept(call, options ?? {}, (changed) =>
      run(changed === undefined ? options : ({ ...options, ...changed } as O)),
    );
  }
}
