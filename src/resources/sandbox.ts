import { z } from 'zod';
import { conditionsSchema, pausedType } from './conditions.ts';
import { sandboxStatuses } from './conversation-status.ts';
import { uuidOf } from './ids.ts';
import {
  column,
  resourceOf,
  scaleOfReplicas,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { beginningOf } from './plain-text.ts';
import {
  count,
  described,
  countsHandovers,
  handedOver,
  handoverCount,
  handoverLock,
  immutable,
  noneOrOwnerName,
  objectName,
  optional,
  validations,
  observedGeneration,
  text,
  timestamp,
} from './schema.ts';
import { agentKinds } from './agent-settings.ts';

const sandboxStatusSchema = z.object({
  observedGeneration: observedGeneration(),
  phase: optional(
    z.enum(sandboxStatuses),
    'Phase of the sandbox, a projection of spec and conditions.',
  ),
  reason: optional(text(64), 'Reason of the phase; docs/reasons.md lists all reasons.'),
  message: optional(text(2048), 'Explanation of the phase for people.'),
  replicas: optional(count().max(1), 'Number of pods: 1 while a pod exists or may be created.'),
  selector: optional(text(256), 'Label selector of the pod, for the scale subresource.'),
  podName: optional(objectName(), 'Name of the pod. Absent while the sandbox has none.'),
  podUID: optional(text(64), 'UID of the pod. Absent while the sandbox has none.'),
  podIP: optional(text(64), 'Address of the pod. Absent until the pod has one.'),
  containerID: optional(
    text(256),
    'ID of the container whose agent has received its keys. Absent while there is none.',
  ),
  agentPort: optional(
    z.int().min(1).max(65_535),
    'Port on which the agent of the pod listens. Absent while the sandbox has no pod.',
  ),
  agentKind: optional(
    z.enum(agentKinds),
    "Protocol of the agent: the template's kind when the first pod was created. Absent: openhands.",
  ),
  agentName: optional(
    text(64),
    "Name of an agent of the kind acp: the template's when the first pod was created. Absent for an agent that the template names by a command, and for other kinds.",
  ),
  agentTitle: optional(
    text(64),
    'Name that the agent has given itself when it got its keys, for people. Absent for an agent that gives none.',
  ),
  masterKeyId: optional(
    text(64),
    'ID of the master key from which the keys of the sandbox are derived. A rotation of the master key does not change it.',
  ),
  interruptedConversationIDs: optional(
    z.array(text(64)).max(64),
    'IDs of the conversations whose runs the last pause interrupted. Absent when it interrupted none.',
  ),
  lastContainerID: optional(
    text(256),
    'ID of the last container whose agent received its keys, also after the container has ended.',
  ),
  agentEpoch: optional(
    count(),
    'Number of times that an agent has begun to run: in a new container, or after a pause that ended before its container did.',
  ),
  lastInterruption: optional(
    z.object({
      reason: described(text(64), 'Reason of the phase at that time.'),
      agentEpoch: described(count(), 'Value of agentEpoch at that time.'),
    }),
    'Last pause or stop of the agent. Absent until the first one.',
  ),
  lastUserPauseEpoch: optional(
    count(),
    'Value of agentEpoch when the owner last paused the sandbox. Absent until the first pause by the owner.',
  ),
  lastDisruptionEpoch: optional(
    count(),
    'Value of agentEpoch when a drain, a lost node or a deletion last removed the pod. Absent until that happened.',
  ),
  startingSinceTime: optional(
    timestamp(),
    'Time from which the sandbox has been starting; startDeadline of the template counts from this time. Absent while the sandbox waits at a scheduling gate, for room in a ResourceQuota or for a node that an autoscaler adds.',
  ),
  activeSinceTime: optional(
    timestamp(),
    'Time from which the sandbox has been RUNNING without a pause. Absent while the sandbox is paused.',
  ),
  pauseTime: optional(
    timestamp(),
    'Time at which the current pause began. Absent when no pause is under way.',
  ),
  waitingSinceTime: optional(
    timestamp(),
    'Time from which the sandbox has been waiting for a slot of a quota. Absent while it does not wait.',
  ),
  observedResumeRequest: optional(
    text(64),
    'Value of the annotation conversation-operator.dev/resume-requested-at when the sandbox was paused or failed. Another value resumes the sandbox.',
  ),
  automaticResumes: optional(
    z.object({
      count: described(z.int().min(1).max(1_000), 'Number of automatic resumes in a row.'),
      lastTime: described(
        timestamp(),
        'Time of the last one. The next one waits 1 min after the first, doubled each time, at most 1 h.',
      ),
    }),
    'Automatic resumes since the last resume, message or run by a person. Written by the operator with each admission; absent without any.',
  ),
  conditions: conditionsSchema,
});

export const sandboxSpecSchema = z
  .object({
    owner: described(
      noneOrOwnerName().default(''),
      'Owner of the sandbox. Other owners do not see the sandbox over REST. Empty: the sandbox is a warm sandbox of a SandboxPool, until a start claims it.',
    ),
    poolName: optional(
      objectName(),
      'Name of the SandboxPool that created the sandbox. Absent: no pool did.',
    ),
    templateName: described(
      objectName().default('default'),
      'Name of the SandboxTemplate from which the operator creates the pod.',
    ),
    replicas: described(
      count().max(1).default(1),
      'Replicas that the owner wants: 0 pauses the sandbox, 1 runs it. Quotas never change this field.',
    ),
    handover: handoverLock(),
    handovers: handoverCount('sandbox, on which all of its keys depend'),
  })
  .meta(
    validations(
      {
        rule: "self.owner != '' || has(self.poolName)",
        message: 'owner is required, except for a warm sandbox of a pool',
        fieldPath: '.owner',
      },
      ...handedOver("oldSelf.owner == '' || "),
      {
        rule: '!has(self.handover) || self.replicas == 0',
        message: 'replicas is 0 while the sandbox moves to another owner',
        fieldPath: '.replicas',
      },
      countsHandovers("oldSelf.owner != '' && "),
      ...immutable({ required: ['templateName'], optional: ['poolName'] }),
    ),
  );

export type SandboxSpec = z.output<typeof sandboxSpecSchema>;
export type SandboxState = z.output<typeof sandboxStatusSchema>;
export type Sandbox = CustomObject<SandboxSpec, SandboxState>;

export const SandboxCondition = {
  /** The quota grants a slot. Only the admission controller writes this condition. */
  admitted: 'Admitted',
  /** The agent answers and has its keys. */
  agentReady: 'AgentReady',
  /** The sandbox is usable: the conditions above are true, and the pod exists. */
  ready: 'Ready',
  /**
   * The sandbox can not start, and no retry can succeed. Only the sandbox controller writes this
   * condition, which is final for a sandbox that has never run. For any other sandbox, the
   * controller removes it once a person requests the sandbox again (see `isResumedAfterFailure`).
   */
  failed: 'Failed',
  /** The owner, a quota or a time limit keeps the sandbox paused. Changes only with the phase. */
  paused: pausedType,
  /** The operator has announced the deletion of the sandbox. Absent before that. */
  expiring: 'Expiring',
} as const;

/** Reasons of conditions, which REST clients read as `sandbox_status_reason`. */
export const SandboxReason = {
  admitted: 'Admitted',
  waitingForQuota: 'WaitingForQuota',
  /**
   * The sandbox was resumed without work (a message or a run). Such a sandbox gets a free slot or
   * the slot of an idle sandbox, but never the slot of a working agent.
   */
  waitingForIdleSandbox: 'WaitingForIdleSandbox',
  quotaExceeded: 'QuotaExceeded',
  user: 'User',
  quota: 'Quota',
  idle: 'Idle',
  maxActiveTime: 'MaxActiveTime',
  /** A budget for models is used up, and a person is asked whether to go on. */
  budgetExhausted: 'BudgetExhausted',
  waitingForAdmission: 'WaitingForAdmission',
  waitingForVolume: 'WaitingForVolume',
  waitingForPod: 'WaitingForPod',
  waitingForAgent: 'WaitingForAgent',
  /** The agent of a warm sandbox has booted, and waits for the keys of a start. */
  warmSandbox: 'Spare',
  podLost: 'PodLost',
  agentSilent: 'AgentSilent',
  running: 'Running',
  deleting: 'Deleting',
} as const;

/** Whether the sandbox is a warm sandbox, which no start has claimed. */
export const isWarmSandbox = ({ spec }: Pick<Sandbox, 'spec'>): boolean => spec.owner === '';

/** Whether the sandbox was created for a conversation, or claimed by one. */
export const isMadeForConversation = ({ metadata }: Pick<Sandbox, 'metadata'>): boolean =>
  metadata.ownerReferences?.some(({ kind }) => kind === 'Conversation') === true;

/** Whether an agent of the sandbox has ever received its keys: its work may be in the volume. */
export const hasRun = ({ status }: Pick<Sandbox, 'status'>): boolean =>
  status?.lastContainerID !== undefined;

/** Value of `resumeRequestedAnnotation`, truncated to the length that the status stores. */
export function resumeRequestOf({ metadata }: Pick<Sandbox, 'metadata'>): string | undefined {
  const request = metadata.annotations?.[resumeRequestedAnnotation];
  return request === undefined ? undefined : beginningOf(request, 64);
}

export const sandboxDefinition: CustomResourceDefinition = {
  kind: 'Sandbox',
  plural: 'sandboxes',
  shortNames: ['sbx'],
  description: 'An execution environment: a pod with an agent and a volume that outlives it.',
  spec: sandboxSpecSchema,
  status: sandboxStatusSchema,
  printerColumns: [
    column('Phase', '.status.phase', 'STARTING, RUNNING, PAUSED or ERROR.'),
    column('Reason', '.status.reason', 'Reason of the phase.'),
    column('Template', '.spec.templateName', 'SandboxTemplate of the sandbox.'),
    column('Owner', '.spec.owner', 'Owner of the sandbox.'),
    wideColumn('Pod-IP', '.status.podIP', 'Address of the pod.'),
    wideColumn('Message', '.status.message', 'Explanation of the phase.'),
  ],
  selectableFields: ['.spec.owner', '.status.phase'],
  scale: scaleOfReplicas,
};

export const sandboxes = resourceOf<Sandbox>(sandboxDefinition);

/**
 * Time of a user's last request to run the sandbox, RFC 3339. A sandbox that a quota, its idleness
 * or its age has paused keeps `spec.replicas: 1`. A value that differs from the value at the pause
 * resumes the sandbox, as far as the quota allows.
 */
export const resumeRequestedAnnotation = 'conversation-operator.dev/resume-requested-at';

/**
 * Generation of the sandbox in which a user requested that an interrupted run continue. A later
 * pause changes the generation, and so ends the request.
 */
export const runRequestedAnnotation = 'conversation-operator.dev/run-requested-in-generation';
export const isRunRequested = ({ metadata }: Pick<Sandbox, 'metadata'>): boolean =>
  metadata.annotations?.[runRequestedAnnotation] === String(metadata.generation);

/**
 * Number of rotations of a sandbox's session keys, a decimal integer; absent: 0. The spec does not
 * have it, because each change of the spec increments the generation, which identifies a pause.
 */
export const sessionKeyGenerationAnnotation = 'conversation-operator.dev/session-key-generation';
export const maxSessionKeyGeneration = 999_999_999_999_999;
const generationShape = /^(?:0|[1-9]\d{0,14})$/;

/** Undefined if the annotation is no valid number. Then no session key is valid. */
export function sessionKeyGenerationOf({
  metadata,
}: Pick<Sandbox, 'metadata'>): number | undefined {
  const text = metadata.annotations?.[sessionKeyGenerationAnnotation] ?? '0';
  return generationShape.test(text) ? Number(text) : undefined;
}

/**
 * Text from which all keys of the sandbox derive. A handover changes it, so that neither the old
 * owner nor anything in the sandbox keeps a key or a token that works for the new owner.
 */
export const keySeedOf = ({
  metadata: { uid },
  spec,
}: Pick<Sandbox, 'metadata' | 'spec'>): string =>
  spec.handovers === undefined || spec.handovers === 0 ? uid : `${uid}/${spec.handovers}`;

/** Label of the warm sandboxes of a pool, and of their pods. The value is `poolLabelValue`. */
export const poolLabel = 'conversation-operator.dev/pool';
/** The pool's name; for a name over 63 characters, its beginning and its hash. */
export const poolLabelValue = (pool: string): string =>
  pool.length <= 63 ? pool : `${pool.slice(0, 30)}-${uuidOf(`pool/${pool}`)}`;
/** Annotation of a warm sandbox: uid and generation of the template that it was made from. */
export const templateVersionAnnotation = 'conversation-operator.dev/template-version';
/**
 * Annotation of a pod with the owner of its sandbox, because the pod can outlive the sandbox. Empty
 * for the pod of a warm sandbox.
 */
export const ownerAnnotation = 'conversation-operator.dev/owner';

/** Labels of every pod and PersistentVolumeClaim of a sandbox. */
export const managedBy = { 'app.kubernetes.io/managed-by': 'conversation-operator' } as const;
export const managedBySelector = 'app.kubernetes.io/managed-by=conversation-operator';
export const sandboxLabel = 'conversation-operator.dev/sandbox';
export const sandboxLabels = (sandboxName: string): Record<string, string> => ({
  ...managedBy,
  [sandboxLabel]: sandboxName,
});
