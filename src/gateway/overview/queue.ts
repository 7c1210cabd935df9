import { classify, usesSlot } from '../../quota/classify.ts';
import { byRequest } from '../../quota/order.ts';
import type { Slot } from '../../quota/slot.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { findCondition } from '../../resources/conditions.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { kebabCase } from '../../resources/owner-mends.ts';
import {
  SandboxCondition,
  SandboxReason,
  slotTaken,
  type Sandbox,
} from '../../resources/sandbox.ts';
import { isInSandbox, isNamedBy, makerReferencesOf } from '../../resources/sandbox-makers.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { wireTime } from '../presenters/time.ts';
import { shortText } from './short-text.ts';
import { maxItems, type OverviewRecord } from './schemas.ts';

export type QueueLookup = Pick<
  ResourceLookup,
  'everyHolding' | 'conversationsNaming' | 'cachedConversation'
>;

/** Whether a sandbox may be waiting; its conversations can only make it need no slot. */
const mayWait = (sandbox: Sandbox): boolean =>
  sandbox.spec.owner !== '' && !slotTaken(sandbox) && usesSlot(sandbox);

/** The conversations in a sandbox, and those that it was made for, of its owner alone. */
function conversationsOf(lookup: QueueLookup, sandbox: Sandbox): readonly CachedConversation[] {
  const inIt = lookup
    .conversationsNaming(sandbox.metadata.name)
    .filter((conversation) => isInSandbox(conversation, sandbox));
  const makers = makerReferencesOf(sandbox).flatMap(({ name }) => {
    const maker = lookup.cachedConversation(name);
    return maker !== undefined && isNamedBy(maker, sandbox) && !inIt.includes(maker) ? maker : [];
  });
  return [...inIt, ...makers];
}

interface Waiter {
  readonly slot: Slot;
  readonly conversation: CachedConversation | undefined;
}

/**
 * The sandboxes that wait for a slot, in the order in which the operator admits them: by the same
 * classification and the same order as its queue. Where the limit of an owner is full, the owner's
 * sandboxes let later ones of other owners pass.
 */
export function queueOf(lookup: QueueLookup, now: number): OverviewRecord['queue'] {
  const waiters = lookup.everyHolding().sandboxes.flatMap((sandbox): Waiter | [] => {
    if (!mayWait(sandbox)) return [];
    const conversations = conversationsOf(lookup, sandbox);
    const slot = classify({ sandbox, conversations, now });
    return slot.state === 'waiting' ? { slot, conversation: conversations[0] } : [];
  });
  const items = waiters
    .sort((one, other) => byRequest(one.slot, other.slot))
    .slice(0, maxItems)
    .map(presentWaiter);
  return { total: waiters.length, items };
}

function presentWaiter(
  { slot: { sandbox, requestedAt }, conversation }: Waiter,
  index: number,
): OverviewRecord['queue']['items'][number] {
  const admitted = findCondition(sandbox.status?.conditions, SandboxCondition.admitted);
  return {
    position: index + 1,
    sandbox_id: sandbox.metadata.name,
    conversation_id: conversation === undefined ? null : conversationIdOf(conversation),
    owner: sandbox.spec.owner,
    reason: kebabCase(admitted?.reason ?? SandboxReason.waitingForAdmission),
    message: shortText(admitted?.message ?? 'Waiting to be admitted.'),
    since: wireTime(new Date(requestedAt).toISOString()),
  };
}
