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
 * 2. Owners round robin (`byTurn`): first the owner whose last automatic resume is longest ago.
 * 3. The longest pause.
 * 4. By name.
 *
 * Newcomers come before all of them, and an automatic resume only evicts warm sandboxes.
 */
export const byResume: SlotOrder = (one, other) =>
  Number(other.unfinished) - Number(one.unfinished) ||
  one.pausedSince - other.pausedSince ||
  byName(one, other);

/** The same order among the first ones of several owners, by the last resume of each owner. */
export const byTurn =
  (lastResumes: ReadonlyMap<Slot, number>): SlotOrder =>
  (one, other) =>
    Number(other.unfinished) - Number(one.unfinished) ||
    (lastResumes.get(one) ?? 0) - (lastResumes.get(other) ?? 0) ||
    byResume(one, other);

/** The record of the automatic resumes of a sandbox since a person last requested it. */
export type AutomaticResumes = NonNullable<SandboxState['automaticResumes']>;

const minDelayMs = 60_000;
const maxDelayMs = 3_600_000;
/** Maximum stored count; the delay reaches its maximum long before. */
const maxCount = 1_000;

export const resumedAgain = (
  before: AutomaticResumes | undefined,
  now: string,
): AutomaticResumes => ({ count: Math.min(maxCount, (before?.count ?? 0) + 1), lastTime: now });

/** Delay between two automatic resumes: 1 min after the first, doubled with each, at most 1 h. */
export const resumeDelayMs = ({ count }: AutomaticResumes): number =>
  Math.min(maxDelayMs, minDelayMs * 2 ** Math.max(0, count - 1));

/**
 * Whether a person requested the sandbox since its last pause or admission: by the annotation, or
 * by `spec.replicas` 0 and 1 again.
 */
export function isRequested({ metadata, status }: Sandbox): boolean {
  const admitted = findCondition(status?.conditions, SandboxCondition.admitted);
  return (
    resumeRequestOf({ metadata }) !== status?.observedResumeRequest ||
    metadata.generation > (admitted?.observedGeneration ?? 0)
  );
}

/**
 * Whether a person used a conversation after a time: by a message, by its start, or by a run that
 * no automatic resume continued.
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

/** Whether an admitted sandbox was resumed automatically and not requested since. */
export function isAutomatic(
  sandbox: Sandbox,
  conversations: readonly CachedConversation[],
): boolean {
  const { automaticResumes } = sandbox.status ?? {};
  if (automaticResumes === undefined || isRequested(sandbox)) return false;
  const time = Date.parse(automaticResumes.lastTime);
  return !conversations.some((conversation) => isUsedSince(conversation, sandbox, time));
}
