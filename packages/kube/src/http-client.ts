import type { KubeObject, ResourceDefinition } from './object.ts';
import type {
  CallOptions,
  GetOptions,
  KubeClient,
  ListOptions,
  ListResult,
  Mapping,
  MetadataOptions,
  Subresource,
  WatchEvent,
  WatchOptions,
} from './client.ts';
import { ResponseTooLargeError, DeadlineError, TransportError, isExpired } from './errors.ts';
import {
  linesOf,
  wholeLines,
  parseObject,
  watchEvent,
  withoutManagedFields,
  ScratchBuffer,
} from './watch-stream.ts';
import { PageSize, maxLimit } from './page-size.ts';
import { statusPatch } from './status-patch.ts';
import type { Transport, TransportRequest } from './transport.ts';

type Resource<T extends KubeObject> = ResourceDefinition<T>;
type Listing = ListOptions & CallOptions & MetadataOptions;
type Query = Readonly<Record<string, string | number | boolean | undefined>>;

interface ListPage<T> {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[] | null;
}

/**
 * Maximum bytes of a page of several objects. The client requests a larger page again with a lower
 * `limit`, so a list needs no more memory than such a page and its copies.
 */
const maxPageBytes = 16_777_216;
/** Returns an Accept header for only metadata. Servers without this feature send whole objects. */
const accepting = (form: string): string =>
  `application/json;as=${form};g=meta.k8s.io;v=v1,application/json`;
const metadataOnlyAccept = accepting('PartialObjectMetadata');
const metadataListAccept = accepting('PartialObjectMetadataList');
/** Maximum attempts to list in pages. Then the client lists without `limit`, as client-go does. */
const maxPagedAttempts = 2;
/** Maximum bytes of a watch event. Another API version of an object may exceed etcd's 1.5 MiB. */
const maxWatchLineBytes = 8_388_608;

/** Client of an API server over HTTP. Removes `managedFields` unless a `get` asks for them. */
export class HttpKubeClient implements KubeClient {
  readonly #transport: Pick<Transport, 'call' | 'stream'>;
  /** Page sizes by plural and group. Lists that contain only metadata have their own page sizes. */
  readonly #pageSizes = new Map<string, PageSize>();

  constructor({ transport }: { readonly transport: Pick<Transport, 'call' | 'stream'> }) {
    this.#transport = transport;
  }

  readonly get: KubeClient['get'] = async <T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    options: GetOptions = {},
  ) => {
    const path = objectPath(resource, namespace, name);
    const request = { verb: 'get', method: 'GET', path } as const;
    if (options.managedFields !== true) return this.#stored(resource, options, request);
    const { plural } = resource;
    return (await this.#transport.call({
      ...request,
      resource: plural,
      parse: JSON.parse,
      ...sending(options),
    })) as T;
  };

  readonly list: KubeClient['list'] = (resource, options) =>
    this.listMapped(resource, (object) => object, options);

  readonly listMapped: KubeClient['listMapped'] = async (resource, map, options = {}) => {
    // The API server may compact the list's state before the client has read the last page.
    for (let attempt = 1; attempt <= maxPagedAttempts; attempt++) {
      try {
        return await this.#pages(resource, map, options);
      } catch (error) {
        if (!isExpired(error)) throw error;
      }
    }
    return this.#pages(resource, map, options, 'all at once');
  };

  readonly create: KubeClient['create'] = async (resource, object, options = {}) => {
    const { metadataOnly = false } = options;
    const path = collectionPath(resource, object.metadata.namespace ?? '');
    const stored = await this.#stored(resource, options, {
      verb: 'create',
      method: 'POST',
      path: withQuery(path, writing(options)),
      body: object,
      accept: metadataOnly ? metadataOnlyAccept : undefined,
    });
    return metadataOnly
      ? { ...object, ...stored, apiVersion: object.apiVersion, kind: object.kind }
      : stored;
  };

  readonly update: KubeClient['update'] = async (resource, object, options = {}) => {
    const { namespace = '', name } = object.metadata;
    return this.#stored(resource, options, {
      verb: 'update',
      method: 'PUT',
      path: withQuery(objectPath(resource, namespace, name), writing(options)),
      body: object,
    });
  };

  /**
   * Sends a patch. A PUT of an object without some of its fields would remove these fields from the
   * `managedFields` of their managers: when the status of a custom resource is written, the API
   * server keeps only the managers of `spec`.
   */
  readonly updateStatus: KubeClient['updateStatus'] = async (resource, object, options = {}) => {
    const { namespace = '', name, resourceVersion } = object.metadata;
    return this.#stored(resource, options, {
      verb: 'patch',
      method: 'PATCH',
      path: withQuery(objectPath(resource, namespace, name, 'status'), writing(options)),
      body: statusPatch(resourceVersion, statusOf(object), options.from),
      contentType: 'application/json-patch+json',
    });
  };

  readonly mergePatch: KubeClient['mergePatch'] = async (
    resource,
    namespace,
    name,
    patch,
    options = {},
  ) =>
    this.#stored(resource, options, {
      verb: 'patch',
      method: 'PATCH',
      path: withQuery(objectPath(resource, namespace, name, options.subresource), writing(options)),
      body: patch,
      contentType: 'application/merge-patch+json',
    });

  readonly delete: KubeClient['delete'] = async (resource, namespace, name, options = {}) => {
    const { uid, resourceVersion, gracePeriodSeconds, propagationPolicy } = options;
    const preconditions =
      uid === undefined && resourceVersion === undefined ? undefined : { uid, resourceVersion };
    await this.#transport.call({
      verb: 'delete',
      resource: resource.plural,
      method: 'DELETE',
      path: withQuery(objectPath(resource, namespace, name), writing(options)),
      body: {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        preconditions,
        gracePeriodSeconds,
        propagationPolicy,
      },
      ...sending(options),
    });
  };

  readonly createSubresource: KubeClient['createSubresource'] = async (resource, ...parts) => {
    const [namespace, name, subresource, body, options = {}] = parts;
    await this.#transport.call({
      verb: 'create',
      resource: resource.plural,
      method: 'POST',
      path: withQuery(objectPath(resource, namespace, name, subresource), writing(options)),
      body,
      ...sending(options),
    });
  };

  async #stored<T extends KubeObject>(
    resource: Resource<T>,
    options: CallOptions,
    request: Omit<TransportRequest, 'resource' | 'parse'>,
  ): Promise<T> {
    const response = await this.#transport.call({
      ...request,
      resource: resource.plural,
      parse: parseObject,
      ...sending(options),
    });
    return withoutManagedFields(resource, response);
  }

  /** Parses each event only when the caller takes it. */
  async *watch<T extends KubeObject>(
    resource: Resource<T>,
    options: WatchOptions,
  ): AsyncGenerator<WatchEvent<T>, void, undefined> {
    const { resourceVersion, timeoutSeconds, signal } = options;
    const query = {
      ...selectors(options),
      watch: true,
      allowWatchBookmarks: true,
      resourceVersion,
      timeoutSeconds,
    };
    const path = withQuery(collectionPath(resource, options.namespace), query);
    const stream = await this.#transport.stream({
      verb: 'watch',
      resource: resource.plural,
      method: 'GET',
      path,
      signal,
    });
    options.onOpen?.();
    for await (const lines of wholeLines(stream, maxWatchLineBytes))
      for (const line of linesOf(lines.toString('utf8'))) yield watchEvent(resource, line);
  }

  async #pages<T extends KubeObject, R>(
    resource: Resource<T>,
    map: Mapping<T, R>,
    options: Listing,
    mode: 'in pages' | 'all at once' = 'in pages',
  ): Promise<ListResult<R>> {
    const size = this.#pageSize(resource, options);
    const items: R[] = [];
    const scratch = new ScratchBuffer();
    let next: string | undefined;
    for (;;) {
      const limit = mode === 'in pages' ? size.limit : undefined;
      const page = await this.#page(resource, options, limit, next, scratch);
      if (page === 'too large') continue;
      for (const item of page.items ?? []) {
        const part = options.metadataOnly === true ? { metadata: item.metadata } : item;
        const mapped = map(withoutManagedFields(resource, part));
        if (mapped !== undefined) items.push(mapped);
      }
      next = page.metadata.continue;
      if (next === undefined || next === '')
        return { items, resourceVersion: page.metadata.resourceVersion };
    }
  }

  async #page<T extends KubeObject>(
    resource: Resource<T>,
    options: Listing,
    limit: number | undefined,
    next: string | undefined,
    scratch: ScratchBuffer,
  ): Promise<ListPage<T> | 'too large'> {
    const size = this.#pageSize(resource, options);
    const { metadataOnly = false } = options;
    const query: Query = { ...selectors(options), limit, continue: next };
    let bytes = 0;
    try {
      const response = await this.#transport.call({
        verb: 'list',
        resource: resource.plural,
        method: 'GET',
        path: withQuery(collectionPath(resource, options.namespace), query),
        accept: metadataOnly ? metadataListAccept : undefined,
        // A page can't be smaller than one object, which may be as large as etcd permits.
        maxResponseBytes: limit === 1 ? undefined : maxPageBytes,
        onResponseBytes: (count) => (bytes = count),
        gather: (chunks, count) => scratch.gather(chunks, count),
        ...sending(options),
      });
      const page = response as ListPage<T>;
      if (limit !== undefined) size.record(page.items?.length ?? 0, bytes);
      return page;
    } catch (error) {
      if (limit === undefined) throw error;
      const isTooLarge = error instanceof ResponseTooLargeError;
      // A page may be late because it is too large for the server: the next list has smaller pages.
      const isLate = error instanceof TransportError && error.cause instanceof DeadlineError;
      if ((isTooLarge || isLate) && size.shrink() && isTooLarge) return 'too large';
      throw error;
    }
  }

  #pageSize(
    { group, plural }: Resource<KubeObject>,
    { metadataOnly = false }: MetadataOptions,
  ): PageSize {
    const key = `${plural}.${group}${metadataOnly ? '/metadata' : ''}`;
    const known = this.#pageSizes.get(key) ?? new PageSize(metadataOnly ? maxLimit : undefined);
    this.#pageSizes.set(key, known);
    return known;
  }
}

const statusOf = (object: KubeObject & { readonly status?: unknown }): object =>
  typeof object.status === 'object' && object.status !== null ? object.status : {};

const sending = ({ signal, deadlineMs, beforeSend }: CallOptions) => ({
  signal,
  deadlineMs,
  beforeSend,
});

const writing = ({ dryRun }: CallOptions): Query => (dryRun === true ? { dryRun: 'All' } : {});

const selectors = ({ labelSelector, fieldSelector }: ListOptions): Query => ({
  labelSelector,
  fieldSelector,
});

function withQuery(path: string, query: Query): string {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(query))
    if (value !== undefined) parameters.set(key, String(value));
  return parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
}

/** Returns the path of a collection. Without a namespace: the path for all namespaces. */
function collectionPath(resource: Resource<KubeObject>, namespace = ''): string {
  const root =
    resource.group === ''
      ? `/api/${resource.version}`
      : `/apis/${resource.group}/${resource.version}`;
  return resource.namespaced && namespace !== ''
    ? `${root}/namespaces/${segment(namespace)}/${resource.plural}`
    : `${root}/${resource.plural}`;
}

function objectPath(
  resource: Resource<KubeObject>,
  namespace: string,
  name: string,
  subresource?: Subresource,
): string {
  if (resource.namespaced && namespace === '')
    throw new RangeError(`${resource.kind} ${name} needs a namespace`);
  const path = `${collectionPath(resource, namespace)}/${segment(name)}`;
  return subresource === undefined ? path : `${path}/${subresource}`;
}

/** Encodes a name as one path segment. Rejects '' and `..`, which would address something else. */
function segment(name: string): string {
  if (name === '' || name === '.' || name === '..' || /[/%]/.test(name))
    throw new RangeError(`not a name in a path: '${name}'`);
  return encodeURIComponent(name);
}
