import { classify, usesSlot } from '../../quota/classify.ts';
import { byRequest } from '../../quota/slot.ts';
import type { Slot } from '../../quota/slot.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { findCondition } from '../../resources/conditions.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { kebabCase } from '../../resources/owner-mends.ts';
import { SandboxCondition, SandboxReason, type Sandbox } from '../../resources/sandbox.ts';
import { slotTaken } from '../../status/sandbox-phase.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { conversationsIn } from '../quota/quota.ts';
import { wireTime } from '../presenters/schemas.ts';
import { shortText } from './present.ts';
import { maxItems, type OverviewRecord } from './schemas.ts';

export type QueueLookup = Pick<ResourceLookup, 'everyHolding'>;

/** Whether a sandbox may be waiting; its conversations can only make it need no slot. */
const mayWait = (sandbox: Sandbox): boolean =>
  sandbox.spec.owner !== '' && !slotTaken(sandbox) && usesSlot(sandbox);

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
  const { conversations: all, sandboxes } = lookup.everyHolding();
  const mayBeWaiting = sandboxes.filter(mayWait);
  const inside = conversationsIn({ conversations: all, sandboxes: mayBeWaiting });
  const waiters = mayBeWaiting.flatMap((sandbox): Waiter | [] => {
    const conversations = inside.get(sandbox.metadata.name) ?? [];
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
    since: wireTime(requestedAt),
  };
}
