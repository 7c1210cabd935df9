import { z } from 'zod';
import { isAutomatic } from '../../quota/automatic-resume.ts';
import { forecastUnder } from '../../quota/forecast.ts';
import type { CapUse, Totals, CapField } from '../../quota/caps.ts';
import { makesRoom, type Load } from '../../quota/owners.ts';
import {
  autoResumePolicies,
  quotaPolicies,
  quotaScopes,
} from '../../resources/conversation-quota.ts';
import type { QuotaRule } from '../../quota/rules.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import {
  countSchema,
  idSchema,
  nullableText,
  timestampSchema,
  wireTime,
} from '../presenters/schemas.ts';

const capNames = {
  maxConversations: 'conversations',
  maxStoredBytes: 'stored_bytes',
  maxSandboxes: 'sandboxes',
} as const satisfies Readonly<Record<CapField, string>>;

const limitSchema = z.object({
  name: z.string(),
  scope: z
    .enum(quotaScopes)
    .describe('Whom it counts: your own sandboxes, or those of all owners together.'),
  limit: countSchema,
  active: z
    .int()
    .min(0)
    .describe('How many take a slot of it; with scope Namespace those of others too.'),
  on_exceeded: z.enum(quotaPolicies),
  min_active_seconds: countSchema,
  auto_resume: z.enum(autoResumePolicies),
});

const capSchema = z.object({
  quota: z.string(),
  scope: z
    .enum(quotaScopes)
    .describe('Owner: counts what is yours. Namespace: counts what is of all owners together.'),
  of: z.enum(capNames).describe('Counts also what is paused, finished or failed.'),
  limit: countSchema,
  current: z
    .int()
    .min(0)
    .describe('How much is stored of it; may be more than a limit that was lowered.'),
});

/** Maximum sandboxes in `queue`, because streams send the record again at each change. */
const maxQueue = 100;

export const quotaSchema = z.object({
  active: countSchema.describe(
    'How many of your sandboxes take a slot; also those that start or stop.',
  ),
  waiting: countSchema.describe('How many wait for one.'),
  queue: z
    .array(z.string())
    .max(maxQueue)
    .describe(
      `Sandboxes of yours that wait, in the order of admission: the first ${maxQueue}. Starts that have no sandbox yet come after them.`,
    ),
  paused: countSchema.describe(
    'How many a quota has paused and come back by themselves, now or after a delay.',
  ),
  quotas: z
    .array(limitSchema)
    .describe('Those that hold for you, the one with the least room first. Empty: no limit.'),
  stored: z
    .object({ conversations: countSchema, stored_bytes: countSchema, sandboxes: countSchema })
    .describe('What is stored of yours, with the sandboxes that starts under way are to get.'),
  caps: z
    .array(capSchema)
    .describe(
      'Limits on what is stored that hold for you. A start or a message beyond one gets 429.',
    ),
  next_start: z
    .object({
      outcome: z.enum(['admitted', 'pauses', 'waits', 'rejected']),
      reason: z.string().describe('The outcome as a text.'),
      quota: nullableText.describe('The quota that decides; null where none limits.'),
      pauses: z
        .array(z.object({ sandbox_id: z.string(), conversation_ids: z.array(idSchema) }))
        .describe('What of yours would be paused to make room.'),
      pauses_other_owner: z.boolean().describe('Whether a sandbox of another owner would be.'),
      not_before: timestampSchema
        .nullable()
        .describe('Until when what would be paused is still too young for it.'),
    })
    .describe(
      'What one more start, or a resume with a message or a run, would do now. A resume alone pauses no agent that works. Nothing is done or reserved.',
    ),
});

export type QuotaRecord = z.output<typeof quotaSchema>;

/** The quota of the scope Namespace, with the last count that the operator has stored. */
export interface SharedLimit {
  readonly rule: QuotaRule;
  readonly active: number;
  /** The sandbox, of any owner, that the next start would pause. */
  readonly next: Sandbox | undefined;
}

export interface QuotaSources {
  readonly owner: string;
  readonly own: { readonly rule: QuotaRule | undefined; readonly load: Load };
  /** Number of the owner's starts without a sandbox. */
  readonly starts: number;
  readonly shared: SharedLimit | undefined;
  /** The full quota because of which the gateway would reject a start. */
  readonly refused: { readonly rule: QuotaRule; readonly current: number } | undefined;
  /** The outcome of a start whose budget is exhausted. */
  readonly withoutBudget: NextStart | undefined;
  readonly conversationIdsIn: (sandboxName: string) => readonly string[];
  readonly stored: Totals;
  readonly caps: readonly CapUse[];
  readonly now: number;
}

interface NextStart {
  readonly outcome: QuotaRecord['next_start']['outcome'];
  readonly reason: string;
  readonly rule?: Pick<QuotaRule, 'quotaName'> | undefined;
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
const rejected = (rule: QuotaRule, more = ''): NextStart => ({
  outcome: 'rejected',
  rule,
  reason: `The start would be refused: ${full(rule)}${more}.`,
});

/** The text that says why the quota would pause this sandbox. */
function whichOf({ onExceeded }: QuotaRule, victim: Sandbox): string {
  if (viewOfSandbox(victim).phase !== 'RUNNING') return 'whose agent can not be used';
  if (isAutomatic(victim, [])) return 'which came back by itself';
  return onExceeded === 'PauseLongestIdle'
    ? 'the one that has been idle for the longest time'
    : 'the oldest that runs';
}

function pauses(rule: QuotaRule, victim: Sandbox, at: number, own: boolean): NextStart {
  const which = whichOf(rule, victim);
  const whom = own ? `sandbox ${victim.metadata.name}` : 'a sandbox of another owner';
  const reason = `The start would pause ${whom}, ${which}: ${full(rule)}.`;
  return { outcome: 'pauses', rule, reason, victim, at };
}

function inShared({ owner, shared }: QuotaSources): NextStart | undefined {
  if (shared === undefined) return undefined;
  const { rule, active, next } = shared;
  if (next !== undefined) {
    const at = Date.parse(next.status?.activeSinceTime ?? '') + rule.minActiveMs;
    return pauses(rule, next, at, next.spec.owner === owner);
  }
  return active < rule.limit ? undefined : waits(rule, `${full(rule)}.`);
}

function nextStart(sources: QuotaSources): NextStart {
  const { own, starts, shared, refused, withoutBudget, now } = sources;
  if (refused !== undefined) return rejected(refused.rule, `, and ${refused.current} are`);
  if (withoutBudget !== undefined) return withoutBudget;
  const forecast = forecastUnder(own, now, { starts });
  switch (forecast.outcome) {
    case 'admitted': {
      const rule = own.rule ?? shared?.rule;
      const reason = rule === undefined ? 'No quota limits the start.' : 'There is room.';
      return inShared(sources) ?? { outcome: 'admitted', rule, reason };
    }
    case 'follows':
      return inShared(sources) ?? waits(forecast.rule, 'a slot is getting free.');
    case 'pauses':
      return pauses(forecast.rule, forecast.victim.sandbox, forecast.at, true);
    case 'rejected':
      return rejected(forecast.rule);
    case 'waits': {
      const more = makesRoom(own) ? ', and none of them can be paused now' : '';
      return waits(forecast.rule, `${full(forecast.rule)}${more}.`);
    }
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

export const storedView = ({ conversations, storedBytes, sandboxes }: Totals) => ({
  conversations,
  stored_bytes: storedBytes,
  sandboxes,
});

/** The quotas as an owner may see them: its own sandboxes in full, but others only as a number. */
export function presentQuota(sources: QuotaSources): QuotaRecord {
  const { owner, own, starts, shared, stored, caps, now, conversationIdsIn } = sources;
  const limits = [
    ...(own.rule === undefined ? [] : [limitOf(own.rule, own.load.taken)]),
    ...(shared === undefined ? [] : [limitOf(shared.rule, shared.active)]),
  ];
  const { outcome, reason, rule, victim, at = 0 } = nextStart(sources);
  const ownVictims = victim?.spec.owner === owner ? [victim] : [];
  return {
    active: own.load.taken,
    waiting: own.load.waiting.length + starts,
    queue: own.load.waiting.slice(0, maxQueue).map(({ name }) => name),
    paused: own.load.resumable.length,
    quotas: limits.sort((one, other) => one.limit - one.active - (other.limit - other.active)),
    stored: storedView(stored),
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
      pauses: ownVictims.map(({ metadata: { name } }) => ({
        sandbox_id: name,
        conversation_ids: [...conversationIdsIn(name)],
      })),
      pauses_other_owner: victim !== undefined && ownVictims.length === 0,
      not_before: at > now ? wireTime(at) : null,
    },
  };
}
