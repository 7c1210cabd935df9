import type { ApiKeyRecord, OverviewRecord, OwnerUse, Waiter } from '../../src/web/wire.ts';
import { idOf } from './page-records.ts';
import { aBudget } from './page-usage.ts';

const before = (minutes: number): string =>
  new Date(Date.now() - minutes * 60_000).toISOString().replace('Z', '000Z');
const list = <T>(...items: T[]) => ({ total: items.length, items });

const noUse = {
  active: 0,
  running: 0,
  starting: 0,
  waiting: 0,
  paused: 0,
  finished: 0,
  failed: 0,
  conversations: 0,
  sandboxes: 0,
  stored_bytes: 0,
};

const cache = (kind: string, objects: number) => ({
  kind,
  objects,
  is_synced: true,
  is_interrupted: false,
  news_age_seconds: 3.4,
});

/** A service without objects but one template, in which nothing is wrong. */
export const anOverview = (fields: Partial<OverviewRecord> = {}): OverviewRecord => ({
  generated_at: before(0),
  version: '1.2.3',
  uptime_seconds: 11_000,
  metrics_url: null,
  leaders: [{ shard: null, holder: 'operator-7d4b_1a2b', renewed_at: before(0), is_live: true }],
  caches: [cache('Conversation', 0), cache('Sandbox', 0), cache('Lease', 1)],
  totals: { ...noUse, spares: 0 },
  owners: list(),
  spending: list(),
  exhausted_budgets: list(),
  upstream_errors: list(),
  queue: list(),
  quotas: list(),
  pools: list(),
  templates: list({
    name: 'default',
    is_valid: true,
    reason: 'Valid',
    message: 'Pods are accepted.',
  }),
  ...fields,
});

const owner = (name: string, fields: Partial<OwnerUse>): OwnerUse => ({
  ...noUse,
  owner: name,
  quota: 'default',
  limit: 10,
  ...fields,
});

const waiter = (position: number, name: string, fields: Partial<Waiter> = {}): Waiter => ({
  position,
  sandbox_id: `sbx-${position}`,
  conversation_id: idOf(position),
  owner: name,
  reason: 'waiting-for-quota',
  message: 'At most 10 sandboxes of the owner may be active at once (quota default).',
  since: before(position * 7),
  ...fields,
});

export const hostileText = '<img src=x onerror=alert(1)>';

/** A service with everything that the page distinguishes, and something wrong in it. */
export const aBusyOverview = (): OverviewRecord =>
  anOverview({
    metrics_url: 'https://grafana.example/d/agents',
    totals: {
      active: 19,
      running: 12,
      starting: 3,
      waiting: 3,
      paused: 41,
      finished: 130,
      failed: 6,
      conversations: 195,
      sandboxes: 180,
      stored_bytes: 81_000_000,
      spares: 2,
    },
    owners: list(
      owner('alice', {
        active: 10,
        running: 7,
        starting: 2,
        waiting: 2,
        paused: 12,
        finished: 60,
        failed: 3,
        conversations: 86,
        stored_bytes: 50_000_000,
      }),
      owner('team-payments@example.com', {
        active: 6,
        running: 4,
        starting: 1,
        paused: 20,
        finished: 50,
        limit: null,
        conversations: 75,
        stored_bytes: 30_500_000,
        quota: null,
      }),
      owner('bob', {
        active: 3,
        running: 1,
        waiting: 1,
        paused: 9,
        finished: 20,
        failed: 3,
        limit: 3,
        conversations: 34,
        stored_bytes: 500_000,
        quota: 'of-bob',
      }),
    ),
    spending: list(
      {
        owner: 'alice',
        calls: 1_240,
        input_tokens: 9_000_000,
        output_tokens: 310_000,
        cost: 1_234.5,
      },
      { owner: 'bob', calls: 3, input_tokens: 12_000, output_tokens: 800, cost: 0.004 },
    ),
    exhausted_budgets: list(
      {
        ...aBudget({ quota: 'all', scope: 'Namespace', amount: 2_000, spent: 2_001.5 }),
        owner: null,
      },
      {
        ...aBudget({ quota: 'of-bob', currency: 'Tokens', amount: 12_800, spent: 12_800 }),
        owner: 'bob',
      },
    ),
    upstream_errors: list(
      {
        provider: 'api.anthropic.com',
        kind: 'server-error',
        today: 1_204,
        last_at: before(2),
        message: 'The provider answers with status 529.',
      },
      {
        provider: hostileText,
        kind: 'unreachable',
        today: 0,
        last_at: before(4_000),
        message: 'The provider can not be reached (ENOTFOUND).',
      },
    ),
    queue: list(
      waiter(1, 'alice'),
      waiter(2, 'bob', { message: hostileText }),
      waiter(3, 'alice', {
        reason: 'waiting-for-idle-sandbox',
        message: 'Resumed without a message: it takes the place of an idle sandbox only.',
        conversation_id: null,
      }),
    ),
    quotas: list(
      {
        name: 'default',
        scope: 'Owner' as const,
        owner: null,
        limit: 10,
        on_exceeded: 'PauseOldest' as const,
        auto_resume: 'All' as const,
        active: 16,
        waiting: 2,
        paused: 8,
        full_owners: 1,
        conflict: null,
      },
      {
        name: 'of-bob',
        scope: 'Owner' as const,
        owner: 'bob',
        limit: 3,
        on_exceeded: 'Queue' as const,
        auto_resume: 'All' as const,
        active: 3,
        waiting: 1,
        paused: 0,
        full_owners: 0,
        conflict: 'Also for this owner: of-bob-2. The strictest decides.',
      },
    ),
    pools: list(
      {
        name: 'warm',
        template: 'default',
        wanted: 3,
        ready: 2,
        is_ready: false,
        reason: 'Refilling',
        message: '1 boots.',
      },
      {
        name: 'gpu',
        template: 'gpu',
        wanted: 1,
        ready: 0,
        is_ready: false,
        reason: 'TemplateInvalid',
        message: 'The template gpu is invalid.',
      },
    ),
    templates: list(
      {
        name: 'gpu',
        is_valid: false,
        reason: 'PodInvalid',
        message: `spec.containers[0].image: Required value ${hostileText}`,
      },
      { name: 'next', is_valid: null, reason: null, message: null },
      { name: 'default', is_valid: true, reason: 'Valid', message: 'Pods are accepted.' },
    ),
    caches: [
      cache('Conversation', 195),
      { ...cache('Sandbox', 182), is_interrupted: true, news_age_seconds: 75 },
      cache('SandboxTemplate', 3),
      cache('SandboxPool', 2),
      cache('ConversationQuota', 2),
      cache('ApiKey', 3),
      cache('Lease', 1),
    ],
  });

export const aKey = (id: string, fields: Partial<ApiKeyRecord> = {}): ApiKeyRecord => ({
  id,
  name: `Key ${id}`,
  user_id: 'alice',
  role: 'user',
  scopes: ['read', 'start', 'manage', 'secrets', 'admin'],
  created_at: before(60 * 24 * 12),
  last_used_at: before(90),
  not_before: null,
  expires_at: null,
  issued_by: null,
  ...fields,
});
