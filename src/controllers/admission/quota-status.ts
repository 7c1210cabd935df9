import { isDeepStrictEqual } from 'node:util';
import type { KubeClient } from '../../kube/client.ts';
import { isoTime, type Clock } from '../../kube/clock.ts';
import type { Request, Result } from '../../kube/controller.ts';
import { isConflict, isNotFound } from '../../kube/errors.ts';
import type { Store } from '../../kube/store.ts';
import { findCondition, setCondition } from '../../resources/conditions.ts';
import { conversationQuotas, type ConversationQuota } from '../../resources/conversation-quota.ts';
import { ownerRule } from '../../resources/quota-rules.ts';
import type { Domain } from './domain.ts';
import type { Group } from '../../quota/group.ts';

export interface QuotaStatusOptions {
  readonly client: KubeClient;
  readonly stores: { readonly quotas: Store<ConversationQuota> };
  readonly domain: (namespace: string) => Domain;
  readonly clock: Clock;
}

const conflicting = 'Conflicting';

/** The groups that a quota counts: those it is for, whether or not a stricter one decides. */
function groupsOf({ spec }: ConversationQuota, domain: Domain): readonly Group[] {
  if (spec.scope === 'Namespace') return [domain.all];
  if (spec.owner !== undefined) return [domain.group(spec.owner)].filter((group) => group !== undefined);
  const everyOwner = domain.rules.everyOwner;
  return [...domain.groups()].filter(({ owner }) => ownerRule(domain.rules, owner) === everyOwner);
}

function conditionsOf(quota: ConversationQuota, { rules }: Domain, now: string) {
  const conditions = quota.status?.conditions;
  const names = rules.conflicts.get(quota.metadata.name);
  if (names === undefined && findCondition(conditions, conflicting) === undefined) return conditions;
  const { scope, owner } = quota.spec;
  const rule = scope === 'Namespace' ? rules.namespace : owner === undefined ? rules.everyOwner : rules.owners.get(owner);
  const message = `The quotas ${names?.join(', ') ?? ''} are for the same; ${rule?.quotaName ?? ''}, the strictest, decides.`;
  return [
    ...setCondition(
      conditions,
      {
        type: conflicting,
        status: names === undefined ? 'False' : 'True',
        reason: names === undefined ? 'Alone' : 'SameScope',
        message: names === undefined ? 'No other quota is for the same.' : message,
        observedGeneration: quota.metadata.generation,
      },
      now,
    ),
  ];
}

/** Keeps what a quota says of its sandboxes: counts, whom the next start would pause, and which other quotas it conflicts with. */
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
      // The cache may be behind for minutes, and those who look at the quota are not to wait for it.
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
    const domain = this.#options.domain(quota.metadata.namespace);
    const groups = groupsOf(quota, domain);
    const count = (of: (group: Group) => number) => groups.reduce((sum, group) => sum + of(group), 0);
    // Of a default for many owners there is no one next.
    const [only] = groups;
    const next = groups.length === 1 && only !== undefined ? domain.outlook(only) : undefined;
    const conditions = conditionsOf(quota, domain, isoTime(this.#options.clock));
    return {
      observedGeneration: quota.metadata.generation,
      active: count(({ taken }) => taken),
      waiting: count(({ waiting }) => waiting.size),
      paused: count(({ resumable }) => resumable.size),
      ...(next?.outcome === 'pauses' ? { nextToPause: next.victim.name } : {}),
      ...(conditions === undefined ? {} : { conditions: [...conditions] }),
    };
  }
}
