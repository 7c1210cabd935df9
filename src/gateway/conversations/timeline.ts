import { z } from 'zod';
import type { KubeEvent } from '@conversation-operator/kube/core';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Condition } from '../../resources/conditions.ts';
import type { StartStatus, StartStep } from '../../resources/conversation-status.ts';
import { plainText } from '../../resources/plain-text.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { countSchema, timestampSchema, wireTime, wireTimeOrNull } from '../presenters/schemas.ts';
import { transitionsOf } from '../presenters/start-task.ts';

const entrySchema = z.object({
  time: timestampSchema,
  until: timestampSchema
    .nullable()
    .describe('The end of a stage or a step, or the last of several equal events. Else null.'),
  kind: z
    .enum(['stage', 'step', 'event', 'state'])
    .describe('Stage or step of the start, Kubernetes Event, or present state of the sandbox.'),
  reason: z.string().describe('Stable code; docs/reasons.md lists all codes.'),
  message: z.string(),
  is_warning: z.boolean(),
  count: countSchema.describe('Number of equal events.'),
});
export const timelineSchema = z.array(entrySchema);
export type TimelineEntry = z.output<typeof entrySchema>;

/** Maximum Events in a timeline, which contains the newest ones. */
const maxEvents = 200;
const maxMessageCharacters = 2048;
/** Maximum time between a state entry and an Event that report the same change. */
const sameMs = 2_000;

const stageMessages: Readonly<Record<StartStatus, string>> = {
  WORKING: 'The service has accepted the start.',
  WAITING_FOR_SANDBOX: 'The start waits for its sandbox.',
  PREPARING_REPOSITORY: 'The workspace is prepared.',
  SETTING_UP_SKILLS: 'The agent gets the conversation.',
  READY: 'The agent has accepted the conversation.',
  ERROR: 'The start has failed.',
};

export interface TimelineSources {
  readonly conversation: CachedConversation;
  readonly steps: readonly StartStep[];
  readonly sandbox: Sandbox | undefined;
  /** Events about the conversation and its sandbox, in any order. */
  readonly events: readonly KubeEvent[];
}

/** The timeline, oldest entry first. By default, Kubernetes deletes Events after an hour. */
export function timelineOf(sources: TimelineSources): readonly TimelineEntry[] {
  const { conversation, steps, sandbox } = sources;
  const events = sources.events
    .map(eventEntry)
    .filter((entry) => entry !== undefined)
    .toSorted(byTime)
    .slice(-maxEvents);
  const isKnown = ({ reason, time }: TimelineEntry) =>
    events.some(
      (event) =>
        event.reason === reason && Math.abs(Date.parse(event.time) - Date.parse(time)) < sameMs,
    );
  const states = [
    ...(sandbox?.status?.conditions ?? []).filter(isNotable).map(stateEntry),
    ...interruptionEntries(conversation),
  ].filter((entry, index, all) => !isKnown(entry) && isFirst(entry, index, all));
  return [...stageEntries(conversation), ...steps.map(stepEntry), ...events, ...states].toSorted(
    byTime,
  );
}

/** Whether no earlier entry has this reason and time: two conditions may describe one change. */
const isFirst = (entry: TimelineEntry, index: number, all: readonly TimelineEntry[]): boolean =>
  all.findIndex(({ reason, time }) => reason === entry.reason && time === entry.time) === index;

const byTime = (one: TimelineEntry, other: TimelineEntry): number =>
  one.time < other.time ? -1 : Number(one.time > other.time);

type EntryFields = Pick<TimelineEntry, 'time' | 'kind' | 'reason' | 'message'> &
  Partial<Omit<TimelineEntry, 'until'>> & { readonly until?: string | undefined };

/** An entry of the timeline; by default without an end, and no warning. */
const entryOf = ({ time, until, ...entry }: EntryFields): TimelineEntry => ({
  time: wireTime(time),
  until: wireTimeOrNull(until),
  is_warning: false,
  count: 1,
  ...entry,
});

function stageEntries(conversation: CachedConversation): readonly TimelineEntry[] {
  const transitions = transitionsOf(conversation);
  const { error } = conversation.status?.start ?? {};
  return transitions.map(({ status, time, detail }, index) => {
    // In objects of earlier releases, other stages have a detail too, which is output of git.
    const failure = status === 'ERROR' ? (error ?? detail) : undefined;
    return entryOf({
      time,
      until: transitions[index + 1]?.time,
      kind: 'stage',
      reason: status,
      message: failure ?? stageMessages[status],
      is_warning: status === 'ERROR',
    });
  });
}

const stepResult = ({ state, exitCode }: StartStep): string =>
  exitCode === undefined || exitCode === 0 ? state : `${state}, exit code ${exitCode}`;

const stepEntry = (step: StartStep): TimelineEntry =>
  entryOf({
    time: step.startedAt,
    until: step.endedAt,
    kind: 'step',
    reason: step.name,
    message: `The step ${step.name}: ${stepResult(step)}.`,
    is_warning: step.state === 'failed',
  });

/** Undefined without a valid time, and for the Event `Ready`, which repeats the entry of READY. */
function eventEntry(event: KubeEvent): TimelineEntry | undefined {
  const { firstTimestamp, eventTime, lastTimestamp, count = 1, reason = '', message = '' } = event;
  const first = firstTimestamp ?? eventTime ?? event.metadata.creationTimestamp;
  const last = lastTimestamp ?? first;
  if (!Number.isFinite(Date.parse(first))) return undefined;
  if (event.involvedObject.kind === 'Conversation' && reason === 'Ready') return undefined;
  return entryOf({
    time: first,
    until: count > 1 ? last : undefined,
    kind: 'event',
    reason: plainText(reason, 128),
    message: plainText(message, maxMessageCharacters),
    is_warning: event.type === 'Warning',
    count: Math.max(1, count),
  });
}

/** Whether a condition explains the state of the sandbox. */
const isNotable = ({ type, status }: Condition): boolean =>
  type === 'Admitted'
    ? status === 'False'
    : status === 'True' && ['Ready', 'Paused', 'Failed', 'Expiring'].includes(type);

const stateEntry = ({ type, reason, message, lastTransitionTime: time }: Condition) =>
  entryOf({ time, kind: 'state', reason, message, is_warning: type === 'Failed' });

function interruptionEntries({ status }: CachedConversation): readonly TimelineEntry[] {
  const { interruption, executionDetail } = status ?? {};
  if (interruption === undefined) return [];
  const { time, reason } = interruption;
  const message = executionDetail ?? `The run was interrupted (${reason}).`;
  return [entryOf({ time, kind: 'state', reason: 'RunInterrupted', message })];
}
