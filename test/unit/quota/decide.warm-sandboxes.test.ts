import { Snapshot } from '../../../src/quota/snapshot.ts';
import { classify } from '../../../src/quota/classify.ts';
import { decide, wakeAt, type Decision } from '../../../src/quota/decide.ts';
import { forecast } from '../../../src/quota/forecast.ts';
import type { Slot } from '../../../src/quota/slot.ts';
import { quotaCaps } from '../../../src/quota/caps.ts';
import { quotaRules } from '../../../src/quota/rules.ts';
import type { ConversationQuotaSpec } from '../../../src/resources/conversation-quota.ts';
import { aQuota, aSlot, aWarmSandbox, noonMs } from '../../support/builders.ts';

const warmSandbox = (
  uid: string,
  state: 'running' | 'suspended' = 'running',
  more: Partial<Slot> = {},
) => aSlot(uid, state, { owner: '', warmSandbox: true, idleSince: 0, stored: true, ...more });

const snapshotOf = (
  slots: readonly Slot[],
  ...specs: readonly Partial<ConversationQuotaSpec>[]
): Snapshot => {
  const snapshot = new Snapshot();
  const quotas = specs.map((spec, index) => aQuota(`quota-${index}`, spec));
  snapshot.setRules(quotaRules(quotas), quotaCaps(quotas));
  for (const slot of slots) snapshot.put(slot);
  return snapshot;
};
const said = (step: Decision | undefined): string =>
  step === undefined ? 'nothing' : `${step.kind} ${step.slot.uid}`;
const ofNamespace = { scope: 'Namespace' } as const;

describe('a warm sandbox of a pool', () => {
  const cases: [string, readonly Slot[], readonly Partial<ConversationQuotaSpec>[], string][] = [
    ['is admitted without a quota', [warmSandbox('s', 'suspended')], [], 'admit s'],
    [
      'counts against no owner',
      [warmSandbox('s', 'suspended'), warmSandbox('t')],
      [{ limit: 1 }],
      'admit s',
    ],
    [
      'counts in its namespace',
      [warmSandbox('s', 'suspended'), warmSandbox('t')],
      [{ ...ofNamespace, limit: 1 }],
      'nothing',
    ],
    [
      'takes no room from a newcomer',
      [aSlot('a', 'waiting'), warmSandbox('s', 'suspended')],
      [{ ...ofNamespace, limit: 1 }],
      'admit a',
    ],
    [
      'is evicted before everything that an owner has',
      [aSlot('a', 'running', { activeSince: 1 }), warmSandbox('s'), aSlot('b', 'waiting')],
      [{ ...ofNamespace, limit: 2 }],
      'evict s',
    ],
    [
      'is evicted for a bare resume',
      [
        aSlot('a', 'running', { activeSince: 1 }),
        warmSandbox('s'),
        aSlot('b', 'waiting', { bare: true }),
      ],
      [{ ...ofNamespace, limit: 2 }],
      'evict s',
    ],
    [
      'has no minimum time in which it is protected',
      [warmSandbox('s', 'running', { activeSince: 1_000 }), aSlot('b', 'waiting')],
      [{ ...ofNamespace, limit: 1, minActiveSeconds: 3_600 }],
      'evict s',
    ],
    [
      'evicts nothing',
      [aSlot('a', 'running'), warmSandbox('s', 'suspended')],
      [{ ...ofNamespace, limit: 1 }],
      'nothing',
    ],
    [
      'waits behind automatic resumes',
      [aSlot('a', 'resumable', { resumesAt: 0 }), warmSandbox('s', 'suspended')],
      [{ ...ofNamespace, limit: 1 }],
      'admit a',
    ],
    ...(['PauseOldest', 'PauseLongestIdle', 'Queue', 'Reject'] as const).flatMap(
      (onExceeded): typeof cases => [
        [
          `makes room for a start under ${onExceeded}`,
          [warmSandbox('s'), warmSandbox('t'), aSlot('b', 'waiting')],
          [{ ...ofNamespace, limit: 2, onExceeded }],
          'evict s',
        ],
        [
          `makes room for a bare resume under ${onExceeded}`,
          [aSlot('a', 'running'), warmSandbox('s'), aSlot('b', 'waiting', { bare: true })],
          [{ ...ofNamespace, limit: 2, onExceeded }],
          'evict s',
        ],
        [
          `makes room for an automatic resume under ${onExceeded}`,
          [aSlot('a', 'running'), warmSandbox('s'), aSlot('b', 'resumable', { owner: 'bob' })],
          [{ ...ofNamespace, limit: 2, onExceeded }],
          'evict s',
        ],
        [
          `makes room for no more starts than there are under ${onExceeded}`,
          [aSlot('f', 'freeing'), warmSandbox('s'), aSlot('b', 'waiting')],
          [{ ...ofNamespace, limit: 2, onExceeded }],
          'nothing',
        ],
      ],
    ),
    [
      'goes alone where a limit is lowered, before what owners have',
      [aSlot('a', 'running'), warmSandbox('s')],
      [{ ...ofNamespace, limit: 1, onExceeded: 'Queue' }],
      'evict s',
    ],
    [
      'is no reason to reject a start',
      [aSlot('a', 'running'), warmSandbox('s'), aSlot('b', 'waiting')],
      [{ ...ofNamespace, limit: 2, onExceeded: 'Reject' }],
      'evict s',
    ],
    [
      'saves no start from the rejection that the sandboxes of owners demand',
      [aSlot('a', 'running'), warmSandbox('s'), aSlot('b', 'waiting')],
      [{ ...ofNamespace, limit: 1, onExceeded: 'Reject' }],
      'reject b',
    ],
    [
      'is admitted beside a sandbox that only its owner keeps waiting',
      [aSlot('a', 'running'), aSlot('b', 'waiting'), warmSandbox('s', 'suspended')],
      [
        { ...ofNamespace, limit: 3 },
        { limit: 1, onExceeded: 'Queue' },
      ],
      'admit s',
    ],
    [
      'is admitted beside an automatic resume that only its owner keeps waiting',
      [aSlot('a', 'running'), aSlot('b', 'resumable'), warmSandbox('s', 'suspended')],
      [{ ...ofNamespace, limit: 3 }, { limit: 1 }],
      'admit s',
    ],
    [
      'is admitted during the delay of an automatic resume',
      [aSlot('b', 'resumable', { resumesAt: 70_000 }), warmSandbox('s', 'suspended')],
      [{ ...ofNamespace, limit: 1 }],
      'admit s',
    ],
    [
      'counts against no maxSandboxes',
      [warmSandbox('s'), warmSandbox('t'), aSlot('b', 'waiting', { undecided: true })],
      [{ ...ofNamespace, limit: 9, maxSandboxes: 2 }],
      'admit b',
    ],
  ];
  it.each(cases)('%s', (_, slots, quotas, expected) => {
    expect(said(decide(snapshotOf(slots, ...quotas), 10_000))).toBe(expected);
  });

  it('leaves no trace in the group of warm sandboxes once an owner has claimed it', () => {
    const snapshot = snapshotOf([warmSandbox('s'), aSlot('a', 'waiting')], { limit: 1 });
    snapshot.put(aSlot('s', 'starting', { owner: 'alice' }));
    expect(snapshot.warmSandboxes.isEmpty).toBe(true);
    expect(snapshot.owner('alice')?.load.taken).toBe(1);
    expect(snapshot.all.load.taken).toBe(1);
    expect(said(decide(snapshot, 10_000))).toBe('nothing');
  });

  const claims: [string, readonly Slot[], readonly Partial<ConversationQuotaSpec>[], boolean][] = [
    ['by an owner with room', [warmSandbox('s')], [{ limit: 1 }], true],
    [
      'by an owner without a slot left',
      [warmSandbox('s'), aSlot('a', 'running')],
      [{ limit: 1 }],
      false,
    ],
    ['by an owner whose quota is 0', [warmSandbox('s')], [{ limit: 0 }], false],
    [
      'in a full namespace, of which it is a part',
      [warmSandbox('s'), aSlot('a', 'running', { owner: 'bob' })],
      [{ ...ofNamespace, limit: 2 }],
      true,
    ],
    [
      'while another owner waits for its place',
      [warmSandbox('s'), aSlot('b', 'waiting', { owner: 'bob' })],
      [{ ...ofNamespace, limit: 1 }],
      false,
    ],
    [
      'beside another owner who waits, where there is a place for both',
      [warmSandbox('s'), warmSandbox('t'), aSlot('b', 'waiting', { owner: 'bob' })],
      [{ ...ofNamespace, limit: 2 }],
      true,
    ],
    [
      'beside another owner who waits for a limit of that owner alone',
      [
        warmSandbox('s'),
        aSlot('a', 'running', { owner: 'bob' }),
        aSlot('b', 'waiting', { owner: 'bob' }),
      ],
      [{ ...ofNamespace, limit: 2 }, { limit: 1 }],
      true,
    ],
    [
      'beyond a limit that was lowered',
      [warmSandbox('s'), aSlot('a', 'running', { owner: 'bob' })],
      [{ ...ofNamespace, limit: 1 }],
      false,
    ],
    [
      'in the place of an earlier start of the same owner',
      [warmSandbox('s'), aSlot('a', 'waiting')],
      [{ limit: 1 }],
      false,
    ],
    [
      'beside an earlier start of the same owner, where the owner has room for both',
      [warmSandbox('s'), aSlot('a', 'waiting')],
      [{ limit: 2 }],
      true,
    ],
    ['beside other starts without any quota', [warmSandbox('s'), aSlot('a', 'waiting')], [], true],
  ];
  it.each(claims)('may be claimed or not %s', (_, slots, quotas, expected) => {
    expect(snapshotOf(slots, ...quotas).mayClaim('alice')).toBe(expected);
  });

  it('gives its slot to an automatic resume when the delay is over', () => {
    const snapshot = snapshotOf(
      [
        aSlot('a', 'running', { owner: 'bob' }),
        aSlot('x', 'resumable', { resumesAt: 70_000, unfinished: true }),
        warmSandbox('s'),
      ],
      { ...ofNamespace, limit: 2, onExceeded: 'Queue' },
    );
    expect(said(decide(snapshot, 10_000))).toBe('nothing');
    expect(wakeAt(snapshot, 10_000)).toBe(70_000);
    expect(said(decide(snapshot, 70_000))).toBe('evict s');
    snapshot.put(warmSandbox('s', 'suspended'));
    expect(said(decide(snapshot, 70_001))).toBe('admit x');
  });

  it('gives its slot to automatic resumes at their rate, which asks for a wake-up', () => {
    const resumable = ['x', 'y'].map((uid) =>
      aSlot(uid, 'resumable', { resumesAt: 0, owner: uid, unfinished: true }),
    );
    const snapshot = new Snapshot({ burst: 1, intervalMs: 1_000 });
    snapshot.setRules(quotaRules([aQuota('q', { ...ofNamespace, limit: 2, onExceeded: 'Queue' })]));
    for (const slot of [...resumable, warmSandbox('s')]) snapshot.put(slot);
    expect(said(decide(snapshot, 10_000))).toBe('admit x');
    snapshot.put(aSlot('x', 'starting', { owner: 'x' }));
    expect(said(decide(snapshot, 10_000))).toBe('nothing');
    expect(wakeAt(snapshot, 10_000)).toBe(11_000);
    expect(said(decide(snapshot, 11_000))).toBe('evict s');
  });

  it('is room in a forecast', () => {
    const limit = { ...ofNamespace, limit: 2, onExceeded: 'Queue' } as const;
    expect(
      forecast(snapshotOf([warmSandbox('s'), warmSandbox('t')], limit), undefined, 10_000).outcome,
    ).toBe('admitted');
  });

  it('names no preemptor, because nothing of an owner is paused', () => {
    const snapshot = snapshotOf([warmSandbox('s'), aSlot('b', 'waiting')], {
      ...ofNamespace,
      limit: 1,
    });
    expect(decide(snapshot, 10_000)).toMatchObject({ kind: 'evict', preemptor: undefined });
  });

  it('leaves room for stored sandboxes of owners', () => {
    const slots = [warmSandbox('s'), warmSandbox('t'), aSlot('a', 'running', { stored: true })];
    expect(snapshotOf(slots, { ...ofNamespace, maxSandboxes: 3 }).roomForWarmSandboxes).toBe(2);
    expect(snapshotOf(slots, { maxSandboxes: 1 }).roomForWarmSandboxes).toBe(Infinity);
  });

  it('is no newcomer, and no time limit of its template counts', () => {
    const limits = { idleTimeout: '1s', maxActiveTime: '1s', startDeadline: '1s' };
    const facts = { conversations: [], limits, now: noonMs + 3_600_000 };
    expect(classify({ ...facts, sandbox: aWarmSandbox('s') })).toMatchObject({
      owner: '',
      warmSandbox: true,
      state: 'running',
      taken: true,
      expiry: undefined,
    });
    expect(
      classify({ ...facts, sandbox: aWarmSandbox('s', { replicas: 0, conditions: [] }) }),
    ).toMatchObject({ state: 'suspended', taken: false, undecided: false });
  });
});
