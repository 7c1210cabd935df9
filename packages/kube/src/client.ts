import type { KubeObject, NewObject, ResourceDefinition } from './object.ts';

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** The server validates and admits the request without storing the result. */
  readonly dryRun?: boolean;
  /** Maximum duration of the call with its retries; default 10 s. */
  readonly deadlineMs?: number;
  /**
   * The client calls `beforeSend` immediately before it hands the request to a connection, in the
   * same turn of the event loop. When `beforeSend` throws, the client sends nothing, and the call
   * throws that error.
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
  /**
   * The server sends the metadata alone, where it supports that form. The objects lack the rest,
   * and the caller reads nothing else of them.
   */
  readonly metadataOnly?: boolean;
}

/** Converts one object; undefined leaves it out. */
export type Mapping<T, R> = (object: T) => R | undefined;

export interface ListResult<T> {
  readonly items: readonly T[];
  /** Version of the whole list; a watch continues from this version. */
  readonly resourceVersion: string;
}

export interface CreateOptions extends CallOptions {
  /**
   * The server answers with the metadata alone. The returned object has this metadata and the rest
   * of the object that was sent, without changes that the server has made to the rest. Large
   * objects otherwise come back whole.
   */
  readonly metadataOnly?: boolean;
}

export interface GetOptions extends CallOptions {
  /**
   * The object has its `managedFields`: which client has set which field. Otherwise the client
   * leaves them out, which are nearly half of an object.
   */
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
   * Status that the new status was computed from: the client writes only the fields that differ. A
   * caller passes `from` when its cache lacks parts of the status.
   */
  readonly from?: object | undefined;
}

/** Part of an object that identifies the version whose status is replaced, with the new status. */
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
   * Returns the result of `map` for every object, without those for which `map` returns undefined.
   * The client reads page by page and keeps only one page of objects in memory. When the state of
   * the list has expired, the list starts over: the client calls `map` for every object again and
   * returns only the last results.
   */
  listMapped<T extends KubeObject, R>(
    resource: ResourceDefinition<T>,
    map: Mapping<T, R>,
    options?: ListOptions & CallOptions & MetadataOptions,
  ): Promise<ListResult<R>>;
  /** Ends with the server's stream. Throws `ApiError` for an ERROR event; 410: list again. */
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
  /** Replaces the status alone, on exactly its resourceVersion; other parts may be left out. */
  updateStatus<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    object: StatusUpdate<T>,
    options?: StatusOptions,
  ): Promise<T>;
  /** Sends a JSON merge patch (RFC 7386); a `metadata.resourceVersion` makes it conditional. */
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
