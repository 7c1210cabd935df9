import type * as core from '@conversation-operator/kube/core';
import { ageOf } from '@conversation-operator/kube/human-duration';
import type { KubeObject } from '@conversation-operator/kube/object';
import { parseJsonPath } from '../json/json-path.ts';
import { invalidValue, type FieldError } from '../schema/field-error.ts';
import type { ApiResource, ColumnWithCell, KindRules, Decoded } from './api-resource.ts';
import { builtinSchema } from './builtin-schema.ts';
import { claimColumns, claimDefaults, claimErrors } from './claim.ts';
import { configMapErrors, secretDefaults, secretErrors } from './configuration.ts';
import { podColumns, podDefaults, podGraceSeconds, podInitial, podErrors } from './pod.ts';
import { ageColumn, columnOf, nameColumn } from './printer-column.ts';

type Special<T> = Partial<Omit<ApiResource, keyof KindRules | 'selectableFields'>> &
  Partial<KindRules<T>> & { readonly fields?: readonly string[] };

/** @typeParam K Type of the objects, which the schema of the model guarantees. */
export function resource<K extends KubeObject>(
  kind: string,
  model: string,
  { fields = [], ...special }: Special<Decoded<K>>,
): ApiResource {
  const { group = '', plural = `${kind.toLowerCase()}s` } = special;
  return {
    group,
    version: 'v1',
    kind,
    listKind: `${kind}List`,
    plural,
    singular: kind.toLowerCase(),
    shortNames: [],
    categories: [],
    namespaced: true,
    key: `${group}/${plural}`,
    builtin: true,
    model,
    schema: builtinSchema(model),
    hasStatus: false,
    otherSubresources: [],
    hasGeneration: false,
    columns: [nameColumn, ageColumn],
    nameRule: 'subdomain',
    ...(special as unknown as Partial<ApiResource>),
    selectableFields: new Map(fields.map((path) => [path, parseJsonPath(`.${path}`)])),
  };
}

const count = (map: object = {}): number => Object.keys(map).length;

type Event = Decoded<core.KubeEvent>;

const eventColumns: readonly ColumnWithCell<Event>[] = [
  columnOf('Last Seen', ({ series, lastTimestamp, eventTime, firstTimestamp }, nowMs) =>
    ageOf(series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? firstTimestamp, nowMs),
  ),
  columnOf('Type', ({ type }) => type),
  columnOf('Reason', ({ reason }) => reason),
  columnOf(
    'Object',
    ({ involvedObject: { kind = '', name = '' } = {} }) => `${kind.toLowerCase()}/${name}`,
  ),
  columnOf('Subobject', ({ involvedObject }) => involvedObject?.fieldPath, 1),
  columnOf(
    'Source',
    ({ source, reportingComponent }) => source?.component ?? reportingComponent,
    1,
  ),
  columnOf('Message', ({ message }) => message?.trim()),
  columnOf(
    'First Seen',
    ({ firstTimestamp, eventTime }, nowMs) => ageOf(firstTimestamp ?? eventTime, nowMs),
    1,
  ),
  columnOf('Count', (event) => String(event.series?.count ?? event.count ?? 1), 1),
  { ...nameColumn, priority: 1 },
];

const eventFields = [
  'involvedObject.kind',
  'involvedObject.namespace',
  'involvedObject.name',
  'involvedObject.uid',
  'involvedObject.apiVersion',
  'involvedObject.resourceVersion',
  'involvedObject.fieldPath',
  'reason',
  'reportingComponent',
  'source',
  'type',
];

const eventErrors = ({ involvedObject, metadata }: Event): readonly FieldError[] => {
  const namespace = involvedObject?.namespace;
  return namespace === undefined || namespace === metadata.namespace
    ? []
    : [invalidValue('involvedObject.namespace', namespace, 'does not match event.namespace')];
};

type Namespace = Decoded<core.Namespace>;

const namespaceInitial = (namespace: Namespace): Namespace => {
  const { metadata } = namespace;
  const labels = { ...metadata.labels, 'kubernetes.io/metadata.name': metadata.name };
  return {
    ...namespace,
    metadata: { ...metadata, labels },
    spec: { finalizers: ['kubernetes'] },
    status: { phase: 'Active' },
  };
};

const nodeReady = ({ status }: Decoded<core.Node>): string =>
  status?.conditions?.some((condition) => condition.type === 'Ready' && condition.status === 'True')
    ? 'Ready'
    : 'NotReady';

type Service = Decoded<core.Service>;

const portsOf = ({ spec }: Service): string =>
  (spec?.ports ?? []).map(({ port = '', protocol = 'TCP' }) => `${port}/${protocol}`).join(',');

const selectorOf = ({ spec }: Service): string =>
  Object.entries(spec?.selector ?? {})
    .map(([key, value = '']) => `${key}=${value}`)
    .join(',');

const leaseErrors = ({ spec }: Decoded<core.Lease>): readonly FieldError[] => {
  const { leaseDurationSeconds: duration = 1, leaseTransitions: transitions = 0 } = spec ?? {};
  return [
    ...(duration <= 0
      ? [invalidValue('spec.leaseDurationSeconds', duration, 'must be greater than 0')]
      : []),
    ...(transitions < 0
      ? [invalidValue('spec.leaseTransitions', transitions, 'must be greater than or equal to 0')]
      : []),
  ];
};

const podSubresources = [
  { name: 'binding', kind: 'Binding', verbs: ['create'] },
  { name: 'eviction', kind: 'Eviction', group: 'policy', version: 'v1', verbs: ['create'] },
  { name: 'log', kind: 'Pod', verbs: ['get'] },
];

/** Served built-in kinds besides CustomResourceDefinition. */
export const builtinResources: readonly ApiResource[] = [
  resource<core.Namespace>('Namespace', 'V1Namespace', {
    namespaced: false,
    shortNames: ['ns'],
    hasStatus: true,
    nameRule: 'label',
    initial: namespaceInitial,
    fields: ['status.phase'],
    columns: [nameColumn, columnOf('Status', ({ status }) => status?.phase), ageColumn],
  }),
  resource<core.Pod>('Pod', 'V1Pod', {
    shortNames: ['po'],
    categories: ['all'],
    hasStatus: true,
    hasGeneration: true,
    otherSubresources: podSubresources,
    defaults: podDefaults,
    initial: podInitial,
    validate: podErrors,
    graceSeconds: podGraceSeconds,
    fields: [
      'spec.nodeName',
      'spec.restartPolicy',
      'spec.schedulerName',
      'spec.serviceAccountName',
      'status.phase',
      'status.podIP',
    ],
    columns: podColumns,
  }),
  resource<core.PersistentVolumeClaim>('PersistentVolumeClaim', 'V1PersistentVolumeClaim', {
    shortNames: ['pvc'],
    hasStatus: true,
    defaults: claimDefaults,
    initial: (claim) => ({ ...claim, status: { phase: 'Pending' } }),
    validate: claimErrors,
    columns: claimColumns,
  }),
  resource<core.KubeEvent>('Event', 'CoreV1Event', {
    shortNames: ['ev'],
    validate: eventErrors,
    fields: eventFields,
    columns: eventColumns,
  }),
  resource<core.Secret>('Secret', 'V1Secret', {
    defaults: secretDefaults,
    validate: secretErrors,
    fields: ['type'],
    columns: [
      nameColumn,
      columnOf('Type', ({ type }) => type),
      columnOf('Data', ({ data }) => String(count(data))),
      ageColumn,
    ],
  }),
  resource<core.ConfigMap>('ConfigMap', 'V1ConfigMap', {
    shortNames: ['cm'],
    validate: configMapErrors,
    columns: [
      nameColumn,
      columnOf('Data', ({ data, binaryData }) => String(count(data) + count(binaryData))),
      ageColumn,
    ],
  }),
  resource<core.Service>('Service', 'V1Service', {
    shortNames: ['svc'],
    categories: ['all'],
    hasStatus: true,
    nameRule: 'label1035',
    defaults: ({ spec, ...service }) => ({
      ...service,
      spec: { type: 'ClusterIP', sessionAffinity: 'None', clusterIP: 'None', ...spec },
    }),
    initial: (service) => ({ ...service, status: { loadBalancer: {} } }),
    columns: [
      nameColumn,
      columnOf('Type', ({ spec }) => spec?.type),
      columnOf('Cluster-IP', ({ spec }) => spec?.clusterIP ?? '<none>'),
      columnOf('External-IP', () => '<none>'),
      columnOf('Port(s)', (service) => portsOf(service) || '<none>'),
      ageColumn,
      columnOf('Selector', (service) => selectorOf(service) || '<none>', 1),
    ],
  }),
  resource<core.ServiceAccount>('ServiceAccount', 'V1ServiceAccount', {
    shortNames: ['sa'],
    columns: [
      nameColumn,
      columnOf('Secrets', ({ secrets = [] }) => String(secrets.length)),
      ageColumn,
    ],
  }),
  resource<core.Node>('Node', 'V1Node', {
    namespaced: false,
    shortNames: ['no'],
    hasStatus: true,
    fields: ['spec.unschedulable'],
    columns: [
      nameColumn,
      columnOf('Status', nodeReady),
      columnOf('Roles', () => '<none>'),
      ageColumn,
      columnOf('Version', ({ status }) => status?.nodeInfo?.kubeletVersion),
    ],
  }),
  resource<core.Lease>('Lease', 'V1Lease', {
    group: 'coordination.k8s.io',
    validate: leaseErrors,
    columns: [nameColumn, columnOf('Holder', ({ spec }) => spec?.holderIdentity), ageColumn],
  }),
];
