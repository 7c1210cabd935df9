import type { ConversationQuota, ConversationQuotaSpec } from '../resources/conversation-quota.ts';
import { isNewerVersion } from '@conversation-operator/kube/object';

/** The fields of the quota that applies to an owner, or to a namespace. */
export interface QuotaRule {
  readonly quotaName: string;
  readonly scope: ConversationQuotaSpec['scope'];
  readonly limit: number;
  readonly onExceeded: ConversationQuotaSpec['onExceeded'];
  readonly minActiveMs: number;
  readonly autoResume: ConversationQuotaSpec['autoResume'];
}

/** The quotas of a namespace that apply, by scope. */
export interface QuotaRules {
  readonly namespace: QuotaRule | undefined;
  readonly everyOwner: QuotaRule | undefined;
  readonly owners: ReadonlyMap<string, QuotaRule>;
  /** By the name of each quota that shares its scope with others: the names of all these quotas. */
  readonly conflicts: ReadonlyMap<string, readonly string[]>;
}

const ruleOf = ({ metadata, spec }: ConversationQuota): QuotaRule => ({
  quotaName: metadata.name,
  scope: spec.scope,
  limit: spec.limit,
  onExceeded: spec.onExceeded,
  minActiveMs: spec.minActiveSeconds * 1000,
  autoResume: spec.autoResume,
});

/** Orders quotas for the same scope by limit, then by name. Only the first one applies. */
const strictest = (one: ConversationQuota, other: ConversationQuota): number =>
  one.spec.limit - other.spec.limit || (one.metadata.name < other.metadata.name ? -1 : 1);

export function quotaRules(quotas: readonly ConversationQuota[]): QuotaRules {
  const groups = new Map<string, ConversationQuota[]>();
  for (const quota of [...quotas].sort(strictest)) {
    const { scope, owner } = quota.spec;
    const key = JSON.stringify([scope, owner ?? null]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [quota]);
    else group.push(quota);
  }
  let namespace: QuotaRule | undefined;
  let everyOwner: QuotaRule | undefined;
  const owners = new Map<string, QuotaRule>();
  const conflicts = new Map<string, readonly string[]>();
  for (const group of groups.values()) {
    const [first] = group;
    if (first === undefined) continue;
    const names = group.map(({ metadata }) => metadata.name).sort();
    if (names.length > 1) for (const name of names) conflicts.set(name, names);
    const { scope, owner } = first.spec;
    if (scope === 'Namespace') namespace = ruleOf(first);
    else if (owner === undefined) everyOwner = ruleOf(first);
    else owners.set(owner, ruleOf(first));
  }
  return { namespace, everyOwner, owners, conflicts };
}

/** The quota that names the owner, else the quota for each owner; undefined for warm sandboxes. */
export const ownerRule = (rules: QuotaRules, owner: string): QuotaRule | undefined =>
  owner === '' ? undefined : (rules.owners.get(owner) ?? rules.everyOwner);

interface Deleted {
  readonly quota: ConversationQuota;
  readonly until: number;
}

/** Time for which a deleted quota still applies: longer than a `kubectl replace --force` takes. */
const replacementMs = 5_000;

const hasSameScope = ({ spec }: ConversationQuota, other: ConversationQuota): boolean =>
  spec.scope === other.spec.scope && spec.owner === other.spec.owner;

/** While a deleted quota still applies, sandboxes wait: no sandbox is rejected or evicted. */
const withQueue = (quota: ConversationQuota): ConversationQuota => ({
  ...quota,
  spec: { ...quota.spec, onExceeded: 'Queue' },
});

/** Quotas of one namespace, and deleted ones that may be created again. No I/O, and no clock. */
export class ActiveQuotas {
  readonly #quotas = new Map<string, ConversationQuota>();
  /** Quotas that were deleted within `replacementMs`, by name. */
  readonly #deleted = new Map<string, Deleted>();
  #hasChanged = false;

  /** Whether there is no quota, not even a deleted quota that still applies. */
  get isEmpty(): boolean {
    return this.#quotas.size === 0 && this.#deleted.size === 0;
  }

  values(): Iterable<ConversationQuota> {
    return this.#quotas.values();
  }

  /** Returns whether the spec has changed. An older version than the known one is ignored. */
  observe(quota: ConversationQuota): boolean {
    const { uid, generation } = quota.metadata;
    const known = this.#quotas.get(uid);
    if (known !== undefined && !isNewerVersion(quota, known)) return false;
    this.#quotas.set(uid, quota);
    if (known?.metadata.generation === generation) return false;
    this.#hasChanged = true;
    return true;
  }

  /** Returns whether the quota was known. */
  delete({ metadata: { uid, name } }: ConversationQuota, now: number): boolean {
    const quota = this.#quotas.get(uid);
    if (quota === undefined) return false;
    this.#quotas.delete(uid);
    this.#deleted.set(name, { quota, until: now + replacementMs });
    this.#hasChanged = true;
    return true;
  }

  /** The next time at which a deleted quota stops applying; Infinity without deleted quotas. */
  get nextChangeAt(): number {
    return Math.min(Infinity, ...[...this.#deleted.values()].map(({ until }) => until));
  }

  /** The quotas that apply now; undefined if they are the same as in the last call. */
  takeChanged(now: number): readonly ConversationQuota[] | undefined {
    for (const [name, { until }] of this.#deleted) {
      if (until > now) continue;
      this.#deleted.delete(name);
      this.#hasChanged = true;
    }
    if (!this.#hasChanged) return undefined;
    this.#hasChanged = false;
    const quotas = [...this.#quotas.values()];
    const deleted = [...this.#deleted.values()].map(({ quota }) => quota);
    return [
      ...quotas,
      ...deleted
        .filter((gone) => !quotas.some((quota) => hasSameScope(quota, gone)))
        .map(withQueue),
    ];
  }
}
