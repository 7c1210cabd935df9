import { apiVersionOf } from '@conversation-operator/kube/object';
import { found, isForbidden } from '@conversation-operator/kube/errors';
import {
  errorOf,
  FindingCode,
  NotTried,
  outcomeOf,
  type Finding,
  type Outcome,
  withValue,
  type Check,
  type Installation,
  type Scene,
} from './check.ts';
import {
  localSubjectAccessReviews,
  selfSubjectAccessReviews,
  serviceAccounts,
} from './resources.ts';
import { group } from '../../resources/group.ts';
import { operatorLeaseName } from '../../resources/lease-names.ts';

const components = ['operator', 'gateway', 'relay'] as const;
type Component = (typeof components)[number];

/** Rights (`verbs`) on resources of one API group in the namespace of the sandboxes. */
interface Rule {
  readonly group: string;
  /** Plural names. A subresource follows after a slash. */
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  /** Name of the only object with this right. Absent: all objects. */
  readonly name?: string;
}

const ours = (resources: readonly string[], verbs: readonly string[]): Rule => ({
  group,
  resources,
  verbs,
});
const core = (resources: readonly string[], verbs: readonly string[]): Rule => ({
  group: '',
  resources,
  verbs,
});
const leases = (verbs: readonly string[], name?: string): Rule => ({
  group: 'coordination.k8s.io',
  resources: ['leases'],
  verbs,
  ...(name === undefined ? {} : { name }),
});

/** Rights of the accounts to manage sandboxes. A test compares these with the chart's Roles. */
export const accountRules: Readonly<Record<Component, readonly Rule[]>> = {
  operator: [
    ours(['conversations'], ['get', 'list', 'watch', 'patch', 'delete']),
    ours(['handovers'], ['get', 'list', 'watch', 'delete']),
    ours(
      ['conversationquotas', 'sandboxtemplates', 'sandboxpools', 'usagerecords'],
      ['get', 'list', 'watch'],
    ),
    ours(['ownersettings'], ['get']),
    ours(['sandboxes'], ['get', 'list', 'watch', 'create', 'patch', 'delete']),
    ours(
      [
        'conversations/status',
        'sandboxes/status',
        'sandboxtemplates/status',
        'sandboxpools/status',
        'conversationquotas/status',
        'handovers/status',
      ],
      ['update', 'patch'],
    ),
    ours(['usagerecords/status'], ['update']),
    ours(['usagerecords'], ['charge']),
    ours(['owners'], ['use']),
    core(['pods'], ['get', 'list', 'watch', 'create', 'patch', 'delete']),
    core(['persistentvolumeclaims'], ['get', 'list', 'watch', 'create', 'patch', 'delete']),
    core(['events'], ['list', 'create', 'patch']),
    core(['namespaces'], ['get']),
    leases(['create']),
    leases(['get', 'update'], operatorLeaseName),
  ],
  gateway: [
    ours(['conversations', 'sandboxes'], ['get', 'list', 'watch', 'create', 'patch', 'delete']),
    ours(['ownersettings', 'handovers'], ['get', 'list', 'watch', 'create', 'patch']),
    ours(['usagerecords'], ['get', 'list', 'watch', 'create', 'charge']),
    ours(['usagerecords/status'], ['update', 'patch']),
    ours(['shares'], ['get', 'list', 'create', 'delete']),
    ours(['sandboxtemplates'], ['get', 'list', 'watch']),
    ours(['conversationquotas', 'sandboxpools'], ['list', 'watch']),
    ours(['apikeys'], ['get', 'list', 'watch', 'create', 'delete', 'issue']),
    ours(['apikeys/status'], ['patch']),
    ours(['conversations/status'], ['patch']),
    ours(['owners'], ['use']),
    core(['events'], ['list', 'create', 'patch']),
    leases(['list', 'watch']),
  ],
  relay: [
    ours(['conversations'], ['get', 'list', 'watch']),
    ours(['sandboxes', 'sandboxtemplates', 'conversationquotas'], ['list', 'watch']),
    ours(['conversations/status'], ['patch']),
    ours(['usagerecords'], ['get', 'create', 'charge']),
    ours(['usagerecords/status'], ['update']),
    core(['events'], ['create', 'patch']),
  ],
};

/** A further right of the gateway that asks about the tokens of service accounts. */
export const tokenReviewRule: Rule = {
  group: 'authentication.k8s.io',
  resources: ['tokenreviews'],
  verbs: ['create'],
};

/** A right to create `resource`, which `helm install` needs. */
interface InstallRight {
  readonly group: string;
  readonly resource: string;
  readonly where: 'cluster' | 'release' | 'sandboxes';
  /** Chart value that avoids the need for the right. Absent: every installation needs the right. */
  readonly without?: string;
}

const inRelease = (group: string, ...resources: readonly string[]): readonly InstallRight[] =>
  resources.map((resource) => ({ group, resource, where: 'release' }));
const inSandboxes = (group: string, ...resources: readonly string[]): readonly InstallRight[] =>
  resources.map((resource) => ({ group, resource, where: 'sandboxes' }));

/** The rights to create what the chart contains by default. */
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

const broken: Readonly<Record<Component, string>> = {
  operator: 'The operator fails with PermissionDenied where it needs the right.',
  gateway: 'The REST service answers 503, or fails where it needs the right.',
  relay: 'The relay refuses the calls of agents to their models.',
};

export interface AccountRight {
  readonly component: Component;
  /** `namespace/name` of the service account. */
  readonly account: string;
  readonly group: string;
  readonly resource: string;
  readonly verb: string;
  readonly allowed: boolean;
}

/** One finding for each account and resource. Pure. */
export function accountFindings(
  rights: readonly AccountRight[],
  { namespace, release, releaseNamespace }: Installation & { readonly namespace: string },
): readonly Finding[] {
  const missing = Map.groupBy(
    rights.filter(({ allowed }) => !allowed),
    ({ account, group, resource }) => JSON.stringify([account, group, resource]),
  );
  return [...missing.values()].flatMap((of) => {
    const [right] = of;
    if (right === undefined) return [];
    const { component, account, resource } = right;
    const verbs = [...new Set(of.map(({ verb }) => verb))].join(', ');
    return [
      errorOf(FindingCode.permissionDenied, {
        cause: `The service account ${account} lacks the right to ${verbs} ${resource} in the namespace ${namespace}.`,
        breaks: broken[component],
        remedy: `helm -n ${releaseNamespace} get manifest ${release} | kubectl apply -f - # the Roles of the chart`,
      }),
    ];
  });
}

export type AnsweredInstallRight = InstallRight & { readonly allowed: boolean };

export const installFindings = (
  rights: readonly AnsweredInstallRight[],
  facts: Installation & { readonly namespace: string },
): readonly Finding[] =>
  rights
    .filter(({ allowed }) => !allowed)
    .map(({ resource, group, where, without }) => {
      const place =
        where === 'cluster'
          ? 'in the cluster'
          : `in the namespace ${where === 'release' ? facts.releaseNamespace : facts.namespace}`;
      const name = group === '' ? resource : `${resource}.${group}`;
      return errorOf(FindingCode.permissionDenied, {
        cause: `You lack the right to create ${name} ${place}.`,
        breaks: 'helm install fails.',
        remedy:
          without === undefined
            ? `kubectl -n ${where === 'release' ? facts.releaseNamespace : facts.namespace} create rolebinding installer --clusterrole=admin --user=$(kubectl auth whoami -o jsonpath='{.status.userInfo.username}')`
            : withValue(facts, without.replace('NAMESPACE', facts.namespace)),
      });
    });

/** The chart grants no right to read accounts, so accounts in the settings count as existing. */
const namedAnyway =
  ({ areAccountsNamed }: Scene) =>
  (error: unknown): true => {
    if (areAccountsNamed && isForbidden(error)) return true;
    throw error;
  };

async function ofAccounts(scene: Scene, signal: AbortSignal): Promise<Outcome> {
  const { client, namespace, accounts, reviewsTokens } = scene;
  const notTried: string[] = [];
  const rights: AccountRight[] = [];
  await Promise.all(
    components.map(async (component) => {
      const account = accounts[component];
      // Only a named account of the relay says that the relay is a Deployment of its own.
      if (account === undefined) return;
      const [inNamespace = '', name = ''] = account.split('/');
      // For an account that does not exist, the API server would answer "not allowed".
      const object = found(client.get(serviceAccounts, inNamespace, name, { signal }));
      const exists = (await object.catch(namedAnyway(scene))) !== undefined;
      if (!exists) {
        notTried.push(`there is no service account ${account}: name it by --${component}-account`);
        return;
      }
      const groups = [
        'system:serviceaccounts',
        `system:serviceaccounts:${inNamespace}`,
        'system:authenticated',
      ];
      const rules =
        component === 'gateway' && reviewsTokens
          ? [...accountRules.gateway, tokenReviewRule]
          : accountRules[component];
      const questions = rules.flatMap((rule) =>
        rule.resources.flatMap((resource) =>
          rule.verbs.map((verb) => ({ ...rule, resource, verb })),
        ),
      );
      await Promise.all(
        questions.map(async ({ group, resource: whole, verb, name: objectName }) => {
          const [resource = '', subresource] = whole.split('/');
          const { status } = await client.create(
            localSubjectAccessReviews,
            {
              apiVersion: apiVersionOf(localSubjectAccessReviews),
              kind: localSubjectAccessReviews.kind,
              metadata: { namespace },
              spec: {
                user: `system:serviceaccount:${inNamespace}:${name}`,
                groups,
                resourceAttributes: {
                  namespace,
                  group,
                  resource,
                  verb,
                  ...(subresource === undefined ? {} : { subresource }),
                  ...(objectName === undefined ? {} : { name: objectName }),
                },
              },
            },
            { signal },
          );
          const allowed = status?.allowed === true;
          rights.push({ component, account, group, resource: whole, verb, allowed });
        }),
      );
    }),
  );
  if (rights.length === 0) throw new NotTried(notTried.join('; '));
  const observed = `${rights.length} rights of the operator, the gateway and the relay`;
  return outcomeOf(accountFindings(rights, scene), observed, notTried);
}

async function ofPerson(scene: Scene, signal: AbortSignal): Promise<Outcome> {
  const { client, namespace, releaseNamespace } = scene;
  const places = { cluster: undefined, release: releaseNamespace, sandboxes: namespace };
  const rights = await Promise.all(
    installRights.map(async (right) => {
      const place = places[right.where];
      const { status } = await client.create(
        selfSubjectAccessReviews,
        {
          apiVersion: apiVersionOf(selfSubjectAccessReviews),
          kind: selfSubjectAccessReviews.kind,
          metadata: {},
          spec: {
            resourceAttributes: {
              group: right.group,
              resource: right.resource,
              verb: 'create',
              ...(place === undefined ? {} : { namespace: place }),
            },
          },
        },
        { signal },
      );
      return { ...right, allowed: status?.allowed === true };
    }),
  );
  return outcomeOf(installFindings(rights, scene), `${rights.length} rights to install`);
}

export const rightsCheck: Check = {
  name: 'rights',
  limitMs: 30_000,
  needsApiServer: true,
  run: (scene, signal) =>
    scene.phase === 'pre' ? ofPerson(scene, signal) : ofAccounts(scene, signal),
};
