import { conversationIdOf } from '../../resources/ids.ts';
import { ownerRule, quotaRules, type QuotaRule } from '../../resources/quota-rules.ts';
import { slotTaken } from '../../resources/sandbox.ts';
import type { Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { Holdings } from '../lookup/resource-lookup.ts';
import { conversationsIn, groupOf, slotsInUse, startsWithoutSandbox } from '../lookup/usage.ts';
import {
  presentQuota,
  quotaSchema,
  type QuotaSources,
  type SharedLimit,
} from '../presenters/quota.ts';
import { endpoints } from './endpoints.ts';

const { get } = endpoints('account');

const retryAfterSeconds = 10;

export const quotaRoutes = (services: Services): readonly Route[] => [
  get('/api/v1/quota', 'getQuota', {
    summary:
      'How much may be active at once and stored, how much is, and what one more start would pause',
    responses: { 200: quotaSchema },
    handle: ({ owner }) => {
      const { lookup, clock } = services;
      const rules = quotaRules(lookup.quotas());
      const holdings = lookup.holdingsOf(owner);
      const inside = conversationsIn(holdings);
      return {
        json: presentQuota({
          owner,
          group: groupOf(holdings, ownerRule(rules, owner), {
            now: clock.now(),
            templates: lookup.templates(),
          }),
          starts: startsWithoutSandbox(holdings, lookup),
          shared: rules.namespace && sharedLimit(services, rules.namespace),
          refused: refusalOf(services, owner),
          stored: services.caps.stored(owner),
          caps: services.caps.of(owner),
          conversationIdsIn: (name) => (inside.get(name) ?? []).map(conversationIdOf),
          now: clock.now(),
        }),
      };
    },
  }),
];

function sharedLimit({ lookup }: Services, rule: QuotaRule): SharedLimit {
  const quota = lookup.quotas().find(({ metadata }) => metadata.name === rule.quotaName);
  const next = lookup.sandboxNamed(quota?.status?.nextToPause);
  return {
    rule,
    active: quota?.status?.active ?? slotsInUse(lookup.everyHolding(), lookup),
    next: next !== undefined && slotTaken(next) ? next : undefined,
  };
}

type Refusal = NonNullable<QuotaSources['refused']>;

function refusalOf({ lookup }: Services, owner: string): Refusal | undefined {
  const refusal = (rule: QuotaRule | undefined, holdings: () => Holdings): Refusal | undefined => {
    if (rule?.onExceeded !== 'Reject') return undefined;
    const current = slotsInUse(holdings(), lookup);
    return current < rule.limit ? undefined : { rule, current };
  };
  const rules = quotaRules(lookup.quotas());
  return (
    refusal(ownerRule(rules, owner), () => lookup.holdingsOf(owner)) ??
    refusal(rules.namespace, () => lookup.everyHolding())
  );
}

/**
 * Refuses what a quota with the policy Reject has no room for, as far as the cache knows: the
 * operator refuses what comes in all the same.
 */
export function refuseOverQuota(services: Services, owner: string): void {
  const refusal = refusalOf(services, owner);
  if (refusal === undefined) return;
  const { current } = refusal;
  const { limit } = refusal.rule;
  throw new ProblemError(
    'quota-exceeded',
    `At most ${limit} may be active at once, and ${current} are. Pause one, or try again later.`,
    { retryAfterSeconds, usage: { limit, current } },
  );
}
