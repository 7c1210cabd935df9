import { z } from 'zod';
import {
  column,
  resourceOf,
  wideColumn,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import {
  described,
  immutable,
  objectName,
  optional,
  ownerName,
  text,
  timestamp,
  validations,
} from './schema.ts';

export const handoverAnswers = ['Accepted', 'Refused', 'Withdrawn'] as const;
export type HandoverAnswer = (typeof handoverAnswers)[number];

export const handoverPhases = ['Offered', 'Moving', 'Done', 'Refused'] as const;
export type HandoverPhase = (typeof handoverPhases)[number];

export const handoverSpecSchema = z
  .object({
    conversation: described(
      z.object({
        name: described(objectName(), 'Name of the Conversation.'),
        uid: described(z.string().min(1).max(64), 'UID of the Conversation.'),
      }),
      'Conversation that is offered.',
    ),
    from: described(ownerName(), 'Owner who offers the conversation.'),
    to: described(ownerName(), 'Owner to whom the conversation is offered.'),
    expirationTime: described(timestamp(), 'Time at which an offer without an answer ends.'),
    answer: optional(
      z.object({
        value: described(
          z.enum(handoverAnswers),
          'Accepted or Refused by the new owner, or Withdrawn by the old one.',
        ),
        by: described(text(253), 'Owner who has answered.'),
        time: described(timestamp(), 'Time of the answer.'),
      }),
      'The answer, which never changes. Absent until there is one.',
    ),
  })
  .meta(
    validations(
      { rule: 'self.from != self.to', message: 'to must be another owner', fieldPath: '.to' },
      {
        rule: '!has(oldSelf.answer) || (has(self.answer) && self.answer == oldSelf.answer)',
        message: 'answer is immutable',
        fieldPath: '.answer',
      },
      ...immutable({ required: ['conversation', 'from', 'to', 'expirationTime'] }),
    ),
  );

export const handoverStatusSchema = z.object({
  phase: optional(
    z.enum(handoverPhases),
    'Offered, Moving, Done, or Refused: then everything has stayed with the old owner.',
  ),
  reason: optional(text(64), 'Reason of the phase; docs/reasons.md lists all reasons.'),
  message: optional(text(1024), 'Explanation of the phase for people.'),
  finishedTime: optional(
    timestamp(),
    'Time at which the phase became Done or Refused. The operator deletes the Handover a day later.',
  ),
});

export type HandoverSpec = z.output<typeof handoverSpecSchema>;
export type HandoverStatus = z.output<typeof handoverStatusSchema>;
export type Handover = CustomObject<HandoverSpec, HandoverStatus>;

/** Reasons of the phase Refused. */
export const HandoverReason = {
  refused: 'RefusedByOwner',
  withdrawn: 'Withdrawn',
  expired: 'Expired',
  conversationGone: 'ConversationGone',
  ownerChanged: 'OwnerChanged',
  notStarted: 'NotStarted',
  sandboxShared: 'SandboxShared',
  anotherHandover: 'AnotherHandover',
  quotaExceeded: 'QuotaExceeded',
} as const;
export type HandoverReason = (typeof HandoverReason)[keyof typeof HandoverReason];

export const isFinished = ({ status }: Pick<Handover, 'status'>): boolean =>
  status?.phase === 'Done' || status?.phase === 'Refused';

/** The phase for people: an answer counts at once, before the operator has acted on it. */
export function phaseOf({ spec, status }: Pick<Handover, 'spec' | 'status'>): HandoverPhase {
  const { phase = 'Offered' } = status ?? {};
  if (phase !== 'Offered' || spec.answer === undefined) return phase;
  return spec.answer.value === 'Accepted' ? 'Moving' : 'Refused';
}

export const handoverDefinition: CustomResourceDefinition = {
  kind: 'Handover',
  plural: 'handovers',
  shortNames: ['ho'],
  description: 'An offer to move a conversation with its sandbox to another owner.',
  spec: handoverSpecSchema,
  status: handoverStatusSchema,
  printerColumns: [
    column('Conversation', '.spec.conversation.name', 'Conversation that is offered.'),
    column('From', '.spec.from', 'Owner who offers the conversation.'),
    column('To', '.spec.to', 'Owner to whom the conversation is offered.'),
    column('Phase', '.status.phase', 'Offered, Moving, Done or Refused.'),
    column('Reason', '.status.reason', 'Reason of the phase.'),
    wideColumn('Answer', '.spec.answer.value', 'Accepted, Refused or Withdrawn.'),
    wideColumn('Expires', '.spec.expirationTime', 'Time at which the offer ends.'),
    wideColumn('Message', '.status.message', 'Explanation of the phase.'),
  ],
  selectableFields: ['.spec.from', '.spec.to'],
};

export const handovers = resourceOf<Handover>(handoverDefinition);
