import type { PersistentVolumeClaim } from '@conversation-operator/kube/core';
import { isOwnedBy } from '@conversation-operator/kube/object';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { startStatusOf } from '../../resources/conversation.ts';
import { HandoverReason, isFinished, type Handover } from '../../resources/handover.ts';
import { ownerAnnotation, type Sandbox } from '../../resources/sandbox.ts';

/** Time for which a finished Handover is kept, so that both owners see how it ended. */
export const keptMs = 24 * 60 * 60 * 1000;

export interface ObservedHandover {
  readonly handover: Handover;
  /** The conversation with the UID in the offer, as stored; undefined once it is deleted. */
  readonly conversation: CachedConversation | undefined;
  /** The sandbox of the conversation, as stored; undefined if there is none any more. */
  readonly sandbox: Sandbox | undefined;
  readonly claim: PersistentVolumeClaim | undefined;
  /** Whether the API server has no pod of the sandbox, and none is about to be created. */
  readonly isStopped: boolean;
  /** Whether other conversations use the sandbox, or it was not made for this one. */
  readonly isShared: boolean;
  /** Why the quotas of the new owner have no room; undefined if they have. */
  readonly noRoom: string | undefined;
  readonly now: number;
}

/** Steps of a move, in their order; a move is complete once none is left. */
export type MoveStep =
  | 'lock-conversation'
  | 'lock-sandbox'
  | 'wait-for-pause'
  | 'move-sandbox'
  | 'move-claim'
  | 'drop-answer'
  | 'move-conversation'
  | 'unlock-sandbox'
  | 'unlock-conversation';

export type HandoverStep =
  | { readonly kind: MoveStep }
  | { readonly kind: 'rest'; readonly forMs: number }
  | { readonly kind: 'delete' }
  | { readonly kind: 'done' }
  | { readonly kind: 'refuse'; readonly reason: HandoverReason; readonly message: string };

const messages = {
  [HandoverReason.refused]: 'The new owner has refused the offer.',
  [HandoverReason.withdrawn]: 'The owner has withdrawn the offer.',
  [HandoverReason.expired]: 'Nobody has answered the offer in time.',
  [HandoverReason.conversationGone]: 'The conversation does not exist any more.',
  [HandoverReason.ownerChanged]: 'The conversation has another owner than the one who offered it.',
  [HandoverReason.notStarted]: 'The start of the conversation is not READY.',
  [HandoverReason.sandboxShared]:
    'Other conversations use the sandbox, or it was not made for this one.',
  [HandoverReason.anotherHandover]: 'The conversation moves by another handover.',
} as const;

/**
 * The next step for a handover. A pure function of what is stored: a process that crashes between
 * two steps leaves a state from which any other process goes on, and a step that is done already is
 * never decided again. Up to the move of the sandbox everything can stay with the old owner; from
 * there on the move is completed.
 */
export function decideHandover(observed: ObservedHandover): HandoverStep {
  const { handover, conversation, sandbox, now } = observed;
  const { from, to, answer, expirationTime } = handover.spec;
  if (isFinished(handover)) {
    const leftMs = Date.parse(handover.status?.finishedTime ?? '') + keptMs - now;
    return leftMs > 0 ? { kind: 'rest', forMs: leftMs } : { kind: 'delete' };
  }
  // The sandbox has its new owner, so its conversation follows, whatever else has changed since.
  if (
    conversation !== undefined &&
    conversation.spec.owner !== to &&
    isLocked(observed, sandbox) &&
    sandbox?.spec.owner === to
  ) {
    if (conversation.spec.handover === undefined) return { kind: 'lock-conversation' };
    return isLocked(observed, conversation) ? decideMove(observed) : { kind: 'wait-for-pause' };
  }
  if (answer?.value === 'Refused') return refuse(observed, HandoverReason.refused);
  if (answer?.value === 'Withdrawn') return refuse(observed, HandoverReason.withdrawn);
  if (conversation === undefined) return refuse(observed, HandoverReason.conversationGone);
  const { owner, handover: lock } = conversation.spec;
  if (answer !== undefined && owner === to && lock === undefined)
    return isLocked(observed, sandbox) ? { kind: 'unlock-sandbox' } : { kind: 'done' };
  if (owner !== from) return refuse(observed, HandoverReason.ownerChanged);
  if (answer === undefined) {
    const leftMs = Date.parse(expirationTime) - now;
    return leftMs > 0 ? { kind: 'rest', forMs: leftMs } : refuse(observed, HandoverReason.expired);
  }
  if (lock !== undefined && lock.name !== handover.metadata.name)
    return refuse(observed, HandoverReason.anotherHandover);
  return lock === undefined ? decideStart(observed, conversation) : decideMove(observed);
}

/** Checks again what the gateway has checked with the offer and the answer, before the first step. */
function decideStart(observed: ObservedHandover, conversation: CachedConversation): HandoverStep {
  const { sandbox, isShared, noRoom } = observed;
  if (startStatusOf(conversation) !== 'READY') return refuse(observed, HandoverReason.notStarted);
  if (sandbox !== undefined && isShared) return refuse(observed, HandoverReason.sandboxShared);
  if (sandbox?.spec.handover !== undefined) return refuse(observed, HandoverReason.anotherHandover);
  if (noRoom !== undefined)
    return { kind: 'refuse', reason: HandoverReason.quotaExceeded, message: noRoom };
  return { kind: 'lock-conversation' };
}

/** The step of a move whose conversation is locked and has the old owner. */
function decideMove(observed: ObservedHandover): HandoverStep {
  const { handover, conversation, sandbox, claim, isStopped, isShared } = observed;
  const { from, to } = handover.spec;
  if (sandbox !== undefined && sandbox.spec.owner !== to) {
    if (sandbox.spec.handover === undefined)
      return isShared ? refuse(observed, HandoverReason.sandboxShared) : { kind: 'lock-sandbox' };
    if (!isLocked(observed, sandbox)) return refuse(observed, HandoverReason.anotherHandover);
    return isStopped ? { kind: 'move-sandbox' } : { kind: 'wait-for-pause' };
  }
  if (sandbox !== undefined && claim !== undefined && isLeft(claim, sandbox, from))
    return { kind: 'move-claim' };
  return conversation?.status?.approval?.answer === undefined
    ? { kind: 'move-conversation' }
    : { kind: 'drop-answer' };
}

/** Whether the volume claim of the moved sandbox still names the old owner. */
const isLeft = (claim: PersistentVolumeClaim, sandbox: Sandbox, from: string): boolean => {
  const owner = claim.metadata.annotations?.[ownerAnnotation];
  return owner !== sandbox.spec.owner && (owner === from || isOwnedBy(claim, sandbox));
};

const isLocked = (
  { handover }: Pick<ObservedHandover, 'handover'>,
  object: CachedConversation | Sandbox | undefined,
): boolean => object?.spec.handover?.name === handover.metadata.name;

/** Ends a handover without a move, once neither object has its lock. */
function refuse(
  observed: ObservedHandover,
  reason: Exclude<HandoverReason, 'QuotaExceeded'>,
): HandoverStep {
  if (isLocked(observed, observed.sandbox)) return { kind: 'unlock-sandbox' };
  if (isLocked(observed, observed.conversation)) return { kind: 'unlock-conversation' };
  return { kind: 'refuse', reason, message: messages[reason] };
}
