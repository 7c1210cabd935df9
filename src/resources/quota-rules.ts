import type { ConversationQuota, ConversationQuotaSpec } from './conversation-quota.ts';

/** The quota that decides for one owner, or for a namespace. */
export interface QuotaRule {
  readonly quotaName: string;
  readonly scope: ConversationQuotaSpec['scope'];
  readonly limit: number;
  readonly onExceeded: ConversationQuotaSpec['onExceeded'];
  readonly minActiveMs: number;
  readonly autoResume: ConversationQuotaSpec['autoResume'];
}

/** Which quota of a namespace holds for whom. */
export interface QuotaRules {
  readonly namespace: QuotaRule | undefined;
  readonly everyOwner: QuotaRule | undefined;
  readonly owners: ReadonlyMap<string, QuotaRule>;
  /** Names of the other quotas for the same scope, by the name of each quota that has any. */
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

/**
 * The quota with the lowest limit applies among several for the same scope; among equal limits the
 * first by name.
 */
const strictest = (one: ConversationQuota, other: ConversationQuota): number =>
  one.spec.limit - other.spec.limit || (one.metadata.name < other.metadata.name ? -1 : 1);

/** From the quotas of one namespace. */
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

/**
 * An owner's own quota wins over the one for everybody. Spares of pools have no owner, and count in
 * their namespace alone.
 */
export const ownerRule = (rules: QuotaRules, owner: string): QuotaRule | undefined =>
  owner === '' ? undefined : (rules.owners.get(owner) ?? rules.everyOwner);
