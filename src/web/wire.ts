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
import type { ConversationRecord as Conversation } from '../gateway/presenters/conversation.ts';
import type { QuotaRecord } from '../gateway/quota/quota-record.ts';
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
  WholeApproval,
};

/** Sums over calls of models. Cached tokens are a part of `input_tokens`; `cost` is in US dollars. */
export interface UsageCounters {
  readonly calls: number;
  readonly input_tokens: number;
  readonly cached_input_tokens: number;
  readonly output_tokens: number;
  readonly cost: number;
}

/** Usage of one conversation, as the relay for models has measured it. */
export interface ConversationUsage extends UsageCounters {
  readonly currency: 'USD';
  readonly by_model: readonly (UsageCounters & { readonly model: string })[];
}

/** `usage` is null or absent where no call of a model went through the relay. */
export type ConversationRecord = Conversation & { readonly usage?: ConversationUsage | null };

/** The sums of one day, model, template or conversation. */
export interface UsageItem extends UsageCounters {
  readonly key: string;
}

export interface UsageBudget {
  readonly amount: number;
  readonly currency: 'USD' | 'Tokens';
  readonly period: 'Day' | 'Week' | 'Month';
  readonly spent: number;
  readonly reserved: number;
  readonly resets_at: string;
}

export interface UsageReport {
  readonly items: readonly UsageItem[];
  readonly total: UsageCounters;
  /** Null: no budget limits the owner. */
  readonly budget: UsageBudget | null;
}

export type OwnerUse = OverviewRecord['owners']['items'][number];
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
