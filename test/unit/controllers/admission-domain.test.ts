import fc from 'fast-check';
import { Domain, type Step } from '../../../src/controllers/admission/domain.ts';
import type { Slot, SlotState } from '../../../src/quota/slot.ts';
import { quotaRules } from '../../../src/resources/quota-rules.ts';
import type { ConversationQuotaSpec } from '../../../src/resources/conversation-quota.ts';
import { aQuota, aSlot } from '../../support/builders.ts';

const domainOf = (slots: readonly Slot[], ...quotas: readonly Partial<ConversationQuotaSpec>[]): Domain => {
  const domain = new Domain();
  domain.setRules(quotaRules(quotas.map((spec, index) => aQuota(`quota-${index}`, spec))));
  for (const slot of slots) domain.put(slot);
  return domain;
};
const said = (step: Step | undefined): string => (step === undefined ? 'nothing' : `${step.kind} ${step.slot.uid}`);

describe('the next step', () => {
  const cases: [string, readonly Slot[], readonly Partial<ConversationQuotaSpec>[], string][] = [
    ['without a quota admits everybody', [aSlot('a', 'running'), aSlot('b', 'waiting')], [], 'admit b'],
    ['admits where there is room', [aSlot('a', 'running'), aSlot('b', 'waiting')], [{ limit: 2 }], 'admit b'],
    ['admits who came first', [aSlot('b', 'waiting', { requestedAt: 1 }), aSlot('a', 'waiting', { requestedAt: 2 })], [{}], 'admit b'],
    [
      'pauses the oldest for a newcomer',
      [aSlot('a', 'running', { activeSince: 2 }), aSlot('b', 'running', { activeSince: 1 }), aSlot('c', 'waiting')],
      [{ limit: 2 }],
      'evict b',
    ],
    [
      'pauses the longest idle where the policy says so',
      [
        aSlot('a', 'running', { activeSince: 2, idleSince: 5 }),
        aSlot('b', 'running', { activeSince: 1, idleSince: Infinity }),
        aSlot('c', 'waiting'),
      ],
      [{ limit: 2, onExceeded: 'PauseLongestIdle' }],
      'evict a',
    ],
    ['never pauses what starts', [aSlot('a', 'starting'), aSlot('b', 'waiting')], [{}], 'nothing'],
    [
      'never pauses what is too young',
      [aSlot('a', 'running', { activeSince: 95_000 }), aSlot('b', 'waiting')],
      [{ minActiveSeconds: 10 }],
      'nothing',
    ],
    [
      'pauses what is old enough',
      [aSlot('a', 'running', { activeSince: 90_000 }), aSlot('b', 'waiting')],
      [{ minActiveSeconds: 10 }],
      'evict a',
    ],
    [
      'spares what waits for a confirmation',
      [aSlot('a', 'running', { confirming: true }), aSlot('b', 'running', { activeSince: 9 }), aSlot('c', 'waiting')],
      [{ limit: 2 }],
      'evict b',
    ],
    [
      'pauses what waits for a confirmation when nothing else runs',
      [aSlot('a', 'running', { confirming: true }), aSlot('b', 'waiting')],
      [{}],
      'evict a',
    ],
    [
      'pauses no more than newcomers wait',
      [aSlot('a', 'running'), aSlot('b', 'freeing'), aSlot('c', 'waiting')],
      [{ limit: 2 }],
      'nothing',
    ],
    ['only waits under Queue', [aSlot('a', 'running'), aSlot('b', 'waiting', { explained: false })], [{ onExceeded: 'Queue' }], 'wait b'],
    [
      'refuses the last under Reject',
      [aSlot('a', 'running'), aSlot('b', 'waiting', { requestedAt: 1 }), aSlot('c', 'waiting', { requestedAt: 2 })],
      [{ onExceeded: 'Reject' }],
      'reject c',
    ],
    [
      'refuses nobody for whom a slot is getting free',
      [aSlot('a', 'freeing'), aSlot('b', 'waiting')],
      [{ onExceeded: 'Reject' }],
      'nothing',
    ],
    [
      'pauses the surplus of a lowered limit',
      [aSlot('a', 'running', { activeSince: 1 }), aSlot('b', 'running', { activeSince: 2 })],
      [{ onExceeded: 'Queue' }],
      'evict a',
    ],
    [
      'brings back unfinished work first',
      [aSlot('a', 'resumable', { pausedSince: 1 }), aSlot('b', 'resumable', { pausedSince: 2, unfinished: true })],
      [{}],
      'admit b',
    ],
    [
      'brings back the longest paused',
      [aSlot('a', 'resumable', { pausedSince: 2 }), aSlot('b', 'resumable', { pausedSince: 1 })],
      [{}],
      'admit b',
    ],
    ['pauses nobody for what comes back by itself', [aSlot('a', 'running'), aSlot('b', 'resumable')], [{}], 'nothing'],
    ['lets newcomers go before what comes back', [aSlot('a', 'resumable', { unfinished: true }), aSlot('b', 'waiting')], [{}], 'admit b'],
    ['brings nothing back under Never', [aSlot('a', 'resumable', { unfinished: true })], [{ autoResume: 'Never' }], 'nothing'],
    ['brings back only unfinished work under Unfinished', [aSlot('a', 'resumable')], [{ autoResume: 'Unfinished' }], 'nothing'],
    ['leaves what rests alone', [aSlot('a', 'resting')], [], 'nothing'],
    [
      'takes an own quota before the default',
      [aSlot('a', 'running'), aSlot('b', 'waiting')],
      [{ limit: 1 }, { owner: 'alice', limit: 2 }],
      'admit b',
    ],
    ['takes the stricter of two', [aSlot('a', 'running'), aSlot('b', 'waiting')], [{ limit: 5 }, { limit: 1 }], 'evict a'],
    [
      'keeps the namespace within its limit',
      [aSlot('a', 'running'), aSlot('b', 'waiting', { owner: 'bob' })],
      [{ limit: 5 }, { scope: 'Namespace', limit: 1 }],
      'evict a',
    ],
    [
      'frees an own slot for a newcomer under both limits',
      [aSlot('a', 'running', { activeSince: 5 }), aSlot('z', 'running', { owner: 'bob' }), aSlot('b', 'waiting')],
      [{ limit: 1 }, { scope: 'Namespace', limit: 2 }],
      'evict a',
    ],
    [
      'pauses nobody under a limit with room while the namespace is full and makes none',
      [aSlot('a', 'running'), aSlot('b', 'waiting'), aSlot('c', 'waiting'), aSlot('d', 'waiting')],
      [{ limit: 2 }, { scope: 'Namespace', limit: 1, onExceeded: 'Queue' }],
      'nothing',
    ],
    [
      'pauses nobody when a newcomer of another owner would get the slot',
      [aSlot('a', 'running'), aSlot('b', 'waiting', { requestedAt: 2 }), aSlot('c', 'waiting', { owner: 'bob', requestedAt: 1 })],
      [{ limit: 1 }, { scope: 'Namespace', limit: 1, onExceeded: 'Queue' }],
      'nothing',
    ],
    [
      "makes room by the owner's policy where both limits are reached",
      [aSlot('a', 'running'), aSlot('b', 'waiting')],
      [{ limit: 1 }, { scope: 'Namespace', limit: 1, onExceeded: 'Queue' }],
      'evict a',
    ],
    [
      'pauses the surplus of a lowered limit also while the namespace is full',
      [aSlot('a', 'running', { activeSince: 1 }), aSlot('b', 'running', { activeSince: 2 }), aSlot('c', 'waiting', { owner: 'bob' })],
      [{ limit: 1 }, { scope: 'Namespace', limit: 2, onExceeded: 'Queue' }],
      'evict a',
    ],
    ['gives back the slot of what has no pod', [aSlot('a', 'freeing', { releasable: true })], [{}], 'release a'],
    ['pauses what has expired', [aSlot('a', 'running', { expiry: { at: 99_000, reason: 'Idle', limit: '1m' } })], [], 'expire a'],
  ];
  it.each(cases)('%s', (_sentence, slots, quotas, expected) => {
    expect(said(domainOf(slots, ...quotas).next(100_000))).toBe(expected);
  });
});

it('names both of two quotas for the same', () => {
  const rules = quotaRules([aQuota('b', { limit: 3 }), aQuota('a', { limit: 9 }), aQuota('c', { scope: 'Namespace' })]);
  expect(rules.everyOwner).toMatchObject({ quotaName: 'b', limit: 3 });
  expect([...rules.conflicts]).toEqual([
    ['a', ['a', 'b']],
    ['b', ['a', 'b']],
  ]);
});

/** A world that obeys every step at once, or a little later, and in which people do as they like. */
class World {
  domain = new Domain();
  now = 1_000;
  limits = { owner: Infinity, namespace: Infinity };
  pauses = 0;

  setQuotas(owner: Partial<ConversationQuotaSpec> | undefined, namespace: Partial<ConversationQuotaSpec> | undefined): void {
    this.limits = { owner: owner?.limit ?? Infinity, namespace: namespace?.limit ?? Infinity };
    const quotas = [owner, namespace].map((spec, index) =>
      spec === undefined ? [] : [aQuota(`q${index}`, { ...spec, scope: index === 0 ? 'Owner' : 'Namespace' })],
    );
    this.domain.setRules(quotaRules(quotas.flat()));
  }

  taken(owner?: string): number {
    return [...this.domain.slots()].filter((slot) => slot.taken && (owner === undefined || slot.owner === owner)).length;
  }

  /** Takes every step there is, and checks each. */
  settle(): void {
    for (let steps = 0; ; steps++) {
      const step = this.domain.next(this.now);
      if (step === undefined) return;
      expect(steps).toBeLessThan(1000);
      this.apply(step);
    }
  }

  apply(step: Step): void {
    const { slot, kind } = step;
    const change = (state: SlotState, more: Partial<Slot> = {}) =>
      this.domain.put({ ...slot, ...more, state, taken: ['starting', 'running', 'freeing'].includes(state) });
    if (kind === 'admit') {
      const earlier = [...this.domain.slots()].filter(
        (other) => other.state === 'waiting' && other.owner === slot.owner && other.requestedAt < slot.requestedAt,
      );
      if (!step.resumed) expect(earlier).toEqual([]);
      change('starting');
      expect(this.taken(slot.owner)).toBeLessThanOrEqual(this.limits.owner);
      expect(this.taken()).toBeLessThanOrEqual(this.limits.namespace);
    } else if (kind === 'evict') {
      expect(slot.state).toBe('running');
      const all = [...this.domain.slots()];
      const holding = (slots: readonly Slot[]) => slots.filter(({ state }) => state === 'starting' || state === 'running').length;
      const own = all.filter(({ owner }) => owner === slot.owner);
      const surplus = holding(own) > this.limits.owner || holding(all) > this.limits.namespace;
      // Not for what comes back by itself: a newcomer waits, or there are too many.
      expect(surplus || all.some(({ state }) => state === 'waiting')).toBe(true);
      this.pauses++;
      change('freeing', { pausedSince: this.now, confirming: false });
    } else if (kind === 'wait') change('waiting', { explained: true });
    else if (kind === 'reject') change('resting');
    else if (kind === 'release') change('none', { releasable: false });
  }

  /** What was admitted runs, what was stopped is gone. */
  work(): void {
    for (const slot of [...this.domain.slots()]) {
      if (slot.state === 'starting') this.domain.put({ ...slot, state: 'running', activeSince: this.now });
      if (slot.state === 'freeing') this.domain.put({ ...slot, state: slot.releasable ? 'none' : 'resumable', taken: false });
    }
  }
}

const policy = fc.constantFrom('PauseOldest' as const, 'PauseLongestIdle' as const, 'Queue' as const, 'Reject' as const);
const quota = fc.option(fc.record({ limit: fc.integer({ min: 0, max: 4 }), onExceeded: policy, minActiveSeconds: fc.constantFrom(0, 5) }), {
  nil: undefined,
});
const event = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('come' as const), owner: fc.constantFrom('alice', 'bob', 'carol') }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('leave' as const), which: fc.nat() }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('work' as const), ms: fc.integer({ min: 0, max: 4000 }) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('ask' as const), which: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('quotas' as const), owner: quota, namespace: quota }) },
);

it('holds every promise whatever happens', () => {
  fc.assert(
    fc.property(quota, quota, fc.array(event, { maxLength: 60 }), (owner, namespace, events) => {
      const world = new World();
      world.setQuotas(owner, namespace);
      let count = 0;
      for (const happens of events) {
        const slots = [...world.domain.slots()];
        world.now += 10;
        const at = 'which' in happens ? slots[happens.which % Math.max(1, slots.length)] : undefined;
        if (happens.kind === 'come')
          world.domain.put(
            aSlot(`s${String(count++).padStart(3, '0')}`, 'waiting', { owner: happens.owner, requestedAt: world.now, explained: false }),
          );
        else if (happens.kind === 'leave' && at !== undefined) world.domain.remove(at.uid);
        else if (happens.kind === 'ask' && at !== undefined && ['resumable', 'resting'].includes(at.state))
          world.domain.put({ ...at, state: 'waiting', requestedAt: world.now, explained: false });
        else if (happens.kind === 'quotas') world.setQuotas(happens.owner, happens.namespace);
        else if (happens.kind === 'work') {
          world.now += happens.ms;
          world.work();
        }
        world.settle();
      }
      // Nothing new arrives: everything comes to rest, and then nobody is paused any more.
      const rest = () => {
        for (let round = 0; round < 60; round++) {
          world.now += 6_000;
          world.work();
          world.settle();
        }
      };
      rest();
      const { pauses } = world;
      rest();
      expect(world.pauses).toBe(pauses);
      // No slot is free while somebody may have it.
      const waits = (state: SlotState) => [...world.domain.slots()].filter((slot) => slot.state === state);
      for (const slot of [...waits('waiting'), ...waits('resumable')]) {
        expect(world.taken(slot.owner) >= world.limits.owner || world.taken() >= world.limits.namespace).toBe(true);
      }
    }),
    { numRuns: 500 },
  );
});
