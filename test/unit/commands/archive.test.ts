import type { Archive, ArchivedConversation } from '../../../src/commands/archive.ts';
import {
  lastTimeOf,
  pruningOf,
  refuseForeign,
  timeOf,
} from '../../../src/commands/archive-prune.ts';
import { faultOf, verified } from '../../../src/commands/archive-verify.ts';
import { newestHead } from '../../../src/archive/stored-archives.ts';
import { ArchiveError } from '../../../src/archive/layout.ts';
import { StoreError } from '@conversation-operator/object-store/object-store';
import { memoryStore } from '../../support/archive/memory-store.ts';
import { FakeHistory, headOf, storedEvents } from '../../support/gateway/fake-history.ts';

const address = { namespace: 'agents', uid: 'u1' };
const conversation = (more: Partial<ArchivedConversation> = {}): ArchivedConversation => ({
  ...address,
  name: 'c1',
  head: headOf(3),
  events: 3,
  expiredTime: undefined,
  ...more,
});
const archive = (more: Partial<Archive> = {}): Archive => ({
  ...address,
  conversation: conversation(),
  isStored: true,
  ...more,
});
const accessTo = (...heads: readonly string[]) => {
  const reader = new FakeHistory();
  reader.archived(storedEvents(3));
  const objects = heads.map((head) => [`agents/u1/h/${head}`, Buffer.from('x')] as const);
  const writerOf = () => Promise.resolve({ kind: 'headless' } as const);
  const keys = { knows: () => true };
  return { store: memoryStore(new Map(objects)).store, reader, writerOf, keys };
};
const json = (id: string) => Buffer.from(JSON.stringify({ id }));

describe('an event of an archive', () => {
  it.each([
    ['in its place has no fault', { id: 'b', position: 1, json: json('b') }, undefined],
    [
      'behind a gap',
      { id: 'b', position: 3, json: json('b') },
      'event 1 is missing: event 3 follows',
    ],
    [
      'that is read again',
      { id: 'b', position: 0, json: json('b') },
      'event 1 is missing: event 0 follows',
    ],
    [
      'with the id of another one',
      { id: 'a', position: 1, json: json('a') },
      'event 1 has the id of an earlier one',
    ],
    [
      'with the JSON of another one',
      { id: 'b', position: 1, json: json('c') },
      'event 1 is not the JSON of its id',
    ],
    [
      'with no JSON',
      { id: 'b', position: 1, json: Buffer.from('{') },
      'event 1 is not the JSON of its id',
    ],
    [
      'with null',
      { id: 'b', position: 1, json: Buffer.from('null') },
      'event 1 is not the JSON of its id',
    ],
  ])('%s', (_case, event, fault) => {
    expect(faultOf(event, { position: 1, ids: new Set(['a']) })).toBe(fault);
  });
});

describe('an archive', () => {
  it.each<[string, Partial<Archive>, readonly string[], object]>([
    ['that has what its Conversation counts is intact', {}, [], { verdict: 'intact', events: 3 }],
    [
      'with fewer events than its Conversation counts is damaged',
      { conversation: conversation({ events: 4 }) },
      [],
      { verdict: 'damaged', events: 3, detail: 'the Conversation counts 4 events' },
    ],
    [
      'whose head is gone is damaged',
      { conversation: conversation({ head: headOf(9) }) },
      [],
      { verdict: 'damaged', events: 0, detail: `${headOf(9)} does not exist` },
    ],
    [
      'without a Conversation is that of its newest head',
      { conversation: undefined },
      [headOf(2), headOf(3), 'other'],
      { verdict: 'orphaned', events: 3 },
    ],
    ['without a head is empty', { conversation: undefined }, ['other'], { verdict: 'empty' }],
  ])('%s', async (_case, more, heads, expected) => {
    expect(await verified(accessTo(...heads), archive(more))).toMatchObject(expected);
  });

  it('of a store that does not answer is neither', async () => {
    const access = accessTo();
    access.reader.before = () => {
      throw new StoreError('unavailable', 'connection refused');
    };
    await expect(verified(access, archive())).rejects.toThrow('connection refused');
  });

  it('has the newest of many heads, by position', async () => {
    const heads = Array.from({ length: 2500 }, (_, count) => headOf(count));
    expect(await newestHead(accessTo(...heads).store, address)).toBe(headOf(2499));
  });
});

describe('an orphan', () => {
  it('is as old as its last event', async () => {
    const orphan = archive({ conversation: undefined });
    const time = Date.parse('2026-01-01T00:00:02Z');
    expect(await lastTimeOf(accessTo(headOf(3)), orphan)).toBe(time);
  });

  it.each<[string, Error | undefined, readonly string[]]>([
    ['without a head', undefined, []],
    ['that is damaged', new ArchiveError('damaged', 'x'), [headOf(3)]],
  ])('%s has no age', async (_case, error, heads) => {
    const access = accessTo(...heads);
    access.reader.before = () => {
      if (error !== undefined) throw error;
    };
    expect(await lastTimeOf(access, archive({ conversation: undefined }))).toBeUndefined();
  });

  it.each([
    ['local time', '2026-01-01T00:00:00.123456', Date.parse('2026-01-01T00:00:00.123Z')],
    ['a zone', '2026-01-01T00:00:00+01:00', undefined],
    ['no time', 'yesterday', undefined],
    ['a number', 7, undefined],
  ])('whose event has %s', (_case, timestamp, time) => {
    expect(timeOf(Buffer.from(JSON.stringify({ timestamp })))).toBe(time);
  });

  it.each([
    ['old enough', 10, [], 'delete'],
    ['too young', 9, [], 'omit'],
    ['of a time to come', -5, [], 'omit'],
    ['of unknown age', undefined, [], 'omit'],
    ['of unknown age, named', undefined, ['u1'], 'delete'],
    ['too young, named', 9, ['u1'], 'omit'],
    ['old enough, named', 10, ['u1'], 'delete'],
    ['old enough, and another one is named', 10, ['u2'], 'omit'],
  ] as const)('%s', (_case, ageMs, names, expected) => {
    const selection = { names, olderThanMs: 10, foreign: false };
    expect(pruningOf({ uid: 'u1', ageMs, origin: 'own' }, selection)).toBe(expected);
    expect(pruningOf({ uid: 'u1', ageMs, origin: 'headless' }, selection)).toBe(expected);
  });

  it.each([
    ['old enough', 10, [], false, 'keep'],
    ['old enough, with --foreign', 10, [], true, 'keep'],
    ['of unknown age', undefined, [], false, 'keep'],
    ['too young', 9, [], false, 'omit'],
    ['old enough, named', 10, ['u1'], false, 'keep'],
    ['old enough, named with --foreign', 10, ['u1'], true, 'delete'],
    ['of unknown age, named with --foreign', undefined, ['u1'], true, 'delete'],
    ['old enough, and another one is named with --foreign', 10, ['u2'], true, 'omit'],
  ] as const)(
    'that another installation may have written, %s',
    (_case, ageMs, names, foreign, expected) => {
      const selection = { names, olderThanMs: 10, foreign };
      expect(pruningOf({ uid: 'u1', ageMs, origin: 'foreign' }, selection)).toBe(expected);
    },
  );
});

describe('a store', () => {
  const orphan = archive({ conversation: undefined });
  it.each<[string, readonly Archive[], boolean]>([
    ['without archives', [], false],
    ['with an archive of a Conversation', [orphan, archive()], false],
    ['with orphans alone', [orphan], true],
    ['that lacks the archives of all Conversations', [orphan, archive({ isStored: false })], true],
  ])('%s', (_case, archives, isForeign) => {
    const refuse = () => refuseForeign(archives, 'agents');
    if (isForeign) expect(refuse).toThrow('name the archives');
    else expect(refuse).not.toThrow();
  });
});
