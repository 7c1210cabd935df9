import { classify } from '../../../src/quota/classify.ts';
import type { Slot } from '../../../src/quota/slot.ts';
import type { SlotFacts } from '../../../src/quota/time-limits.ts';
import type { ConversationStatus } from '../../../src/resources/conversation-status.ts';
import { ownerReferenceTo } from '@conversation-operator/kube/object';
import {
  resumeRequestedAnnotation,
  runRequestedAnnotation,
  type Sandbox,
  type SandboxState,
} from '../../../src/resources/sandbox.ts';
import {
  aConversation,
  aSandbox,
  admitted,
  condition,
  later,
  noon,
  noonMs,
} from '../../support/builders.ts';

const minute = 60_000;
const letIn = { ...admitted, observedGeneration: 1 };
const seen = (reason: string) => ({
  ...condition('Admitted', 'False', reason),
  observedGeneration: 1,
});
const annotated = (sandbox: Sandbox, annotations: Record<string, string>): Sandbox => ({
  ...sandbox,
  metadata: { ...sandbox.metadata, annotations },
});
const start = { status: 'READY' as const, transitions: [] };
const inIt = (status: ConversationStatus) => aConversation({ status: { start, ...status } });
const finished = inIt({ executionStatus: 'finished' });
const interrupted = inIt({
  executionStatus: 'paused',
  interruption: { reason: 'Quota', time: noon },
});
const starts = aConversation({
  status: { start: { status: 'PREPARING_REPOSITORY', transitions: [] } },
});
const failed = aConversation({ status: { start: { status: 'ERROR', transitions: [] } } });
const message = {
  role: 'user' as const,
  content: [{ type: 'text' as const, text: 'Continue.' }],
  run: true,
  number: 1,
  id: 'a',
};
const deleting = (conversation: ReturnType<typeof aConversation>) => ({
  ...conversation,
  metadata: { ...conversation.metadata, deletionTimestamp: noon },
});
const sent = (status: ConversationStatus) =>
  aConversation({ spec: { messages: [message] }, status: { start, ...status } });

const was = (status: Partial<SandboxState>) =>
  aSandbox({ status: { replicas: 0, lastContainerID: 'c', agentEpoch: 1, ...status } });
const asked = (sandbox: Sandbox) => annotated(sandbox, { [resumeRequestedAnnotation]: later(500) });
const resumed = asked(was({ conditions: [seen('Quota')] }));
const toRun = annotated(resumed, {
  [resumeRequestedAnnotation]: later(500),
  [runRequestedAnnotation]: '1',
});
const ofConversation = (sandbox: Sandbox): Sandbox => ({
  ...sandbox,
  metadata: {
    ...sandbox.metadata,
    ownerReferences: [ownerReferenceTo(aConversation(), { controller: true })],
  },
});

type Case = [string, Partial<SlotFacts>, Partial<Slot>];
const is = (facts: Partial<SlotFacts>): Slot =>
  classify({ sandbox: aSandbox(), conversations: [], now: noonMs + 1000, ...facts });

describe('a resume is bare', () => {
  const cases: Case[] = [
    ['when nothing is to be done', { sandbox: resumed, conversations: [finished] }, { bare: true }],
    ['also of a sandbox without a conversation', { sandbox: resumed }, { bare: true }],
    [
      'also when a run that a quota has interrupted would resume',
      { sandbox: resumed, conversations: [interrupted] },
      { bare: true },
    ],
    ['not of a sandbox that has never run', { sandbox: aSandbox() }, { bare: false }],
    [
      'not while a start is under way in it',
      { sandbox: resumed, conversations: [finished, starts] },
      { bare: false },
    ],
    [
      'not while a start may be under way that no cache shows',
      { sandbox: resumed, unknownStart: true },
      { bare: false },
    ],
    ['for a conversation that was deleted', { sandbox: resumed, orphaned: true }, { bare: true }],
    [
      'for one that was deleted before its sandbox had run',
      { sandbox: aSandbox(), orphaned: true },
      { bare: true, explained: true },
    ],
    [
      'for one that is being deleted',
      { sandbox: resumed, conversations: [deleting(starts)], orphaned: true },
      { bare: true },
    ],
    [
      'not while another conversation starts there',
      { sandbox: resumed, conversations: [starts], orphaned: true },
      { bare: false },
    ],
    [
      'not while a message waits',
      { sandbox: resumed, conversations: [sent({ executionStatus: 'finished' })] },
      { bare: false },
    ],
    [
      'not while a message waits for an agent that had failed',
      { sandbox: resumed, conversations: [sent({ executionStatus: 'error' })] },
      { bare: false },
    ],
    [
      'once the message has been delivered',
      { sandbox: resumed, conversations: [sent({ messages: { lastDelivered: 1 } })] },
      { bare: true },
    ],
    [
      'not when a run was requested',
      { sandbox: toRun, conversations: [interrupted] },
      { bare: false },
    ],
    [
      'when the run that was requested is over',
      { sandbox: toRun, conversations: [finished] },
      { bare: true },
    ],
    [
      'when the run was requested before the last pause by its owner',
      {
        sandbox: { ...toRun, metadata: { ...toRun.metadata, generation: 3 } },
        conversations: [interrupted],
      },
      { bare: true },
    ],
  ];
  it.each(cases)('%s', (_sentence, facts, expected) => {
    expect(is(facts)).toMatchObject({ state: 'waiting', ...expected });
  });

  it('and is explained anew once a message makes another one of it', () => {
    const waiting = asked(
      was({ waitingSinceTime: noon, conditions: [seen('WaitingForIdleSandbox')] }),
    );
    expect(is({ sandbox: waiting, conversations: [finished] })).toMatchObject({
      bare: true,
      explained: true,
      requestedAt: noonMs,
    });
    expect(is({ sandbox: waiting, conversations: [sent({})] })).toMatchObject({
      bare: false,
      explained: false,
      requestedAt: noonMs,
    });
  });
});

describe('a sandbox that resumed automatically', () => {
  const automaticResumes = { count: 1, lastTime: noon };
  const running = was({
    replicas: 1,
    activeSinceTime: noon,
    automaticResumes,
    conditions: [letIn, condition('Ready', 'True')],
  });
  const paused = (count: number, reason = 'Quota') =>
    was({ automaticResumes: { count, lastTime: noon }, conditions: [seen(reason)] });
  const cases: Case[] = [
    ['counts as automatic', { sandbox: running, conversations: [finished] }, { automatic: true }],
    [
      'counts as automatic while its run continues',
      {
        sandbox: running,
        conversations: [
          inIt({
            executionStatus: 'running',
            agentEpoch: 1,
            interruption: { reason: 'Quota', time: noon, lastResumeTime: noon },
          }),
        ],
      },
      { automatic: true },
    ],
    ['does not once a person has resumed it', { sandbox: asked(running) }, { automatic: false }],
    [
      'does not once it was scaled',
      { sandbox: { ...running, metadata: { ...running.metadata, generation: 3 } } },
      { automatic: false },
    ],
    [
      'does not while a message waits',
      { sandbox: running, conversations: [sent({})] },
      { automatic: false },
    ],
    [
      'does not after a message',
      {
        sandbox: running,
        conversations: [inIt({ messages: { lastDelivered: 1, lastDeliveredTime: later(1) } })],
      },
      { automatic: false },
    ],
    [
      'still does after a message from before',
      {
        sandbox: running,
        conversations: [inIt({ messages: { lastDelivered: 1, lastDeliveredTime: later(-1) } })],
      },
      { automatic: true },
    ],
    [
      'does not while a run continues that nothing had interrupted',
      { sandbox: running, conversations: [inIt({ executionStatus: 'running', agentEpoch: 1 })] },
      { automatic: false },
    ],
    [
      'still does while a run of before is stored',
      { sandbox: running, conversations: [inIt({ executionStatus: 'running', agentEpoch: 0 })] },
      { automatic: true },
    ],
    [
      'does not after a conversation has started in it',
      {
        sandbox: running,
        conversations: [
          aConversation({
            status: {
              start: { status: 'READY', transitions: [{ status: 'READY', time: later(5) }] },
            },
          }),
        ],
      },
      { automatic: false },
    ],
    [
      'rests once it was paused again with nothing to do',
      { sandbox: paused(1), conversations: [finished] },
      { state: 'suspended' },
    ],
    [
      'comes back after a minute where something was interrupted',
      { sandbox: paused(1), conversations: [interrupted] },
      { state: 'resumable', resumesAt: noonMs + minute },
    ],
    [
      'comes back after two the next time',
      { sandbox: paused(2), conversations: [interrupted] },
      { resumesAt: noonMs + 2 * minute },
    ],
    [
      'comes back after an hour in the end',
      { sandbox: paused(40), conversations: [interrupted] },
      { resumesAt: noonMs + 60 * minute },
    ],
    [
      'is like any other once a person asks for it',
      { sandbox: asked(paused(5)), conversations: [interrupted] },
      { state: 'waiting' },
    ],
  ];
  it.each(cases)('%s', (_sentence, facts, expected) => {
    expect(is(facts)).toMatchObject(expected);
  });

  it('comes back at once the first time, whatever it was doing', () => {
    expect(
      is({ sandbox: was({ conditions: [seen('Quota')] }), conversations: [finished] }),
    ).toMatchObject({ state: 'resumable', resumesAt: 0 });
  });
});

describe('the sandbox of a failed start', () => {
  const paused = ofConversation(was({ conditions: [seen('Quota')] }));
  const cases: Case[] = [
    [
      'does not resume automatically',
      { sandbox: paused, conversations: [failed] },
      { state: 'none' },
    ],
    [
      'does not come back when a person asks for it',
      { sandbox: asked(paused), conversations: [failed] },
      { state: 'none' },
    ],
    [
      'comes back for another conversation in it',
      { sandbox: paused, conversations: [failed, finished] },
      { state: 'resumable' },
    ],
    [
      'keeps its slot until its pod is gone',
      {
        sandbox: ofConversation(was({ replicas: 1, conditions: [seen('Quota')] })),
        conversations: [failed],
      },
      { state: 'freeing', taken: true },
    ],
    [
      'is not known by what no cache shows',
      { sandbox: paused, conversations: [failed], unknownStart: true },
      { state: 'resumable' },
    ],
    [
      'is not one that only names conversations of other owners',
      { sandbox: paused, conversations: [failed], hasForeignReferences: true },
      { state: 'resumable' },
    ],
    [
      'is not one that was made for no conversation',
      { sandbox: was({ conditions: [seen('Quota')] }), conversations: [failed] },
      { state: 'resumable' },
    ],
  ];
  it.each(cases)('%s', (_sentence, facts, expected) => {
    expect(is(facts)).toMatchObject(expected);
  });
});

it('does not take a run that was given up for unfinished work', () => {
  const abandonedReason = inIt({
    executionStatus: 'error',
    interruption: { reason: 'Loss', time: noon, abandonedReason: 'LostTooOften' },
  });
  expect(
    is({ sandbox: was({ conditions: [seen('Quota')] }), conversations: [abandonedReason] }),
  ).toMatchObject({ unfinished: false });
});
