import { isWaitingReason } from '../../quota/classify.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { ownerRule, quotaRules } from '../../quota/rules.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { slotTaken } from '../../status/sandbox-phase.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { StorageCaps } from '../lookup/storage-caps.ts';
import { storedView } from '../quota/quota-record.ts';
import { executionStatusOf, sandboxViewOf } from '../presenters/conversation.ts';
import { maxItems, type ConversationState, type OverviewRecord } from './schemas.ts';

type Counts = Record<ConversationState | 'active', number>;

const noCounts = (): Counts => ({
  active: 0,
  running: 0,
  starting: 0,
  waiting: 0,
  paused: 0,
  finished: 0,
  failed: 0,
});

const statesOfRuns: Readonly<Record<string, ConversationState>> = {
  idle: 'finished',
  finished: 'finished',
  paused: 'paused',
  error: 'failed',
  stuck: 'failed',
};

function stateOf(
  conversation: CachedConversation,
  sandbox: Sandbox | undefined,
): ConversationState {
  const { phase, reason } = sandboxViewOf(conversation, sandbox);
  switch (phase) {
    case 'STARTING':
      return isWaitingReason(reason) ? 'waiting' : 'starting';
    case 'RUNNING':
      return statesOfRuns[executionStatusOf(conversation, phase) ?? ''] ?? 'running';
    case 'PAUSED':
      return 'paused';
    case 'ERROR':
    case 'MISSING':
      return 'failed';
  }
}

export interface UseSources {
  readonly lookup: Pick<ResourceLookup, 'everyHolding' | 'sandboxIn' | 'quotas'>;
  readonly caps: Pick<StorageCaps, 'stored' | 'all'>;
}

type Uses = Pick<OverviewRecord, 'owners' | 'totals'>;
type OwnerUse = OverviewRecord['owners']['items'][number];

const byUse = (one: OwnerUse, other: OwnerUse): number =>
  other.active - one.active ||
  other.waiting - one.waiting ||
  other.conversations - one.conversations ||
  (one.owner < other.owner ? -1 : 1);

/** The use of all owners, and of each one, counted in one pass over the caches. */
export function usesOf({ lookup, caps }: UseSources): Uses {
  const all = noCounts();
  const owners = new Map<string, Counts>();
  let spares = 0;
  const count = (owner: string, what: keyof Counts) => {
    let own = owners.get(owner);
    if (own === undefined) owners.set(owner, (own = noCounts()));
    own[what] += 1;
    all[what] += 1;
  };
  const { conversations, sandboxes } = lookup.everyHolding();
  for (const sandbox of sandboxes) {
    if (!slotTaken(sandbox)) continue;
    if (sandbox.spec.owner === '') spares += 1;
    else count(sandbox.spec.owner, 'active');
  }
  for (const conversation of conversations) {
    if (conversation.metadata.deletionTimestamp !== undefined) continue;
    count(conversation.spec.owner, stateOf(conversation, lookup.sandboxIn(conversation)));
  }
  const rules = quotaRules(lookup.quotas());
  const items = [...owners].map(([owner, counts]): OwnerUse => {
    const rule = ownerRule(rules, owner);
    return {
      owner,
      ...counts,
      ...storedView(caps.stored(owner)),
      quota: rule?.quotaName ?? null,
      limit: rule?.limit ?? null,
    };
  });
  return {
    owners: { total: items.length, items: items.sort(byUse).slice(0, maxItems) },
    totals: { ...all, ...storedView(caps.all), spares },
  };
}
