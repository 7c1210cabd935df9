import type { KubeObject, NewObject, ResourceDefinition } from './object.ts';

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** The server does everything but store. */
  readonly dryRun?: boolean;
  /** The call has ended after so long, repetitions included; 10 s by default. */
  readonly deadlineMs?: number;
  /** Called in the same turn in which the request is handed to a connection, before it. When it throws, nothing is sent and the call throws that. */
  readonly beforeSend?: () => void;
}

export interface ListOptions {
  /** Absent: all namespaces. */
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

/** For readers that need no long texts. */
export interface ShorteningOptions {
  /**
   * Maximum bytes of a text in metadata or spec, as JSON. The end of a longer one is removed before it is parsed: nearly all of the time
   * and the memory that a large object takes would go into that text. Absent: objects come whole.
   */
  readonly maxTextBytes?: number;
}

/** With the bytes that `maxTextBytes` has removed from the object. */
export type Mapping<T, R> = (object: T, removedBytes: number) => R | undefined;

export interface ListResult<T> {
  readonly items: readonly T[];
  /** The version of the whole list; a watch goes on from here. */
  readonly resourceVersion: string;
}

export interface CreateOptions extends CallOptions {
  /**
   * The server answers with the metadata alone, and what is returned has them beside what was sent: without what the server has changed in
   * the rest of the object. For large objects, which otherwise come back whole.
   */
  readonly metadataOnly?: boolean;
}

export interface DeleteOptions extends CallOptions {
  /** Preconditions: the stored object must still be this one, else 409. */
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

export type WatchEvent<T> =
  | {
      readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
      readonly object: T;
      /** What `maxTextBytes` has removed from the object; absent: nothing. */
      readonly removedBytes?: number;
    }
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

export interface WatchOptions extends ListOptions, ShorteningOptions {
  readonly resourceVersion: string;
  /** After this many seconds the server ends the stream in good order. */
  readonly timeoutSeconds: number;
  readonly signal: AbortSignal;
}

export interface StatusOptions extends CallOptions {
  /** What the new status was made from: only fields that differ from it are written. For statuses of which a cache has left out parts. */
  readonly from?: object | undefined;
}

/** As much of an object as names the version whose status is replaced, with the new status. */
export type StatusUpdate<T extends KubeObject> = KubeObject & Pick<T, Extract<keyof T, 'status'>>;

export type Subresource = 'status' | 'scale' | 'binding';

/**
 * Typed calls to an API server. Every method throws `ApiError` for an answer that is no success, and `TransportError` when
 * there was none; reads are retried by themselves, writes only where a repetition can do no harm.
 */
export interface KubeClient {
  get<T extends KubeObject>(resource: ResourceDefinition<T>, namespace: string, name: string, options?: CallOptions): Promise<T>;
  /** Every object of one consistent state. */
  list<T extends KubeObject>(resource: ResourceDefinition<T>, options?: ListOptions & CallOptions): Promise<ListResult<T>>;
  /**
   * What `map` makes of every object; undefined leaves one out. The objects come page by page, and only one page of them is in memory at
   * a time. A list whose state has expired begins again: `map` is called anew then, and only the last results are returned.
   */
  listMapped<T extends KubeObject, R>(
    resource: ResourceDefinition<T>,
    map: Mapping<T, R>,
    options?: ListOptions & CallOptions & ShorteningOptions,
  ): Promise<ListResult<R>>;
  /** Ends when the server ends the stream; throws `ApiError` for an ERROR event (410: list again). */
  watch<T extends KubeObject>(resource: ResourceDefinition<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>>;
  create<T extends KubeObject>(resource: ResourceDefinition<T>, object: NewObject<T>, options?: CreateOptions): Promise<T>;
  /** PUT; the object's resourceVersion is the precondition. */
  update<T extends KubeObject>(resource: ResourceDefinition<T>, object: NoInfer<T>, options?: CallOptions): Promise<T>;
  /** Replaces the status and touches nothing else, so the object may lack parts; its resourceVersion is the precondition. */
  updateStatus<T extends KubeObject>(resource: ResourceDefinition<T>, object: StatusUpdate<T>, options?: StatusOptions): Promise<T>;
  /** RFC 7386. A `metadata.resourceVersion` in the patch makes it conditional. */
  mergePatch<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    patch: object,
    options?: CallOptions & { readonly subresource?: Subresource },
  ): Promise<T>;
  delete<T extends KubeObject>(resource: ResourceDefinition<T>, namespace: string, name: string, options?: DeleteOptions): Promise<void>;
  /** POST to a subresource, for example a Binding to `pods/x/binding`. */
  createSubresource<T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
    subresource: Subresource,
    body: object,
    options?: CallOptions,
  ): Promise<void>;
}
