import { groupUsage, toCsv, type UsageItem } from '../../../src/models/usage-groups.ts';
import { withDeltas, type UsageDelta } from '../../../src/models/usage-rows.ts';

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
const records = [
  { month: '2026-10', sums: withDeltas({}, [aDelta({ day: '2026-10-31', nanos: 1_000_000_000 })]) },
  {
    month: '2026-11',
    sums: withDeltas({}, [
      aDelta({ day: '2026-11-02', conversation: 'second', model: 'claude-opus-5' }),
      aDelta({ day: '2026-11-01', template: 'codex', nanos: 500_000_000 }),
      aDelta({ day: '2026-11-02', conversation: 'second', model: 'claude-opus-5' }),
    ]),
  },
];

it.each([
  [{ groupBy: 'day' }, ['2026-10-31 1 1', '2026-11-01 1 0.5', '2026-11-02 2 0.5'], '4 2'],
  [{ groupBy: 'model' }, ['gpt-5 2 1.5', 'claude-opus-5 2 0.5'], '4 2'],
  [{ groupBy: 'template' }, ['openhands 3 1.5', 'codex 1 0.5'], '4 2'],
  [{ groupBy: 'conversation' }, ['first 2 1.5', 'second 2 0.5'], '4 2'],
  [{ groupBy: 'day', from: '2026-11-01' }, ['2026-11-01 1 0.5', '2026-11-02 2 0.5'], '3 1'],
  [{ groupBy: 'day', from: '2026-10-31', to: '2026-10-31' }, ['2026-10-31 1 1'], '1 1'],
  [{ groupBy: 'model', to: '2026-11-01' }, ['gpt-5 2 1.5'], '2 1.5'],
  [{ groupBy: 'conversation', from: '2026-11-02' }, ['first 1 0.5', 'second 2 0.5'], '3 1'],
  [{ groupBy: 'conversation', to: '2026-10-31' }, ['first 1 1'], '1 1'],
  [{ groupBy: 'day', from: '2027-01-01' }, [], '0 0'],
] as const)('the usage by %j', (question, items, total) => {
  const answer = groupUsage(records, question);
  expect(answer.items.map(({ key, calls, cost }) => `${key} ${String(calls)} ${cost}`)).toEqual(
    items,
  );
  expect(`${String(answer.total.calls)} ${answer.total.cost}`).toBe(total);
});

const anItem = (item: Partial<UsageItem> = {}): UsageItem => ({
  key: 'gpt-5',
  calls: 2,
  input_tokens: 200,
  cached_input_tokens: 100,
  output_tokens: 20,
  cost: '0.5',
  ...item,
});

it('CSV has a header, and lines that end as RFC 4180 says', () => {
  expect(toCsv([anItem()])).toBe(
    'key,calls,input_tokens,cached_input_tokens,output_tokens,cost\r\ngpt-5,2,200,100,20,0.5\r\n',
  );
});

it.each([
  ['a,b', '"a,b"'],
  ['a"b', '"a""b"'],
  ['a\nb', '"a\nb"'],
  ['=HYPERLINK("x")', `"'=HYPERLINK(""x"")"`],
  ['+1', `'+1`],
  ['-1', `'-1`],
  ['@x', `'@x`],
  ['\t=1', `'\t=1`],
  ['a=1', 'a=1'],
  // A spreadsheet in a country with decimal commas separates cells by semicolons.
  ['a;=1', '"a;=1"'],
])('CSV has the key %j as %j', (key, cell) => {
  expect(toCsv([anItem({ key })]).split('\r\n')[1]).toBe(`${cell},2,200,100,20,0.5`);
});
