import type { Container as FullContainer, Pod as FullPod } from '@conversation-operator/kube/core';
import { ageOf } from '@conversation-operator/kube/human-duration';
import { badRequest } from '../api/status-error.ts';
import { equal } from '../json/json.ts';
import type { ColumnWithCell } from './api-resource.ts';
import type { Decoded, Sparse } from './decoded.ts';
import { ageColumn, columnOf, nameColumn } from './printer-column.ts';
import { formatQuantity, parseQuantity, quantityFault } from './quantity.ts';

export type Pod = Decoded<FullPod>;
export type Container = Sparse<FullContainer>;
type Probe = NonNullable<Container['readinessProbe']>;

const pullPolicyOf = (image: string): string =>
  /:(?!latest$)[^/]+$/.test(image) || image.includes('@') ? 'IfNotPresent' : 'Always';

/**
 * Converts quantities to strings in canonical form. @throws StatusError 400 for an invalid quantity
 */
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
  // A limit without a request is the request too.
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

/**
 * Returns the grace period of a pod: 0 for a pod without a node or in a terminal phase, because no
 * kubelet runs it.
 */
export function podGraceSeconds({ spec, status }: Pod): number {
  const isOver = status?.phase === 'Succeeded' || status?.phase === 'Failed';
  return spec?.nodeName === undefined || isOver ? 0 : (spec.terminationGracePeriodSeconds ?? 30);
}

/** Returns the STATUS column of `kubectl get pods`. */
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
