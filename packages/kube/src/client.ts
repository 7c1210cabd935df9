import type { KubeObject, NewObject, ResourceDefinition } from './object.ts';

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly dryRun?: boolean;
  /** Maximum duration of the call, including its retries; default 10 s. */
  readonly deadlineMs?: number;
  /**
   * Called directly before each attempt is handed to a connection, in the same turn of the event
   * loop. If `beforeSend` throws, the client sends nothing, and the call throws the same error.
   */
  readonly beforeSend?: () => void;
}

export interface ListOptions {
  /** Default: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface MetadataOptions {
  /** Requests only the metadata of objects. Servers without this feature send whole objects. */
  readonly metadataOnly?: boolean;
}

/** Converts one object of a list. Returns undefined to leave the object out of the result. */
export type Mapping<T, R> = (object: T) => R | undefined;

export interface ListResult<T> {
  readonly items: readonly T[];
  /** Version of the list as a whole, from which a watch continues. */
  readonly resourceVersion: string;
}

export interface CreateOptions extends CallOptions {
  /**
   * Requests only the metadata in the response, so that the server does not send a large object
   * back. `create` returns the sent object with this metadata, without the server's other changes.
   */
  readonly metadataOnly?: boolean;
}

export interface GetOptions extends CallOptions {
  /** Keeps `managedFields`, nearly half of an object, which the client removes by default. */
  readonly managedFields?: boolean;
}

export interface DeleteOptions extends CallOptions {
  /** `uid` and `resourceVersion` are preconditions: the server answers 409 if they differ. */
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

export type WatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

export interface WatchOptions extends ListOptions {
  readonly resourceVersion: string;
  /** The server ends the stream without an error after this many seconds. */
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
  /** Called once the server has accepted the watch, before the first event. */
  readonly onOpen?: () => void;
}

export interface StatusOptions extends CallOptions {
  /**
   * Status from which the caller computed the new one. If present, the client writes only the
   * fields that differ, which is necessary when the caller's cache lacks parts of the status.
   */
  readonly from?: object | undefined;
}

/** An object with its new status. Its metadata is that of the version whose status is replaced. */
export type StatusUpdate<T extends KubeObject> = KubeObject & Pick<T, Extract<keyof T, 'status'>>;

export type Subresource = 'status' | 'scale' | 'binding';

/**
 * Typed calls to an API server. Every method throws `ApiError` for a response outside 2xx, and
 * `TransportError` when no complete response arrived. The client retries a read, but retries a
 * write only if the server has certainly not executed it.
 */
export interface KubeClient {
  get<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    options?: GetOptions,
  ): Promise<T>;
  /** Returns all objects in the state of one resourceVersion. */
  list<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    options?: ListOptions & CallOptions,
  ): Promise<ListResult<T>>;
  /**
   * Returns the results of `map` for all objects, except undefined ones. The client keeps at most
   * one page of objects in memory. When the continue token has expired, the client lists again from
   * the start: `map` is called again for every object, and earlier results are dropped.
   */
  listMapped<T extends KubeObject, R>(
    resource: ResourceDefinition<T>,
    map: Mapping<T, R>,
    options?: ListOptions & CallOptions & MetadataOptions,
  ): Promise<ListResult<R>>;
  /** Ends when the server ends it. Throws `ApiError` for an ERROR event. After 410, list again. */
  watch<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    options: WatchOptions,
  ): AsyncIterable<WatchEvent<T>>;
  create<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: NewObject<T>,
    options?: CreateOptions,
  ): Promise<T>;
  /** Sends a PUT. The resourceVersion of the object is a precondition. */
  update<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: NoInfer<T>,
    options?: CallOptions,
  ): Promise<T>;
  /** Replaces only the status. The object's resourceVersion is a precondition. */
  updateStatus<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: StatusUpdate<T>,
    options?: StatusOptions,
  ): Promise<T>;
  /** Sends a JSON merge patch (RFC 7386). A `metadata.resourceVersion` in it is a precondition. */
  mergePatch<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    patch: object,
    options?: CallOptions & { readonly subresource?: Subresource },
  ): Promise<T>;
  delete<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    options?: DeleteOptions,
  ): Promise<void>;
  /** Sends a POST to a subresource, for example a Binding to `pods/x/binding`. */
  createSubresource<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    subresource: Subresource,
    body: object,
    options?: CallOptions,
  ): Promise<void>;
}
