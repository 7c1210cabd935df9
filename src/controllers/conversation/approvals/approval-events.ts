import type { EventDetails } from '@conversation-operator/kube/events';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';

/** Returns the Events for the changes of the agent's question between two writes of the status. */
export function eventsOfApproval(
  before: ConversationStatus | undefined,
  after: ConversationStatus,
): readonly EventDetails[] {
  const events: EventDetails[] = [];
  const known = new Set(before?.closedApprovals?.map(({ id }) => id));
  for (const { id, outcome, option, message } of after.closedApprovals ?? []) {
    if (known.has(id)) continue;
    events.push(
      outcome === 'Withdrawn'
        ? {
            type: after.lostAnswer === id ? 'Warning' : 'Normal',
            reason: 'ApprovalWithdrawn',
            message: message ?? `The agent no longer asks the question ${id}.`,
          }
        : {
            type: 'Normal',
            reason: 'ApprovalAnswered',
            message: `The agent has the answer to the question ${id}: ${outcome.toLowerCase()}${option === undefined ? '' : ` (${option})`}.`,
          },
    );
  }
  const { approval } = after;
  if (approval !== undefined && approval.id !== before?.approval?.id)
    events.push({
      type: 'Normal',
      reason: 'ApprovalRequested',
      message: `The agent asks: ${approval.title} (${approval.id})`,
    });
  return events;
}
