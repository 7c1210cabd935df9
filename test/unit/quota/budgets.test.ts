import { Periods } from '../../../src/budget/period.ts';
import {
  accountOf,
  budgetsOf,
  isExhausted,
  quotaBudgets,
  useOf,
  type QuotaBudget,
} from '../../../src/quota/budgets.ts';
import type { ConversationQuotaSpec } from '../../../src/resources/conversation-quota.ts';
import { usageRecordNameOf, type UsageAccount } from '../../../src/resources/usage-record.ts';
import { aQuota } from '../../support/builders.ts';

const budget = (amount: number): NonNullable<ConversationQuotaSpec['budget']> => ({
  amount,
  currency: 'USD',
  period: 'Month',
  timeZone: 'UTC',
  onExceeded: 'Reject',
  maxRaise: 0,
});

const quotas = quotaBudgets([
  aQuota('z-everyone', { budget: budget(10) }),
  aQuota('everyone', { budget: { ...budget(1), period: 'Day' } }),
  aQuota('slots', { limit: 1 }),
  aQuota('of-alice', { owner: 'alice', budget: budget(50) }),
  aQuota('of-bob', { owner: 'bob' }),
  aQuota('all', { scope: 'Namespace', budget: budget(100) }),
]);

it.each([
  ['the own quota and the one of the namespace', 'alice', ['of-alice', 'all']],
  ['those for every owner where the own quota has none', 'bob', ['everyone', 'z-everyone', 'all']],
  ['those for every owner where there is no own quota', 'carol', ['everyone', 'z-everyone', 'all']],
])('a call fits into the budget of %s', (_name, owner, names) => {
  expect(budgetsOf(quotas, owner).map(({ quotaName }) => quotaName)).toEqual(names);
});

it('no budget holds where no quota has one', () => {
  expect(budgetsOf(quotaBudgets([aQuota('slots', {})]), 'alice')).toEqual([]);
});

const aBudget = (more: Partial<QuotaBudget> = {}): QuotaBudget => ({
  ...budget(10),
  quotaName: 'default',
  scope: 'Owner',
  ...more,
});
const accountAt = (time: string, more: Partial<QuotaBudget> = {}) =>
  accountOf(
    aBudget(more),
    { namespace: 'team', owner: 'alice', nowMs: Date.parse(time) },
    new Periods(),
  );

it.each<[string, Partial<QuotaBudget>, string, string, string]>([
  ['a month', {}, '2026-11-30T23:59:59Z', 'default/Month/2026-11-01', '2026-12-01T00:00:00.000Z'],
  [
    'a month of another zone',
    { timeZone: 'Europe/Berlin' },
    '2026-11-30T23:30:00Z',
    'default/Month/2026-12-01',
    '2026-12-31T23:00:00.000Z',
  ],
  [
    'a week that ends in another month',
    { period: 'Week' },
    '2026-12-02T12:00:00Z',
    'default/Week/2026-11-30',
    '2026-12-07T00:00:00.000Z',
  ],
  [
    'a zone that nobody knows',
    { period: 'Day', timeZone: 'Europe/Atlantis' },
    '2026-11-30T23:30:00Z',
    'default/Day/2026-11-30',
    '2026-12-01T00:00:00.000Z',
  ],
])('%s has an account of its own', (_name, more, time, key, end) => {
  const { account, endsAtMs, record, limit } = accountAt(time, more);
  const month = key.slice(key.lastIndexOf('/') + 1, -'-01'.length);
  expect({ account, end: new Date(endsAtMs).toISOString(), record, limit }).toEqual({
    account: key,
    end,
    record: {
      namespace: 'team',
      name: usageRecordNameOf({ owner: 'alice', month }),
      spec: { scope: 'Owner', owner: 'alice', month },
    },
    limit: 10_000_000_000,
  });
});

it('a budget of a namespace has its account in the record of the namespace', () => {
  const { record } = accountAt('2026-11-30T00:00:00Z', { scope: 'Namespace' });
  expect(record.name).toBe('usage-2026-11');
  expect(record.spec).toEqual({ scope: 'Namespace', month: '2026-11' });
});

const key = 'default/Month/2026-11-01';
const account = (more: Partial<UsageAccount>): UsageAccount => ({
  key,
  unit: 'USD',
  spent: '0',
  ...more,
});
const renewTime = '2026-11-30T00:00:00Z';
const holders = [
  { id: 'a', granted: '0.5', spent: '0.2', renewTime },
  { id: 'b', granted: '0.25', spent: '0.25', renewTime },
];
const usd = (amount: number): number => amount * 1e9;

it.each<[string, readonly UsageAccount[] | undefined, object, boolean]>([
  ['no record', undefined, { limit: usd(10), spent: 0, reserved: 0 }, false],
  [
    'the account of another period',
    [account({ key: 'default/Month/2026-10-01', spent: '10' })],
    { limit: usd(10), spent: 0, reserved: 0 },
    false,
  ],
  [
    'shares of replicas',
    [account({ spent: '9', holders })],
    { limit: usd(10), spent: usd(9.45), reserved: usd(0.3) },
    false,
  ],
  [
    'nothing left',
    [account({ spent: '10' })],
    { limit: usd(10), spent: usd(10), reserved: 0 },
    true,
  ],
  [
    'a raise',
    [account({ spent: '10', raised: '5' })],
    { limit: usd(15), spent: usd(10), reserved: 0 },
    false,
  ],
  [
    'more than any budget has',
    [account({ spent: '9999999999999999' })],
    { limit: usd(10), spent: usd(9e6), reserved: 0 },
    true,
  ],
])('the use of a budget with %s', (_name, accounts, use, exhausted) => {
  const record = accounts === undefined ? undefined : { status: { accounts: [...accounts] } };
  const observed = useOf(accountAt('2026-11-30T00:00:00Z'), record);
  expect(observed).toEqual(use);
  expect(isExhausted(observed)).toBe(exhausted);
});
