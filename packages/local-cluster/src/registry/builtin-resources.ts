import type { ApiObject } from '../api/api-object.ts';
import {
  arrayAt,
  isObject,
  numberAt,
  objectAt,
  stringAt,
  type Json,
  type JsonObject,
} from '../json/json.ts';
import { parseJsonPath } from '../json/json-path.ts';
import { ageOf } from '@conversation-operator/kube/human-duration';
import { invalidValue, type FieldError } from '../schema/field-error.ts';
import type { ApiResource, ColumnWithCell } from './api-resource.ts';
import { builtinSchema } from './builtin-schema.ts';
import { claimDefaults, claimErrors, claimInitial } from './claim.ts';
import { configMapErrors, secretDefaults, secretErrors } from './configuration.ts';
import { leaseErrors } from './lease.ts';
import { podColumns, podDefaults, podGraceSeconds, podInitial } from './pod.ts';
import { podErrors } from './pod-validation.ts';
import { ageColumn, nameColumn } from './printer-column.ts';

type Special = Partial<Omit<ApiResource, 'selectableFields' | 'columns'>> & {
  readonly columns?: readonly ColumnWithCell[];
  readonly fields?: readonly string[];
};

const fieldsOf = (paths: readonly string[]) =>
  new Map(paths.map((path) => [path, parseJsonPath(`.${path}`)]));

function resource(
  group: string,
  version: string,
  kind: string,
  model: string,
  special: Special,
): ApiResource {
  const singular = kind.toLowerCase();
  const plural = special.plural ?? `${singular}s`;
  const { fields = [], ...rest } = special;
  return {
    group,
    version,
    kind,
    listKind: `${kind}List`,
    plural,
    singular,
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
    ...rest,
    selectableFields: fieldsOf(fields),
  };
}

const column = (
  name: string,
  cell: (object: ApiObject, nowMs: number) => string | number | undefined,
  priority = 0,
): ColumnWithCell => ({
  name,
  type: 'string',
  description: name,
  priority,
  cell: (object, nowMs) => cell(object, nowMs) ?? '',
});

const withDefaults =
  (part: string, defaults: JsonObject) =>
  (object: JsonObject): JsonObject => ({
    ...object,
    [part]: { ...defaults, ...objectAt(object, part) },
  });

const count = (value: Json | undefined): number =>
  isObject(value) ? Object.keys(value).length : 0;

const accessModes: Readonly<Record<string, string>> = {
  ReadWriteOnce: 'RWO',
  ReadOnlyMany: 'ROX',
  ReadWriteMany: 'RWX',
  ReadWriteOncePod: 'RWOP',
};

const claimColumns: readonly ColumnWithCell[] = [
  nameColumn,
  column('Status', (claim) =>
    claim.metadata.deletionTimestamp === undefined
      ? stringAt(claim['status'], 'phase')
      : 'Terminating',
  ),
  column('Volume', (claim) => stringAt(claim['spec'], 'volumeName')),
  column('Capacity', (claim) => stringAt(objectAt(claim['status'], 'capacity'), 'storage')),
  column('Access Modes', (claim) =>
    arrayAt(claim['status'], 'accessModes')
      .filter((mode) => typeof mode === 'string')
      .map((mode) => accessModes[mode] ?? mode)
      .join(','),
  ),
  column('StorageClass', (claim) => stringAt(claim['spec'], 'storageClassName')),
  column(
    'VolumeAttributesClass',
    (claim) => stringAt(claim['spec'], 'volumeAttributesClassName') ?? '<unset>',
  ),
  ageColumn,
  column('VolumeMode', (claim) => stringAt(claim['spec'], 'volumeMode'), 1),
];

const eventColumns: readonly ColumnWithCell[] = [
  column('Last Seen', (event, nowMs) =>
    ageOf(
      stringAt(objectAt(event, 'series'), 'lastObservedTime') ??
        stringAt(event, 'lastTimestamp') ??
        stringAt(event, 'eventTime') ??
        stringAt(event, 'firstTimestamp'),
      nowMs,
    ),
  ),
  column('Type', (event) => stringAt(event, 'type')),
  column('Reason', (event) => stringAt(event, 'reason')),
  column('Object', (event) => {
    const about = objectAt(event, 'involvedObject');
    return `${(stringAt(about, 'kind') ?? '').toLowerCase()}/${stringAt(about, 'name') ?? ''}`;
  }),
  column('Subobject', (event) => stringAt(objectAt(event, 'involvedObject'), 'fieldPath'), 1),
  column(
    'Source',
    (event) =>
      stringAt(objectAt(event, 'source'), 'component') ?? stringAt(event, 'reportingComponent'),
    1,
  ),
  column('Message', (event) => stringAt(event, 'message')?.trim()),
  column(
    'First Seen',
    (event, nowMs) =>
      ageOf(stringAt(event, 'firstTimestamp') ?? stringAt(event, 'eventTime'), nowMs),
    1,
  ),
  column(
    'Count',
    (event) =>
      String(numberAt(objectAt(event, 'series'), 'count') ?? numberAt(event, 'count') ?? 1),
    1,
  ),
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

const eventErrors = (event: ApiObject): readonly FieldError[] => {
  const namespace = stringAt(objectAt(event, 'involvedObject'), 'namespace');
  return namespace === undefined || namespace === event.metadata.namespace
    ? []
    : [invalidValue('involvedObject.namespace', namespace, 'does not match event.namespace')];
};

const namespaceInitial = (namespace: ApiObject): ApiObject => ({
  ...namespace,
  metadata: {
    ...namespace.metadata,
    labels: {
      ...namespace.metadata.labels,
      'kubernetes.io/metadata.name': namespace.metadata.name,
    },
  },
  spec: { finalizers: ['kubernetes'] },
  status: { phase: 'Active' },
});

const nodeReady = (node: ApiObject): string => {
  const ready = arrayAt(node['status'], 'conditions').find(
    (condition) => stringAt(condition, 'type') === 'Ready',
  );
  return stringAt(ready, 'status') === 'True' ? 'Ready' : 'NotReady';
};

const podSubresources = [
  { name: 'binding', kind: 'Binding', verbs: ['create'] },
  { name: 'eviction', kind: 'Eviction', group: 'policy', version: 'v1', verbs: ['create'] },
  { name: 'log', kind: 'Pod', verbs: ['get'] },
];

/** Served built-in kinds besides CustomResourceDefinition. */
export const builtinResources: readonly ApiResource[] = [
  resource('', 'v1', 'Namespace', 'V1Namespace', {
    namespaced: false,
    shortNames: ['ns'],
    hasStatus: true,
    nameRule: 'label',
    initial: namespaceInitial,
    fields: ['status.phase'],
    columns: [
      nameColumn,
      column('Status', (namespace) => stringAt(namespace['status'], 'phase')),
      ageColumn,
    ],
  }),
  resource('', 'v1', 'Pod', 'V1Pod', {
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
  resource('', 'v1', 'PersistentVolumeClaim', 'V1PersistentVolumeClaim', {
    shortNames: ['pvc'],
    hasStatus: true,
    defaults: claimDefaults,
    initial: claimInitial,
    validate: claimErrors,
    columns: claimColumns,
  }),
  resource('', 'v1', 'Event', 'CoreV1Event', {
    shortNames: ['ev'],
    validate: eventErrors,
    fields: eventFields,
    columns: eventColumns,
  }),
  resource('', 'v1', 'Secret', 'V1Secret', {
    defaults: secretDefaults,
    validate: secretErrors,
    fields: ['type'],
    columns: [
      nameColumn,
      column('Type', (secret) => stringAt(secret, 'type')),
      column('Data', (secret) => String(count(secret['data']))),
      ageColumn,
    ],
  }),
  resource('', 'v1', 'ConfigMap', 'V1ConfigMap', {
    shortNames: ['cm'],
    validate: configMapErrors,
    columns: [
      nameColumn,
      column('Data', (map) => String(count(map['data']) + count(map['binaryData']))),
      ageColumn,
    ],
  }),
  resource('', 'v1', 'Service', 'V1Service', {
    shortNames: ['svc'],
    categories: ['all'],
    hasStatus: true,
    nameRule: 'label1035',
    defaults: withDefaults('spec', {
      type: 'ClusterIP',
      sessionAffinity: 'None',
      clusterIP: 'None',
    }),
    initial: (service) => ({ ...service, status: { loadBalancer: {} } }),
    columns: [
      nameColumn,
      column('Type', (service) => stringAt(service['spec'], 'type')),
      column('Cluster-IP', (service) => stringAt(service['spec'], 'clusterIP') ?? '<none>'),
      column('External-IP', () => '<none>'),
      column('Port(s)', (service) => {
        const ports = arrayAt(service['spec'], 'ports').map(
          (port) => `${numberAt(port, 'port') ?? ''}/${stringAt(port, 'protocol') ?? 'TCP'}`,
        );
        return ports.length === 0 ? '<none>' : ports.join(',');
      }),
      ageColumn,
      column(
        'Selector',
        (service) =>
          Object.entries(objectAt(service['spec'], 'selector') ?? {})
            .map(([key, value]) => `${key}=${typeof value === 'string' ? value : ''}`)
            .join(',') || '<none>',
        1,
      ),
    ],
  }),
  resource('', 'v1', 'ServiceAccount', 'V1ServiceAccount', {
    shortNames: ['sa'],
    columns: [
      nameColumn,
      column('Secrets', (account) => String(arrayAt(account, 'secrets').length)),
      ageColumn,
    ],
  }),
  resource('', 'v1', 'Node', 'V1Node', {
    namespaced: false,
    shortNames: ['no'],
    hasStatus: true,
    fields: ['spec.unschedulable'],
    columns: [
      nameColumn,
      column('Status', nodeReady),
      column('Roles', () => '<none>'),
      ageColumn,
      column('Version', (node) => stringAt(objectAt(node['status'], 'nodeInfo'), 'kubeletVersion')),
    ],
  }),
  resource('coordination.k8s.io', 'v1', 'Lease', 'V1Lease', {
    validate: leaseErrors,
    columns: [
      nameColumn,
      column('Holder', (lease) => stringAt(lease['spec'], 'holderIdentity')),
      ageColumn,
    ],
  }),
];
