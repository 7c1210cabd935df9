import { decidedSandbox } from '../../../../src/controllers/admission/decided-sandbox.ts';
import type { Decision } from '../../../../src/quota/decide.ts';
import { eventsOf } from '../../../../src/controllers/admission/reconcile.ts';
import {
  SandboxCondition,
  resumeRequestedAnnotation,
  type Sandbox,
} from '../../../../src/resources/sandbox.ts';
import { findCondition } from '../../../../src/resources/conditions.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import { quotaRules, type QuotaRule } from '../../../../src/quota/rules.ts';
import type { ConversationQuotaSpec } from '../../../../src/resources/conversation-quota.ts';
import {
  aWarmSandbox,
  aConversation,
  aQuota,
  aSandbox,
  aSlot,
  later,
  noon,
} from '../../../support/builders.ts';

const reservation = { template: undefined, currentKeyId: 'key', now: noon };

function ruleOf(spec: Partial<ConversationQuotaSpec> = {}): QuotaRule {
  const { namespace, everyOwner } = quotaRules([aQuota('default', { limit: 10, ...spec })]);
  const rule = namespace ?? everyOwner;
  if (rule === undefined) throw new Error('no rule');
  return rule;
}

const madeFor = (conversation: string, owner = 'alice'): Sandbox => {
  const sandbox = aSandbox({ name: `sbx-${conversation}`, owner });
  const reference = ownerReferenceTo(aConversation({ name: conversation }), { controller: false });
  return { ...sandbox, metadata: { ...sandbox.metadata, ownerReferences: [reference] } };
};
const old = aSlot('old', 'running', { sandbox: madeFor('old') });
const fresh = aSlot('new', 'waiting', { sandbox: madeFor('new') });
const bobs = aSlot('bobs', 'waiting', { owner: 'bob', sandbox: madeFor('bobs', 'bob') });
const bare = aSlot('bare', 'waiting', { sandbox: aSandbox({ name: 'bare' }) });
const namespaced = ruleOf({ scope: 'Namespace' });
const expiring = (reason: 'Idle' | 'MaxActiveTime'): Decision => ({
  kind: 'expire',
  slot: { ...old, expiry: { at: 0, reason, limit: '20m' } },
  reason,
});

describe('what people read', () => {
  const cases: [string, Decision, string, readonly string[]][] = [
    [
      'when their conversation makes room for another one of theirs',
      { kind: 'evict', slot: old, rule: ruleOf(), preemptor: fresh },
      'Paused to make room for conversation new of the same owner; limit 10.',
      [
        'old PausedByQuota: Paused to make room for conversation new of the same owner; limit 10.',
        'new RoomMade: Conversation old is paused to make room; limit 10.',
      ],
    ],
    [
      'when it makes room for a sandbox without a conversation',
      { kind: 'evict', slot: old, rule: ruleOf(), preemptor: bare },
      'Paused to make room for sandbox bare of the same owner; limit 10.',
      [
        'old PausedByQuota: Paused to make room for sandbox bare of the same owner; limit 10.',
        'bare RoomMade: Conversation old is paused to make room; limit 10.',
      ],
    ],
    [
      "when it makes room for another owner's sandbox, whose name stays secret",
      { kind: 'evict', slot: old, rule: namespaced, preemptor: bobs },
      'Paused to make room for a conversation of another owner; limit 10.',
      [
        'old PausedByQuota: Paused to make room for a conversation of another owner; limit 10.',
        'bobs RoomMade: A conversation of another owner is paused to make room; limit 10.',
      ],
    ],
    [
      'when the limit was lowered',
      { kind: 'evict', slot: old, rule: ruleOf(), preemptor: undefined },
      'Paused because more than 10 per owner were active; it comes back when there is room.',
      [
        'old PausedByQuota: Paused because more than 10 per owner were active; it comes back when there is room.',
      ],
    ],
    [
      'about a warm sandbox that leaves its slot to them',
      {
        kind: 'evict',
        slot: aSlot('spare', 'running', {
          owner: '',
          warmSandbox: true,
          sandbox: aWarmSandbox('spare'),
        }),
        rule: namespaced,
        preemptor: undefined,
      },
      'The warm sandbox leaves its slot to a sandbox of an owner; limit 10.',
      ['spare PausedByQuota: The warm sandbox leaves its slot to a sandbox of an owner; limit 10.'],
    ],
    [
      'when the limit was lowered and no sandbox resumes automatically',
      { kind: 'evict', slot: old, rule: ruleOf({ autoResume: 'Never' }), preemptor: undefined },
      'Paused because more than 10 per owner were active.',
      ['old PausedByQuota: Paused because more than 10 per owner were active.'],
    ],
    [
      'when it has been idle for too long',
      expiring('Idle'),
      'Paused after 20m without work, the idleTimeout of its template.',
      ['old Idle: Paused after 20m without work, the idleTimeout of its template.'],
    ],
    [
      'when it has run for too long',
      expiring('MaxActiveTime'),
      'Paused after 20m of running, the maxActiveTime of its template.',
      ['old MaxActiveTime: Paused after 20m of running, the maxActiveTime of its template.'],
    ],
    [
      'when it waits',
      { kind: 'wait', slot: fresh, rule: ruleOf() },
      'Waiting for room: at most 10 per owner may be active at once.',
      ['new WaitingForQuota: Waiting for room: at most 10 per owner may be active at once.'],
    ],
    [
      'when it was resumed without anything to do, and waits',
      { kind: 'wait', slot: { ...fresh, bare: true }, rule: ruleOf() },
      'Waiting for room or for an idle sandbox: at most 10 per owner may be active at once. A resume without a message pauses no agent that works; a message does.',
      [
        'new WaitingForIdleSandbox: Waiting for room or for an idle sandbox: at most 10 per owner may be active at once. A resume without a message pauses no agent that works; a message does.',
      ],
    ],
    [
      'when it waits like that under a quota that evicts no sandbox',
      { kind: 'wait', slot: { ...fresh, bare: true }, rule: ruleOf({ onExceeded: 'Queue' }) },
      'Waiting for room: at most 10 per owner may be active at once.',
      ['new WaitingForIdleSandbox: Waiting for room: at most 10 per owner may be active at once.'],
    ],
    [
      'when its agent has not answered for too long',
      {
        kind: 'expire',
        slot: { ...old, state: 'starting', expiry: { at: 0, reason: 'Idle', limit: '20m' } },
        reason: 'Idle',
      },
      'Paused after 20m without an answer of its agent, the idleTimeout of its template.',
      [
        'old Idle: Paused after 20m without an answer of its agent, the idleTimeout of its template.',
      ],
    ],
    [
      'when its agent has not answered since it was resumed, and it may be idle for ever',
      {
        kind: 'expire',
        slot: {
          ...old,
          state: 'starting',
          expiry: { at: 0, reason: 'MaxActiveTime', limit: '20m' },
        },
        reason: 'MaxActiveTime',
      },
      'Paused after 20m without an answer of its agent, the maxActiveTime of its template.',
      [
        'old MaxActiveTime: Paused after 20m without an answer of its agent, the maxActiveTime of its template.',
      ],
    ],
    [
      'when its agent was lost before it has run for too long',
      {
        kind: 'expire',
        slot: {
          ...old,
          state: 'starting',
          sandbox: aSandbox({ name: 'old', status: { activeSinceTime: noon } }),
          expiry: { at: 0, reason: 'MaxActiveTime', limit: '20m' },
        },
        reason: 'MaxActiveTime',
      },
      'Paused after 20m of running, the maxActiveTime of its template.',
      ['old MaxActiveTime: Paused after 20m of running, the maxActiveTime of its template.'],
    ],
    [
      'when the limit was lowered and it came back before with nothing to do',
      { kind: 'evict', slot: { ...old, automatic: true }, rule: ruleOf(), preemptor: undefined },
      'Paused because more than 10 per owner were active.',
      ['old PausedByQuota: Paused because more than 10 per owner were active.'],
    ],
    [
      'when it is refused',
      { kind: 'reject', slot: fresh, rule: ruleOf(), current: 10 },
      'The limit of 10 per owner is reached (10 active).',
      ['new QuotaExceeded: The limit of 10 per owner is reached (10 active).'],
    ],
    [
      'when it resumes automatically',
      { kind: 'admit', slot: old, resumed: true },
      'There is room again. One of 10 that may be active per owner.',
      ['old ResumedByQuota: The sandbox resumes automatically: there is room again.'],
    ],
    [
      'nothing when it is let through',
      { kind: 'admit', slot: fresh, resumed: false },
      'One of 10 that may be active per owner.',
      [],
    ],
  ];
  it.each(cases)('%s', (_sentence, step, condition, events) => {
    const { status } = decidedSandbox(step, 'rule' in step ? step.rule : ruleOf(), reservation);
    const message = findCondition(status?.conditions, SandboxCondition.admitted)?.message ?? '';
    expect(message).toBe(condition);
    expect(
      eventsOf(step, message).map(
        (notice) => `${notice.about.uid} ${notice.reason}: ${notice.message}`,
      ),
    ).toEqual(events);
  });
});

it('an admission reserves the slot in the same write', () => {
  const { status } = decidedSandbox(
    { kind: 'admit', slot: aSlot('a', 'waiting'), resumed: false },
    undefined,
    reservation,
  );
  expect(status).toMatchObject({ replicas: 1, masterKeyId: 'key', startingSinceTime: noon });
});

describe('the automatic resumes that are stored', () => {
  const before = { count: 2, lastTime: later(-60_000) };
  const sandbox = aSandbox({ status: { automaticResumes: before } });
  const slot = aSlot('a', 'running', { sandbox });
  const evicted = (automatic: boolean): Decision => ({
    kind: 'evict',
    slot: { ...slot, automatic },
    rule: ruleOf(),
    preemptor: undefined,
  });
  it.each<[string, Decision, object | undefined]>([
    [
      'count one more when it resumes automatically',
      { kind: 'admit', slot, resumed: true },
      { count: 3, lastTime: noon },
    ],
    [
      'begin when it does so for the first time',
      { kind: 'admit', slot: aSlot('b', 'resumable'), resumed: true },
      { count: 1, lastTime: noon },
    ],
    ['end when it is admitted for a person', { kind: 'admit', slot, resumed: false }, undefined],
    ['stay when it is paused and no person has asked for it', evicted(true), before],
    ['end when it is paused after a person did', evicted(false), undefined],
    ['stay while it waits', { kind: 'wait', slot, rule: ruleOf() }, before],
    [
      'end when a person who asks is refused',
      { kind: 'reject', slot, rule: ruleOf(), current: 10 },
      undefined,
    ],
    ['end when its owner has paused it', { kind: 'release', slot }, undefined],
  ])('%s', (_sentence, step, expected) => {
    expect(decidedSandbox(step, ruleOf(), reservation).status?.automaticResumes).toEqual(expected);
  });
});

describe('the request to resume that is stored as seen', () => {
  const wants = (replicas: 0 | 1): Decision => {
    const sandbox = aSandbox({ replicas });
    const annotations = { [resumeRequestedAnnotation]: later(-60_000) };
    return {
      kind: 'release',
      slot: aSlot('a', 'freeing', {
        sandbox: { ...sandbox, metadata: { ...sandbox.metadata, annotations } },
      }),
    };
  };
  it('is the one of before the pause, when the owner has paused the sandbox', () => {
    expect(decidedSandbox(wants(0), ruleOf(), reservation).status?.observedResumeRequest).toBe(
      later(-60_000),
    );
  });
  it('stays as it was when the sandbox has failed: a person may have asked for it since', () => {
    expect(
      decidedSandbox(wants(1), ruleOf(), reservation).status?.observedResumeRequest,
    ).toBeUndefined();
  });
});
