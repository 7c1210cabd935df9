import { AdmissionQueue } from '../../../src/quota/admission-queue.ts';
import { classify } from '../../../src/quota/classify.ts';
import type { Decision } from '../../../src/quota/decision.ts';
import type { Slot } from '../../../src/quota/slot.ts';
import { quotaCaps } from '../../../src/resources/quota-caps.ts';
import { quotaRules } from '../../../src/resources/quota-rules.ts';
import type { ConversationQuotaSpec } from '../../../src/resources/conversation-quota.ts';
import { aQuota, aSlot, aSpare, noonMs } from '../../support/builders.ts';

const spare = (uid: string, state: 'running' | 'suspended' = 'running', more: Partial<Slot> = {}) =>
  aSlot(uid, state, { owner: '', spare: true, idleSince: 0, stored: true, ...more });

const queueOf = (
  slots: readonly Slot[],
  ...specs: readonly Partial<ConversationQuotaSpec>[]
): AdmissionQueue => {
  const queue = new AdmissionQueue();
  const quotas = specs.map((spec, index) => aQuota(`quota-${index}`, spec));
  queue.setRules(quotaRules(quotas), quotaCaps(quotas));
  for (const slot of slots) queue.put(slot);
  return queue;
};
const said = (step: Decision | undefined): string =>
  step === undefined ? 'nothing' : `${step.kind} ${step.slot.uid}`;
const ofNamespace = { scope: 'Namespace' } as const;

describe('a spare of a pool', () => {
  const cases: [string, readonly Slot[], readonly Partial<ConversationQuotaSpec>[], string][] = [
    ['is admitted without a quota', [spare('s', 'suspended')], [], 'admit s'],
    ['counts against no owner', [spare('s', 'suspended'), spare('t')], [{ limit: 1 }], 'admit s'],
    [
      'counts in its namespace',
      [spare('s', 'suspended'), spare('t')],
      [{ ...ofNamespace, limit: 1 }],
      'nothing',
    ],
    [
      'takes no room from a newcomer',
      [aSlot('a', 'waiting'), spare('s', 'suspended')],
      [{ ...ofNamespace, limit: 1 }],
      'admit a',
    ],
    [
      'is evicted before everything that an owner has',
      [aSlot('a', 'running', { activeSince: 1 }), spare('s'), aSlot('b', 'waiting')],
      [{ ...ofNamespace, limit: 2 }],
      'evict s',
    ],
    [
      'is evicted for a bare resume',
      [
        aSlot('a', 'running', { activeSince: 1 }),
        spare('s'),
        aSlot('b', 'waiting', { bare: true }),
      ],
      [{ ...ofNamespace, limit: 2 }],
      'evict s',
    ],
    [
      'has no minimum time in which it is protected',
      [spare('s', 'running', { activeSince: 1_000 }), aSlot('b', 'waiting')],
      [{ ...ofNamespace, limit: 1, minActiveSeconds: 3_600 }],
      'evict s',
    ],
    [
      'evicts nothing',
      [aSlot('a', 'running'), spare('s', 'suspended')],
      [{ ...ofNamespace, limit: 1 }],
      'nothing',
    ],
    [
      'waits behind automatic resumes',
      [aSlot('a', 'resumable', { resumesAt: 0 }), spare('s', 'suspended')],
      [{ ...ofNamespace, limit: 1 }],
      'admit a',
    ],
  ];
  it.each(cases)('%s', (_, slots, quotas, expected) => {
    expect(said(queueOf(slots, ...quotas).next(10_000))).toBe(expected);
  });

  it('leaves no trace in the group of spares once an owner has claimed it', () => {
    const queue = queueOf([spare('s'), aSlot('a', 'waiting')], { limit: 1 });
    queue.put(aSlot('s', 'starting', { owner: 'alice' }));
    expect(queue.storedSpares).toBe(0);
    expect(queue.group('alice')?.taken).toBe(1);
    expect(queue.all.taken).toBe(1);
    expect(said(queue.next(10_000))).toBe('nothing');
  });

  const claims: [string, readonly Slot[], readonly Partial<ConversationQuotaSpec>[], boolean][] = [
    ['by an owner with room', [spare('s')], [{ limit: 1 }], true],
    ['by an owner without a slot left', [spare('s'), aSlot('a', 'running')], [{ limit: 1 }], false],
    ['by an owner whose quota is 0', [spare('s')], [{ limit: 0 }], false],
    [
      'in a full namespace, of which it is a part',
      [spare('s'), aSlot('a', 'running', { owner: 'bob' })],
      [{ ...ofNamespace, limit: 2 }],
      true,
    ],
    [
      'while another owner waits for its place',
      [spare('s'), aSlot('b', 'waiting', { owner: 'bob' })],
      [{ ...ofNamespace, limit: 1 }],
      false,
    ],
    [
      'past an earlier start of the same owner',
      [spare('s'), aSlot('a', 'waiting')],
      [{ limit: 5 }],
      false,
    ],
  ];
  it.each(claims)('may be claimed or not %s', (_, slots, quotas, expected) => {
    expect(queueOf(slots, ...quotas).mayClaim('alice')).toBe(expected);
  });

  it('leaves room for stored sandboxes of owners', () => {
    const slots = [spare('s'), spare('t'), aSlot('a', 'running', { stored: true })];
    expect(queueOf(slots, { ...ofNamespace, maxSandboxes: 3 }).roomForSpares).toBe(2);
    expect(queueOf(slots, { maxSandboxes: 1 }).roomForSpares).toBe(Infinity);
  });

  it('is no newcomer, and no time limit of its template counts', () => {
    const limits = { idleTimeout: '1s', maxActiveTime: '1s', startDeadline: '1s' };
    const facts = { conversations: [], limits, now: noonMs + 3_600_000 };
    expect(classify({ ...facts, sandbox: aSpare('s') })).toMatchObject({
      owner: '',
      spare: true,
      state: 'running',
      taken: true,
      expiry: undefined,
    });
    expect(
      classify({ ...facts, sandbox: aSpare('s', { replicas: 0, conditions: [] }) }),
    ).toMatchObject({ state: 'suspended', taken: false, undecided: false });
  });
});
