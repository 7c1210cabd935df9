import type { EventDetails } from '@conversation-operator/kube/events';
import type { Account } from '../../../../src/budget/record-store.ts';
import { BudgetWarnings, warningOf } from '../../../../src/gateway/models/budget-warnings.ts';
import { recordKeyOf } from '../../../../src/gateway/models/usage-store.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { aConversation } from '../../../support/builders.ts';

it.each([
  [0, 100, undefined],
  [79, 100, undefined],
  [80, 100, 80],
  [89, 100, 80],
  [90, 100, 90],
  [250, 100, 90],
])('%d of %d: %s', (spent, limit, expected) => {
  expect(warningOf(spent, limit)).toBe(expected);
});

it('warns once at each part, and again after a raise', () => {
  const events: EventDetails[] = [];
  const warnings = new BudgetWarnings({
    events: { record: (_object, event) => void events.push(event) },
    metrics: createMetrics(),
  });
  const record = recordKeyOf('default', { owner: 'alice', month: '2026-03' });
  const account = 'default/Month/2026-03-01';
  const observe = (spent: number, raised = 0): void => {
    const half = Math.floor(spent / 2);
    const holder = { id: 'r', granted: 1e9, spent: spent - half, renewedAtMs: 0 };
    const known: Account = { key: account, unit: 'USD', spent: half, raised, holders: [holder] };
    warnings.observe(record, [known, { ...known, key: 'unknown' }]);
  };
  observe(9e8);
  expect(events).toEqual([]);
  warnings.watch(aConversation(), [
    { record, account, unit: 'USD', limit: 1e9, quota: 'default', endsAtMs: Infinity },
  ]);
  const texts = (): string[] =>
    events.splice(0).map(({ reason, message }) => `${reason}: ${message}`);
  for (const spent of [7e8, 8e8, 8.5e8]) observe(spent);
  expect(texts()).toEqual([
    'BudgetNearlyExhausted: 80 % of the budget of $1 of quota default are spent.',
  ]);
  for (const spent of [9e8, 1e9]) observe(spent);
  expect(texts()).toEqual([
    'BudgetNearlyExhausted: 90 % of the budget of $1 of quota default are spent.',
  ]);
  observe(1e9, 5e8);
  observe(1.3e9, 5e8);
  expect(texts()).toEqual([
    'BudgetNearlyExhausted: 80 % of the budget of $1.50 of quota default are spent.',
  ]);
});

describe('a warning', () => {
  const record = recordKeyOf('default', { owner: 'alice', month: '2026-03' });
  const key = 'default/Month/2026-03-01';
  const accountOf = (spent: number, more: object = {}) => ({
    key,
    unit: 'USD' as const,
    spent,
    raised: 0,
    holders: [],
    ...more,
  });
  /** A process whose call has used the budget of one dollar. */
  const aProcess = (conversation = aConversation()) => {
    const events: EventDetails[] = [];
    const warnings = new BudgetWarnings({
      events: { record: (_object, event) => void events.push(event) },
      metrics: createMetrics(),
    });
    warnings.watch(conversation, [
      { record, account: key, unit: 'USD', limit: 1e9, quota: 'default', endsAtMs: Infinity },
    ]);
    return { events, warnings };
  };

  it('is stored only once it was given, and is not given again by a process that reads that', () => {
    const first = aProcess();
    expect(first.warnings.markOf(record, accountOf(8e8))).toBeUndefined();
    first.warnings.observe(record, [accountOf(8e8)]);
    expect(first.events).toHaveLength(1);
    expect(first.warnings.markOf(record, accountOf(8.5e8))).toBe(80);
    const second = aProcess();
    second.warnings.observe(record, [accountOf(8.5e8, { warned: 80 })]);
    expect(second.events).toEqual([]);
    second.warnings.observe(record, [accountOf(9e8, { warned: 80 })]);
    expect(second.events).toMatchObject([{ message: expect.stringContaining('90 %') as string }]);
  });

  it('is the same Event in each process, and another one after a raise', () => {
    const names = [0, 0, 1e8].map((raised, index) => {
      const { events, warnings } = aProcess(aConversation({ name: `c${index}` }));
      warnings.observe(record, [accountOf(8.9e8, { raised })]);
      return events[0]?.name;
    });
    expect(names[0]).toMatch(/^budget-[0-9a-f-]+$/);
    expect(names[1]).toBe(names[0]);
    expect(names[2]).not.toBe(names[0]);
  });

  it('can come again after a raise, whichever process has seen that', () => {
    const { warnings } = aProcess();
    const raised = accountOf(9e8, { warned: 90, raised: 1e9 });
    expect(warnings.markOf(record, raised)).toBeUndefined();
    expect(warnings.markOf(record, accountOf(9e8, { warned: 90, raised: 1e8 }))).toBe(80);
  });

  it('stays stored by a process that does not know the budget', () => {
    const { warnings } = aProcess();
    expect(warnings.markOf(record, accountOf(0, { key: 'other', warned: 90 }))).toBe(90);
  });
});
