import { conversationIdOf } from '../../resources/ids.ts';
import { ownerRule, quotaRules, type QuotaRule } from '../../resources/quota-rules.ts';
import { keyRoute, type Route } from '../app/route.ts';
import type { Services } from '../app/services.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { Holdings } from '../lookup/records.ts';
import { conversationsIn, groupOf, slotsInUse, startsWithoutSandbox } from '../lookup/usage.ts';
import { quotaRecord, quotaSchema, sharedLimit } from '../views/quota.ts';

const retryAfterSeconds = 10;

export const quotaRoutes = (services: Services): readonly Route[] => [
  keyRoute({
    method: 'get',
    path: '/api/v1/quota',
    operationId: 'getQuota',
    tag: 'account',
    summary: 'How much may be active at once and stored, how much is, and what one more start would pause',
    answers: { 200: quotaSchema },
    handle: ({ owner }) => {
      const { records, clock } = services;
      const quotas = records.quotas();
      const rules = quotaRules(quotas);
      const holdings = records.holdingsOf(owner);
      const inside = conversationsIn(holdings);
      const { namespace } = rules;
      return {
        json: quotaRecord({
          owner,
          group: groupOf(holdings, ownerRule(rules, owner), { now: clock.now(), templates: records.templates() }),
          starts: startsWithoutSandbox(holdings, records),
          shared:
            namespace &&
            sharedLimit(
              namespace,
              quotas.find(({ metadata }) => metadata.name === namespace.quotaName),
              { active: () => slotsInUse(records.everyHolding(), records), sandboxNamed: (name) => records.sandboxNamed(name) },
            ),
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

interface Refusal {
  readonly rule: QuotaRule;
  readonly current: number;
}

function refusalOf({ records }: Services, owner: string): Refusal | undefined {
  const refusal = (rule: QuotaRule | undefined, holdings: () => Holdings): Refusal | undefined => {
    if (rule?.onExceeded !== 'Reject') return undefined;
    const current = slotsInUse(holdings(), records);
    return current < rule.limit ? undefined : { rule, current };
  };
  const rules = quotaRules(records.quotas());
  return refusal(ownerRule(rules, owner), () => records.holdingsOf(owner)) ?? refusal(rules.namespace, () => records.everyHolding());
}

/**
 * Refuses what a quota with the policy Reject has no room for, as far as the cache knows: the operator refuses what comes in all
 * the same.
 */
export function refuseOverQuota(services: Services, owner: string): void {
  const refusal = refusalOf(services, owner);
  if (refusal === undefined) return;
  const { current } = refusal;
  const { limit } = refusal.rule;
  throw new ProblemError('quota-exceeded', `At most ${limit} may be active at once, and ${current} are. Pause one, or try again later.`, {
    headers: { 'retry-after': String(retryAfterSeconds) },
    usage: { limit, current },
  });
}
