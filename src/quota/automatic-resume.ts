import { findCondition } from '../resources/conditions.ts';
import type { CachedConversation } from '../resources/cached-conversation.ts';
import {
  SandboxCondition,
  resumeRequestOf,
  type Sandbox,
  type SandboxState,
} from '../resources/sandbox.ts';
import { hasUndelivered } from './idleness.ts';
import { byName, type Slot, type SlotOrder } from './slot.ts';

/**
 * The order of automatic resumes, among those that are due and that the policies allow:
 *
 * 1. Unfinished work: the pause has interrupted a run or a start, or a message waits.
 * 2. Owners round robin (`byTurn`), the owner with the oldest automatic resume first.
 * 3. The longest pause.
 * 4. By name.
 *
 * Waiting sandboxes come before all resumes. An automatic resume only evicts warm sandboxes.
 */
export const byResume: SlotOrder = (one, other) =>
  Number(other.unfinished) - Number(one.unfinished) ||
  one.pausedSince - other.pausedSince ||
  byName(one, other);

/**
 * Order by unfinished work, then by the owner's last resume (`lastResumes`), then by `byResume`.
 */
export const byTurn =
  (lastResumes: ReadonlyMap<Slot, number>): SlotOrder =>
  (one, other) =>
    Number(other.unfinished) - Number(one.unfinished) ||
    (lastResumes.get(one) ?? 0) - (lastResumes.get(other) ?? 0) ||
    byResume(one, other);

/** Number and last time of automatic resumes since a person last requested the sandbox. */
export type AutomaticResumes = NonNullable<SandboxState['automaticResumes']>;

const minDelayMs = 60_000;
const maxDelayMs = 3_600_000;
/** Maximum stored count. The delay reaches its maximum at a lower count. */
const maxCount = 1_000;

export const resumedAgain = (
  before: AutomaticResumes | undefined,
  now: string,
): AutomaticResumes => ({ count: Math.min(maxCount, (before?.count ?? 0) + 1), lastTime: now });

/** Delay between two automatic resumes: first 1 min, then twice the previous delay, at most 1 h. */
export const resumeDelayMs = ({ count }: AutomaticResumes): number =>
  Math.min(maxDelayMs, minDelayMs * 2 ** Math.max(0, count - 1));

/**
 * Whether a person requested the sandbox since its last pause or admission, by the annotation or by
 * a change of `spec.replicas` to 0 and back to 1.
 */
export function isRequested({ metadata, status }: Sandbox): boolean {
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  return (
    resumeRequestOf({ metadata }) !== status?.observedResumeRequest ||
    metadata.generation > (admitted?.observedGeneration ?? 0)
  );
}

/**
 * Whether a person has used a conversation since this time, by a message, by its start, or by a run
 * that is not the continuation of an interrupted run.
 */
function isUsedSince(conversation: CachedConversation, sandbox: Sandbox, time: number): boolean {
  const {
    messages,
    start,
    executionStatus,
    interruption,
    agentEpoch = 0,
  } = conversation.status ?? {};
  const isLater = (timestamp: string | undefined): boolean =>
    timestamp !== undefined && Date.parse(timestamp) > time;
  if (
    hasUndelivered(conversation) ||
    isLater(messages?.lastDeliveredTime) ||
    isLater(start?.transitions.at(-1)?.time)
  )
    return true;
  return (
    executionStatus === 'running' &&
    interruption === undefined &&
    agentEpoch === (sandbox.status?.agentEpoch ?? 0)
  );
}

/** Whether an admitted sandbox was resumed automatically, and no person has used it since. */
export function isAutomatic(
  sandbox: Sandbox,
  conversations: readonly CachedConversation[],
): boolean {
  const { automaticResumes } = sandbox.status ?? {};
  if (automaticResumes === undefined || isRequested(sandbox)) return false;
  const time = Date.parse(automaticResumes.lastTime);
  return !conversations.some((conversation) => isUsedSince(conversation, sandbox, time));
}
