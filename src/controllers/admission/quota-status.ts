import type { Stores } from '../caches.ts';
import { isDeepStrictEqual } from 'node:util';
import type { KubeClient } from '@conversation-operator/kube/client';
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
import type { AdmissionQueue } from '../../quota/admission-queue.ts';
import type { OwnerGroup } from '../../quota/owner-groups.ts';
import type { StoredLimits } from './stored-limits.ts';
import type { LimitGroup } from '../../quota/limit-group.ts';

export interface QuotaStatusOptions {
  readonly client: KubeClient;
  readonly stores: Pick<Stores, 'quotas'>;
  readonly queue: (namespace: string) => AdmissionQueue;
  readonly limits: Pick<StoredLimits, 'countsFor'>;
  readonly clock: Clock;
}

const maxNames = 10;

const listed = (names: readonly string[]): string =>
  names.length <= maxNames
    ? names.join(', ')
    : `${names.slice(0, maxNames).join(', ')} and ${names.length - maxNames} more`;

/** The owners with the least room, found in one pass over all of them. */
function fullest(owners: readonly OwnerGroup[]): readonly OwnerGroup[] {
  const found: OwnerGroup[] = [];
  for (const group of owners) {
    if (group.taken + group.waiting.size < group.limit) continue;
    const last = found.at(-1);
    if (found.length === maxFullOwners && last !== undefined && byCrowd(group, last) > 0) continue;
    found.splice(maxFullOwners - 1);
    const after = found.findIndex((other) => byCrowd(group, other) < 0);
    found.splice(after === -1 ? found.length : after, 0, group);
  }
  return found;
}

const byCrowd = (one: OwnerGroup, other: OwnerGroup): number =>
  other.waiting.size - one.waiting.size ||
  other.taken - one.taken ||
  (one.owner < other.owner ? -1 : 1);

const countsOf = (groups: readonly LimitGroup[]) => {
  const sum = (of: (group: LimitGroup) => number) =>
    groups.reduce((total, group) => total + of(group), 0);
  return {
    active: sum(({ taken }) => taken),
    waiting: sum(({ waiting }) => waiting.size),
    paused: sum(({ toResume: comingBack }) => comingBack),
  };
};

function nextToPause(domain: AdmissionQueue, group: LimitGroup): { readonly nextToPause?: string } {
  const outlook = domain.forecast(group);
  return outlook.outcome === 'pauses' ? { nextToPause: outlook.victim.name } : {};
}

/**
 * Counts the sandboxes of the owners that a quota is for, whether or not a stricter quota decides.
 */
function usageOf(
  { spec: { scope, owner } }: ConversationQuota,
  domain: AdmissionQueue,
): ConversationQuota['status'] {
  if (scope === 'Namespace')
    return { ...countsOf([domain.all]), ...nextToPause(domain, domain.all) };
  if (owner !== undefined) {
    const group = domain.group(owner);
    return group === undefined
      ? countsOf([])
      : { ...countsOf([group]), ...nextToPause(domain, group) };
  }
  const groups = [...domain.groups()].filter((group) => !domain.rules.owners.has(group.owner));
  const [only] = groups;
  const full = fullest(groups).map((group) => ({
    owner: group.owner,
    ...countsOf([group]),
    ...nextToPause(domain, group),
  }));
  return {
    ...countsOf(groups),
    // Several owners have no common next sandbox.
    ...(groups.length === 1 && only !== undefined ? nextToPause(domain, only) : {}),
    ...(full.length === 0 ? {} : { fullOwners: full }),
  };
}

function conditionsOf(quota: ConversationQuota, { rules }: AdmissionQueue, now: string) {
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

/**
 * Writes the status of a quota: its counts, the sandbox that the next start would pause, and the
 * quotas that it conflicts with.
 */
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
      // The cache may be behind for minutes, and a reader of the quota must not wait for it.
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
    const domain = this.#options.queue(quota.metadata.namespace);
    const conditions = conditionsOf(quota, domain, isoTime(this.#options.clock));
    return {
      observedGeneration: quota.metadata.generation,
      ...usageOf(quota, domain),
      ...this.#options.limits.countsFor(quota),
      ...(conditions === undefined ? {} : { conditions: [...conditions] }),
    };
  }
}
