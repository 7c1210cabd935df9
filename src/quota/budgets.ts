import type { ConversationQuota } from '../resources/conversation-quota.ts';
export function budgetQuotasOf(
  owner: string,
  quotas: readonly ConversationQuota[],
): readonly ConversationQuota[] {
  const own = quotas.filter((q) => q.spec.scope === 'Owner' && q.spec.owner === owner);
  return [
    ...(own.length > 0
      ? own
      : quotas.filter((q) => q.spec.scope === 'Owner' && q.spec.owner === undefined)),
    ...quotas.filter((q) => q.spec.scope === 'Namespace'),
  ];
}
