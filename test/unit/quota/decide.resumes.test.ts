import { Snapshot } from '../../../src/quota/snapshot.ts';
import { decide, wakeAt, type Decision } from '../../../src/quota/decide.ts';
import type { Slot } from '../../../src/quota/slot.ts';
import { quotaRules } from '../../../src/quota/rules.ts';
import type { ConversationQuotaSpec } from '../../../src/resources/conversation-quota.ts';
import { aQuota, aSlot } from '../../support/builders.ts';

type Wish = Partial<ConversationQuotaSpec>;

const snapshotOf = (slots: readonly Slot[], ...quotas: readonly Wish[]): Snapshot => {
  const snapshot = new Snapshot();
  snapshot.setRules(quotaRules(quotas.map((spec, index) => aQuota(`quota-${index}`, spec))));
  for (const slot of slots) snapshot.put(slot);
  return snapshot;
};
const said = (step: Decision | undefined): string =>
  step === undefined ? 'nothing' : `${step.kind} ${step.slot.uid}`;

const works = (uid: string, more: Partial<Slot> = {}) =>
  aSlot(uid, 'running', { idleSince: Infinity, ...more });
const idles = (uid: string, more: Partial<Slot> = {}) =>
  aSlot(uid, 'running', { idleSince: 50_000, ...more });
const resumes = (uid: string, more: Partial<Slot> = {}) =>
  aSlot(uid, 'waiting', { bare: true, ...more });
const asks = (uid: string, more: Partial<Slot> = {}) => aSlot(uid, 'waiting', more);
const namespace = { scope: 'Namespace' as const };
const longestIdle = { onExceeded: 'PauseLongestIdle' as const };

describe('for a resume without anything to do the quota', () => {
  const cases: [string, readonly Slot[], readonly Wish[], string][] = [
    ['has room', [works('a'), resumes('b')], [{ limit: 2 }], 'admit b'],
    ['evicts no sandbox that works', [works('a'), resumes('b')], [{}], 'nothing'],
    [
      'evicts no sandbox that works under a policy of the longest idle',
      [works('a'), resumes('b')],
      [longestIdle],
      'nothing',
    ],
    [
      'evicts no sandbox that works in the namespace',
      [works('a', { owner: 'bob' }), resumes('b')],
      [{ ...namespace }],
      'nothing',
    ],
    [
      'evicts no sandbox that waits for an answer',
      [works('a', { confirming: true }), resumes('b')],
      [{}],
      'nothing',
    ],
    [
      'pauses the idle one, however old the one that works',
      [works('a', { activeSince: 1 }), idles('i', { activeSince: 2 }), resumes('b')],
      [{ limit: 2 }],
      'evict i',
    ],
    [
      'pauses the oldest of two idle ones',
      [idles('i', { activeSince: 2 }), idles('j', { activeSince: 1 }), resumes('b')],
      [{ limit: 2 }],
      'evict j',
    ],
    [
      'pauses the longest idle where the policy says so',
      [idles('i', { activeSince: 1 }), idles('j', { activeSince: 2, idleSince: 3 }), resumes('b')],
      [{ ...longestIdle, limit: 2 }],
      'evict j',
    ],
    [
      'pauses an idle one of another owner under the limit of the namespace',
      [idles('i', { owner: 'bob' }), resumes('b')],
      [{ ...namespace }],
      'evict i',
    ],
    [
      'pauses no idle one that is too young',
      [idles('i', { activeSince: 95_000 }), resumes('b')],
      [{ minActiveSeconds: 10 }],
      'nothing',
    ],
    [
      'evicts no sandbox under Queue',
      [idles('i'), resumes('b')],
      [{ onExceeded: 'Queue' }],
      'nothing',
    ],
    [
      'is one too many under Reject',
      [works('a'), resumes('b')],
      [{ onExceeded: 'Reject' }],
      'reject b',
    ],
    [
      'refuses the resume before a start under Reject',
      [aSlot('a', 'freeing'), asks('n', { requestedAt: 9 }), resumes('b')],
      [{ onExceeded: 'Reject' }],
      'reject b',
    ],
    [
      'pauses no more than are needed',
      [aSlot('a', 'freeing'), idles('i'), resumes('b')],
      [{ limit: 2 }],
      'nothing',
    ],
    ['reports that it waits', [works('a'), resumes('b', { explained: false })], [{}], 'wait b'],
    [
      'admits the start first, whichever came first',
      [resumes('b', { requestedAt: 1 }), asks('n', { requestedAt: 2 })],
      [{}],
      'admit n',
    ],
    [
      'serves the start of another owner first',
      [resumes('b', { requestedAt: 1 }), asks('n', { owner: 'bob', requestedAt: 2 })],
      [{ ...namespace }],
      'admit n',
    ],
    [
      'lets a start evict a sandbox that works',
      [works('a'), resumes('b'), asks('n')],
      [{}],
      'evict a',
    ],
    [
      'serves it before an automatic resume',
      [aSlot('r', 'resumable', { unfinished: true }), resumes('b')],
      [{}],
      'admit b',
    ],
    [
      'evicts no sandbox while the namespace is full and makes no room',
      [idles('i'), works('z', { owner: 'bob' }), resumes('b'), resumes('c', { owner: 'carol' })],
      [{ limit: 1 }, { ...namespace, limit: 2, onExceeded: 'Queue' }],
      'nothing',
    ],
  ];
  it.each(cases)('%s', (_sentence, slots, quotas, expected) => {
    expect(said(decide(snapshotOf(slots, ...quotas), 100_000))).toBe(expected);
  });

  it('evicts a sandbox that works at once when a message comes', () => {
    const snapshot = snapshotOf([works('a'), resumes('b')], {});
    expect(said(decide(snapshot, 100_000))).toBe('nothing');
    snapshot.put(asks('b'));
    expect(said(decide(snapshot, 100_000))).toBe('evict a');
  });

  it('pauses at once who becomes idle', () => {
    const snapshot = snapshotOf([works('a'), resumes('b')], {});
    expect(said(decide(snapshot, 100_000))).toBe('nothing');
    snapshot.put(idles('a'));
    expect(said(decide(snapshot, 100_000))).toBe('evict a');
  });
});

describe('of those that run, a newcomer has paused', () => {
  const stalled = (uid: string) =>
    aSlot(uid, 'starting', { stalledAt: 90_000, idleSince: Infinity, activeSince: 90 });
  const automatic = (uid: string, more: Partial<Slot> = {}) =>
    works(uid, { automatic: true, activeSince: 80, ...more });
  const cases: [string, readonly Slot[], Wish, string][] = [
    [
      'who is stalled, before all others',
      [works('a'), automatic('b'), stalled('s'), asks('n')],
      { limit: 3 },
      'evict s',
    ],
    [
      'no sandbox before its time',
      [stalled('s'), works('a'), asks('n')],
      { limit: 2, minActiveSeconds: 86_400 },
      'evict s',
    ],
    [
      'a sandbox that resumed automatically, before the oldest',
      [works('a', { activeSince: 1 }), automatic('b'), asks('n')],
      { limit: 2 },
      'evict b',
    ],
    [
      'a sandbox that resumed automatically, before the longest idle',
      [idles('a', { idleSince: 1 }), automatic('b'), asks('n')],
      { ...longestIdle, limit: 2 },
      'evict b',
    ],
    [
      'a sandbox that waits for an answer last, also when it resumed automatically',
      [works('a'), automatic('b', { confirming: true }), asks('n')],
      { limit: 2 },
      'evict a',
    ],
  ];
  it.each(cases)('%s', (_sentence, slots, quota, expected) => {
    expect(said(decide(snapshotOf(slots, quota), 100_000))).toBe(expected);
  });
});

describe('automatic resumes', () => {
  const comesBack = (uid: string, more: Partial<Slot> = {}) => aSlot(uid, 'resumable', more);
  /** Applies admissions until there are none. */
  const drain = (snapshot: Snapshot, now: number): readonly string[] => {
    const names: string[] = [];
    for (let step = decide(snapshot, now); step?.kind === 'admit'; step = decide(snapshot, now)) {
      snapshot.put({ ...step.slot, state: 'starting', taken: true });
      names.push(step.slot.uid);
    }
    return names;
  };
  const herd = (owner = 'alice') =>
    Array.from({ length: 40 }, (_, index) =>
      comesBack(`${owner}-${String(index).padStart(2, '0')}`, { owner }),
    );

  it('waits for the end of its delay', () => {
    const snapshot = snapshotOf([comesBack('a', { resumesAt: 5_000 })], {});
    expect(said(decide(snapshot, 4_999))).toBe('nothing');
    expect(wakeAt(snapshot, 4_999)).toBe(5_000);
    expect(said(decide(snapshot, 5_000))).toBe('admit a');
  });

  it('comes back ten at once when a limit is raised, then one in a second', () => {
    const snapshot = snapshotOf(herd(), { limit: 0 });
    expect(drain(snapshot, 1_000_000)).toEqual([]);
    snapshot.setRules(quotaRules([aQuota('quota-0', { limit: 100 })]));
    expect(drain(snapshot, 1_000_000)).toHaveLength(10);
    expect(wakeAt(snapshot, 1_000_000)).toBe(1_001_000);
    expect(drain(snapshot, 1_000_999)).toHaveLength(0);
    expect(drain(snapshot, 1_001_000)).toHaveLength(1);
    expect(drain(snapshot, 1_005_000)).toHaveLength(4);
  });

  it('slows no newcomer down', () => {
    const snapshot = snapshotOf([...herd(), ...herd().map(({ uid }) => asks(`new-${uid}`))], {});
    snapshot.setRules(quotaRules([]));
    expect(drain(snapshot, 1_000_000)).toHaveLength(50);
  });

  it('comes back of each owner in turn', () => {
    const snapshot = snapshotOf([...herd('alice'), ...herd('bob')], { limit: 100 });
    const owners = drain(snapshot, 1_000_000).map((uid) => uid.split('-')[0]);
    expect(owners.filter((owner) => owner === 'bob')).toHaveLength(5);
  });

  it('comes back with unfinished work first, whosever turn it is', () => {
    const snapshot = snapshotOf(
      [
        comesBack('a'),
        comesBack('b', { owner: 'bob', unfinished: true }),
        comesBack('c', { owner: 'bob', unfinished: true }),
      ],
      { limit: 9 },
    );
    expect(drain(snapshot, 1_000_000)).toEqual(['b', 'c', 'a']);
  });

  it('stays where it is for a minute after a quota has vanished', () => {
    const snapshot = snapshotOf(herd(), { limit: 1 });
    snapshot.quotaDeleted(1_000_000);
    snapshot.setRules(quotaRules([]));
    expect(drain(snapshot, 1_059_999)).toEqual([]);
    expect(wakeAt(snapshot, 1_059_999)).toBe(1_060_000);
    expect(drain(snapshot, 1_060_000)).toHaveLength(10);
  });
});
