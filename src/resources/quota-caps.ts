import type { ConversationQuota, ConversationQuotaSpec } from './conversation-quota.ts';
import { durationMs } from './sandbox-template.ts';

/** The fields of a quota that limit what is stored, whether or not it is active. */
export const capFields = ['maxConversations', 'maxStoredBytes', 'maxSandboxes'] as const;
export type CapField = (typeof capFields)[number];

/**
 * The fields of a quota that limit archives. No start and no message is refused for one of them, so
 * they are none of `capFields`.
 */
const archiveFields = ['maxArchivedBytes', 'archiveRetention'] as const;
type LimitField = CapField | (typeof archiveFields)[number];
const limitFields: readonly LimitField[] = [...capFields, ...archiveFields];

/** The value of a field; that of archiveRetention in milliseconds. */
function limitOf(spec: ConversationQuotaSpec, field: LimitField): number | undefined {
  const limit = spec[field];
  return typeof limit === 'string' ? durationMs(limit) : limit;
}

/** One limit, and the quota that it comes from. */
export interface Cap {
  readonly quotaName: string;
  readonly scope: ConversationQuotaSpec['scope'];
  readonly limit: number;
}

type Caps = Readonly<Partial<Record<LimitField, Cap>>>;

/** Which limits of a namespace on stored objects and archives hold for whom. */
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
  const caps: Partial<Record<LimitField, Cap>> = {};
  for (const { metadata, spec } of quotas) {
    for (const field of limitFields) {
      const limit = limitOf(spec, field);
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
export function capsOf(caps: QuotaCaps, owner: string, field: LimitField): readonly Cap[] {
  const ofOwner = caps.owners.get(owner)?.[field] ?? caps.everyOwner[field];
  // Spares of pools have no owner.
  const own = owner === '' ? undefined : ofOwner;
  return [own, caps.namespace[field]].filter((cap) => cap !== undefined);
}

/**
 * Milliseconds for which the archives of an owner are kept: the shorter one of the retention of the
 * template and those of quotas. Undefined: as long as the conversation.
 * @param templateRetention `archive.retention` of the template.
 */
export function archiveRetentionMs(
  caps: QuotaCaps,
  owner: string,
  templateRetention: string | undefined,
): number | undefined {
  const limits = capsOf(caps, owner, 'archiveRetention').map(({ limit }) => limit);
  if (templateRetention !== undefined) limits.push(durationMs(templateRetention));
  return limits.length === 0 ? undefined : Math.min(...limits);
}
