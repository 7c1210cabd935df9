import type { Clock } from '@conversation-operator/base/clock';
import type { Holder } from '@conversation-operator/base/shares';
import { TokenBuckets } from '@conversation-operator/http/limits/rate-limits';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound } from '../errors/common-problems.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { HourlyUse, HourlyUses } from '../../resources/conversation-status.ts';
import { conversations } from '../../resources/conversation.ts';
import { writeOnStored } from '../lookup/stored.ts';

/** Sizes of the token buckets: the maximum burst, which is also the number of requests an hour. */
export interface HostBudgetSize {
  readonly perOwner: number;
  /** Absent if the requests do not come from sandboxes. */
  readonly perSandbox?: number;
}

const hourSeconds = 3_600;
/** Maximum number of owners whose requests are counted, and maximum number of sandboxes. */
const maxNames = 20_000;

/**
 * Hourly limits of this process on the requests of each sandbox and each owner to git hosts. Git
 * hosts limit the requests of a credential, which all sandboxes of an owner share.
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
        clock,
        burst: perHour,
        perSecond: perHour / hourSeconds,
        capacity: maxNames,
      });
    this.#owners = bucketsOf(perOwner);
    this.#sandboxes = bucketsOf(perSandbox);
  }

  /** Counts one request. Throws `ProblemError` (`rate-limited`) if the budget is used up. */
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

const hourMs = 3_600_000;

/** The use in the hour that contains `nowMs`. */
function usePresent(use: HourlyUse, nowMs: number): HourlyUse {
  const beganMs = Date.parse(use.startTime);
  const hours = Math.floor((nowMs - beganMs) / hourMs);
  if (hours === 0) return use;
  const startTime = new Date(hours === 1 ? beganMs + hourMs : nowMs).toISOString();
  if (hours === 1) return { startTime, count: 0, previousCount: use.count };
  // The clock of the replica that started the hour may be ahead.
  return { startTime, count: hours < 0 ? use.count : 0, previousCount: 0 };
}

/**
 * The use after one more action; undefined if the maximum is reached. The previous hour counts in
 * proportion to its overlap with the last 60 minutes, so that two successive hours do not add up to
 * twice the maximum.
 */
export function countedUse(
  use: HourlyUse | undefined,
  { maxPerHour, nowMs }: { readonly maxPerHour: number; readonly nowMs: number },
): HourlyUse | undefined {
  const startTime = new Date(nowMs).toISOString();
  const present = usePresent(use ?? { startTime, count: 0, previousCount: 0 }, nowMs);
  const { count, previousCount } = present;
  const sharedPart = 1 - (nowMs - Date.parse(present.startTime)) / hourMs;
  if (count + Math.floor(previousCount * sharedPart) >= maxPerHour) return undefined;
  return { ...present, count: count + 1 };
}

/**
 * Limits the actions of a conversation at git hosts by the hour. The count is in the status of the
 * Conversation, so that all replicas and new sandboxes share it.
 */
export class HourlyLimit {
  readonly #client: KubeClient;
  readonly #clock: Pick<Clock, 'now'>;

  constructor({
    client,
    clock,
  }: {
    readonly client: KubeClient;
    readonly clock: Pick<Clock, 'now'>;
  }) {
    this.#client = client;
    this.#clock = clock;
  }

  /**
   * Counts one action. Resolves with false, and counts nothing, if the hour already has the maximum
   * number of actions. Rejects if the count can not be stored; then the action must not happen.
   */
  take(
    { metadata: { namespace, name, uid } }: Pick<CachedConversation, 'metadata'>,
    action: keyof HourlyUses,
    maxPerHour: number,
  ): Promise<boolean> {
    const client = this.#client;
    return writeOnStored(
      () => client.get(conversations, namespace, name),
      async ({ metadata, status }) => {
        if (metadata.uid !== uid) throw notFound('conversation');
        const nowMs = this.#clock.now();
        const use = countedUse(status?.hourlyUses?.[action], { maxPerHour, nowMs });
        if (use === undefined) return false;
        await client.mergePatch(
          conversations,
          namespace,
          name,
          {
            metadata: { resourceVersion: metadata.resourceVersion },
            status: { hourlyUses: { [action]: use } },
          },
          { subresource: 'status' },
        );
        return true;
      },
    );
  }
}
