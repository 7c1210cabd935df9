import { stringify } from 'yaml';
import type { Clock } from '@conversation-operator/kube/clock';
import { withMeta, type ApiObject } from '../api/api-object.ts';
import { badRequest } from '../api/status-error.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import type { Stored } from '../storage/change.ts';
import { negotiate } from './media-type.ts';
import { partialMetadata, tableOf, type IncludeObject } from './table.ts';

export interface ListMeta {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

/** A form in which objects leave. Forms with the same key give the same text. */
export interface Representation {
  readonly key: string;
  readonly contentType: string;
  object(object: ApiObject): string;
  list(items: readonly Stored[], metadata: ListMeta): string;
  /** One object of a watch. `first`: of this watcher. */
  event(object: ApiObject, json: string | undefined, first: boolean): string;
}

interface Options {
  readonly resource: ApiResource;
  readonly clock: Clock;
  readonly includeObject: string | null;
  readonly accept: string | undefined;
}

function includeOf(text: string | null): IncludeObject {
  if (text === null || text === '' || text === 'Metadata') return 'Metadata';
  if (text === 'None' || text === 'Object') return text;
  throw badRequest(`invalid includeObject ${JSON.stringify(text)}: supported are None, Metadata, Object`);
}

/** @throws StatusError 406 for a form that can't be made */
export function representationOf(options: Options): Representation {
  const output = negotiate(options.accept);
  const { resource, clock } = options;
  if (output.as === 'Table') return tableForm(resource, clock, includeOf(options.includeObject));
  if (output.as === 'PartialObjectMetadata') return metadataForm(output.contentType);
  const json = jsonForm(resource);
  return output.format === 'json' ? json : yamlForm(json);
}

const jsonForm = (resource: ApiResource): Representation => {
  // Items of a typed list leave out what the list says of them all.
  const itemText = ({ object, json }: Stored): string =>
    resource.builtin ? JSON.stringify({ ...object, apiVersion: undefined, kind: undefined }) : json;
  const head = `{"kind":${JSON.stringify(resource.listKind)},"apiVersion":${JSON.stringify(apiVersionOf(resource))},"metadata":`;
  return {
    key: 'json',
    contentType: 'application/json',
    object: (object) => JSON.stringify(object),
    list: (items, metadata) => `${head}${JSON.stringify(metadata)},"items":[${items.map(itemText).join(',')}]}`,
    event: (object, json) => json ?? JSON.stringify(object),
  };
};

const yamlForm = (json: Representation): Representation => ({
  ...json,
  key: 'yaml',
  contentType: 'application/yaml',
  object: (object) => stringify(object),
  list: (items, metadata) => stringify(JSON.parse(json.list(items, metadata))),
});

const metadataForm = (contentType: string): Representation => ({
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

const tableForm = (resource: ApiResource, clock: Clock, include: IncludeObject): Representation => {
  const one = (object: ApiObject, headers: boolean): string =>
    JSON.stringify(
      tableOf([object], resource, { nowMs: clock.now(), include, metadata: { resourceVersion: object.metadata.resourceVersion }, headers }),
    );
  return {
    key: `table-${include}`,
    contentType: 'application/json',
    object: (object) => one(object, true),
    list: (items, metadata) =>
      JSON.stringify(
        tableOf(
          items.map(({ object }) => object),
          resource,
          { nowMs: clock.now(), include, metadata },
        ),
      ),
    event: (object, _json, first) => one(object, first),
  };
};

/** The object as a watcher sees it leave its selection: its last state in it, at the version of the change. */
export const leaving = (object: ApiObject, version: number): ApiObject => withMeta(object, { resourceVersion: String(version) });
