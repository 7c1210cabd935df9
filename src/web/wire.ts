import type { z } from 'zod';
import type { GitChange, GitDiff } from '../agent/workspace-files.ts';
import type { HandoverRecord } from '../gateway/handovers/present.ts';
import type { createdShareSchema, ShareRecord } from '../gateway/sharing/share-routes.ts';
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
import type { UsageRecordOfOwner as UsageReport } from '../gateway/quota/usage.ts';
import type { SandboxSpecRecord } from '../gateway/sandboxes/sandbox-specs.ts';
import type { SandboxRecord } from '../gateway/presenters/sandbox.ts';
import type { StartTask } from '../gateway/presenters/start-task.ts';
import type { Resources } from '../gateway/conversations/life.ts';
import type { TimelineEntry } from '../gateway/conversations/timeline.ts';
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
  HandoverRecord,
  LiveActivity,
  OverviewRecord,
  QuotaRecord,
  Resources,
  SandboxRecord,
  SandboxSpecRecord,
  SecretRecord,
  SettingsRecord,
  SharedConversation,
  ShareRecord,
  StartTask,
  TextSearchPage,
  TimelineEntry,
  UsageReport,
  WholeApproval,
};

export type ConversationUsage = NonNullable<ConversationRecord['usage']>;
export type UsageItem = UsageReport['items'][number];
export type UsageCounters = UsageReport['total'];
export type UsageBudget = NonNullable<UsageReport['budget']>;
export type OwnerUse = OverviewRecord['owners']['items'][number];
export type Spender = OverviewRecord['spending']['items'][number];
export type ExhaustedBudget = OverviewRecord['exhausted_budgets']['items'][number];
export type UpstreamError = OverviewRecord['upstream_errors']['items'][number];
export type Waiter = OverviewRecord['queue']['items'][number];
export type Pool = OverviewRecord['pools']['items'][number];
export type Template = OverviewRecord['templates']['items'][number];
export type Quota = OverviewRecord['quotas']['items'][number];
export type CacheState = OverviewRecord['caches'][number];
export type Leader = NonNullable<OverviewRecord['leaders']>[number];
export type IssuedShareRecord = z.output<typeof createdShareSchema>;
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
