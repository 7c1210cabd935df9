import type { KubeObject } from '@conversation-operator/kube/object';
import { findCondition, type Condition } from '../../resources/conditions.ts';
import { QuotaCondition, type ConversationQuota } from '../../resources/conversation-quota.ts';
import { PoolCondition, type SandboxPool } from '../../resources/sandbox-pool.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { FreshCache } from '../lookup/cache.ts';
import { maxItems, type OverviewRecord } from './schemas.ts';
import { plainText } from '../../resources/plain-text.ts';
import { classify, usesSlot } from '../../quota/classify.ts';
import { byRequest, type Slot } from '../../quota/slot.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { awaitsSandbox, isStartHeld } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { kebabCase } from '../../resources/owner-remedies.ts';
import { SandboxCondition, SandboxReason, type Sandbox } from '../../resources/sandbox.ts';
import { slotTaken } from '../../status/sandbox-phase.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { conversationsIn } from '../quota/quota.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { wireTime } from '../presenters/schemas.ts';

/** Maximum characters of a text of a resource in the overview. */
const maxLength = 500;

/** A text of a resource, bounded and without characters that change the direction of text. */
export const shortText = (text: string): string => plainText(text, maxLength);

type Item<L extends 'quotas' | 'pools' | 'templates'> = OverviewRecord[L]['items'][number];

/** The first `maxItems` objects, sorted by `rank` and then by name, and their total number. */
export function listed<T extends KubeObject, R extends { readonly name: string }>(
  objects: readonly T[],
  present: (object: T) => R,
  rank: (record: R) => number = () => 0,
): { total: number; items: R[] } {
  const records = objects
    .map(present)
    .sort((one, other) => rank(one) - rank(other) || (one.name < other.name ? -1 : 1));
  return { total: records.length, items: records.slice(0, maxItems) };
}

/** A condition as a boolean: null if it is absent or unknown. */
const verdict = (condition: Condition | undefined) => ({
  is: condition?.status === 'True' ? true : condition?.status === 'False' ? false : null,
  reason: condition === undefined ? null : shortText(condition.reason),
  message: condition === undefined ? null : shortText(condition.message),
});

export function presentQuota({ metadata, spec, status }: ConversationQuota): Item<'quotas'> {
  const conflicting = findCondition(status?.conditions, QuotaCondition.conflicting);
  return {
    name: metadata.name,
    scope: spec.scope,
    owner: spec.owner ?? null,
    limit: spec.limit,
    on_exceeded: spec.onExceeded,
    auto_resume: spec.autoResume,
    active: status?.active ?? null,
    waiting: status?.waiting ?? null,
    paused: status?.paused ?? null,
    full_owners: status?.fullOwners?.length ?? 0,
    conflict: conflicting?.status === 'True' ? shortText(conflicting.message) : null,
  };
}

export function presentPool({ metadata, spec, status }: SandboxPool): Item<'pools'> {
  const ready = verdict(findCondition(status?.conditions, PoolCondition.ready));
  return {
    name: metadata.name,
    template: spec.templateName,
    wanted: spec.replicas,
    ready: status?.readyReplicas ?? 0,
    is_ready: ready.is,
    reason: ready.reason,
    message: ready.message,
  };
}

export function presentTemplate({ metadata, status }: SandboxTemplate): Item<'templates'> {
  const valid = verdict(findCondition(status?.conditions, 'Valid'));
  return { name: metadata.name, is_valid: valid.is, reason: valid.reason, message: valid.message };
}

/** Ranks invalid templates first, then templates that are not checked yet. */
export const templateRank = ({ is_valid: isValid }: Item<'templates'>): number =>
  isValid === false ? 0 : isValid === null ? 1 : 2;

export function presentCache<T extends KubeObject>(
  kind: string,
  { store, hasSynced, freshness }: FreshCache<T>,
): OverviewRecord['caches'][number] {
  const { newsAgeMs, isInterrupted } = freshness;
  return {
    kind,
    objects: store.size,
    is_synced: hasSynced,
    is_interrupted: isInterrupted,
    news_age_seconds: newsAgeMs === undefined ? null : Math.round(newsAgeMs / 100) / 10,
  };
}

type QueueLookup = Pick<ResourceLookup, 'everyHolding'>;

/** Whether a sandbox may wait for a slot, judged without its conversations. */
const mayWait = (sandbox: Sandbox): boolean =>
  sandbox.spec.owner !== '' && !slotTaken(sandbox) && usesSlot(sandbox);

interface Waiter {
  readonly slot: Slot;
  readonly conversation: CachedConversation | undefined;
}

type QueueItem = OverviewRecord['queue']['items'][number];

/**
 * The sandboxes that wait for a slot, in the order in which the operator admits them. Sandboxes of
 * other owners overtake a sandbox whose owner is at the limit. Then the starts that wait for a
 * budget, the oldest first: they need a slot only after that.
 */
export function queueOf(lookup: QueueLookup, now: number): OverviewRecord['queue'] {
  const { conversations: all, sandboxes } = lookup.everyHolding();
  const mayBeWaiting = sandboxes.filter(mayWait);
  const inside = conversationsIn({ conversations: all, sandboxes: mayBeWaiting });
  const waiters = mayBeWaiting.flatMap((sandbox): Waiter | [] => {
    const conversations = inside.get(sandbox.metadata.name) ?? [];
    const slot = classify({ sandbox, conversations, now });
    return slot.state === 'waiting' ? { slot, conversation: conversations[0] } : [];
  });
  const held = all.filter(
    (conversation) =>
      conversation.metadata.deletionTimestamp === undefined &&
      isStartHeld(conversation) &&
      awaitsSandbox(conversation),
  );
  const items = [
    ...waiters
      .sort((one, other) => byRequest(one.slot, other.slot))
      .slice(0, maxItems)
      .map(presentWaiter),
    ...held.sort(byCreation).slice(0, maxItems).map(presentHeld),
  ];
  return {
    total: waiters.length + held.length,
    items: items.slice(0, maxItems).map((item, index) => ({ ...item, position: index + 1 })),
  };
}

const byCreation = (one: CachedConversation, other: CachedConversation): number =>
  one.metadata.creationTimestamp < other.metadata.creationTimestamp ? -1 : 1;

function presentHeld(conversation: CachedConversation): Omit<QueueItem, 'position'> {
  const { metadata, spec } = conversation;
  const { reason, message } = sandboxViewOf(conversation, undefined);
  return {
    sandbox_id: null,
    conversation_id: conversationIdOf(conversation),
    owner: spec.owner,
    reason: kebabCase(reason),
    message: shortText(message),
    since: wireTime(metadata.creationTimestamp),
  };
}

function presentWaiter({
  slot: { sandbox, requestedAt },
  conversation,
}: Waiter): Omit<QueueItem, 'position'> {
  const admitted = findCondition(sandbox.status?.conditions, SandboxCondition.admitted);
  return {
    sandbox_id: sandbox.metadata.name,
    conversation_id: conversation === undefined ? null : conversationIdOf(conversation),
    owner: sandbox.spec.owner,
    reason: kebabCase(admitted?.reason ?? SandboxReason.waitingForAdmission),
    message: shortText(admitted?.message ?? 'Waiting to be admitted.'),
    since: wireTime(requestedAt),
  };
}
