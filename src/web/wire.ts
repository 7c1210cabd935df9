import type { z } from 'zod';
import type { GitChange, GitDiff } from '../agent/workspace-files.ts';
import type { LiveActivity } from '../agent/events.ts';
import type { problemSchema } from '../gateway/errors/problem-response.ts';
import type {
  ApprovalRecord as Approval,
  WholeApprovalRecord as WholeApproval,
} from '../gateway/presenters/approval.ts';
import type { OverviewRecord } from '../gateway/overview/schemas.ts';
import type { AccountRecord, ApiKeyRecord } from '../gateway/keys/keys.ts';
import type { ConversationRecord } from '../gateway/presenters/conversation.ts';
import type { QuotaRecord } from '../gateway/quota/quota-record.ts';
import type { SandboxSpecRecord } from '../gateway/sandboxes/sandbox-specs.ts';
import type { SandboxRecord } from '../gateway/presenters/sandbox.ts';
import type { StartTask } from '../gateway/presenters/start-task.ts';
import type { TimelineEntry, Resources } from '../gateway/conversations/timeline.ts';
import type { SecretRecord } from '../gateway/settings/secrets.ts';
import type { Found, TextSearchPage } from '../gateway/history/text-search.ts';
import type { SharedConversation } from '../gateway/sharing/shared-record.ts';
import type { SettingsRecord } from '../gateway/settings/settings.ts';

export type {
  AccountRecord,
  ApiKeyRecord,
  Approval,
  ConversationRecord,
  Found,
  GitChange,
  GitDiff,
  LiveActivity,
  OverviewRecord,
  QuotaRecord,
  Resources,
  SandboxRecord,
  SandboxSpecRecord,
  SecretRecord,
  SettingsRecord,
  SharedConversation,
  StartTask,
  TextSearchPage,
  TimelineEntry,
  WholeApproval,
};
export type OwnerUse = OverviewRecord['owners']['items'][number];
export type Waiter = OverviewRecord['queue']['items'][number];
export type Pool = OverviewRecord['pools']['items'][number];
export type Template = OverviewRecord['templates']['items'][number];
export type Quota = OverviewRecord['quotas']['items'][number];
export type CacheState = OverviewRecord['caches'][number];
export type Leader = NonNullable<OverviewRecord['leaders']>[number];
export type Problem = z.output<typeof problemSchema>;

/** A part of the snapshot of all records; `last` marks the last part. */
export interface Snapshot {
  readonly conversations: readonly ConversationRecord[];
  readonly start_tasks: readonly StartTask[];
  readonly sandboxes: readonly SandboxRecord[];
  readonly quota: QuotaRecord;
  readonly last: boolean;
}

export interface Removed {
  readonly kind: 'conversation' | 'start_task' | 'sandbox';
  readonly id: string;
}

export type Change =
  | { readonly kind: 'snapshot'; readonly data: Snapshot }
  | { readonly kind: 'conversation'; readonly data: ConversationRecord }
  | { readonly kind: 'start_task'; readonly data: StartTask }
  | { readonly kind: 'sandbox'; readonly data: SandboxRecord }
  | { readonly kind: 'quota'; readonly data: QuotaRecord }
  | { readonly kind: 'removed'; readonly data: Removed };

export interface ShareRecord {
  readonly id: string;
  readonly subject: { readonly kind: 'link' | 'user' | 'group'; readonly name: string | null };
  readonly created_at: string;
  readonly created_by: string;
  readonly expires_at: string | null;
}
export interface IssuedShareRecord extends ShareRecord {
  readonly url: string;
}

export interface HandoverRecord {
  readonly id: string;
  readonly status: 'offered' | 'moving' | 'done' | 'refused';
  readonly reason: string | null;
  readonly detail: string | null;
  readonly conversation_id: string;
  readonly from: string;
  readonly to: string;
  readonly created_at: string;
  readonly expires_at: string;
  readonly answered_at: string | null;
  readonly answered_by: string | null;
  readonly finished_at: string | null;
  readonly conversation: {
    readonly title: string;
    readonly repository: string | null;
    readonly branch: string | null;
    readonly git_provider: string | null;
    readonly sandbox_spec_id: string;
    readonly model: string | null;
    readonly sandbox_status: ConversationRecord['sandbox_status'];
    readonly execution_status: ConversationRecord['execution_status'];
    readonly waiting_messages: number;
    readonly waits_for_approval: boolean;
    readonly secrets_of_start: readonly string[];
    readonly archived_events: number;
    readonly archived_bytes: number;
    readonly stored_bytes: number;
    readonly updated_at: string;
  } | null;
  readonly moves: readonly string[];
  readonly stays: readonly string[];
  readonly consequences: readonly string[];
}
