import type { Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { quotaSchema } from '../presenters/quota.ts';
import { endpoints } from './endpoints.ts';
import { quotaRecord, refusalOf } from './quota-record.ts';

const { get } = endpoints('account');

const retryAfterSeconds = 10;

export const quotaRoutes = (services: Services): readonly Route[] => [
  get('/api/v1/quota', 'getQuota', {
    summary:
      'How much may be active at once and stored, how much is, and what one more start would pause',
    responses: { 200: quotaSchema },
    handle: ({ owner }) => ({ json: quotaRecord(services, owner) }),
  }),
];

/**
 * Refuses what a quota with the policy Reject has no room for, as far as the cache knows: the
 * operator refuses what comes in all the same.
 */
export function refuseOverQuota({ lookup }: Services, owner: string): void {
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
