import { z } from 'zod';
import { eventKindOf, isEvent, type AgentEvent } from '../../agent/event-kinds.ts';
import type { Share, ShareSpec } from '../../resources/share.ts';
import type { TimelineEntry } from '../conversations/timeline.ts';
import { presentConversation } from '../presenters/conversation.ts';
import { conversationSchema } from '../presenters/conversation.ts';
import { timestampSchema, wireTime } from '../presenters/schemas.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';

export interface OpenedShare {
  readonly share: Share;
  readonly conversation: CachedConversation;
}

export const subjectKinds = ['link', 'user', 'group'] as const;
export type SubjectKind = (typeof subjectKinds)[number];

const kinds = { Link: 'link', User: 'user', Group: 'group' } as const satisfies Record<
  ShareSpec['subject']['kind'],
  SubjectKind
>;
export const subjectKindOf = ({ subject: { kind } }: ShareSpec): SubjectKind => kinds[kind];

/** An unreadable time, which `kubectl` may have stored, counts as past. */
export const expiresAt = ({ expirationTime }: ShareSpec): string | null =>
  expirationTime === undefined ? null : wireTime(Date.parse(expirationTime) || 0);

/**
 * The record of a shared conversation: fields about the work. The record has no field of an
 * agent's access, of other conversations, of questions, or of the owner's settings and costs.
 */
export const sharedConversationSchema = conversationSchema
  .pick({
    id: true,
    created_by_user_id: true,
    sandbox_status: true,
    sandbox_status_reason: true,
    execution_status: true,
    last_result: true,
    title: true,
    selected_repository: true,
    selected_branch: true,
    git_provider: true,
    pr_number: true,
    pull_requests: true,
    agent_kind: true,
    agent_name: true,
    workspace: true,
    created_at: true,
    updated_at: true,
  })
  .extend({
    shared: z.object({
      with: z.enum(subjectKinds),
      expires_at: timestampSchema
        .nullable()
        .describe('When the link stops opening the conversation; null: never.'),
    }),
  });
export type SharedConversation = z.output<typeof sharedConversationSchema>;

const recordSchema = sharedConversationSchema.omit({ shared: true });

export function presentShared(
  { share: { spec }, conversation }: OpenedShare,
  sandbox: Sandbox | undefined,
): SharedConversation {
  const record = presentConversation(
    { conversation, sandbox, parent: undefined, children: [] },
    { accessTo: () => undefined },
  );
  return {
    // The schema drops every other field.
    ...recordSchema.parse(record),
    shared: { with: subjectKindOf(spec), expires_at: expiresAt(spec) },
  };
}

/**
 * State events that readers see. Other states have the settings of the agent: its model and its
 * servers, with names of secrets.
 */
const shownStates: ReadonlySet<unknown> = new Set([
  'thought',
  'plan',
  'acp_session_lost',
  'acp_continued',
  'acp_images_skipped',
]);

function isShown(event: AgentEvent): boolean {
  switch (eventKindOf(event)?.shown) {
    case 'message':
    case 'action':
    case 'call':
    case 'failure':
    case 'interruption':
    case 'hidden':
      return true;
    case 'state':
      return shownStates.has(event['key']);
    // A kind that this release does not know may have anything.
    case 'prompt':
    case undefined:
      return false;
  }
}

/**
 * An event as readers of a share see it. System prompts, settings and unknown events are replaced
 * by an event of the same id and kind that says `withheld`, so that pages and counts stay the same.
 */
export function sharedEvent(event: unknown): unknown {
  if (!isEvent(event)) return { withheld: true };
  if (isShown(event)) return event;
  const { id, kind, timestamp, source } = event;
  return { id, kind, timestamp, source, withheld: true };
}

const detailsWithheld = 'The owner sees the details.';
const reasonPattern = /^[A-Za-z][A-Za-z0-9]{0,63}$/;

/**
 * The timeline as readers see it. Events of Kubernetes and states of a sandbox name other
 * conversations, quotas and nodes, so only their reason is shown.
 */
export const sharedTimeline = (entries: readonly TimelineEntry[]): readonly TimelineEntry[] =>
  entries.map((entry) =>
    entry.kind === 'stage' || entry.kind === 'step'
      ? // The text of a failed start may name the sandbox or the limits of its owner.
        { ...entry, ...(entry.reason === 'ERROR' ? { message: detailsWithheld } : {}) }
      : {
          ...entry,
          reason: reasonPattern.test(entry.reason) ? entry.reason : 'Other',
          message: detailsWithheld,
        },
  );
