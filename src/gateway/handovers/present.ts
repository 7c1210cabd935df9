import { z } from 'zod';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { undeliveredMessages } from '../../resources/conversation.ts';
import { executionStatuses, sandboxStatuses } from '../../resources/conversation-status.ts';
import { phaseOf, type Handover, type HandoverPhase } from '../../resources/handover.ts';
import { handoverEffects } from '../../resources/handover-effects.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { kebabCase } from '../../resources/owner-remedies.ts';
import { pendingApproval } from '../../resources/approval.ts';
import { confirmationPolicies } from '../../resources/agent-settings.ts';
import type { StartTextReader, StartTexts } from '../lookup/start-texts.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { sandboxViewOf, titleOf, updatedAt } from '../presenters/conversation.ts';
import { nullableText, wireTime } from '../presenters/schemas.ts';

const wirePhases = ['offered', 'moving', 'done', 'refused'] as const;
const wirePhaseOf = {
  Offered: 'offered',
  Moving: 'moving',
  Done: 'done',
  Refused: 'refused',
} as const satisfies Record<HandoverPhase, (typeof wirePhases)[number]>;

const factsSchema = z.object({
  title: z.string(),
  repository: nullableText,
  branch: nullableText,
  git_provider: nullableText,
  sandbox_spec_id: z.string(),
  model: nullableText,
  sandbox_status: z.enum(sandboxStatuses),
  execution_status: z.enum(executionStatuses).nullable(),
  waiting_messages: z
    .int()
    .describe('Messages that the agent has not received, which do not move.'),
  confirmation_policy: z.enum(confirmationPolicies).nullable(),
  instructions: nullableText.describe('Text that the start has appended to the system message.'),
  waits_for_approval: z.boolean(),
  secrets_of_start: z.array(z.string()).describe('Names of the secrets that do not move.'),
  archived_events: z.int(),
  archived_bytes: z.int(),
  stored_bytes: z.int(),
  updated_at: z.string(),
});

export const handoverSchema = z.object({
  id: z.string(),
  status: z.enum(wirePhases),
  reason: nullableText.describe('Why the offer was refused; a stable code.'),
  detail: nullableText,
  conversation_id: z.string(),
  from: z.string(),
  to: z.string(),
  created_at: z.string(),
  expires_at: z.string(),
  answered_at: nullableText,
  answered_by: nullableText,
  finished_at: nullableText,
  conversation: factsSchema
    .nullable()
    .describe(
      'The conversation as it is now; null once the reader may not see it: the old owner after the move, the new one after a refusal.',
    ),
  moves: z.array(z.string()).describe('What the new owner gets.'),
  stays: z.array(z.string()).describe('What does not move.'),
  consequences: z.array(z.string()).describe('What happens with the acceptance.'),
});
export const handoverList = z.array(handoverSchema);
export type HandoverRecord = z.output<typeof handoverSchema>;

/**
 * The conversation of a Handover as far as this owner may see it: its owner, and the owner to whom
 * it is offered while the offer is open.
 */
export function visibleTo(
  owner: string,
  { spec, ...handover }: Handover,
  conversation: CachedConversation | undefined,
): CachedConversation | undefined {
  if (conversation?.metadata.uid !== spec.conversation.uid) return undefined;
  if (conversation.metadata.deletionTimestamp !== undefined) return undefined;
  const phase = phaseOf({ spec, ...handover });
  const isOffered =
    owner === spec.to &&
    conversation.spec.owner === spec.from &&
    (phase === 'Offered' || phase === 'Moving');
  return conversation.spec.owner === owner || isOffered ? conversation : undefined;
}

const timeOf = (time: string | undefined): string | null =>
  time === undefined ? null : wireTime(time);

export interface PresentNeeds {
  readonly lookup: Pick<ResourceLookup, 'cachedConversation' | 'sandboxIn'>;
  readonly startTexts: Pick<StartTextReader, 'of'>;
}

/** The record for one of the two owners, with everything on which a person decides. */
export async function presentHandover(
  handover: Handover,
  owner: string,
  { lookup, startTexts }: PresentNeeds,
): Promise<HandoverRecord> {
  const { metadata, spec, status } = handover;
  const { name } = spec.conversation;
  const conversation = visibleTo(owner, handover, lookup.cachedConversation(name));
  const texts = conversation && (await startTexts.of(conversation));
  return {
    id: metadata.name,
    status: wirePhaseOf[phaseOf(handover)],
    reason: status?.reason === undefined ? null : kebabCase(status.reason),
    detail: status?.message ?? null,
    conversation_id: conversationIdOf({ metadata: { ...metadata, name } }),
    from: spec.from,
    to: spec.to,
    created_at: wireTime(metadata.creationTimestamp),
    expires_at: wireTime(spec.expirationTime),
    answered_at: timeOf(spec.answer?.time),
    answered_by: spec.answer?.by ?? null,
    finished_at: timeOf(status?.finishedTime),
    conversation:
      texts === undefined || conversation === undefined
        ? null
        : factsOf(conversation, lookup, texts),
    moves: [...handoverEffects.moves],
    stays: [...handoverEffects.stays],
    consequences: [...handoverEffects.consequences],
  };
}

function factsOf(
  conversation: CachedConversation,
  lookup: Pick<ResourceLookup, 'sandboxIn'>,
  { systemMessageSuffix }: Pick<StartTexts, 'systemMessageSuffix'>,
): z.output<typeof factsSchema> {
  const { spec, status } = conversation;
  const sandbox = lookup.sandboxIn(conversation);
  return {
    title: titleOf(conversation),
    repository: spec.repository?.name ?? null,
    branch: spec.repository?.branch ?? null,
    git_provider: spec.repository?.provider ?? null,
    sandbox_spec_id: sandbox?.spec.templateName ?? spec.templateName,
    model: spec.agent?.model ?? null,
    sandbox_status: sandboxViewOf(conversation, sandbox).phase,
    execution_status: status?.executionStatus ?? null,
    waiting_messages: undeliveredMessages(conversation).length,
    confirmation_policy: spec.agent?.confirmationPolicy ?? null,
    instructions: systemMessageSuffix ?? null,
    waits_for_approval: pendingApproval(conversation) !== undefined,
    secrets_of_start: (spec.secrets ?? []).map(({ name }) => name),
    archived_events: status?.archive?.events ?? 0,
    archived_bytes: status?.archive?.bytes ?? 0,
    stored_bytes: conversation.storedBytes,
    updated_at: wireTime(updatedAt(conversation)),
  };
}
