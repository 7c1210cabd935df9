import { z } from 'zod';
import { isAutomatic } from '../../quota/automatic-resume.ts';
import type { LimitGroup } from '../../quota/limit-group.ts';
import { forecastIn, waitingIn } from '../../quota/admission-forecast.ts';
import {
  autoResumePolicies,
  quotaPolicies,
  quotaScopes,
  type ConversationQuota,
} from '../../resources/conversation-quota.ts';
import type { CapField } from '../../resources/quota-caps.ts';
import type { QuotaRule } from '../../resources/quota-rules.ts';
import { slotTaken, viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { CapUse } from '../lookup/storage-caps.ts';
import type { Totals } from '../lookup/stored-totals.ts';
import { idSchema, timestampSchema } from './schemas.ts';
import { wireTime } from './time.ts';

const outcomes = ['admitted', 'pauses', 'waits', 'rejected'] as const;

const limitSchema = z.object({
  name: z.string(),
  scope: z
    .enum(quotaScopes)
    .meta({ description: 'Whom it counts: your own sandboxes, or those of all owners together.' }),
  limit: z.int().min(0),
  active: z
    .int()
    .min(0)
    .meta({ description: 'How many take a slot of it; with scope Namespace those of others too.' }),
  on_exceeded: z.enum(quotaPolicies),
  min_active_seconds: z.int().min(0),
  auto_resume: z.enum(autoResumePolicies),
});

const capSchema = z.object({
  quota: z.string(),
  scope: z.enum(quotaScopes).meta({
    description: 'Owner: counts what is yours. Namespace: counts what is of all owners together.',
  }),
  of: z
    .enum(['conversations', 'stored_bytes', 'sandboxes'])
    .meta({ description: 'Counts also what is paused, finished or failed.' }),
  limit: z.int().min(0),
  current: z
    .int()
    .min(0)
    .meta({ description: 'How much is stored of it; may be more than a limit that was lowered.' }),
});

export const quotaSchema = z.object({
  active: z.int().min(0).meta({
    description: 'How many of your sandboxes take a slot; also those that start or stop.',
  }),
  waiting: z.int().min(0).meta({ description: 'How many wait for one.' }),
  paused: z.int().min(0).meta({
    description: 'How many a quota has paused and come back by themselves, now or after a delay.',
  }),
  quotas: z.array(limitSchema).meta({
    description: 'Those that hold for you, the one with the least room first. Empty: no limit.',
  }),
  stored: z
    .object({
      conversations: z.int().min(0),
      stored_bytes: z.int().min(0),
      sandboxes: z.int().min(0),
    })
    .meta({
      description: 'What is stored of yours, with the sandboxes that starts under way are to get.',
    }),
  caps: z.array(capSchema).meta({
    description:
      'Limits on what is stored that hold for you. A start or a message beyond one gets 429.',
  }),
  next_start: z
    .object({
      outcome: z.enum(outcomes),
      reason: z.string().meta({ description: 'The outcome as a text.' }),
      quota: z
        .string()
        .nullable()
        .meta({ description: 'The quota that decides; null where none limits.' }),
      pauses: z
        .array(z.object({ sandbox_id: z.string(), conversation_ids: z.array(idSchema) }))
        .meta({ description: 'What of yours would be paused to make room.' }),
      pauses_other_owner: z
        .boolean()
        .meta({ description: 'Whether a sandbox of another owner would be.' }),
      not_before: timestampSchema
        .nullable()
        .meta({ description: 'Until when what would be paused is still too young for it.' }),
    })
    .meta({
      description:
        'What one more start, or a resume with a message or a run, would do now. A resume alone pauses no agent that works. Nothing is done or reserved.',
    }),
});

type QuotaRecord = z.output<typeof quotaSchema>;

/** The cap on all owners together, as the operator has counted it last. */
export interface SharedLimit {
  readonly rule: QuotaRule;
  readonly active: number;
  /** The sandbox that the next start would pause, of any owner. */
  readonly next: Sandbox | undefined;
}

export interface QuotaSources {
  readonly owner: string;
  /** The owner's own sandboxes, under the quota for them. */
  readonly group: LimitGroup;
  /** Starts of theirs that have no sandbox yet. */
  readonly starts: number;
  readonly shared: SharedLimit | undefined;
  /** The quota that would refuse a start at once. */
  readonly refused: { readonly rule: QuotaRule; readonly current: number } | undefined;
  readonly conversationIdsIn: (sandboxName: string) => readonly string[];
  readonly stored: Totals;
  readonly caps: readonly CapUse[];
  readonly now: number;
}

const capNames = {
  maxConversations: 'conversations',
  maxStoredBytes: 'stored_bytes',
  maxSandboxes: 'sandboxes',
} as const satisfies Readonly<Record<CapField, z.output<typeof capSchema>['of']>>;

export const sharedLimit = (
  rule: QuotaRule,
  quota: ConversationQuota | undefined,
  {
    active,
    sandboxNamed,
  }: {
    readonly active: () => number;
    readonly sandboxNamed: (name: string | undefined) => Sandbox | undefined;
  },
): SharedLimit => {
  const next = sandboxNamed(quota?.status?.nextToPause);
  return {
    rule,
    active: quota?.status?.active ?? active(),
    next: next !== undefined && slotTaken(next) ? next : undefined,
  };
};

interface NextStart {
  readonly outcome: (typeof outcomes)[number];
  readonly reason: string;
  readonly rule?: QuotaRule | undefined;
  readonly victim?: Sandbox;
  readonly at?: number;
}

const whose = ({ scope }: QuotaRule): string => (scope === 'Owner' ? 'of yours' : 'of all owners');
const waits = (rule: QuotaRule, why: string): NextStart => ({
  outcome: 'waits',
  rule,
  reason: `The start would wait: ${why}`,
});
const full = (rule: QuotaRule): string =>
  `at most ${rule.limit} ${whose(rule)} may be active at once`;

/** The reason why the quota would choose this victim. */
function whichOf({ onExceeded }: QuotaRule, victim: Sandbox): string {
  if (viewOfSandbox(victim).phase !== 'RUNNING') return 'whose agent can not be used';
  if (isAutomatic(victim, [])) return 'which came back by itself';
  return onExceeded === 'PauseLongestIdle'
    ? 'the one that has been idle for the longest time'
    : 'the oldest that runs';
}

function pauses(rule: QuotaRule, victim: Sandbox, at: number, own: boolean): NextStart {
  const which = whichOf(rule, victim);
  const reason = own
    ? `The start would pause sandbox ${victim.metadata.name}, ${which}: ${full(rule)}.`
    : `The start would pause a sandbox of another owner, ${which}: ${full(rule)}.`;
  return { outcome: 'pauses', rule, reason, victim, at };
}

function inShared({ owner, shared }: QuotaSources): NextStart | undefined {
  if (shared === undefined) return undefined;
  const { rule, active, next } = shared;
  if (next !== undefined)
    return pauses(
      rule,
      next,
      Date.parse(next.status?.activeSinceTime ?? '') + rule.minActiveMs,
      next.spec.owner === owner,
    );
  return active < rule.limit ? undefined : waits(rule, `${full(rule)}.`);
}

function nextStart(sources: QuotaSources): NextStart {
  const { group, starts, shared, refused } = sources;
  if (refused !== undefined) {
    const { rule, current } = refused;
    return {
      outcome: 'rejected',
      rule,
      reason: `The start would be refused: ${full(rule)}, and ${current} are.`,
    };
  }
  const queue = waitingIn(group);
  const outlook = forecastIn(group, {
    ...queue,
    demanding: queue.demanding + starts,
    ready: queue.ready + starts,
  });
  switch (outlook.outcome) {
    case 'admitted': {
      const rule = group.rule ?? shared?.rule;
      return (
        inShared(sources) ?? {
          outcome: 'admitted',
          rule,
          reason: rule === undefined ? 'No quota limits the start.' : 'There is room.',
        }
      );
    }
    case 'follows':
      return inShared(sources) ?? waits(outlook.rule, 'a slot is getting free.');
    case 'pauses':
      return pauses(outlook.rule, outlook.victim.sandbox, outlook.at, true);
    case 'rejected':
      return {
        outcome: 'rejected',
        rule: outlook.rule,
        reason: `The start would be refused: ${full(outlook.rule)}.`,
      };
    case 'waits':
      return waits(
        outlook.rule,
        `${full(outlook.rule)}${group.makesRoom ? ', and none of them can be paused now' : ''}.`,
      );
  }
}

const limitOf = (rule: QuotaRule, active: number): QuotaRecord['quotas'][number] => ({
  name: rule.quotaName,
  scope: rule.scope,
  limit: rule.limit,
  active,
  on_exceeded: rule.onExceeded,
  min_active_seconds: rule.minActiveMs / 1000,
  auto_resume: rule.autoResume,
});

/**
 * The quotas as an owner may see them: everything of its own, of others no more than their number.
 */
export function presentQuota(sources: QuotaSources): QuotaRecord {
  const { owner, group, starts, shared, stored, caps, now, conversationIdsIn } = sources;
  const limits = [
    ...(group.rule === undefined ? [] : [limitOf(group.rule, group.taken)]),
    ...(shared === undefined ? [] : [limitOf(shared.rule, shared.active)]),
  ];
  const { outcome, reason, rule, victim, at = 0 } = nextStart(sources);
  const own = victim?.spec.owner === owner ? victim : undefined;
  return {
    active: group.taken,
    waiting: group.waiting.size + starts,
    paused: group.toResume,
    quotas: limits.sort((one, other) => one.limit - one.active - (other.limit - other.active)),
    stored: {
      conversations: stored.conversations,
      stored_bytes: stored.storedBytes,
      sandboxes: stored.sandboxes,
    },
    caps: caps.map(({ quotaName, scope, field, limit, current }) => ({
      quota: quotaName,
      scope,
      of: capNames[field],
      limit,
      current,
    })),
    next_start: {
      outcome,
      reason,
      quota: rule?.quotaName ?? null,
      pauses:
        own === undefined
          ? []
          : [
              {
                sandbox_id: own.metadata.name,
                conversation_ids: [...conversationIdsIn(own.metadata.name)],
              },
            ],
      pauses_other_owner: victim !== undefined && own === undefined,
      not_before: at > now ? wireTime(new Date(at).toISOString()) : null,
    },
  };
}
