import type { KubeObject, NewObject, ResourceDefinition } from './object.ts';

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** The server validates and admits the request without storing the result. */
  readonly dryRun?: boolean;
  /** Maximum duration of the call with its retries; default 10 s. */
  readonly deadlineMs?: number;
  /**
   * Called right before the request goes to a connection, in the same turn of the event loop. When
   * `beforeSend` throws, the client sends nothing, and the call throws that error.
   */
  readonly beforeSend?: () => void;
}

export interface ListOptions {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** Options for readers that need only the metadata of objects. */
export interface MetadataOptions {
  /** Requests only metadata, if the server can. The caller reads nothing else of the objects. */
  readonly metadataOnly?: boolean;
}

/** Converts one object; undefined leaves it out. */
export type Mapping<T, R> = (object: T) => R | undefined;

export interface ListResult<T> {
  readonly items: readonly T[];
  /** Version of the whole list, from which a watch continues. */
  readonly resourceVersion: string;
}

export interface CreateOptions extends CallOptions {
  /**
   * The server answers with the metadata alone, because large objects otherwise come back whole.
   * The returned object has this metadata and the rest as sent, without the server's changes.
   */
  readonly metadataOnly?: boolean;
}

export interface GetOptions extends CallOptions {
  /** Keeps `managedFields`, which are nearly half of an object and otherwise removed. */
  readonly managedFields?: boolean;
}

export interface DeleteOptions extends CallOptions {
  /** Preconditions: the server answers 409 when the stored object has another uid or version. */
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
  /** Called when the server has accepted the watch, before the first event. */
  readonly onOpen?: () => void;
}

export interface StatusOptions extends CallOptions {
  /**
   * Status from which the new status was computed: the client writes only the fields that differ.
   * Necessary when the caller's cache lacks parts of the status.
   */
  readonly from?: object | undefined;
}

/** The new status, and the metadata of the object version whose status is replaced. */
export type StatusUpdate<T extends KubeObject> = KubeObject & Pick<T, Extract<keyof T, 'status'>>;

export type Subresource = 'status' | 'scale' | 'binding';

/**
 * Typed calls to an API server. Every method throws `ApiError` for a response other than success,
 * and `TransportError` when no response arrived. The client retries reads, and it retries a write
 * only where a repetition is harmless.
 */
export interface KubeClient {
  get<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    options?: GetOptions,
  ): Promise<T>;
  /** Returns every object of one consistent state. */
  list<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    options?: ListOptions & CallOptions,
  ): Promise<ListResult<T>>;
  /**
   * Returns the results of `map` for all objects, except undefined ones. The client reads page by
   * page and keeps only one page of objects in memory. When the state of the list has expired, the
   * list starts over: `map` is called for every object again, and only the last results count.
   */
  listMapped<T extends KubeObject, R>(
    resource: ResourceDefinition<T>,
    map: Mapping<T, R>,
    options?: ListOptions & CallOptions & MetadataOptions,
  ): Promise<ListResult<R>>;
  /** Ends with the server's stream. Throws `ApiError` for an ERROR event; after 410, list again. */
  watch<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    options: WatchOptions,
  ): AsyncIterable<WatchEvent<T>>;
  create<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: NewObject<T>,
    options?: CreateOptions,
  ): Promise<T>;
  /** Sends a PUT with the resourceVersion of the object as the precondition. */
  update<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: NoInfer<T>,
    options?: CallOptions,
  ): Promise<T>;
  /** Replaces the status alone, on exactly its resourceVersion. Other parts may be left out. */
  updateStatus<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: StatusUpdate<T>,
    options?: StatusOptions,
  ): Promise<T>;
  /** Sends a JSON merge patch (RFC 7386). A `metadata.resourceVersion` makes it conditional. */
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
