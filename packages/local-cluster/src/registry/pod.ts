import type { Container as FullContainer, Pod as FullPod } from '@conversation-operator/kube/core';
import { ageOf } from '@conversation-operator/kube/object';
import { badRequest } from '../api/status-error.ts';
import { equal } from '../json/json.ts';
import {
  type ColumnWithCell,
  type Decoded,
  type Sparse,
  ageColumn,
  columnOf,
  nameColumn,
} from './api-resource.ts';
import { formatQuantity, parseQuantity, quantityFault } from './quantity.ts';
import {
  duplicate,
  forbiddenField,
  invalidValue,
  notFoundField,
  notSupported,
  required,
  type FieldError,
} from '../schema/field-error.ts';

export type Pod = Decoded<FullPod>;
export type Container = Sparse<FullContainer>;
type Probe = NonNullable<Container['readinessProbe']>;

const pullPolicyOf = (image: string): string =>
  /:(?!latest$)[^/]+$/.test(image) || image.includes('@') ? 'IfNotPresent' : 'Always';

/** Converts quantities to canonical strings. @throws StatusError 400 for an invalid quantity */
const quantityText = (map: Readonly<Record<string, unknown>>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(map).map(([key, value]) => {
      const quantity = parseQuantity(String(value));
      if (quantity === undefined)
        throw badRequest(`Pod in version "v1" cannot be handled as a Pod: ${quantityFault}`);
      return [key, formatQuantity(quantity)];
    }),
  );

function resourceDefaults({ resources = {} }: Container) {
  // A resource with a limit but without a request gets the limit as its request.
  const { limits, requests = limits } = resources;
  return {
    ...resources,
    ...(limits === undefined ? {} : { limits: quantityText(limits) }),
    ...(requests === undefined ? {} : { requests: quantityText({ ...limits, ...requests }) }),
  };
}

const probeDefaults = (probe: Probe): Probe => ({
  timeoutSeconds: 1,
  periodSeconds: 10,
  successThreshold: 1,
  failureThreshold: 3,
  ...probe,
  ...(probe.httpGet === undefined
    ? {}
    : { httpGet: { path: '/', scheme: 'HTTP', ...probe.httpGet } }),
});

function containerDefaults(container: Container): Container {
  const { image = '', ports = [] } = container;
  const probes = (['livenessProbe', 'readinessProbe', 'startupProbe'] as const).flatMap((name) => {
    const probe = container[name];
    return probe === undefined ? [] : [[name, probeDefaults(probe)] as const];
  });
  return {
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
    imagePullPolicy: pullPolicyOf(image),
    ...container,
    resources: resourceDefaults(container),
    ...(ports.length > 0 ? { ports: ports.map((port) => ({ protocol: 'TCP', ...port })) } : {}),
    ...Object.fromEntries(probes),
  };
}

export function podDefaults(pod: Pod): Pod {
  const { spec } = pod;
  if (spec === undefined) return pod;
  const { containers, initContainers = [] } = spec;
  return {
    ...pod,
    spec: {
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      schedulerName: 'default-scheduler',
      enableServiceLinks: true,
      securityContext: {},
      ...spec,
      ...(containers === undefined ? {} : { containers: containers.map(containerDefaults) }),
      ...(initContainers.length > 0
        ? { initContainers: initContainers.map(containerDefaults) }
        : {}),
    },
  };
}

function qosClass({ spec }: Pod): string {
  const resources = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].map(
    (container) => container.resources ?? {},
  );
  if (resources.every((entry) => Object.keys(entry).length === 0)) return 'BestEffort';
  const guaranteed = resources.every(
    ({ limits, requests }) =>
      limits?.['cpu'] !== undefined && limits['memory'] !== undefined && equal(limits, requests),
  );
  return guaranteed ? 'Guaranteed' : 'Burstable';
}

export const podInitial = (pod: Pod): Pod => ({
  ...pod,
  status: { phase: 'Pending', qosClass: qosClass(pod) },
});

/** Grace period of a pod; 0 if no kubelet runs it: without a node, or in a terminal phase. */
export function podGraceSeconds({ spec, status }: Pod): number {
  const isOver = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  return spec?.nodeName === undefined || isOver ? 0 : (spec.terminationGracePeriodSeconds ?? 30);
}

function summaryOf({ metadata, status }: Pod): string {
  if (metadata.deletionTimestamp !== undefined)
    return status?.reason === 'NodeLost' ? 'Unknown' : 'Terminating';
  for (const { state } of status?.containerStatuses ?? []) {
    if (state?.waiting?.reason !== undefined) return state.waiting.reason;
    if (state?.terminated !== undefined)
      return state.terminated.reason ?? `ExitCode:${state.terminated.exitCode ?? 0}`;
  }
  return status?.reason ?? status?.phase ?? 'Unknown';
}

function restartsOf({ status }: Pod, nowMs: number): string {
  const { containerStatuses = [] } = status ?? {};
  const count = containerStatuses.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0);
  const last = containerStatuses
    .flatMap(({ lastState }) => lastState?.terminated?.finishedAt ?? [])
    .sort()
    .at(-1);
  return count > 0 && last !== undefined ? `${count} (${ageOf(last, nowMs)} ago)` : String(count);
}

function readyOf({ spec, status }: Pod): string {
  const ready = (status?.containerStatuses ?? []).filter((container) => container.ready === true);
  return `${ready.length}/${spec?.containers?.length ?? 0}`;
}

export const podColumns: readonly ColumnWithCell<Pod>[] = [
  nameColumn,
  columnOf('Ready', readyOf),
  columnOf('Status', summaryOf),
  columnOf('Restarts', restartsOf),
  ageColumn,
  columnOf('IP', ({ status }) => status?.podIP ?? '<none>', 1),
  columnOf('Node', ({ spec }) => spec?.nodeName ?? '<none>', 1),
  columnOf('Nominated Node', ({ status }) => status?.nominatedNodeName ?? '<none>', 1),
  columnOf('Readiness Gates', () => '<none>', 1),
];

type PodSpec = NonNullable<Pod['spec']>;
interface Named {
  readonly name?: string;
}

/** Returns errors for items without a name, or with the name of an earlier item. */
function nameErrors(items: readonly Named[], path: string): FieldError[] {
  const seen = new Set<string>();
  return items.flatMap(({ name = '' }, index) => {
    const field = `${path}[${index}].name`;
    if (name === '') return [required(field)];
    if (seen.has(name)) return [duplicate(field, name)];
    seen.add(name);
    return [];
  });
}

const missing = (value: string | undefined, field: string): FieldError[] =>
  value === undefined || value === '' ? [required(field)] : [];

const portErrors = ({ ports = [] }: Container, path: string): FieldError[] =>
  ports.flatMap(({ containerPort = 0 }, index) => {
    const field = `${path}.ports[${index}].containerPort`;
    if (containerPort === 0) return [required(field)];
    return containerPort < 1 || containerPort > 65_535
      ? [invalidValue(field, containerPort, 'must be between 1 and 65535, inclusive')]
      : [];
  });

function resourceErrors({ resources = {} }: Container, path: string): FieldError[] {
  const { limits = {}, requests = {} } = resources;
  return Object.entries(requests).flatMap(([name, request]) => {
    const limit = limits[name];
    const [requested, max] = [parseQuantity(request ?? ''), parseQuantity(limit ?? '')];
    if (requested === undefined || max === undefined || requested.nanos <= max.nanos) return [];
    return [
      invalidValue(
        `${path}.resources.requests`,
        request,
        `must be less than or equal to ${name} limit of ${limit ?? ''}`,
      ),
    ];
  });
}

const mountErrors = (
  { volumeMounts = [] }: Container,
  path: string,
  volumes: ReadonlySet<string>,
): FieldError[] =>
  volumeMounts.flatMap(({ name = '', mountPath }, index) => {
    const at = `${path}.volumeMounts[${index}]`;
    const isUnknown = name !== '' && !volumes.has(name);
    return [
      ...missing(name, `${at}.name`),
      ...(isUnknown ? [notFoundField(`${at}.name`, name)] : []),
      ...missing(mountPath, `${at}.mountPath`),
    ];
  });

const containerErrors = (
  containers: readonly Container[],
  path: string,
  volumes: ReadonlySet<string>,
): FieldError[] => [
  ...nameErrors(containers, path),
  ...containers.flatMap((container, index) => {
    const at = `${path}[${index}]`;
    const { image, env = [] } = container;
    return [
      ...missing(image, `${at}.image`),
      ...env.flatMap(({ name }, position) => missing(name, `${at}.env[${position}].name`)),
      ...portErrors(container, at),
      ...resourceErrors(container, at),
      ...mountErrors(container, at, volumes),
    ];
  }),
];

const policies = ['Always', 'OnFailure', 'Never'];

export function podErrors({ spec = {} }: Pod, old: Pod | undefined): readonly FieldError[] {
  const { containers = [], initContainers = [], volumes = [], restartPolicy = 'Always' } = spec;
  const volumeNames = new Set(volumes.map(({ name = '' }) => name));
  return [
    ...nameErrors(volumes, 'spec.volumes'),
    ...(containers.length === 0 ? [required('spec.containers')] : []),
    ...containerErrors(containers, 'spec.containers', volumeNames),
    ...containerErrors(initContainers, 'spec.initContainers', volumeNames),
    ...(policies.includes(restartPolicy)
      ? []
      : [notSupported('spec.restartPolicy', restartPolicy, policies)]),
    ...(old === undefined ? [] : changeErrors(spec, old.spec ?? {})),
  ];
}

const withoutImage = (container: Container): Container => ({ ...container, image: '' });

/** Replaces the fields of a spec that may change by constants, to compare all other fields. */
const frozen = ({ containers = [], initContainers = [], ...spec }: PodSpec): PodSpec => ({
  ...spec,
  activeDeadlineSeconds: 0,
  tolerations: [],
  terminationGracePeriodSeconds: 0,
  containers: containers.map(withoutImage),
  initContainers: initContainers.map(withoutImage),
});

const changeErrors = (spec: PodSpec, old: PodSpec): FieldError[] =>
  equal(frozen(spec), frozen(old))
    ? []
    : [
        forbiddenField(
          'spec',
          'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
        ),
      ];
