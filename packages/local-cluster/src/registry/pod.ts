import type { ApiObject } from '../api/api-object.ts';
import { badRequest } from '../api/status-error.ts';
import {
  arrayAt,
  booleanAt,
  equal,
  isArray,
  isObject,
  numberAt,
  objectAt,
  stringAt,
  type Json,
  type JsonObject,
} from '../json/json.ts';
import { ageOf } from '@conversation-operator/kube/human-duration';
import type { ColumnWithCell } from './api-resource.ts';
import { ageColumn, nameColumn } from './printer-column.ts';
import { formatQuantity, parseQuantity, quantityFault } from './quantity.ts';

const pullPolicyOf = (image: string): string =>
  /:(?!latest$)[^/]+$/.test(image) || image.includes('@') ? 'IfNotPresent' : 'Always';

/**
 * Converts quantities to strings in canonical form. @throws StatusError 400 for an invalid quantity
 */
const quantityText = (map: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(map).map(([key, value]) => {
      const quantity =
        typeof value === 'number' || typeof value === 'string'
          ? parseQuantity(String(value))
          : undefined;
      if (quantity === undefined)
        throw badRequest(`Pod in version "v1" cannot be handled as a Pod: ${quantityFault}`);
      return [key, formatQuantity(quantity)];
    }),
  );

function resourceDefaults(container: JsonObject): JsonObject {
  const resources = objectAt(container, 'resources');
  if (resources === undefined) return {};
  const limits = objectAt(resources, 'limits');
  // A limit without a request is the request too.
  const requests = objectAt(resources, 'requests') ?? limits;
  return {
    ...resources,
    ...(limits === undefined ? {} : { limits: quantityText(limits) }),
    ...(requests === undefined ? {} : { requests: quantityText({ ...limits, ...requests }) }),
  };
}

const probeDefaults = (probe: JsonObject): JsonObject => {
  const http = objectAt(probe, 'httpGet');
  return {
    timeoutSeconds: 1,
    periodSeconds: 10,
    successThreshold: 1,
    failureThreshold: 3,
    ...probe,
    ...(http === undefined ? {} : { httpGet: { path: '/', scheme: 'HTTP', ...http } }),
  };
};

function containerDefaults(container: Json): Json {
  if (!isObject(container)) return container;
  const probes = ['livenessProbe', 'readinessProbe', 'startupProbe'].flatMap(
    (name): [string, Json][] => {
      const probe = objectAt(container, name);
      return probe === undefined ? [] : [[name, probeDefaults(probe)]];
    },
  );
  const ports = arrayAt(container, 'ports').map((port) =>
    isObject(port) ? { protocol: 'TCP', ...port } : port,
  );
  return {
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
    imagePullPolicy: pullPolicyOf(stringAt(container, 'image') ?? ''),
    ...container,
    resources: resourceDefaults(container),
    ...(ports.length > 0 ? { ports } : {}),
    ...Object.fromEntries(probes),
  };
}

export function podDefaults(object: JsonObject): JsonObject {
  const spec = objectAt(object, 'spec');
  if (spec === undefined) return object;
  const initContainers = arrayAt(spec, 'initContainers');
  return {
    ...object,
    spec: {
      restartPolicy: 'Always',
      terminationGracePeriodSeconds: 30,
      dnsPolicy: 'ClusterFirst',
      schedulerName: 'default-scheduler',
      enableServiceLinks: true,
      securityContext: {},
      ...spec,
      ...(isArray(spec['containers'])
        ? { containers: spec['containers'].map(containerDefaults) }
        : {}),
      ...(initContainers.length > 0
        ? { initContainers: initContainers.map(containerDefaults) }
        : {}),
    },
  };
}

const qosClass = (pod: JsonObject): string => {
  const resources = [
    ...arrayAt(pod['spec'], 'containers'),
    ...arrayAt(pod['spec'], 'initContainers'),
  ].map((container) => objectAt(container, 'resources') ?? {});
  if (resources.every((entry) => Object.keys(entry).length === 0)) return 'BestEffort';
  const guaranteed = resources.every((entry) => {
    const limits = objectAt(entry, 'limits');
    return (
      limits?.['cpu'] !== undefined &&
      limits['memory'] !== undefined &&
      equal(limits, entry['requests'])
    );
  });
  return guaranteed ? 'Guaranteed' : 'Burstable';
};

export const podInitial = (pod: ApiObject): ApiObject => ({
  ...pod,
  status: { phase: 'Pending', qosClass: qosClass(pod) },
});

/**
 * Returns the grace period of a pod: 0 for a pod without a node or in a terminal phase, because no
 * kubelet runs it.
 */
export function podGraceSeconds(pod: ApiObject): number {
  const phase = stringAt(pod['status'], 'phase');
  if (
    stringAt(pod['spec'], 'nodeName') === undefined ||
    phase === 'Succeeded' ||
    phase === 'Failed'
  )
    return 0;
  return numberAt(pod['spec'], 'terminationGracePeriodSeconds') ?? 30;
}

const statuses = (pod: ApiObject): readonly Json[] => arrayAt(pod['status'], 'containerStatuses');

/** Returns the STATUS column of `kubectl get pods`. */
function summaryOf(pod: ApiObject): string {
  const status = objectAt(pod, 'status');
  let summary = stringAt(status, 'reason') ?? stringAt(status, 'phase') ?? 'Unknown';
  for (const container of [...statuses(pod)].reverse()) {
    const state = objectAt(container, 'state');
    const waiting = stringAt(objectAt(state, 'waiting'), 'reason');
    const terminated = objectAt(state, 'terminated');
    if (waiting !== undefined) summary = waiting;
    else if (terminated !== undefined)
      summary =
        stringAt(terminated, 'reason') ?? `ExitCode:${numberAt(terminated, 'exitCode') ?? 0}`;
  }
  if (pod.metadata.deletionTimestamp !== undefined)
    return stringAt(status, 'reason') === 'NodeLost' ? 'Unknown' : 'Terminating';
  return summary;
}

function restartsOf(pod: ApiObject, nowMs: number): string {
  const count = statuses(pod).reduce<number>(
    (sum, container) => sum + (numberAt(container, 'restartCount') ?? 0),
    0,
  );
  const ends = statuses(pod).flatMap(
    (container) =>
      stringAt(objectAt(objectAt(container, 'lastState'), 'terminated'), 'finishedAt') ?? [],
  );
  const last = ends.sort().at(-1);
  return count > 0 && last !== undefined ? `${count} (${ageOf(last, nowMs)} ago)` : String(count);
}

const column = (
  name: string,
  type: string,
  description: string,
  priority: number,
  cell: ColumnWithCell['cell'],
): ColumnWithCell => ({
  name,
  type,
  description,
  priority,
  cell,
});

export const podColumns: readonly ColumnWithCell[] = [
  nameColumn,
  column('Ready', 'string', 'Number of ready containers, of all containers.', 0, (pod) => {
    const ready = statuses(pod).filter(
      (container) => booleanAt(container, 'ready') === true,
    ).length;
    return `${ready}/${arrayAt(pod['spec'], 'containers').length}`;
  }),
  column('Status', 'string', 'Aggregate status of the containers.', 0, summaryOf),
  column('Restarts', 'string', 'Number of restarts of the containers.', 0, restartsOf),
  ageColumn,
  column(
    'IP',
    'string',
    'IP address of the pod.',
    1,
    (pod) => stringAt(pod['status'], 'podIP') ?? '<none>',
  ),
  column(
    'Node',
    'string',
    'Node that runs the pod.',
    1,
    (pod) => stringAt(pod['spec'], 'nodeName') ?? '<none>',
  ),
  column(
    'Nominated Node',
    'string',
    'Node that the scheduler has nominated for the pod.',
    1,
    (pod) => stringAt(pod['status'], 'nominatedNodeName') ?? '<none>',
  ),
  column('Readiness Gates', 'string', 'Readiness gates that have passed.', 1, () => '<none>'),
];
