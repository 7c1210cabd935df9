import type { ApiObject } from '../api/api-object.ts';
import type { ApiResource } from '../registry/api-resource.ts';

export type IncludeObject = 'None' | 'Metadata' | 'Object';

export const partialMetadata = ({ metadata }: ApiObject) => ({
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

/**
 * Returns a `meta.k8s.io/v1 Table`, which `kubectl get` prints. `headers` is false after the first
 * event of a watch, since a watch sends the columns once.
 */
export function tableOf(
  objects: readonly ApiObject[],
  resource: ApiResource,
  options: {
    readonly nowMs: number;
    readonly include: IncludeObject;
    readonly metadata: object;
    readonly headers?: boolean;
  },
) {
  const objectOf = (object: ApiObject) => {
    if (options.include === 'None') return {};
    return { object: options.include === 'Object' ? object : partialMetadata(object) };
  };
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata: options.metadata,
    columnDefinitions: options.headers === false ? null : definitionsOf(resource),
    rows: objects.map((object) => ({
      cells: resource.columns.map(({ cell }) => cell(object, options.nowMs)),
      ...objectOf(object),
    })),
  };
}
