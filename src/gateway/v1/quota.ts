import { type Route, endpoints } from '../http/route.ts';
import { ProblemError } from '../errors/problem-error.ts';
import {
  quotaSchema,
  presentQuota,
  type QuotaSources,
  type SharedLimit,
} from '../presenters/quota.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { conversationIdOf } from '../../resources/ids.ts';
import { ownerRule, quotaRules, type QuotaRule } from '../../resources/quota-rules.ts';
import { slotTaken } from '../../resources/sandbox.ts';
import type { Holdings, ResourceLookup } from '../lookup/resource-lookup.ts';
import type { StorageCaps } from '../lookup/storage-caps.ts';
import { conversationsIn, ownLoad, slotsInUse, startsWithoutSandbox } from '../lookup/usage.ts';

/** Sources of the record of a quota. */
export interface QuotaReads {
  readonly lookup: ResourceLookup;
  readonly clock: Pick<Clock, 'now'>;
  readonly caps: Pick<StorageCaps, 'of' | 'stored'>;
}

/** The quota of an owner as clients see it, from the caches alone. */
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

/** The quota with the policy Reject that has no room for one more, as far as the cache knows. */
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

export const quotaRoutes = (reads: QuotaReads): readonly Route[] => [
  get('/api/v1/quota', 'getQuota', {
    summary:
      'How much may be active at once and stored, how much is, and what one more start would pause',
    responses: { 200: quotaSchema },
    handle: ({ owner }) => ({ json: quotaRecord(reads, owner) }),
  }),
];

/**
 * Refuses what a quota with the policy Reject has no room for, as far as the cache knows: the
 * operator refuses what comes in all the same.
 */
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
