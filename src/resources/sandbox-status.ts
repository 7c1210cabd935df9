import { z } from 'zod';
import { agentKinds } from './agent-settings.ts';
import { conditionsSchema } from './conditions.ts';
import { sandboxStatuses } from './conversation-status.ts';
import {
  count,
  described,
  objectName,
  observedGeneration,
  optional,
  text,
  timestamp,
} from './schema.ts';

export const sandboxStatusSchema = z.object({
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
    'Automatic resumes since a person last asked for the sandbox by a resume, a message or a run. Written by the operator with each admission; absent when a person asked last.',
  ),
  conditions: conditionsSchema,
});
