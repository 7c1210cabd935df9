import { group } from '../../resources/group.ts';
import { operatorLeaseName } from '../../resources/lease-names.ts';

/** Verbs on resources of one API group, in the namespace of the sandboxes. */
export interface Rule {
  readonly group: string;
  /** Plurals, with the subresource behind a slash. */
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Absent: objects of every name. */
  readonly name?: string;
}

const ours = (resources: readonly string[], verbs: readonly string[]): Rule => ({
  ...{ group, resources, verbs },
});
const core = (resources: readonly string[], verbs: readonly string[]): Rule => ({
  ...{ group: '', resources, verbs },
});
const leases = (verbs: readonly string[], name?: string): Rule => ({
  group: 'coordination.k8s.io',
  resources: ['leases'],
  verbs,
  ...(name === undefined ? {} : { name }),
});

/**
 * Rights of the service accounts in the namespace of the sandboxes, as the Roles of the chart grant
 * them; a test compares the two.
 */
export const accountRules: Readonly<Record<'operator' | 'gateway', readonly Rule[]>> = {
  operator: [
    ours(['conversations'], ['get', 'list', 'watch', 'delete']),
    ours(['conversationquotas', 'sandboxtemplates', 'sandboxpools'], ['get', 'list', 'watch']),
    ours(['ownersettings'], ['get']),
    ours(['sandboxes'], ['get', 'list', 'watch', 'create', 'patch', 'delete']),
    ours(
      [
        'conversations/status',
        'sandboxes/status',
        'sandboxtemplates/status',
        'sandboxpools/status',
        'conversationquotas/status',
      ],
      ['update', 'patch'],
    ),
    ours(['owners'], ['use']),
    core(['pods'], ['get', 'list', 'watch', 'create', 'patch', 'delete']),
    core(['persistentvolumeclaims'], ['list', 'watch', 'create', 'delete']),
    core(['events'], ['list', 'create', 'patch']),
    core(['namespaces'], ['get']),
    leases(['create']),
    leases(['get', 'update'], operatorLeaseName),
  ],
  gateway: [
    ours(['conversations', 'sandboxes'], ['get', 'list', 'watch', 'create', 'patch', 'delete']),
    ours(['ownersettings'], ['get', 'list', 'watch', 'create', 'patch']),
    ours(['sandboxtemplates'], ['get', 'list', 'watch']),
    ours(['conversationquotas', 'sandboxpools'], ['list', 'watch']),
    ours(['apikeys'], ['get', 'list', 'watch', 'create', 'delete', 'issue']),
    ours(['apikeys/status'], ['patch']),
    ours(['conversations/status'], ['patch']),
    ours(['owners'], ['use']),
    core(['events'], ['list', 'create', 'patch']),
    leases(['list', 'watch']),
  ],
};

/** A right that `helm install` needs, with the line that makes an installation do without. */
export interface InstallRight {
  readonly group: string;
  readonly resource: string;
  readonly where: 'cluster' | 'release' | 'sandboxes';
  /** Value of the chart without which the right is needed; absent: the right is always needed. */
  readonly without?: string;
}

const inRelease = (group: string, ...resources: readonly string[]): readonly InstallRight[] =>
  resources.map((resource) => ({ group, resource, where: 'release' }));
const inSandboxes = (group: string, ...resources: readonly string[]): readonly InstallRight[] =>
  resources.map((resource) => ({ group, resource, where: 'sandboxes' }));

/** Objects that the chart creates by default. */
export const installRights: readonly InstallRight[] = [
  {
    group: 'apiextensions.k8s.io',
    resource: 'customresourcedefinitions',
    where: 'cluster',
    without: '--set crds.install=false',
  },
  {
    group: '',
    resource: 'namespaces',
    where: 'cluster',
    without: '--set sandboxes.createNamespace=false --set sandboxes.namespace=NAMESPACE',
  },
  ...['validatingadmissionpolicies', 'validatingadmissionpolicybindings'].map(
    (resource): InstallRight => ({
      group: 'admissionregistration.k8s.io',
      resource,
      where: 'cluster',
      without: '--set policies.enabled=false',
    }),
  ),
  ...inRelease('', 'secrets', 'services', 'serviceaccounts'),
  ...inRelease('apps', 'deployments'),
  ...inRelease('policy', 'poddisruptionbudgets'),
  ...inRelease('networking.k8s.io', 'networkpolicies'),
  ...inSandboxes('rbac.authorization.k8s.io', 'roles', 'rolebindings'),
  ...inSandboxes('networking.k8s.io', 'networkpolicies'),
  ...inSandboxes('', 'resourcequotas'),
  ...inSandboxes(group, 'sandboxtemplates', 'conversationquotas', 'apikeys'),
];
