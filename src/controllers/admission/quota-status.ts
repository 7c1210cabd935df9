import type { KubeClient } from '@conversation-operator/kube/client';
import type { Stores } from '../caches.ts';
import { isDeepStrictEqual } from 'node:util';
import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import { conditionUpdate, findCondition, setConditions } from '../../resources/conditions.ts';
import {
  QuotaCondition,
  conversationQuotas,
  maxFullOwners,
  type ConversationQuota,
} from '../../resources/conversation-quota.ts';
import { hasKnownZone } from '../../quota/budgets.ts';
import { forecast } from '../../quota/forecast.ts';
import { limitOf, type Load, type Owner } from '../../quota/owners.ts';
import type { Snapshot } from '../../quota/snapshot.ts';
import type { AdmissionCache } from './cache.ts';

export interface QuotaStatusOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly stores: Pick<Stores, 'quotas'>;
  readonly cache: Pick<AdmissionCache, 'snapshot' | 'limits' | 'now'>;
}

const maxNames = 10;

const listed = (names: readonly string[]): string =>
  names.length <= maxNames
    ? names.join(', ')
    : `${names.slice(0, maxNames).join(', ')} and ${names.length - maxNames} more`;

/** Owners who have reached their limit; those with the most waiting sandboxes come first. */
const fullest = (owners: readonly Owner[]): readonly Owner[] =>
  owners
    .filter((owner) => owner.load.taken + owner.load.waiting.length >= limitOf(owner))
    .sort(
      (one, other) =>
        other.load.waiting.length - one.load.waiting.length ||
        other.load.taken - one.load.taken ||
        (one.name < other.name ? -1 : 1),
    )
    .slice(0, maxFullOwners);

const countsOf = (loads: readonly Load[]) => {
  const sum = (of: (load: Load) => number) => loads.reduce((total, load) => total + of(load), 0);
  return {
    active: sum(({ taken }) => taken),
    waiting: sum(({ waiting }) => waiting.length),
    paused: sum(({ resumable }) => resumable.length),
  };
};

/** Counts the sandboxes of the owners that a quota selects, even if a stricter quota applies. */
function usageOf(
  { spec: { scope, owner: name } }: ConversationQuota,
  snapshot: Snapshot,
  now: number,
): ConversationQuota['status'] {
  const nextToPause = (owner: Owner | undefined) => {
    const start = forecast(snapshot, owner, now);
    return start.outcome === 'pauses' ? { nextToPause: start.victim.name } : {};
  };
  if (scope === 'Namespace') return { ...countsOf([snapshot.all.load]), ...nextToPause(undefined) };
  if (name !== undefined) {
    const owner = snapshot.owner(name);
    return owner === undefined
      ? countsOf([])
      : { ...countsOf([owner.load]), ...nextToPause(owner) };
  }
  const owners = [...snapshot.owners()].filter((owner) => !snapshot.rules.owners.has(owner.name));
  const [only] = owners;
  const full = fullest(owners).map((owner) => ({
    owner: owner.name,
    ...countsOf([owner.load]),
    ...nextToPause(owner),
  }));
  return {
    ...countsOf(owners.map(({ load }) => load)),
    // `nextToPause` is a sandbox of one owner, so the counts of several owners contain none.
    ...(owners.length === 1 && only !== undefined ? nextToPause(only) : {}),
    ...(full.length === 0 ? {} : { fullOwners: full }),
  };
}

/** The condition of a budget whose time zone is unknown, or was when the condition was written. */
function withTimeZone(
  quota: ConversationQuota,
  conditions: Conditions | undefined,
  now: string,
): Conditions | undefined {
  const { budget } = quota.spec;
  const isUnknown = budget !== undefined && !hasKnownZone(budget);
  const { unknownTimeZone } = QuotaCondition;
  if (!isUnknown && findCondition(conditions, unknownTimeZone) === undefined) return conditions;
  const update = isUnknown
    ? conditionUpdate(
        unknownTimeZone,
        true,
        'NotInDatabase',
        `The time zone database has no ${budget.timeZone}. Name one such as Europe/Berlin; until then, UTC applies.`,
      )
    : conditionUpdate(unknownTimeZone, false, 'Known', 'The time zone of the budget is known.');
  return setConditions(conditions, [update], quota.metadata.generation, now);
}

type Conditions = NonNullable<NonNullable<ConversationQuota['status']>['conditions']>;

function withConflicts(
  quota: ConversationQuota,
  { rules }: Snapshot,
  now: string,
): Conditions | undefined {
  const conditions = quota.status?.conditions;
  const names = rules.conflicts.get(quota.metadata.name);
  if (names === undefined && findCondition(conditions, QuotaCondition.conflicting) === undefined)
    return conditions;
  const { scope, owner } = quota.spec;
  const rule =
    scope === 'Namespace'
      ? rules.namespace
      : owner === undefined
        ? rules.everyOwner
        : rules.owners.get(owner);
  const message = `The quotas ${listed(names ?? [])} are for the same; ${rule?.quotaName ?? ''}, the strictest, decides.`;
  const update =
    names === undefined
      ? conditionUpdate(
          QuotaCondition.conflicting,
          false,
          'Alone',
          'No other quota is for the same.',
        )
      : conditionUpdate(QuotaCondition.conflicting, true, 'SameScope', message);
  return setConditions(conditions, [update], quota.metadata.generation, now);
}

/** Writes a quota's status: counts, the sandbox that the next start pauses, and conflicts. */
export class QuotaStatusReconciler {
  readonly #options: QuotaStatusOptions;

  constructor(options: QuotaStatusOptions) {
    this.#options = options;
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { client, stores } = this.#options;
    const quota = stores.quotas.get(namespace, name);
    if (quota === undefined || quota.metadata.deletionTimestamp !== undefined) return undefined;
    try {
      await this.#update(quota, signal);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      if (!isConflict(error)) throw error;
      // The retry reads the API server, because the cache may lag by minutes.
      await this.#update(await client.get(conversationQuotas, namespace, name, { signal }), signal);
    }
    return undefined;
  }

  async #update(quota: ConversationQuota, signal: AbortSignal): Promise<void> {
    const status = this.#statusOf(quota);
    if (!isDeepStrictEqual(status, quota.status))
      await this.#options.client.updateStatus(conversationQuotas, { ...quota, status }, { signal });
  }

  #statusOf(quota: ConversationQuota): NonNullable<ConversationQuota['status']> {
    const { clock, cache } = this.#options;
    const snapshot = cache.snapshot(quota.metadata.namespace);
    const now = isoTime(clock);
    const conditions = withTimeZone(quota, withConflicts(quota, snapshot, now), now);
    return {
      observedGeneration: quota.metadata.generation,
      ...usageOf(quota, snapshot, cache.now()),
      ...cache.limits.countsFor(quota),
      ...(conditions === undefined ? {} : { conditions: [...conditions] }),
    };
  }
}
