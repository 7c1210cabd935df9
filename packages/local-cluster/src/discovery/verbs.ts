import { reviewKinds } from '../api/reviews.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import type { Registry } from '../registry/registry.ts';

export interface DiscoveredSubresource {
  readonly name: string;
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly verbs: readonly string[];
}

/** Entry of a kind in discovery. */
export interface DiscoveredResource {
  readonly plural: string;
  readonly singular: string;
  readonly namespaced: boolean;
  readonly kind: string;
  readonly verbs: readonly string[];
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly subresources: readonly DiscoveredSubresource[];
}

export interface DiscoveredGroup {
  readonly group: string;
  readonly version: string;
  readonly resources: readonly DiscoveredResource[];
}

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

const subresourcesOf = (resource: ApiResource): readonly DiscoveredSubresource[] => {
  const { group, version, kind } = resource;
  return [
    ...(resource.hasStatus ? [{ name: 'status', group, version, kind, verbs: partVerbs }] : []),
    ...(resource.scale === undefined
      ? []
      : [{ name: 'scale', group: 'autoscaling', version: 'v1', kind: 'Scale', verbs: partVerbs }]),
    ...resource.otherSubresources.map((part) => ({ group, version, ...part })),
  ];
};

const discovered = (resource: ApiResource): DiscoveredResource => ({
  plural: resource.plural,
  singular: resource.singular,
  namespaced: resource.namespaced,
  kind: resource.kind,
  verbs: objectVerbs,
  shortNames: resource.shortNames,
  categories: resource.categories,
  subresources: subresourcesOf(resource),
});

const reviewGroups = (): readonly DiscoveredGroup[] =>
  [...new Set(reviewKinds.map(({ group }) => group))].map((group) => ({
    group,
    version: 'v1',
    resources: reviewKinds
      .filter((kind) => kind.group === group)
      .map(({ plural, kind }) => ({
        plural,
        singular: kind.toLowerCase(),
        namespaced: false,
        kind,
        verbs: ['create'],
        shortNames: [],
        categories: [],
        subresources: [],
      })),
  }));

/** Returns every served group, the core group first. */
export const discoverGroups = (registry: Registry): readonly DiscoveredGroup[] => [
  ...registry.groups().map(({ group, version }) => ({
    group,
    version,
    resources: registry
      .all()
      .filter((resource) => resource.group === group && resource.version === version)
      .map(discovered),
  })),
  ...reviewGroups(),
];
