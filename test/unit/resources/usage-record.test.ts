import { uuidOf } from '../../../src/resources/ids.ts';
import {
  isUsageRecordOf,
  newUsageRecord,
  usageRecordNameOf,
  usageRecords,
  type UsageRecord,
  type UsageRecordSpec,
  type UsageRecordStatus,
  type UsageSubject,
} from '../../../src/resources/usage-record.ts';
import { admittedObject } from '../../support/admitted-object.ts';

const month = '2026-11';
const id = '0192f0c1a2b3c4d5e6f708192a3b4c5d';
const subjects: Readonly<Record<string, UsageSubject>> = {
  owner: { owner: 'alice', month },
  namespace: { month },
  conversation: { conversation: { name: id, uid: 'uid-1' } },
};
const created = (subject: UsageSubject, uid = 'record'): UsageRecord =>
  ({
    ...newUsageRecord('team', subject),
    metadata: { ...newUsageRecord('team', subject).metadata, uid, generation: 1 },
  }) as unknown as UsageRecord;
const admitted = (record: UsageRecord, old?: UsageRecord) =>
  admittedObject(usageRecords, record, old === undefined ? {} : { old });

describe('the name of a record', () => {
  it('is that of its month, its owner and month, or its conversation', () => {
    const [owner, ...others] = Object.values(subjects).map(usageRecordNameOf);
    expect(owner).toMatch(/^usage-2026-11-[0-9a-f]{32}$/);
    expect(others).toEqual(['usage-2026-11', `usage-${id}`]);
  });

  it.each(['2026-11', usageRecordNameOf({ owner: 'alice', month }).slice('usage-'.length)])(
    'of a conversation with the name %s is not that of an owner or a namespace',
    (name) => {
      const own = usageRecordNameOf({ conversation: { name, uid: 'any' } });
      expect(own).toMatch(/^usage-of[0-9a-f]{32}$/);
    },
  );

  it('of one conversation can be taken by no other conversation', () => {
    const nameFor = (name: string) => usageRecordNameOf({ conversation: { name, uid: 'any' } });
    const own = nameFor('nightly');
    const tries = ['usage-', 'usage-of'].map((prefix) => own.slice(prefix.length));
    for (const name of [...tries, uuidOf('usage/conversation/nightly')])
      expect(nameFor(name)).not.toBe(own);
  });

  it('is a valid one whatever the owner and the conversation are called', () => {
    for (const subject of [
      { owner: 'A@b:c_d+e', month },
      { conversation: { name: 'a'.repeat(253), uid: 'any' } },
    ])
      expect(() => admitted(created(subject))).not.toThrow();
  });
});

it.each(Object.entries(subjects))(
  'a new record of an %s is admitted, and for it alone',
  (name, subject) => {
    const record = created(subject);
    expect(admitted(record)).toEqual(record);
    for (const [other, of] of Object.entries(subjects))
      expect([other, isUsageRecordOf(record, of)]).toEqual([other, other === name]);
  },
);

it('a record of a conversation that was created again is not its own', () => {
  const again = { conversation: { name: id, uid: 'uid-2' } };
  expect(isUsageRecordOf(created({ conversation: { name: id, uid: 'uid-1' } }), again)).toBe(false);
});

it('only the record of a conversation is deleted with it', () => {
  const references = Object.entries(subjects).map(([name, subject]) => [
    name,
    created(subject).metadata.ownerReferences?.map(({ kind, uid }) => `${kind} ${uid}`),
  ]);
  expect(references).toEqual([
    ['owner', undefined],
    ['namespace', undefined],
    ['conversation', ['Conversation uid-1']],
  ]);
});

const withSpec = (spec: object): UsageRecord => ({
  ...created({ month }),
  spec: spec as UsageRecordSpec,
});
it.each<[string, object, string]>([
  ['has no owner', { scope: 'Owner', month }, 'owner goes with scope Owner'],
  ['has an owner too many', { scope: 'Namespace', owner: 'a', month }, 'owner goes with scope'],
  ['has no month', { scope: 'Namespace' }, 'month goes with'],
  ['has a month too many', { scope: 'Conversation', month }, 'month goes with'],
  ['has a month that is none', { scope: 'Namespace', month: '2026-13' }, 'spec.month'],
  ['has no conversation', { scope: 'Conversation' }, 'conversation goes with'],
])('a record is refused that %s', (_name, spec, message) => {
  expect(() => admitted(withSpec(spec))).toThrow(message);
});

it.each<[string, object]>([
  ['scope', { scope: 'Namespace', month }],
  ['owner', { scope: 'Owner', owner: 'bob', month }],
  ['month', { scope: 'Owner', owner: 'alice', month: '2026-12' }],
])('%s is immutable', (field, spec) => {
  const old = withSpec({ scope: 'Owner', owner: 'alice', month });
  expect(() => admitted(withSpec(spec), old)).toThrow(`${field} is immutable`);
});

const sums = { calls: 2, inputTokens: 100, cachedInputTokens: 10, outputTokens: 20, cost: '9.5' };
const account = { key: 'default/Month/2026-11-01', unit: 'USD', spent: '9' } as const;
const renewTime = '2026-11-30T00:00:00Z';
const holder = { id: 'a', granted: '0.5', spent: '0.1', renewTime };
const row = { day: '2026-11-30', model: 'm', template: 'default' };
const status: UsageRecordStatus = {
  accounts: [{ ...account, raised: '5', holders: [holder] }],
  totals: sums,
  rows: [{ ...row, ...sums }],
  conversations: [{ name: id, ...sums, lastDay: row.day, models: [{ model: 'm', ...sums }] }],
  writers: [{ id: 'a', sequence: 1 }],
};
const withStatus = (next: UsageRecordStatus): UsageRecord => ({
  ...created({ month }),
  status: next,
});

it('a status of everything is admitted, and another one that has grown', () => {
  const grown = { ...sums, calls: 3, cost: '10.000000001' };
  const next: UsageRecordStatus = {
    ...status,
    accounts: [{ ...account, spent: '10' }],
    totals: grown,
    rows: [
      { ...row, ...grown },
      { ...row, model: 'other', ...sums },
    ],
  };
  expect(() => admitted(withStatus(next), withStatus(status))).not.toThrow();
});

it.each<[string, UsageRecordStatus]>([
  ['calls never falls', { ...status, totals: { ...sums, calls: 1 } }],
  // As texts, this one is greater.
  ['cost never falls', { ...status, totals: { ...sums, cost: '9.49' } }],
  ['outputTokens never falls', { ...status, totals: { ...sums, outputTokens: 0 } }],
  ['spent never falls', { ...status, accounts: [{ ...account, spent: '8.9' }] }],
  ['unit is immutable', { ...status, accounts: [{ ...account, unit: 'Tokens' }] }],
  [
    'spent never falls',
    { ...status, accounts: [{ ...account, holders: [{ ...holder, spent: '0' }] }] },
  ],
  ['totals stays', { accounts: [] }],
])('a status is refused because %s', (message, next) => {
  expect(() => admitted(withStatus(next), withStatus(status))).toThrow(message);
});

it.each(['-1', '1e3', 'NaN', '', '.5', '1.', '0.1234567891', '12345678901234567', ' 1'])(
  'the amount %j is refused',
  (spent) => {
    expect(() => admitted(withStatus({ accounts: [{ ...account, spent }] }))).toThrow('spent');
  },
);
