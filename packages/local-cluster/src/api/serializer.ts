import type { Clock } from '@conversation-operator/base/clock';
import type { ApiObject } from './api-object.ts';
import { notAcceptable } from './status-error.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import type { Stored } from '../storage/changes.ts';

interface NegotiatedMediaType {
  readonly as: 'Object' | 'Table' | 'PartialObjectMetadata';
  readonly contentType: string;
}

interface MediaRange {
  readonly type: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export const parseAccept = (accept: string): readonly MediaRange[] =>
  accept.split(',').map((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim());
    return {
      type,
      parameters: Object.fromEntries(
        parameters.map((parameter) => parameter.split('=').map((part) => part.trim())),
      ) as Record<string, string>,
    };
  });

const plainJson: NegotiatedMediaType = { as: 'Object', contentType: 'application/json' };

function supportedMediaType({ type, parameters }: MediaRange): NegotiatedMediaType | undefined {
  const { as, g, v } = parameters;
  if (as !== undefined) {
    if (type !== 'application/json' || g !== 'meta.k8s.io' || v !== 'v1') return undefined;
    const contentType = `application/json;as=${as};g=meta.k8s.io;v=v1`;
    if (as === 'Table') return { as, contentType: 'application/json' };
    return as === 'PartialObjectMetadata' || as === 'PartialObjectMetadataList'
      ? { as: 'PartialObjectMetadata', contentType }
      : undefined;
  }
  return type === 'application/json' || type === '*/*' || type === 'application/*'
    ? plainJson
    : undefined;
}

/** Returns the first supported media type that the client accepts. @throws StatusError 406 */
export function negotiate(accept: string | undefined): NegotiatedMediaType {
  if (accept === undefined || accept === '') return plainJson;
  const mediaType = parseAccept(accept)
    .map(supportedMediaType)
    .find((candidate) => candidate !== undefined);
  if (mediaType === undefined) throw notAcceptable();
  return mediaType;
}

type IncludeObject = 'Metadata' | 'Object';

const partialMetadata = ({ metadata }: ApiObject) => ({
  kind: 'PartialObjectMetadata',
  apiVersion: 'meta.k8s.io/v1',
  metadata,
});

const definitionsOf = (resource: ApiResource) =>
  resource.columns.map(({ name, type, format, description, priority }) => ({
    name,
    type,
    format: format ?? '',
    description,
    priority,
  }));

/** Returns a `meta.k8s.io/v1 Table`. Only the first table of a watch has column definitions. */
function tableOf(
  objects: readonly ApiObject[],
  resource: ApiResource,
  options: {
    readonly nowMs: number;
    readonly include: IncludeObject;
    readonly metadata: object;
    readonly headers?: boolean;
  },
) {
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: options.metadata,
    columnDefinitions: options.headers === false ? null : definitionsOf(resource),
    rows: objects.map((object) => ({
      cells: resource.columns.map(({ cell }) => cell(object, options.nowMs)),
      object: options.include === 'Object' ? object : partialMetadata(object),
    })),
  };
}

export interface ListMeta {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

/** Encodes objects. For a resource, serializers with the same `key` produce the same text. */
export interface Serializer {
  readonly key: string;
  readonly contentType: string;
  object(object: ApiObject): string;
  list(items: readonly Stored[], metadata: ListMeta): string;
  /** Encodes an object of a watch. `json` is its stored text; `first` is true for the first one. */
  event(object: ApiObject, json: string | undefined, watcher: { readonly first: boolean }): string;
}

interface Options {
  readonly resource: ApiResource;
  readonly clock: Clock;
  readonly includeObject: string | null;
  readonly accept: string | undefined;
}

/** @throws StatusError 406 for an unsupported media type */
export function negotiatedSerializer(options: Options): Serializer {
  const mediaType = negotiate(options.accept);
  const { resource, clock } = options;
  if (mediaType.as === 'Table')
    return tableSerializer(
      resource,
      clock,
      options.includeObject === 'Object' ? 'Object' : 'Metadata',
    );
  return mediaType.as === 'PartialObjectMetadata'
    ? metadataSerializer(mediaType.contentType)
    : jsonSerializer(resource);
}

const jsonSerializer = (resource: ApiResource): Serializer => {
  // Items of a built-in list omit kind and apiVersion, as in Kubernetes.
  const itemText = ({ object, json }: Stored): string =>
    resource.builtin ? JSON.stringify({ ...object, apiVersion: undefined, kind: undefined }) : json;
  const head = `{"kind":${JSON.stringify(resource.listKind)},"apiVersion":${JSON.stringify(apiVersionOf(resource))},"metadata":`;
  return {
    key: 'json',
    contentType: 'application/json',
    object: (object) => JSON.stringify(object),
    list: (items, metadata) =>
      `${head}${JSON.stringify(metadata)},"items":[${items.map(itemText).join(',')}]}`,
    event: (object, json) => json ?? JSON.stringify(object),
  };
};

const metadataSerializer = (contentType: string): Serializer => ({
  key: 'metadata',
  contentType,
  object: (object) => JSON.stringify(partialMetadata(object)),
  list: (items, metadata) =>
    JSON.stringify({
      kind: 'PartialObjectMetadataList',
      apiVersion: 'meta.k8s.io/v1',
      metadata,
      items: items.map(({ object }) => partialMetadata(object)),
    }),
  event: (object) => JSON.stringify(partialMetadata(object)),
});

const tableSerializer = (
  resource: ApiResource,
  clock: Clock,
  include: IncludeObject,
): Serializer => {
  const one = (object: ApiObject, { first }: { readonly first: boolean }): string =>
    JSON.stringify(
      tableOf([object], resource, {
        nowMs: clock.now(),
        include,
        metadata: { resourceVersion: object.metadata.resourceVersion },
        headers: first,
      }),
    );
  return {
    key: `table-${include}`,
    contentType: 'application/json',
    object: (object) => one(object, { first: true }),
    list: (items, metadata) =>
      JSON.stringify(
        tableOf(
          items.map(({ object }) => object),
          resource,
          { nowMs: clock.now(), include, metadata },
        ),
      ),
    event: (object, _json, watcher) => one(object, watcher),
  };
};
