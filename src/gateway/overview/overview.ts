import type { Clock } from '@conversation-operator/base/clock';
import type { Caches, ServiceCaches } from '../lookup/cache.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { StorageCaps } from '../lookup/storage-caps.ts';
import { wireTime } from '../presenters/schemas.ts';
import {
  listed,
  presentCache,
  presentPool,
  presentQuota,
  presentTemplate,
  templateRank,
  shortText,
  queueOf,
} from './present.ts';
import {
  type OverviewRecord,
  maxItems,
  overviewSchema,
  type ConversationState,
} from './schemas.ts';
import type { Lease } from '@conversation-operator/kube/core';
import { operatorLeaseName, shardLeaseName, shardsOfHolder } from '../../resources/lease-names.ts';
import { type Route, endpoints } from '../http/route.ts';
import { onlyAdmin } from '../errors/common-problems.ts';
import { spendingOf, upstreamErrorsOf } from './spending.ts';
import { isWaitingReason } from '../../quota/classify.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { waitingForBudget } from '../../resources/conversation.ts';
import { ownerRule, quotaRules } from '../../quota/rules.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { slotTaken } from '../../status/sandbox-phase.ts';
import { storedView } from '../quota/quota-record.ts';
import { executionStatusOf, sandboxViewOf } from '../presenters/conversation.ts';

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
      return isWaitingReason(reason) || reason === waitingForBudget ? 'waiting' : 'starting';
    case 'RUNNING':
      return statesOfRuns[executionStatusOf(conversation, phase) ?? ''] ?? 'running';
    case 'PAUSED':
      return 'paused';
    case 'ERROR':
    case 'MISSING':
      return 'failed';
  }
}

interface UseSources {
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

/** Counts the objects of each owner, and of all owners, in one pass over the caches. */
function usesOf({ lookup, caps }: UseSources): Uses {
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

const { get } = endpoints('admin');

export function overviewRoutes(sources: OverviewSources): readonly Route[] {
  const overview = new Overview(sources);
  return [
    get('/api/v1/admin/overview', 'getOverview', {
      scope: 'admin',
      summary:
        'For an admin: the state of the service, what each owner uses, and who waits for what; at most 2 s old',
      responses: { 200: overviewSchema },
      problems: ['forbidden'],
      handle: ({ principal }) => {
        if (principal.role !== 'admin') throw onlyAdmin('read the state of the service');
        return { jsonText: overview.text };
      },
    }),
  ];
}

type Leader = NonNullable<OverviewRecord['leaders']>[number];

/** Maximum time by which the clock of a leader may be behind that of the gateway. */
const clockToleranceMs = 5_000;

function leaderOf(shard: number | null, lease: Lease | undefined, now: number): Leader {
  const { holderIdentity = '', renewTime, leaseDurationSeconds = 0 } = lease?.spec ?? {};
  const renewed = Date.parse(renewTime ?? '');
  const isHeld = holderIdentity !== '';
  return {
    shard,
    holder: isHeld ? shortText(holderIdentity) : null,
    renewed_at: Number.isNaN(renewed) ? null : wireTime(renewed),
    is_live: isHeld && renewed + leaseDurationSeconds * 1000 + clockToleranceMs > now,
  };
}

/** The leader of the operator, or of each of its shards, according to their Leases. */
function leadersOf(find: (name: string) => Lease | undefined, now: number): readonly Leader[] {
  const common = find(operatorLeaseName);
  const shards = shardsOfHolder(common?.spec?.holderIdentity ?? '');
  if (shards === undefined) return [leaderOf(null, common, now)];
  return Array.from({ length: Math.min(shards, maxItems) }, (_, shard) =>
    leaderOf(shard, find(shardLeaseName(operatorLeaseName, shard)), now),
  );
}

/** Maximum age of a response: all readers within this time share one computation. */
const maxAgeMs = 2_000;

export interface OverviewSources {
  readonly lookup: ResourceLookup;
  readonly caps: Pick<StorageCaps, 'stored' | 'all'>;
  readonly caches: Caches;
  readonly serviceCaches: ServiceCaches;
  readonly namespace: string;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly version: string;
  readonly uptimeSeconds: () => number;
  readonly metricsUrl: string | undefined;
}

/** The state of the service, from the caches only. */
export function overviewOf(sources: OverviewSources): OverviewRecord {
  const { lookup, caches, serviceCaches, namespace, clock } = sources;
  const { pools, leases } = serviceCaches;
  const now = clock.now();
  const poolsHere = pools.store.list().filter(({ metadata }) => metadata.namespace === namespace);
  return {
    generated_at: wireTime(now),
    version: sources.version,
    uptime_seconds: Math.round(sources.uptimeSeconds()),
    metrics_url: sources.metricsUrl ?? null,
    leaders:
      leases === undefined
        ? null
        : [...leadersOf((name) => leases.store.get(namespace, name), now)],
    caches: [
      presentCache('Conversation', caches.conversations),
      presentCache('Sandbox', caches.sandboxes),
      presentCache('SandboxTemplate', caches.templates),
      presentCache('SandboxPool', pools),
      presentCache('ConversationQuota', caches.quotas),
      presentCache('ApiKey', caches.apiKeys),
      presentCache('UsageRecord', caches.usageRecords),
      ...(leases === undefined ? [] : [presentCache('Lease', leases)]),
    ],
    ...usesOf(sources),
    ...spendingOf(lookup, now),
    upstream_errors: upstreamErrorsOf(lookup, now),
    queue: queueOf(lookup, now),
    quotas: listed(lookup.quotas(), presentQuota),
    pools: listed(poolsHere, presentPool),
    templates: listed(lookup.templates(), presentTemplate, templateRank),
  };
}

/** The overview as JSON, which is computed at most every two seconds. */
export class Overview {
  readonly #sources: OverviewSources;
  #made: { readonly at: number; readonly text: string } | undefined;

  constructor(sources: OverviewSources) {
    this.#sources = sources;
  }

  get text(): string {
    const now = this.#sources.clock.monotonic();
    if (this.#made === undefined || now - this.#made.at >= maxAgeMs)
      this.#made = { at: now, text: JSON.stringify(overviewOf(this.#sources)) };
    return this.#made.text;
  }
}
