import type { ConversationQuotaSpec } from '../../../src/resources/conversation-quota.ts';
import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import {
  newUsageRecord,
  usageRecords,
  type UsageRecordStatus,
  type UsageSubject,
} from '../../../src/resources/usage-record.ts';
import { namespace, TestGateway } from '../../support/gateway/test-gateway.ts';

let gateway: TestGateway;
beforeEach(async () => {
  gateway = await TestGateway.start();
});
afterEach(() => gateway.stop());

const today = () => new Date().toISOString().slice(0, 10);
const thisMonth = () => today().slice(0, 7);

async function addRecord(subject: UsageSubject, status: UsageRecordStatus): Promise<void> {
  const created = await gateway.client.create(usageRecords, newUsageRecord(namespace, subject));
  await gateway.seen(
    gateway.caches.usageRecords,
    await gateway.client.updateStatus(usageRecords, { ...created, status }),
  );
}

async function addQuota(spec: Partial<ConversationQuotaSpec>, name = 'default'): Promise<void> {
  const created = await gateway.client.create(conversationQuotas, {
    apiVersion,
    kind: conversationQuotas.kind,
    metadata: { namespace, name },
    spec: {
      scope: 'Owner',
      limit: 100,
      onExceeded: 'PauseOldest',
      minActiveSeconds: 0,
      autoResume: 'All',
      ...spec,
    },
  });
  await gateway.seen(gateway.caches.quotas, created);
}

const budget = (amount: number): NonNullable<ConversationQuotaSpec['budget']> => ({
  amount,
  currency: 'USD',
  period: 'Month',
  timeZone: 'UTC',
  onExceeded: 'Reject',
  maxRaise: 0,
});
const counters = (calls: number, cost: string) => ({
  calls,
  inputTokens: calls * 100,
  cachedInputTokens: calls * 10,
  outputTokens: calls * 5,
  cost,
});
const view = (calls: number, cost: number) => ({
  calls,
  input_tokens: calls * 100,
  cached_input_tokens: calls * 10,
  output_tokens: calls * 5,
  cost,
});
const id = '0192f0c1a2b34c5d96f708192a3b4c5d';
const recordOf = (day: string): UsageRecordStatus => ({
  rows: [
    { day, model: 'gpt', template: 'default', ...counters(1, '0.1') },
    { day, model: '=cmd', template: 'other-template', ...counters(2, '0.2') },
  ],
  conversations: [{ name: id, ...counters(3, '0.3'), lastDay: day, models: [] }],
  totals: counters(3, '0.3'),
});
const usage = (query = '', key = gateway.alice) => gateway.get(`/api/v1/usage${query}`, { key });

it('the usage of an owner without a record is nothing, and no budget holds', async () => {
  expect(await usage()).toMatchObject({
    status: 200,
    json: { items: [], total: view(0, 0), budget: null },
  });
});

it.each([
  ['day', () => [{ key: today(), ...view(3, 0.3) }]],
  [
    'model',
    () => [
      { key: '=cmd', ...view(2, 0.2) },
      { key: 'gpt', ...view(1, 0.1) },
    ],
  ],
  [
    'template',
    () => [
      { key: 'other-template', ...view(2, 0.2) },
      { key: 'default', ...view(1, 0.1) },
    ],
  ],
  ['conversation', () => [{ key: id, ...view(3, 0.3) }]],
])('the usage of this month by %s', async (group, items) => {
  await addRecord({ owner: 'alice', month: thisMonth() }, recordOf(today()));
  await addRecord({ owner: 'bob', month: thisMonth() }, recordOf(today()));
  const { json } = await usage(`?group_by=${group}`);
  expect(json).toEqual({ items: items(), total: view(3, 0.3), budget: null });
});

it('the usage of several months has the days of the range alone', async () => {
  await addRecord({ owner: 'alice', month: '2026-01' }, recordOf('2026-01-31'));
  await addRecord({ owner: 'alice', month: '2026-02' }, recordOf('2026-02-01'));
  await addRecord({ owner: 'alice', month: '2026-03' }, recordOf('2026-03-02'));
  const { json } = await usage('?from=2026-01-31&to=2026-03-01');
  expect(json).toMatchObject({ items: [{ key: '2026-01-31' }, { key: '2026-02-01' }] });
});

it('is CSV for who asks for it, in which no cell is a formula', async () => {
  await addRecord({ owner: 'alice', month: thisMonth() }, recordOf(today()));
  const response = await fetch(`${gateway.url}/api/v1/usage?group_by=model`, {
    headers: { authorization: `Bearer ${gateway.alice}`, accept: 'text/csv' },
  });
  expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8');
  expect(await response.text()).toBe(
    'key,calls,input_tokens,cached_input_tokens,output_tokens,cost\r\n' +
      "'=cmd,2,200,20,10,0.2\r\ngpt,1,100,10,5,0.1\r\n",
  );
});

it.each([
  ['?from=2026-02-30', 'query.from', 'must be a day as YYYY-MM-DD'],
  ['?to=yesterday', 'query.to', 'must be a day as YYYY-MM-DD'],
  ['?from=2026-03-01&to=2026-02-01', 'query.from', 'must not be after to, which is 2026-02-01'],
  ['?from=2999-01-01', 'query.from', 'must not be after today, which is '],
  [
    '?from=2025-01-01&to=2026-01-02',
    'query.from',
    'must be at most 366 days before to; these are 367',
  ],
  ['?group_by=owner', 'query.group_by', 'must be day, model, template or conversation'],
  ['?owner=', 'query.owner', 'must have at least 1 character'],
  ['?month=2026-01', 'query.month', 'is not a known parameter'],
])('%s is refused', async (query, path, message) => {
  const { status, json } = await usage(query);
  const { code, errors } = json as { code: string; errors: { path: string; message: string }[] };
  expect({ status, code, path: errors[0]?.path }).toEqual({
    status: 422,
    code: 'invalid-request',
    path,
  });
  expect(errors[0]?.message).toContain(message);
});

it('a whole leap year is accepted', async () => {
  expect(await usage('?from=2028-01-01&to=2028-12-31')).toMatchObject({ status: 200 });
});

it('only an admin reads the usage of another owner', async () => {
  await addRecord({ owner: 'bob', month: thisMonth() }, recordOf(today()));
  expect(await usage('?owner=bob')).toMatchObject({ status: 403, json: { code: 'forbidden' } });
  expect(await usage('?owner=alice')).toMatchObject({ status: 200 });
  const { json } = await usage('?owner=bob', await gateway.issueKey('root', 'admin'));
  expect(json).toMatchObject({ total: view(3, 0.3) });
});

it('a record with the name of an owner that is for another one counts for nobody', async () => {
  const own = newUsageRecord(namespace, { owner: 'alice', month: thisMonth() });
  const created = await gateway.client.create(usageRecords, {
    ...own,
    spec: { scope: 'Owner', owner: 'mallory', month: thisMonth() },
  });
  await gateway.client.updateStatus(usageRecords, { ...created, status: recordOf(today()) });
  expect((await usage()).json).toMatchObject({ total: view(0, 0) });
});

const accountOf = (quota: string, more: object = {}) => ({
  key: `${quota}/Month/${thisMonth()}-01`,
  unit: 'USD' as const,
  spent: '0',
  ...more,
});

it('shows the budget that has the least share left, with what is spent and reserved', async () => {
  await addQuota({ budget: budget(10) });
  await addQuota({ scope: 'Namespace', budget: budget(100) }, 'all');
  const holders = [{ id: 'a', granted: '2', spent: '0.5', renewTime: new Date().toISOString() }];
  await addRecord(
    { owner: 'alice', month: thisMonth() },
    { accounts: [accountOf('default', { spent: '3', raised: '5', holders })] },
  );
  expect((await usage()).json).toMatchObject({
    budget: {
      quota: 'default',
      amount: 15,
      currency: 'USD',
      period: 'Month',
      spent: 3.5,
      reserved: 1.5,
    },
  });
  await addRecord({ month: thisMonth() }, { accounts: [accountOf('all', { spent: '90' })] });
  expect((await usage()).json).toMatchObject({ budget: { quota: 'all', spent: 90 } });
});

describe('a start of an owner whose budget is exhausted', () => {
  const base = '/api/v1/app-conversations';
  const hello = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };
  const start = (body: object = hello, key = gateway.alice) => gateway.post(base, body, { key });

  it('is refused, with limit and current, until somebody raises it', async () => {
    await addQuota({ budget: budget(10) });
    const subject = { owner: 'alice', month: thisMonth() };
    await addRecord(subject, { accounts: [accountOf('default', { spent: '10' })] });
    expect(await start()).toMatchObject({
      status: 429,
      json: {
        code: 'budget-exhausted',
        limit: 10,
        current: 10,
        detail: expect.stringMatching(
          /^Of your budget for models of \$10 a month, \$10 are spent\. It starts again at \d{4}-\d\d-01 00:00 UTC; an admin can raise it\.$/,
        ) as string,
      },
    });
    expect(await gateway.get('/api/v1/quota', { key: gateway.alice })).toMatchObject({
      json: {
        next_start: {
          outcome: 'rejected',
          quota: 'default',
          reason: expect.stringMatching(
            /^The start would be refused: your budget for models is used up\. It starts again at /,
          ) as string,
        },
      },
    });
    expect(await start(hello, gateway.bob)).toMatchObject({ status: 200 });
    const { metadata } = newUsageRecord(namespace, subject);
    const stored = await gateway.client.get(usageRecords, namespace, metadata.name);
    const accounts = [accountOf('default', { spent: '10', raised: '0.5' })];
    await gateway.seen(
      gateway.caches.usageRecords,
      await gateway.client.updateStatus(usageRecords, { ...stored, status: { accounts } }),
    );
    expect(await start()).toMatchObject({ status: 200 });
  });

  it('is accepted under the policy Queue', async () => {
    await addQuota({ budget: { ...budget(10), onExceeded: 'Queue' } });
    await addRecord(
      { owner: 'alice', month: thisMonth() },
      { accounts: [accountOf('default', { spent: '10' })] },
    );
    expect(await start()).toMatchObject({ status: 200 });
  });

  it('stores max_cost as the budget of the conversation', async () => {
    const { json } = await start({ ...hello, max_cost: 2.5 });
    expect(json).toMatchObject({ request: { max_cost: 2.5 } });
  });

  it.each([0, -1, 1_000_000.5, 0.0000000001, '5', [1]])(
    'is refused with the max_cost %j, which names the field',
    async (cost) => {
      expect(await start({ ...hello, max_cost: cost })).toMatchObject({
        status: 422,
        json: {
          errors: [
            {
              path: 'body.max_cost',
              message: 'must be a number above 0, at most 1000000, with at most 9 decimals',
            },
          ],
        },
      });
    },
  );
});

it.each(['from=9999-12-01&to=9999-12-31', 'to=9999-12-31', 'from=0000-01-01&to=0000-02-01'])(
  'a range at an end of the calendar is answered at once: %s',
  async (range) => {
    const begin = performance.now();
    expect(await usage(`?${range}`)).toMatchObject({ status: 200, json: { items: [] } });
    expect(performance.now() - begin).toBeLessThan(200);
  },
);
