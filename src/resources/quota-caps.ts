import type { ConversationQuota, ConversationQuotaSpec } from './conversation-quota.ts';

/** The fields of a quota that limit what is stored, whether or not it is active. */
export const capFields = ['maxConversations', 'maxStoredBytes', 'maxSandboxes'] as const;
export type CapField = (typeof capFields)[number];

/** One limit, and the quota that it comes from. */
export interface Cap {
  readonly quotaName: string;
  readonly scope: ConversationQuotaSpec['scope'];
  readonly limit: number;
}

type Caps = Readonly<Partial<Record<CapField, Cap>>>;

/** Which limits of a namespace on stored objects hold for whom. */
export interface QuotaCaps {
  readonly namespace: Caps;
  readonly everyOwner: Caps;
  readonly owners: ReadonlyMap<string, Caps>;
}

/**
 * The lowest value of several quotas for the same scope applies, field by field; among equal values
 * that of the first quota by name.
 */
function lowest(quotas: readonly ConversationQuota[]): Caps {
  const caps: Partial<Record<CapField, Cap>> = {};
  for (const { metadata, spec } of quotas) {
    for (const field of capFields) {
      const limit = spec[field];
      if (limit === undefined || limit >= (caps[field]?.limit ?? Infinity)) continue;
      caps[field] = { quotaName: metadata.name, scope: spec.scope, limit };
    }
  }
  return caps;
}

/** From the quotas of one namespace. */
export function quotaCaps(quotas: readonly ConversationQuota[]): QuotaCaps {
  const sorted = quotas.toSorted((one, other) =>
    one.metadata.name < other.metadata.name ? -1 : 1,
  );
  const ofOwners = sorted.filter(({ spec }) => spec.scope === 'Owner');
  const byOwner = Map.groupBy(ofOwners, ({ spec }) => spec.owner);
  const named = [...byOwner].flatMap(([owner, own]) =>
    owner === undefined ? [] : [[owner, lowest(own)] as const],
  );
  return {
    namespace: lowest(sorted.filter(({ spec }) => spec.scope === 'Namespace')),
    everyOwner: lowest(byOwner.get(undefined) ?? []),
    owners: new Map(named),
  };
}

/**
 * The limits of one field that hold for an owner: the owner's own one, else the one for every
 * owner, and beside it the one of the namespace. A field that the owner's own quota leaves out
 * stays limited by the quota for every owner.
 */
export function capsOf(caps: QuotaCaps, owner: string, field: CapField): readonly Cap[] {
  const ofOwner = caps.owners.get(owner)?.[field] ?? caps.everyOwner[field];
  // Spares of pools have no owner.
  const own = owner === '' ? undefined : ofOwner;
  return [own, caps.namespace[field]].filter((cap) => cap !== undefined);
}
