import { Snapshot } from '../../../src/quota/snapshot.ts';
import { decide, type Decision } from '../../../src/quota/decide.ts';
import type { Slot } from '../../../src/quota/slot.ts';
import { quotaRules } from '../../../src/quota/rules.ts';
import type { ConversationQuotaSpec } from '../../../src/resources/conversation-quota.ts';
import { aQuota, aSlot } from '../../support/builders.ts';

const snapshotOf = (
  slots: readonly Slot[],
  ...quotas: readonly Partial<ConversationQuotaSpec>[]
): Snapshot => {
  const snapshot = new Snapshot();
  snapshot.setRules(quotaRules(quotas.map((spec, index) => aQuota(`quota-${index}`, spec))));
  for (const slot of slots) snapshot.put(slot);
  return snapshot;
};
const said = (step: Decision | undefined): string =>
  step === undefined ? 'nothing' : `${step.kind} ${step.slot.uid}`;

describe('the next step', () => {
  const cases: [string, readonly Slot[], readonly Partial<ConversationQuotaSpec>[], string][] = [
    [
      'without a quota admits everybody',
      [aSlot('a', 'running'), aSlot('b', 'waiting')],
      [],
      'admit b',
    ],
    [
      'admits where there is room',
      [aSlot('a', 'running'), aSlot('b', 'waiting')],
      [{ limit: 2 }],
      'admit b',
    ],
    [
      'admits the first newcomer',
      [aSlot('b', 'waiting', { requestedAt: 1 }), aSlot('a', 'waiting', { requestedAt: 2 })],
      [{}],
      'admit b',
    ],
    [
      'pauses the oldest for a newcomer',
      [
        aSlot('a', 'running', { activeSince: 2 }),
        aSlot('b', 'running', { activeSince: 1 }),
        aSlot('c', 'waiting'),
      ],
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
      [
        aSlot('a', 'running', { confirming: true }),
        aSlot('b', 'running', { activeSince: 9 }),
        aSlot('c', 'waiting'),
      ],
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
    [
      'only waits under Queue',
      [aSlot('a', 'running'), aSlot('b', 'waiting', { explained: false })],
      [{ onExceeded: 'Queue' }],
      'wait b',
    ],
    [
      'refuses the last under Reject',
      [
        aSlot('a', 'running'),
        aSlot('b', 'waiting', { requestedAt: 1 }),
        aSlot('c', 'waiting', { requestedAt: 2 }),
      ],
      [{ onExceeded: 'Reject' }],
      'reject c',
    ],
    [
      'refuses no newcomer for which a slot is getting free',
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
      [
        aSlot('a', 'resumable', { pausedSince: 1 }),
        aSlot('b', 'resumable', { pausedSince: 2, unfinished: true }),
      ],
      [{}],
      'admit b',
    ],
    [
      'brings back the longest paused',
      [aSlot('a', 'resumable', { pausedSince: 2 }), aSlot('b', 'resumable', { pausedSince: 1 })],
      [{}],
      'admit b',
    ],
    [
      'evicts no sandbox for an automatic resume',
      [aSlot('a', 'running'), aSlot('b', 'resumable')],
      [{}],
      'nothing',
    ],
    [
      'lets newcomers go before what comes back',
      [aSlot('a', 'resumable', { unfinished: true }), aSlot('b', 'waiting')],
      [{}],
      'admit b',
    ],
    [
      'brings nothing back under Never',
      [aSlot('a', 'resumable', { unfinished: true })],
      [{ autoResume: 'Never' }],
      'nothing',
    ],
    [
      'brings back only unfinished work under Unfinished',
      [aSlot('a', 'resumable')],
      [{ autoResume: 'Unfinished' }],
      'nothing',
    ],
    ['leaves what rests alone', [aSlot('a', 'suspended')], [], 'nothing'],
    [
      'takes an own quota before the default',
      [aSlot('a', 'running'), aSlot('b', 'waiting')],
      [{ limit: 1 }, { owner: 'alice', limit: 2 }],
      'admit b',
    ],
    [
      'takes the stricter of two',
      [aSlot('a', 'running'), aSlot('b', 'waiting')],
      [{ limit: 5 }, { limit: 1 }],
      'evict a',
    ],
    [
      'keeps the namespace within its limit',
      [aSlot('a', 'running'), aSlot('b', 'waiting', { owner: 'bob' })],
      [{ limit: 5 }, { scope: 'Namespace', limit: 1 }],
      'evict a',
    ],
    [
      'frees an own slot for a newcomer under both limits',
      [
        aSlot('a', 'running', { activeSince: 5 }),
        aSlot('z', 'running', { owner: 'bob' }),
        aSlot('b', 'waiting'),
      ],
      [{ limit: 1 }, { scope: 'Namespace', limit: 2 }],
      'evict a',
    ],
    [
      'evicts no sandbox under a limit with room while the namespace is full and makes none',
      [aSlot('a', 'running'), aSlot('b', 'waiting'), aSlot('c', 'waiting'), aSlot('d', 'waiting')],
      [{ limit: 2 }, { scope: 'Namespace', limit: 1, onExceeded: 'Queue' }],
      'nothing',
    ],
    [
      'evicts no sandbox when a newcomer of another owner would get the slot',
      [
        aSlot('a', 'running'),
        aSlot('b', 'waiting', { requestedAt: 2 }),
        aSlot('c', 'waiting', { owner: 'bob', requestedAt: 1 }),
      ],
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
      [
        aSlot('a', 'running', { activeSince: 1 }),
        aSlot('b', 'running', { activeSince: 2 }),
        aSlot('c', 'waiting', { owner: 'bob' }),
      ],
      [{ limit: 1 }, { scope: 'Namespace', limit: 2, onExceeded: 'Queue' }],
      'evict a',
    ],
    [
      'gives back the slot of what has no pod',
      [aSlot('a', 'freeing', { releasable: true })],
      [{}],
      'release a',
    ],
    [
      'pauses what has expired',
      [aSlot('a', 'running', { expiry: { at: 99_000, reason: 'Idle', limit: '1m' } })],
      [],
      'expire a',
    ],
  ];
  it.each(cases)('%s', (_sentence, slots, quotas, expected) => {
    expect(said(decide(snapshotOf(slots, ...quotas), 100_000))).toBe(expected);
  });
});

it('names both of two quotas for the same', () => {
  const rules = quotaRules([
    aQuota('b', { limit: 3 }),
    aQuota('a', { limit: 9 }),
    aQuota('c', { scope: 'Namespace' }),
  ]);
  expect(rules.everyOwner).toMatchObject({ quotaName: 'b', limit: 3 });
  expect([...rules.conflicts]).toEqual([
    ['a', ['a', 'b']],
    ['b', ['a', 'b']],
  ]);
});
