import type { Clock } from '@conversation-operator/base/clock';
import type { Holder } from '@conversation-operator/base/shares';
import { TokenBuckets } from '@conversation-operator/http/limits/token-buckets';
import { ProblemError } from '../errors/problem-error.ts';

/** Maximum requests at once; as many more come back evenly within an hour. */
export interface HostBudgetSize {
  readonly perOwner: number;
  /** Absent: requests are those of no sandbox. */
  readonly perSandbox?: number;
}

const hourSeconds = 3_600;
/** Maximum owners, and maximum sandboxes, whose requests are counted. */
const maxNames = 20_000;

/**
 * Bounds the requests to git hosts of each sandbox and each owner by the hour, through this
 * process. Hosts bound the requests of a credential, and what one sandbox uses up is missing for
 * the others of its owner.
 */
export class HostBudget {
  readonly #owners: TokenBuckets;
  readonly #sandboxes: TokenBuckets;

  constructor(
    clock: Pick<Clock, 'monotonic'>,
    { perOwner, perSandbox = perOwner }: HostBudgetSize,
  ) {
    const bucketsOf = (perHour: number) =>
      new TokenBuckets({
        ...{ clock, burst: perHour, perSecond: perHour / hourSeconds, capacity: maxNames },
      });
    this.#owners = bucketsOf(perOwner);
    this.#sandboxes = bucketsOf(perSandbox);
  }

  /** Counts one request. Throws `ProblemError` (`rate-limited`) where there is none left. */
  take({ owner, sandbox }: Holder): void {
    if (sandbox !== undefined) check(this.#sandboxes.take(sandbox), 'The sandbox');
    check(this.#owners.take(owner), 'Your sandboxes together');
  }
}

function check({ allowed, retryAfterMs }: ReturnType<TokenBuckets['take']>, subject: string): void {
  if (allowed) return;
  const retryAfterSeconds = Math.ceil(retryAfterMs / 1000);
  throw new ProblemError(
    'rate-limited',
    `${subject} may ask the git host no more at the moment. Try again in ${retryAfterSeconds} s.`,
    { retryAfterSeconds },
  );
}
