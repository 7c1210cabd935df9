import { createHash } from 'node:crypto';
import { parseAccept } from '../api/serializer.ts';
import { noSuchResource } from '../api/status-error.ts';
import { jsonResponse, type PlaneResponse } from '../api/request.ts';
import { apiVersionOf, type ApiResource } from '../registry/api-resource.ts';
import type { ApiGroup, Registry } from '../registry/registry.ts';

const objectVerbs = [
  'create',
  'delete',
  'deletecollection',
  'get',
  'list',
  'patch',
  'update',
  'watch',
];
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

const versionOf = (group: ApiGroup) => ({
  groupVersion: apiVersionOf(group),
  version: group.version,
});

const optional = <T>(key: string, values: readonly T[]) =>
  values.length > 0 ? { [key]: values } : {};

/** Returns the storage version hash, which clients only compare for equality. */
const storageHash = (group: string, version: string, kind: string): string =>
  createHash('sha256')
    .update(`${group}/${version}/${kind}`)
    .digest()
    .subarray(0, 8)
    .toString('base64');

const legacyEntries = (resource: ApiResource) => {
  const { group, version, plural, namespaced, kind } = resource;
  return [
    {
      name: plural,
      singularName: resource.singular,
      namespaced,
      kind,
      verbs: objectVerbs,
      ...optional('shortNames', resource.shortNames),
      ...optional('categories', resource.categories),
      storageVersionHash: storageHash(group, version, kind),
    },
    ...subresourcesOf(resource).map((part) => ({
      name: `${plural}/${part.name}`,
      singularName: '',
      namespaced,
      kind: part.kind,
      verbs: part.verbs,
      ...(part.kind === kind ? {} : { group: part.group, version: part.version }),
    })),
  ];
};

/** Returns the resources of one group, for `/api/v1` and `/apis/{group}/{version}`. */
function legacyResources(found: ApiGroup | undefined) {
  if (found === undefined) throw noSuchResource();
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: versionOf(found).groupVersion,
    resources: found.resources.flatMap(legacyEntries),
  };
}

const legacyGroup = (found: ApiGroup) => ({
  name: found.group,
  versions: [versionOf(found)],
  preferredVersion: versionOf(found),
});

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

/** Returns the version of aggregated discovery that a client accepts, if any. */
function aggregatedVersion(accept: string | undefined): string | undefined {
  const ranges = parseAccept(accept ?? '').filter(
    ({ type, parameters }) =>
      type === 'application/json' && parameters['g'] === 'apidiscovery.k8s.io',
  );
  return ranges
    .map(({ parameters }) => parameters['v'])
    .find((version) => version === 'v2' || version === 'v2beta1');
}

/** Answers the paths of discovery; undefined for any other path. */
export function discoveryResponse(
  path: string,
  accept: string | undefined,
  registry: Registry,
): PlaneResponse | undefined {
  const parts = path.split('/').filter((part) => part !== '');
  const [root, group, version] = parts;
  if (
    (root !== 'api' && root !== 'apis') ||
    parts.length > 3 ||
    (root === 'api' && parts.length > 2)
  )
    return undefined;
  const groups = registry.groups();
  if (parts.length === 1) {
    const shown = groups.filter((entry) => (entry.group === '') === (root === 'api'));
    const form = aggregatedVersion(accept);
    if (form !== undefined) {
      return jsonResponse(
        200,
        aggregated(shown, form),
        `application/json;g=apidiscovery.k8s.io;v=${form};as=APIGroupDiscoveryList`,
      );
    }
    if (root === 'apis')
      return jsonResponse(200, {
        kind: 'APIGroupList',
        apiVersion: 'v1',
        groups: shown.map(legacyGroup),
      });
    return jsonResponse(200, {
      kind: 'APIVersions',
      versions: ['v1'],
      serverAddressByClientCIDRs: [],
    });
  }
  if (root === 'api')
    return jsonResponse(
      200,
      legacyResources(groups.find((entry) => entry.group === '' && entry.version === group)),
    );
  const found = groups.find((entry) => entry.group === group);
  if (version !== undefined)
    return jsonResponse(200, legacyResources(found?.version === version ? found : undefined));
  if (found === undefined) throw noSuchResource();
  return jsonResponse(200, { kind: 'APIGroup', apiVersion: 'v1', ...legacyGroup(found) });
}
