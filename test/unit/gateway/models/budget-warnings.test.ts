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
  observe(1e9, 1e9);
  observe(1.7e9, 1e9);
  expect(texts()).toEqual([
    'BudgetNearlyExhausted: 80 % of the budget of $2 of quota default are spent.',
  ]);
});
