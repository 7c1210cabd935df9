import fc from 'fast-check';
import { Snapshot } from '../../../src/quota/snapshot.ts';
import { decide } from '../../../src/quota/decide.ts';
import { forecast, type AdmissionForecast } from '../../../src/quota/forecast.ts';
import type { Slot, SlotState } from '../../../src/quota/slot.ts';
import { quotaRules } from '../../../src/quota/rules.ts';
import type {
  ConversationQuota,
  ConversationQuotaSpec,
} from '../../../src/resources/conversation-quota.ts';
import { aQuota, aSlot } from '../../support/builders.ts';

type Wish = Partial<ConversationQuotaSpec> | undefined;

const snapshotOf = (slots: readonly Slot[], owner: Wish, namespace: Wish): Snapshot => {
  const quotas: ConversationQuota[] = [];
  if (owner !== undefined) quotas.push(aQuota('owner', owner));
  if (namespace !== undefined)
    quotas.push(aQuota('namespace', { ...namespace, scope: 'Namespace' }));
  const snapshot = new Snapshot();
  snapshot.setRules(quotaRules(quotas));
  for (const slot of slots) snapshot.put(slot);
  return snapshot;
};
const forecastOf = (snapshot: Snapshot, owner: string, now = 10_000): AdmissionForecast =>
  forecast(snapshot, snapshot.owner(owner), now);
const said = (start: AdmissionForecast): string =>
  start.outcome === 'pauses' ? `pauses ${start.victim.uid}` : start.outcome;
const aRun = (uid: string, activeSince: number, more: Partial<Slot> = {}) =>
  aSlot(uid, 'running', { activeSince, ...more });

describe('one more start of alice', () => {
  const cases: [string, readonly Slot[], Wish, Wish, string][] = [
    ['is admitted without a quota', [aRun('a', 1)], undefined, undefined, 'admitted'],
    ['is admitted where there is room', [aRun('a', 1)], { limit: 2 }, undefined, 'admitted'],
    ['pauses the oldest', [aRun('a', 2), aRun('b', 1)], { limit: 2 }, undefined, 'pauses b'],
    [
      'pauses the next one where others wait already',
      [aRun('a', 2), aRun('b', 1), aSlot('c', 'waiting')],
      { limit: 2 },
      undefined,
      'pauses a',
    ],
    [
      'waits where others have room of their own, and the namespace is full and makes none',
      [aRun('a', 1), aSlot('b', 'waiting', { owner: 'bob' })],
      { limit: 1 },
      { limit: 1, onExceeded: 'Queue' },
      'waits',
    ],
    [
      'evicts no sandbox beyond the surplus of a lowered limit',
      [aRun('a', 1), aRun('b', 2)],
      { limit: 1 },
      undefined,
      'pauses b',
    ],
    [
      'follows one that ends',
      [aRun('a', 1), aSlot('b', 'freeing')],
      { limit: 2 },
      undefined,
      'follows',
    ],
    ['waits while all others start', [aSlot('a', 'starting')], { limit: 1 }, undefined, 'waits'],
    ['waits under Queue', [aRun('a', 1)], { limit: 1, onExceeded: 'Queue' }, undefined, 'waits'],
    [
      'is rejected under Reject',
      [aRun('a', 1)],
      { limit: 1, onExceeded: 'Reject' },
      undefined,
      'rejected',
    ],
    ['waits under a limit of nothing', [aSlot('a', 'suspended')], { limit: 0 }, undefined, 'waits'],
    [
      'pauses the oldest of all',
      [aRun('a', 2), aRun('z', 1, { owner: 'bob' })],
      { limit: 9 },
      { limit: 2 },
      'pauses z',
    ],
    [
      'pauses an own one where both are full',
      [aRun('a', 2), aRun('z', 1, { owner: 'bob' })],
      { limit: 1 },
      { limit: 2 },
      'pauses a',
    ],
  ];
  it.each(cases)('%s', (_sentence, slots, owner, namespace, expected) => {
    expect(said(forecastOf(snapshotOf(slots, owner, namespace), 'alice'))).toBe(expected);
  });
});

/** Takes every step there is; says who was paused, who was admitted and who refused. */
function settled(snapshot: Snapshot, now: number): ReadonlyMap<string, string> {
  const done = new Map<string, string>();
  for (let step = decide(snapshot, now); step !== undefined; step = decide(snapshot, now)) {
    const state: Readonly<Record<typeof step.kind, SlotState>> = {
      release: 'none',
      admit: 'starting',
      evict: 'freeing',
      expire: 'freeing',
      reject: 'suspended',
      fail: 'none',
      wait: 'waiting',
    };
    const next = state[step.kind];
    done.set(step.slot.uid, step.kind);
    snapshot.put({
      ...step.slot,
      state: next,
      taken: ['starting', 'freeing'].includes(next),
      explained: true,
      releasable: false,
    });
  }
  return done;
}

const slotArbitrary = fc.record({
  state: fc.constantFrom<SlotState>(
    'waiting',
    'starting',
    'running',
    'running',
    'running',
    'freeing',
    'resumable',
    'suspended',
  ),
  owner: fc.constantFrom('alice', 'alice', 'bob'),
  activeSince: fc.nat(1000),
  idleSince: fc.oneof(fc.nat(1000), fc.constant(Infinity)),
  confirming: fc.boolean(),
  bare: fc.boolean(),
  automatic: fc.boolean(),
  stalledAt: fc.constantFrom(Infinity, 5_000),
});
const quotaArbitrary = fc.option(
  fc.record({
    limit: fc.integer({ min: 0, max: 5 }),
    onExceeded: fc.constantFrom(
      'PauseOldest' as const,
      'PauseLongestIdle' as const,
      'Queue' as const,
      'Reject' as const,
    ),
  }),
  { nil: undefined },
);

it('says who is paused because of it, and what becomes of it itself', () => {
  fc.assert(
    fc.property(
      fc.array(slotArbitrary, { maxLength: 12 }),
      quotaArbitrary,
      quotaArbitrary,
      (wishes, owner, namespace) => {
        const slots = wishes.map(({ state, ...more }, index) =>
          aSlot(`s${String(index).padStart(2, '0')}`, state, { ...more, requestedAt: 1 }),
        );
        // An owner of whom something is known, and which takes no part.
        slots.push(aSlot('rest', 'suspended'));
        const now = 10_000;
        const before = snapshotOf(slots, owner, namespace);
        settled(before, now);
        const there = [...before.slots()];
        const without = settled(snapshotOf(there, owner, namespace), now);
        const start = forecastOf(before, 'alice');
        const newcomer = aSlot('new', 'waiting', { requestedAt: 5_000, explained: false });
        const withIt = settled(snapshotOf([...there, newcomer], owner, namespace), now);
        const paused = [...withIt]
          .filter(([uid, kind]) => kind === 'evict' && without.get(uid) !== 'evict')
          .map(([uid]) => uid);
        // Newcomers that the victim's own limit had kept out may evict more, once the victim is
        // paused; and a bare resume that has lost the place of one owner's sandbox to it may evict
        // an idle sandbox of another limit.
        const displaces =
          namespace !== undefined &&
          owner !== undefined &&
          there.some(({ state, bare }) => state === 'waiting' && bare);
        if (!displaces)
          expect(paused.slice(0, 1)).toEqual(start.outcome === 'pauses' ? [start.victim.uid] : []);
        if (namespace === undefined) expect(paused.length).toBeLessThan(2);
        const becomes = {
          admitted: 'admit',
          rejected: 'reject',
          pauses: 'wait',
          follows: 'wait',
          waits: 'wait',
        } as const;
        expect(withIt.get('new')).toBe(becomes[start.outcome]);
      },
    ),
    { numRuns: 2000 },
  );
});
