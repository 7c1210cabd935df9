import type { z } from 'zod';
import type { SandboxStatus } from '../../resources/conversation-status.ts';
import type { conversationSchema } from '../presenters/conversation.ts';
import type { legacyConversationSchema } from './schemas.ts';

type LegacyStatus = z.output<typeof legacyConversationSchema>['status'];

const statuses: Readonly<Record<SandboxStatus, LegacyStatus>> = {
  STARTING: 'STARTING',
  RUNNING: 'RUNNING',
  PAUSED: 'STOPPED',
  ERROR: 'ERROR',
  MISSING: 'ARCHIVED',
};

/** A conversation in the words of the legacy interface. */
export const presentLegacyConversation = (
  record: z.output<typeof conversationSchema>,
): z.output<typeof legacyConversationSchema> => ({
  conversation_id: record.id,
  title: record.title,
  status: statuses[record.sandbox_status],
  selected_repository: record.selected_repository,
  selected_branch: record.selected_branch,
  git_provider: record.git_provider,
  trigger: record.trigger,
  created_at: record.created_at,
  last_updated_at: record.updated_at,
});
