import type * as core from '@conversation-operator/kube/core';
import { ageOf, type KubeObject } from '@conversation-operator/kube/object';
import { parseJsonPath } from '../json/json-path.ts';
import { invalidValue, type FieldError, tooLong } from '../schema/field-error.ts';
import {
  type ApiResource,
  type ColumnWithCell,
  type KindRules,
  type Decoded,
  ageColumn,
  columnOf,
  nameColumn,
} from './api-resource.ts';
import { builtinSchema } from './builtin-schema.ts';
import { claimColumns, claimDefaults, claimErrors } from './claim.ts';
import { podColumns, podDefaults, podGraceSeconds, podInitial, podErrors } from './pod.ts';
import { badRequest } from '../api/status-error.ts';

type Secret = Decoded<core.Secret>;
type ConfigMap = Decoded<core.ConfigMap>;
type Data = Secret['data'];

const maxBytes = 1_048_576;
const keyPattern = /^[-._a-zA-Z0-9]+$/;

function keyErrors(data: Data, field: string): FieldError[] {
  return Object.keys(data ?? {}).flatMap((key) => {
    const at = `${field}[${key}]`;
    if (key.length > 253) return [invalidValue(at, key, 'must be no more than 253 characters')];
    if (key === '.' || key === '..') return [invalidValue(at, key, `must not be '${key}'`)];
    return keyPattern.test(key)
      ? []
      : [
          invalidValue(
            at,
            key,
            `a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
          ),
        ];
  });
}

const bytesOf = (data: Data, encoding: 'utf8' | 'base64'): number =>
  Object.values(data ?? {}).reduce<number>(
    (sum, value = '') => sum + Buffer.byteLength(value, encoding),
    0,
  );

function configMapErrors(map: ConfigMap): readonly FieldError[] {
  const { data, binaryData } = map;
  const bytes = bytesOf(data, 'utf8') + bytesOf(binaryData, 'base64');
  return [
    ...keyErrors(data, 'data'),
    ...keyErrors(binaryData, 'binaryData'),
    ...(bytes > maxBytes ? [tooLong('[]', maxBytes)] : []),
  ];
}

function secretErrors(secret: Secret, old: Secret | undefined): readonly FieldError[] {
  const { data, type } = secret;
  return [
    ...keyErrors(data, 'data'),
    ...(bytesOf(data, 'base64') > maxBytes ? [tooLong('data', maxBytes)] : []),
    ...(old === undefined || old.type === type
      ? []
      : [invalidValue('type', type, 'field is immutable')]),
  ];
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** Converts stringData, which is write-only, to data. @throws StatusError 400 for invalid base64 */
function secretDefaults({ stringData = {}, ...secret }: Secret): Secret {
  for (const value of Object.values(secret.data ?? {})) {
    if (!base64.test((value ?? '').replaceAll(/[\r\n]/g, '')))
      throw badRequest(
        `Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0`,
      );
  }
  const plain = Object.entries(stringData).map(([key, value = '']): [string, string] => [
    key,
    Buffer.from(value).toString('base64'),
  ]);
  return {
    ...secret,
    type: secret.type ?? 'Opaque',
    ...(plain.length > 0 ? { data: { ...secret.data, ...Object.fromEntries(plain) } } : {}),
  };
}

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

const podSubresources = [
  { name: 'binding', kind: 'Binding', verbs: ['create'] },
  { name: 'log', kind: 'Pod', verbs: ['get'] },
];

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
    columns: [nameColumn, columnOf('Holder', ({ spec }) => spec?.holderIdentity), ageColumn],
  }),
];
