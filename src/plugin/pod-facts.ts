import type { PersistentVolumeClaim, Pod } from '@conversation-operator/kube/core';

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

const withMessage = (reason: string | undefined, message: string | undefined): string =>
  [reason, message].filter((text) => text !== undefined && text !== '').join(': ');

function containerLine(status: ContainerStatus): string {
  const { name, state, lastState, restartCount, ready, started } = status;
  const { waiting, terminated } = state ?? {};
  const ended = terminated ?? lastState?.terminated;
  const present =
    waiting !== undefined
      ? `waits (${withMessage(waiting.reason, waiting.message)})`
      : terminated !== undefined
        ? 'has ended'
        : ready
          ? 'is ready'
          : started === true
            ? 'runs, but is not ready'
            : 'runs, and no probe of it has succeeded yet';
  const end =
    ended === undefined
      ? ''
      : `; ${terminated === undefined ? 'before, it ' : ''}ended with exit code ${ended.exitCode}${ended.reason === undefined ? '' : ` (${withMessage(ended.reason, ended.message)})`}`;
  const restarts = restartCount === 0 ? '' : `; restarts: ${restartCount}`;
  return `Container ${name} ${present}${end}${restarts}.`;
}

/** A pod as lines for people: its phase, what scheduling says, and each container. Pure. */
export function podLines({ metadata, spec, status }: Pod): readonly string[] {
  const { phase = 'Unknown', reason, message, conditions = [] } = status ?? {};
  const scheduled = conditions.find(({ type }) => type === 'PodScheduled');
  const node = spec?.nodeName;
  const cause = withMessage(reason, message);
  return [
    `${metadata.name}: ${phase}${node === undefined ? '' : ` on the node ${node}`}${cause === '' ? '' : ` (${cause})`}.`,
    ...(metadata.deletionTimestamp === undefined
      ? []
      : [`Its deletion was requested at ${metadata.deletionTimestamp}.`]),
    ...(scheduled?.status === 'False'
      ? [`No node takes it: ${withMessage(scheduled.reason, scheduled.message)}`]
      : []),
    ...[...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])].map(
      containerLine,
    ),
  ];
}

/** A claim as a line for people. Pure. */
export function claimLine({ metadata, spec, status }: PersistentVolumeClaim): string {
  const { phase = 'Unknown' } = status ?? {};
  const size = status?.capacity?.['storage'] ?? spec?.resources?.requests?.['storage'];
  const storageClass = spec?.storageClassName;
  return [
    `${metadata.name}: ${phase}`,
    ...(size === undefined ? [] : [size]),
    ...(storageClass === undefined ? [] : [`class ${storageClass}`]),
  ].join(', ');
}
