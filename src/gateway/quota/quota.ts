import { type Route, endpoints } from '../http/route.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { quotaSchema, presentQuota, type QuotaSources, type SharedLimit } from './quota-record.ts';
import { startWithoutBudget, usageRoutes, type UsageReads } from './usage.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { conversationIdOf } from '../../resources/ids.ts';
import { ownerRule, quotaRules, type QuotaRule } from '../../quota/rules.ts';
import { isWarmSandbox } from '../../resources/sandbox.ts';
import { slotTaken } from '../../status/sandbox-phase.ts';
import type { Holdings, ResourceLookup } from '../lookup/resource-lookup.ts';
import type { StorageCaps } from '../lookup/storage-caps.ts';
import { loadOf, type Load } from '../../quota/owners.ts';
import { classify, usesSlot } from '../../quota/classify.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { awaitsSandbox } from '../../resources/conversation.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import {
  isInSandbox,
  madeForReferenceOf,
  conversationReferencesOf,
} from '../../resources/sandbox-owner-references.ts';

/** Number of starts that need a sandbox for themselves, and have none yet. */
function startsWithoutSandbox({ conversations, sandboxes }: Holdings): number {
  const made = new Set(
    sandboxes.map((sandbox) => `${sandbox.spec.owner}/${madeForReferenceOf(sandbox)?.uid ?? ''}`),
  );
  return conversations.filter(
    (conversation) =>
      conversation.metadata.deletionTimestamp === undefined &&
      awaitsSandbox(conversation) &&
      !made.has(`${conversation.spec.owner}/${conversation.metadata.uid}`),
  ).length;
}

/**
 * Number of slots that are in use, or that starts and resumes in progress will use. Slots that are
 * being released don't count.
 */
const slotsInUse = (holdings: Holdings): number =>
  // Warm sandboxes do not count.
  holdings.sandboxes.filter((sandbox) => !isWarmSandbox(sandbox) && usesSlot(sandbox)).length +
  startsWithoutSandbox(holdings);

/** The conversations that are in each sandbox, and those that its owner references name. */
export function conversationsIn({
  conversations,
  sandboxes,
}: Holdings): ReadonlyMap<string, readonly CachedConversation[]> {
  const byUid = new Map(
    conversations.map((conversation) => [conversation.metadata.uid, conversation]),
  );
  const bySandbox = Map.groupBy(conversations, ({ status }) => status?.sandboxName ?? '');
  return new Map(
    sandboxes.map((sandbox) => {
      const { name } = sandbox.metadata;
      const madeFor = conversationReferencesOf(sandbox).flatMap(({ uid }) => {
        const conversation = byUid.get(uid);
        return conversation?.spec.owner === sandbox.spec.owner ? conversation : [];
      });
      const inIt = (bySandbox.get(name) ?? []).filter((conversation) =>
        isInSandbox(conversation, sandbox),
      );
      return [name, [...new Set([...inIt, ...madeFor])]];
    }),
  );
}

/** The load of one owner. Sandboxes are classified in the same way as by the operator. */
function ownLoad(
  holdings: Holdings,
  { now, templates }: { readonly now: number; readonly templates: readonly SandboxTemplate[] },
): Load {
  const inside = conversationsIn(holdings);
  const limits = new Map(templates.map(({ metadata, spec }) => [metadata.name, spec]));
  return loadOf(
    holdings.sandboxes.map((sandbox) => {
      const conversations = inside.get(sandbox.metadata.name) ?? [];
      const timeLimits = limits.get(sandbox.spec.templateName);
      return classify({ sandbox, conversations, limits: timeLimits, now });
    }),
  );
}

export interface QuotaReads {
  readonly lookup: ResourceLookup;
  readonly clock: Pick<Clock, 'now'>;
  readonly caps: Pick<StorageCaps, 'of' | 'stored'>;
}

/** The quota of an owner as clients see it, from the caches only. */
export function quotaRecord({ lookup, clock, caps }: QuotaReads, owner: string) {
  const rules = quotaRules(lookup.quotas());
  const holdings = lookup.holdingsOf(owner);
  const inside = conversationsIn(holdings);
  return presentQuota({
    owner,
    own: {
      rule: ownerRule(rules, owner),
      load: ownLoad(holdings, { now: clock.now(), templates: lookup.templates() }),
    },
    starts: startsWithoutSandbox(holdings),
    shared: rules.namespace && sharedLimit(lookup, rules.namespace),
    refused: refusalOf(lookup, owner),
    withoutBudget: startWithoutBudget(lookup, owner, clock.now()),
    stored: caps.stored(owner),
    caps: caps.of(owner),
    conversationIdsIn: (name) => (inside.get(name) ?? []).map(conversationIdOf),
    now: clock.now(),
  });
}

function sharedLimit(lookup: ResourceLookup, rule: QuotaRule): SharedLimit {
  const quota = lookup.quotas().find(({ metadata }) => metadata.name === rule.quotaName);
  const next = lookup.sandboxNamed(quota?.status?.nextToPause);
  return {
    rule,
    active: quota?.status?.active ?? slotsInUse(lookup.everyHolding()),
    next: next !== undefined && slotTaken(next) ? next : undefined,
  };
}

type Refusal = NonNullable<QuotaSources['refused']>;

/** The quota with the policy Reject that would reject one more sandbox, according to the cache. */
export function refusalOf(lookup: ResourceLookup, owner: string): Refusal | undefined {
  const refusal = (rule: QuotaRule | undefined, holdings: () => Holdings): Refusal | undefined => {
    if (rule?.onExceeded !== 'Reject') return undefined;
    const current = slotsInUse(holdings());
    return current < rule.limit ? undefined : { rule, current };
  };
  const rules = quotaRules(lookup.quotas());
  return (
    refusal(ownerRule(rules, owner), () => lookup.holdingsOf(owner)) ??
    refusal(rules.namespace, () => lookup.everyHolding())
  );
}

const { get } = endpoints('account');

const retryAfterSeconds = 10;

export const quotaRoutes = (reads: QuotaReads & UsageReads): readonly Route[] => [
  get('/api/v1/quota', 'getQuota', {
    summary:
      'How much may be active at once and stored, how much is, and what one more start would pause',
    responses: { 200: quotaSchema },
    handle: ({ owner }) => ({ json: quotaRecord(reads, owner) }),
  }),
  ...usageRoutes(reads),
];

export { refuseExhaustedBudget } from './usage.ts';

/** Throws 429 if a quota with the policy Reject is full in the cache. The operator checks again. */
export function refuseOverQuota(lookup: ResourceLookup, owner: string): void {
  const refusal = refusalOf(lookup, owner);
  if (refusal === undefined) return;
  const { current } = refusal;
  const { limit } = refusal.rule;
  throw new ProblemError(
    'quota-exceeded',
    `At most ${limit} may be active at once, and ${current} are. Pause one, or try again later.`,
    { retryAfterSeconds, usage: { limit, current } },
  );
}
