import fc from 'fast-check';
import { parseAmount } from '../../../src/budget/money.ts';
import {
  deltaOf,
  maxConversations,
  maxModelsOfConversation,
  maxRows,
  maxSumsBytes,
  mergedDeltas,
  other,
  totalOf,
  withDeltas,
  type UsageCounters,
  type UsageDelta,
  type UsageSums,
} from '../../../src/models/usage-rows.ts';

const aDelta = (delta: Partial<UsageDelta> = {}): UsageDelta => ({
  day: '2026-11-15',
  model: 'gpt-5',
  template: 'openhands',
  conversation: 'first',
  calls: 1,
  inputTokens: 100,
  cachedInputTokens: 50,
  outputTokens: 10,
  nanos: 250_000_000,
  ...delta,
});
const times = (count: number, of: (index: number) => Partial<UsageDelta>) =>
  Array.from({ length: count }, (_, index) => aDelta(of(index)));
const bytesOf = (sums: UsageSums) => Buffer.byteLength(JSON.stringify(sums));
const dayOf = (index: number) => new Date(Date.UTC(2026, 0, 1 + index)).toISOString().slice(0, 10);

/** Asserts that each list has the sum of the deltas, and that all bounds hold. */
function expectWhole(sums: UsageSums, deltas: readonly UsageDelta[]): void {
  const nanos = deltas.reduce((sum, delta) => sum + delta.nanos, 0);
  const calls = deltas.reduce((sum, delta) => sum + delta.calls, 0);
  const { rows = [], conversations = [] } = sums;
  const ofModels = conversations.flatMap(({ models }) => models);
  for (const total of [sums.totals, totalOf(rows), totalOf(conversations), totalOf(ofModels)]) {
    expect(total?.calls).toBe(calls);
    expect(parseAmount(total?.cost ?? '', 'USD')).toBe(nanos);
  }
  expect(rows.length).toBeLessThanOrEqual(maxRows);
  expect(conversations.length).toBeLessThanOrEqual(maxConversations);
  for (const { models } of conversations)
    expect(models.length).toBeLessThanOrEqual(maxModelsOfConversation);
  expect(bytesOf(sums)).toBeLessThanOrEqual(maxSumsBytes);
  expect(new Set(rows.map((row) => JSON.stringify([row.day, row.model, row.template]))).size).toBe(
    rows.length,
  );
}

it('the first call makes a row, a conversation and totals', () => {
  const counters = {
    calls: 1,
    inputTokens: 100,
    cachedInputTokens: 50,
    outputTokens: 10,
    cost: '0.25',
  };
  const sums = withDeltas({}, [aDelta()]);
  expect(sums).toEqual({
    totals: counters,
    rows: [{ day: '2026-11-15', model: 'gpt-5', template: 'openhands', ...counters }],
    conversations: [
      {
        name: 'first',
        ...counters,
        lastDay: '2026-11-15',
        models: [{ model: 'gpt-5', ...counters }],
      },
    ],
  });
});

it('a call adds to its row, its conversation and the totals, and changes no stored object', () => {
  const before = withDeltas({}, [aDelta()]);
  const stored = JSON.stringify(before);
  const after = withDeltas(before, [aDelta({ day: '2026-11-14', nanos: 1 })]);
  expect(JSON.stringify(before)).toBe(stored);
  expect(after.rows?.map(({ day, cost }) => [day, cost])).toEqual([
    ['2026-11-15', '0.25'],
    ['2026-11-14', '0.000000001'],
  ]);
  expect(after.conversations).toMatchObject([
    { cost: '0.250000001', lastDay: '2026-11-15', models: [{ calls: 2, cost: '0.250000001' }] },
  ]);
  expect(after.totals).toMatchObject({ calls: 2, inputTokens: 200, cost: '0.250000001' });
});

it('the calls of five seconds are one delta for each day, model, template and conversation', () => {
  const merged = mergedDeltas([
    ...times(100, () => ({})),
    aDelta({ conversation: 'second' }),
    aDelta({ model: 'gpt-5-mini' }),
  ]);
  expect(merged).toHaveLength(3);
  expect(merged[0]).toMatchObject({ calls: 100, outputTokens: 1000, nanos: 25_000_000_000 });
});

it.each(['', 'x'.repeat(257)])('a model that a record cannot name is in `other`', (model) => {
  const usage = { inputTokens: 3, cachedInputTokens: 2, cacheWriteTokens: 1, outputTokens: 4 };
  const call = { day: '2026-11-15', template: 't', conversation: 'c', nanos: 9 };
  expect(deltaOf({ ...call, model }, usage)).toEqual({
    ...call,
    model: other,
    calls: 1,
    inputTokens: 3,
    cachedInputTokens: 2,
    outputTokens: 4,
  });
});

describe('what has no room is added to `other`', () => {
  it.each<[string, readonly UsageDelta[]]>([
    ['models without end', times(3000, (index) => ({ model: `model-${String(index)}` }))],
    [
      'models and days without end',
      times(4000, (index) => ({ day: dayOf(index), model: `model-${String(index)}` })),
    ],
    [
      'models, templates and days without end',
      times(6000, (index) => ({
        day: dayOf(index % 3000),
        model: `model-${String(index)}`,
        template: `template-${String(index)}`,
      })),
    ],
    [
      'conversations without end',
      times(3000, (index) => ({
        conversation: `conversation-${String(index)}`,
        day: dayOf(Math.floor(index / 100)),
      })),
    ],
    [
      'long names',
      times(3000, (index) => ({
        conversation: `${'c'.repeat(59)}${String(index)}`,
        model: `${'"'.repeat(250)}${String(index)}`,
        template: 't'.repeat(253),
        day: dayOf(index % 30),
      })),
    ],
    [
      'many models of many conversations',
      times(30_000, (index) => ({
        conversation: `conversation-${String(index % 1000)}`,
        model: `${'m'.repeat(100)}-${String(Math.floor(index / 1000))}`,
      })),
    ],
  ])('%s', (_what, deltas) => {
    expectWhole(withDeltas({}, deltas), deltas);
    // The same in many writes, as replicas make them.
    const size = Math.ceil(deltas.length / 20);
    let sums: UsageSums = {};
    for (let at = 0; at < deltas.length; at += size)
      sums = withDeltas(sums, deltas.slice(at, at + size));
    expectWhole(sums, deltas);
  });

  it('the conversations that were used longest ago go first', () => {
    const sums = withDeltas(
      {},
      times(maxConversations + 1, (index) => ({
        conversation: `conversation-${String(index)}`,
        day: index === 7 || index === 9 ? '2026-11-01' : '2026-11-15',
      })),
    );
    const names = new Set(sums.conversations?.map(({ name }) => name));
    expect(names.size).toBe(maxConversations);
    expect(['conversation-7', 'conversation-9', other].map((name) => names.has(name))).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('a row of a day that is known stays a row of that day', () => {
    const full = withDeltas(
      {},
      times(3000, (index) => ({ model: `model-${String(index)}`, template: String(index % 2) })),
    );
    expect(full.rows?.filter(({ model }) => model === other)).toMatchObject([
      { day: '2026-11-15', template: '0' },
      { day: '2026-11-15', template: '1' },
    ]);
    const next = withDeltas(full, [aDelta({ day: '2026-11-16', model: 'new', template: '0' })]);
    expect(next.rows?.at(-1)).toMatchObject({ day: '2026-11-16', model: other, template: '0' });
  });
});

it('nothing falls that stays', () => {
  const someDelta = fc.record({
    day: fc.integer({ min: 0, max: 40 }).map(dayOf),
    model: fc.integer({ min: 0, max: 30 }).map(String),
    template: fc.constantFrom('a', 'b'),
    conversation: fc.integer({ min: 0, max: 30 }).map(String),
    calls: fc.nat(5),
    inputTokens: fc.maxSafeNat(),
    cachedInputTokens: fc.nat(),
    outputTokens: fc.nat(),
    nanos: fc.maxSafeNat(),
  });
  const fields = (counters: UsageCounters) => [
    ...[counters.calls, counters.inputTokens, counters.cachedInputTokens, counters.outputTokens],
    parseAmount(counters.cost, 'USD'),
  ];
  const named = ({ totals, rows = [], conversations = [] }: UsageSums) =>
    new Map<string, UsageCounters>([
      ...(totals === undefined ? [] : [['totals', totals] as const]),
      ...rows.map((row) => [`${row.day} ${row.model} ${row.template}`, row] as const),
      ...conversations.map((row) => [`conversation ${row.name}`, row] as const),
    ]);
  fc.assert(
    fc.property(fc.array(fc.array(someDelta), { maxLength: 5 }), (writes) => {
      let sums: UsageSums = {};
      for (const deltas of writes) {
        const next = withDeltas(sums, deltas);
        const after = named(next);
        const fallen = [...named(sums)].flatMap(([name, counters]) => {
          const later = after.get(name);
          const before = fields(counters);
          return later !== undefined &&
            fields(later).some((value, index) => value < (before[index] ?? 0))
            ? [name]
            : [];
        });
        if (fallen.length > 0) throw new Error(`${fallen.join()} fell`);
        sums = next;
      }
    }),
  );
});
