import { createHash } from 'node:crypto';
import { parseAccept } from '../api/serializer.ts';
import { notAcceptable, noSuchResource } from '../api/status-error.ts';
import { jsonResponse, type PlaneResponse } from '../api/request.ts';
import {
  apiVersionOf,
  type ApiResource,
  type ApiGroup,
  type Registry,
} from '../registry/api-resource.ts';
import { openApiOfBuiltin } from '../registry/builtin-schema.ts';
import type { Schema } from '../schema/structural-schema.ts';

const objectVerbs = ['create', 'delete', 'get', 'list', 'patch', 'update', 'watch'];
const partVerbs = ['get', 'patch', 'update'];

const subresourcesOf = (resource: ApiResource) => {
  const { group, version, kind } = resource;
  return [
    ...(resource.hasStatus ? [{ name: 'status', group, version, kind, verbs: partVerbs }] : []),
    ...(resource.scale === undefined
      ? []
      : [{ name: 'scale', group: 'autoscaling', version: 'v1', kind: 'Scale', verbs: partVerbs }]),
    ...resource.otherSubresources.map((part) => ({ group, version, ...part })),
  ];
};

const optional = <T>(key: string, values: readonly T[]) =>
  values.length > 0 ? { [key]: values } : {};

const aggregatedEntry = (resource: ApiResource) => ({
  resource: resource.plural,
  responseKind: { group: resource.group, version: resource.version, kind: resource.kind },
  scope: resource.namespaced ? 'Namespaced' : 'Cluster',
  singularResource: resource.singular,
  verbs: objectVerbs,
  ...optional('shortNames', resource.shortNames),
  ...optional('categories', resource.categories),
  ...optional(
    'subresources',
    subresourcesOf(resource).map(({ name, group, version, kind, verbs }) => ({
      subresource: name,
      responseKind: { group, version, kind },
      verbs,
    })),
  ),
});

const aggregated = (groups: readonly ApiGroup[], version: string) => ({
  kind: 'APIGroupDiscoveryList',
  apiVersion: `apidiscovery.k8s.io/${version}`,
  metadata: {},
  items: groups.map((group) => ({
    metadata: { name: group.group, creationTimestamp: null },
    versions: [
      {
        version: group.version,
        resources: group.resources.map(aggregatedEntry),
        freshness: 'Current',
      },
    ],
  })),
});

/** Returns the aggregated discovery version that a client accepts, if any. */
function aggregatedVersion(accept: string | undefined): string | undefined {
  const ranges = parseAccept(accept ?? '').filter(
    ({ type, parameters }) =>
      type === 'application/json' && parameters['g'] === 'apidiscovery.k8s.io',
  );
  return ranges
    .map(({ parameters }) => parameters['v'])
    .find((version) => version === 'v2' || version === 'v2beta1');
}

/** Answers aggregated discovery (`/api`, `/apis`), or returns undefined. @throws StatusError 406 */
export function discoveryResponse(
  path: string,
  accept: string | undefined,
  registry: Registry,
): PlaneResponse | undefined {
  if (path !== '/api' && path !== '/apis') return undefined;
  const version = aggregatedVersion(accept);
  if (version === undefined) throw notAcceptable();
  const groups = registry.groups().filter(({ group }) => (group === '') === (path === '/api'));
  return jsonResponse(
    200,
    aggregated(groups, version),
    `application/json;g=apidiscovery.k8s.io;v=${version};as=APIGroupDiscoveryList`,
  );
}

const prefix = '#/components/schemas/';
const metaName = 'V1ObjectMeta';

const groupVersionKind = ({ group, version, kind }: ApiResource) => ({ group, version, kind });

/** Returns a kind's schema name. Names of built-in kinds contain Go packages, as in Kubernetes. */
const componentName = ({ group, version, kind, model }: ApiResource): string =>
  model !== undefined && group !== 'apiextensions.k8s.io'
    ? `io.k8s.api.${group === '' ? 'core' : (group.split('.')[0] ?? '')}.${version}.${kind}`
    : `${(group === '' ? 'core' : group).split('.').reverse().join('.')}.${version}.${kind}`;

const metaTypes: ReadonlySet<string> = new Set(
  'ObjectMeta OwnerReference ManagedFieldsEntry LabelSelector LabelSelectorRequirement Condition'.split(
    ' ',
  ),
);

function partName(model: string): string {
  const [, version = 'V1', name = model] = /^(?:Core)?(V\d+[a-z0-9]*)(.+)$/.exec(model) ?? [];
  if (metaTypes.has(name))
    return `io.k8s.apimachinery.pkg.apis.meta.${version.toLowerCase()}.${name}`;
  return `io.k8s.api.${name.startsWith('Lease') ? 'coordination' : 'core'}.${version.toLowerCase()}.${name}`;
}

/** Returns the schemas of the kinds and of all types that they reference. */
function components(resources: readonly ApiResource[]): Record<string, unknown> {
  const schemas: Record<string, unknown> = {};
  const pending = [metaName];
  const refer = (name: string): string => {
    pending.push(name);
    return `${prefix}${partName(name)}`;
  };
  for (const resource of resources) {
    const schema =
      resource.model === undefined
        ? customSchema(resource)
        : openApiOfBuiltin(resource.model, refer);
    schemas[componentName(resource)] = {
      ...schema,
      'x-kubernetes-group-version-kind': [groupVersionKind(resource)],
    };
  }
  for (let name = pending.pop(); name !== undefined; name = pending.pop()) {
    schemas[partName(name)] ??= openApiOfBuiltin(name, refer);
  }
  return schemas;
}

const customSchema = (resource: ApiResource): Schema => ({
  ...resource.schema,
  properties: {
    ...resource.schema.properties,
    metadata: { $ref: `${prefix}${partName(metaName)}`, description: 'Standard object metadata.' },
  },
});

const queryParameter = (name: string, description: string) => ({
  name,
  in: 'query',
  description,
  schema: { type: 'string', uniqueItems: true },
});

/** Query parameters by which kubectl detects server-side validation. */
const writeParameters = [
  queryParameter('dryRun', 'All: the server processes the request without storing the result.'),
  queryParameter('fieldManager', 'Name of the client that makes the changes.'),
  queryParameter(
    'fieldValidation',
    'Ignore, Warn or Strict: treatment of unknown and duplicate fields.',
  ),
];

/** Returns the paths that `kubectl explain` and kubectl's check for server-side validation read. */
function pathsOf(resource: ApiResource): Record<string, unknown> {
  const base =
    resource.group === '' ? `/api/${resource.version}` : `/apis/${apiVersionOf(resource)}`;
  const collection = resource.namespaced
    ? `${base}/namespaces/{namespace}/${resource.plural}`
    : `${base}/${resource.plural}`;
  const schema = { $ref: `${prefix}${componentName(resource)}` };
  const content = { 'application/json': { schema } };
  const reading = (action: string) => ({
    responses: { 200: { description: 'OK', content } },
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': groupVersionKind(resource),
  });
  const writing = (action: string) => ({
    parameters: writeParameters,
    requestBody: { content },
    ...reading(action),
  });
  return {
    ...(resource.namespaced ? { [`${base}/${resource.plural}`]: { get: reading('list') } } : {}),
    [collection]: { get: reading('list'), post: writing('post') },
    [`${collection}/{name}`]: { get: reading('get'), patch: writing('patch') },
  };
}

const documentOf = (resources: readonly ApiResource[]) => ({
  openapi: '3.0.0',
  info: { title: 'Kubernetes', version: 'unversioned' },
  paths: Object.assign({}, ...resources.map(pathsOf)) as object,
  components: { schemas: components(resources) },
});

interface Documents {
  readonly generation: number;
  readonly byGroup: ReadonlyMap<string, string>;
  readonly index: string;
}

/** OpenAPI v3 documents of every group, which are built again after the served kinds change. */
export class OpenApi {
  readonly #registry: Registry;
  #documents: Documents | undefined;

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /** Answers `/openapi/v3` and the paths below it; undefined for any other path. */
  respond(path: string): PlaneResponse | undefined {
    if (path === '/openapi/v2') throw noSuchResource();
    if (path !== '/openapi/v3' && !path.startsWith('/openapi/v3/')) return undefined;
    const { index, byGroup } = this.#current();
    const group = path.slice('/openapi/v3/'.length);
    const body = group === '' ? index : byGroup.get(group);
    return body === undefined
      ? jsonResponse(404, noSuchResource().status)
      : { status: 200, headers: { 'content-type': 'application/json' }, body };
  }

  #current(): Documents {
    if (this.#documents?.generation === this.#registry.generation) return this.#documents;
    const byGroup = new Map<string, string>();
    for (const { group, version, resources } of this.#registry.groups()) {
      byGroup.set(
        group === '' ? `api/${version}` : `apis/${group}/${version}`,
        JSON.stringify(documentOf(resources)),
      );
    }
    const paths = [...byGroup].map(([key, text]) => {
      const hash = createHash('sha256').update(text).digest('hex').slice(0, 32).toUpperCase();
      return [key, { serverRelativeURL: `/openapi/v3/${key}?hash=${hash}` }];
    });
    this.#documents = {
      generation: this.#registry.generation,
      byGroup,
      index: JSON.stringify({ paths: Object.fromEntries(paths) as object }),
    };
    return this.#documents;
  }
}
