import { isDeepStrictEqual } from 'node:util';
import { findCondition } from '../../resources/conditions.ts';
import {
  SandboxCondition,
  SandboxReason,
  type Sandbox,
  type SandboxState,
} from '../../resources/sandbox.ts';

/** Reasons of an ordinary start, each of which usually passes within a moment. */
const passingReasons: ReadonlySet<string> = new Set([
  SandboxReason.waitingForAdmission,
  SandboxReason.waitingForVolume,
  SandboxReason.waitingForPod,
  SandboxReason.waitingForAgent,
]);

const isPassingReady = ({ conditions }: SandboxState): boolean => {
  const ready = findCondition(conditions, SandboxCondition.ready);
  return ready === undefined || (ready.status !== 'True' && passingReasons.has(ready.reason));
};

/** Fields that a later step of the same start writes again, or that repeat such a field. */
const passingFields: ReadonlySet<string> = new Set<keyof SandboxState>([
  'phase',
  'reason',
  'message',
  'podName',
  'podUID',
  'podIP',
  'agentPort',
  'startingSinceTime',
  'observedGeneration',
  'selector',
]);

const lastingFieldsOf = ({ conditions: _conditions, ...status }: SandboxState): object => ({
  replicas: 0,
  ...Object.fromEntries(Object.entries(status).filter(([field]) => !passingFields.has(field))),
});

const lastingConditionsOf = ({ conditions = [] }: SandboxState): readonly object[] =>
  conditions
    .filter(({ type }) => type !== SandboxCondition.ready && type !== SandboxCondition.agentReady)
    .map(({ type, status, reason }) => ({ type, status, reason }));

/**
 * Whether a status only says which step of an ordinary start comes next, so that the API server
 * need not store the status unless the step lasts. The first status of a new sandbox is one of
 * them, also where it records that no pod may exist before the admission. The caller stores a
 * status on which the next step depends.
 */
export const isPassing = ({ status: before = {} }: Sandbox, after: SandboxState): boolean =>
  after.phase === 'STARTING' &&
  (before.phase ?? 'STARTING') === 'STARTING' &&
  isPassingReady(before) &&
  isPassingReady(after) &&
  (before.conditions === undefined ||
    (isDeepStrictEqual(lastingFieldsOf(before), lastingFieldsOf(after)) &&
      isDeepStrictEqual(lastingConditionsOf(before), lastingConditionsOf(after))));

/** Whether admission has not decided on the sandbox yet. */
export const isUndecided = ({ status }: Sandbox): boolean =>
  findCondition(status?.conditions, SandboxCondition.admitted) === undefined;

/**
 * The stored time from which on a start makes progress: its admission, or before that its creation.
 */
export const progressSince = ({ metadata, status }: Sandbox): string =>
  findCondition(status?.conditions, SandboxCondition.admitted)?.lastTransitionTime ??
  metadata.creationTimestamp;
