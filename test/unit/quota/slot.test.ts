import { classify } from '../../../src/quota/classify.ts';
import type { Slot } from '../../../src/quota/slot.ts';
import type { SlotFacts } from '../../../src/quota/time-limits.ts';
import { resumeRequestedAnnotation, type Sandbox } from '../../../src/resources/sandbox.ts';
import {
  aConversation,
  aSandbox,
  admitted,
  condition,
  later,
  noon,
  noonMs,
} from '../../support/builders.ts';

const ready = condition('Ready', 'True', 'Running');
const seen = (reason: string, time?: string) => ({
  ...condition('Admitted', 'False', reason, time),
  observedGeneration: 1,
});
const asking = (sandbox: Sandbox, at: string): Sandbox => ({
  ...sandbox,
  metadata: { ...sandbox.metadata, annotations: { [resumeRequestedAnnotation]: at } },
});
const scaled = (sandbox: Sandbox): Sandbox => ({
  ...sandbox,
  metadata: { ...sandbox.metadata, generation: 3 },
});
const quotaPaused = aSandbox({ status: { replicas: 0, conditions: [seen('Quota')] } });
const queued = aSandbox({
  status: {
    replicas: 0,
    waitingSinceTime: later(-9000),
    conditions: [seen('WaitingForQuota', later(-20_000))],
  },
});
/** Paused by its owner, until its slot was free at `time`. */
const released = (time: string, observedResumeRequest?: string): Sandbox =>
  aSandbox({
    status: {
      replicas: 0,
      ...(observedResumeRequest === undefined ? {} : { observedResumeRequest }),
      conditions: [seen('WaitingForAdmission', time)],
    },
  });
const running = aSandbox({
  status: { replicas: 1, activeSinceTime: noon, conditions: [admitted, ready] },
});
const started = aConversation({ status: { start: { status: 'READY', transitions: [] } } });
const starting = aConversation({
  status: { start: { status: 'PREPARING_REPOSITORY', transitions: [] } },
});
const doing = (
  executionStatus: 'running' | 'finished' | 'waiting_for_confirmation',
  lastActivityTime = noon,
) =>
  aConversation({
    status: { start: { status: 'READY', transitions: [] }, executionStatus, lastActivityTime },
  });
const readyAt = (ms: number) => ({ status: 'READY' as const, time: later(ms) });
const readyLater = aConversation({
  status: { start: { status: 'READY', transitions: [readyAt(900)] }, executionStatus: 'finished' },
});
const interrupted = (reason: string) =>
  aConversation({
    status: {
      start: { status: 'READY', transitions: [] },
      executionStatus: 'paused',
      interruption: { reason, time: noon },
    },
  });

describe('to its quotas a sandbox', () => {
  const cases: [string, Partial<SlotFacts>, Partial<Slot>][] = [
    [
      'is a newcomer before its first reconcile',
      {},
      { state: 'waiting', taken: false, requestedAt: noonMs },
    ],
    [
      'starts once it is admitted',
      { sandbox: aSandbox({ status: { conditions: [admitted] } }) },
      { state: 'starting', taken: true },
    ],
    [
      'runs when its agent answers',
      { sandbox: running, conversations: [started] },
      { state: 'running', taken: true },
    ],
    [
      'still starts while a conversation in it does',
      { sandbox: running, conversations: [starting] },
      { state: 'starting' },
    ],
    [
      'keeps its slot while its pod ends',
      { sandbox: aSandbox({ status: { replicas: 1, conditions: [seen('Quota')] } }) },
      { state: 'freeing', taken: true },
    ],
    [
      'is on its way out when its owner pauses it',
      { sandbox: { ...running, spec: { ...running.spec, replicas: 0 } } },
      { state: 'freeing', taken: true, releasable: false },
    ],
    [
      'gives its slot back when it has no pod',
      { sandbox: aSandbox({ replicas: 0, status: { replicas: 0, conditions: [admitted] } }) },
      { state: 'freeing', releasable: true },
    ],
    [
      'wants nothing once its owner has paused it',
      { sandbox: aSandbox({ replicas: 0, status: { replicas: 0, conditions: [seen('Quota')] } }) },
      { state: 'none', taken: false },
    ],
    [
      'wants nothing once it has failed',
      {
        sandbox: aSandbox({
          status: { conditions: [seen('WaitingForAdmission'), condition('Failed', 'True')] },
        }),
      },
      { state: 'none' },
    ],
    [
      'counts while it is deleted',
      { sandbox: { ...running, metadata: { ...running.metadata, deletionTimestamp: noon } } },
      { state: 'freeing', taken: true },
    ],
    [
      'resumes automatically after the quota has paused it',
      { sandbox: quotaPaused },
      { state: 'resumable', taken: false, pausedSince: noonMs },
    ],
    [
      'rests after its idle time',
      { sandbox: aSandbox({ status: { conditions: [seen('Idle')] } }) },
      { state: 'suspended' },
    ],
    [
      'resumes automatically when its agent worked after all as it was paused for its idleness',
      {
        sandbox: aSandbox({ status: { conditions: [seen('Idle')] } }),
        conversations: [interrupted('Idle')],
      },
      { state: 'resumable', unfinished: true },
    ],
    [
      'rests after its longest time, whatever it was doing',
      {
        sandbox: aSandbox({ status: { conditions: [seen('MaxActiveTime')] } }),
        conversations: [interrupted('MaxActiveTime')],
      },
      { state: 'suspended' },
    ],
    [
      'rests after it was refused',
      { sandbox: aSandbox({ status: { conditions: [seen('QuotaExceeded')] } }) },
      { state: 'suspended' },
    ],
    [
      'is a newcomer when a person asks for it by REST',
      { sandbox: asking(quotaPaused, later(500)) },
      { state: 'waiting', requestedAt: noonMs + 500 },
    ],
    [
      'is none because of what was asked before its pause',
      {
        sandbox: asking(
          { ...quotaPaused, status: { ...quotaPaused.status, observedResumeRequest: noon } },
          noon,
        ),
      },
      { state: 'resumable' },
    ],
    [
      'is a newcomer when it was scaled to 0 and to 1 again',
      { sandbox: scaled(quotaPaused) },
      { state: 'waiting', requestedAt: noonMs + 1000 },
    ],
    [
      'keeps its place in the queue over a restart',
      {
        sandbox: aSandbox({
          status: { waitingSinceTime: later(-9000), conditions: [seen('WaitingForQuota')] },
        }),
      },
      { state: 'waiting', requestedAt: noonMs - 9000, explained: true },
    ],
    [
      'waits as of now when the request is older than its last pause',
      { sandbox: scaled(asking(released(noon), later(-9000))) },
      { state: 'waiting', requestedAt: noonMs + 1000 },
    ],
    [
      'waits as of now when the request was there at its last pause',
      { sandbox: scaled(asking(released(noon, later(500)), later(500))) },
      { state: 'waiting', requestedAt: noonMs + 1000 },
    ],
    [
      'waits as of the request that ended its last pause',
      { sandbox: scaled(asking(released(noon, later(-9000)), later(500))) },
      { state: 'waiting', requestedAt: noonMs + 500 },
    ],
    [
      'loses its place in the queue when its owner has paused it there',
      { sandbox: scaled(asking(queued, later(-9000))) },
      { state: 'waiting', requestedAt: noonMs + 1000, explained: false },
    ],
    [
      'waits as of now when its owner has resumed it before any decision, not as of its creation',
      { sandbox: scaled(aSandbox()) },
      { state: 'waiting', requestedAt: noonMs + 1000 },
    ],
    [
      'waits as of the request that resumed it before any decision',
      { sandbox: scaled(asking(aSandbox(), later(500))) },
      { state: 'waiting', requestedAt: noonMs + 500 },
    ],
    [
      'waits as of now when the request that resumed it is older than the sandbox',
      { sandbox: scaled(asking(aSandbox(), later(-9000))) },
      { state: 'waiting', requestedAt: noonMs + 1000 },
    ],
    [
      'was not created in the future of this process',
      {
        sandbox: {
          ...aSandbox(),
          metadata: { ...aSandbox().metadata, creationTimestamp: later(9000) },
        },
      },
      { state: 'waiting', requestedAt: noonMs + 1000 },
    ],
    [
      'is not idle while its agent works',
      { sandbox: running, conversations: [doing('running')] },
      { idleSince: Infinity },
    ],
    [
      'is idle since its agent has done something last',
      { sandbox: running, conversations: [doing('finished', later(700))] },
      { idleSince: noonMs + 700 },
    ],
    [
      'is not idle while an interrupted run has not resumed',
      { sandbox: running, conversations: [interrupted('Loss')] },
      { idleSince: Infinity },
    ],
    [
      'is not idle before its agent has been asked',
      { sandbox: running, conversations: [started] },
      { idleSince: Infinity },
    ],
    [
      'is not idle before its agent has been asked again after a restart',
      {
        sandbox: {
          ...running,
          status: { ...running.status, conditions: [admitted, ready], agentEpoch: 2 },
        },
        conversations: [
          { ...doing('finished'), status: { ...doing('finished').status, agentEpoch: 1 } },
        ],
      },
      { idleSince: Infinity },
    ],
    [
      'is idle where its owner has interrupted the run',
      { sandbox: running, conversations: [interrupted('User')] },
      { idleSince: noonMs },
    ],
    [
      'is idle at the earliest since the start of a conversation was over',
      { sandbox: running, conversations: [readyLater] },
      { idleSince: noonMs + 900 },
    ],
    [
      'says that its agent waits for a confirmation',
      { sandbox: running, conversations: [doing('waiting_for_confirmation')] },
      { confirming: true },
    ],
    [
      'does not expire by its idle time while its agent waits for a confirmation',
      {
        sandbox: running,
        conversations: [doing('waiting_for_confirmation')],
        limits: { idleTimeout: '1m' },
      },
      { expiry: undefined },
    ],
    [
      'expires by its longest time all the same',
      {
        sandbox: running,
        conversations: [doing('waiting_for_confirmation')],
        limits: { idleTimeout: '1m', maxActiveTime: '2m' },
      },
      { expiry: { at: noonMs + 120_000, reason: 'MaxActiveTime', limit: '2m' } },
    ],
    [
      'expires after its idle time',
      { sandbox: running, limits: { idleTimeout: '1m' } },
      { expiry: { at: noonMs + 60_000, reason: 'Idle', limit: '1m' } },
    ],
    [
      'expires after its longest time',
      { sandbox: running, limits: { idleTimeout: '1h', maxActiveTime: '2m' } },
      { expiry: { at: noonMs + 120_000, reason: 'MaxActiveTime', limit: '2m' } },
    ],
    [
      'counts a request with an old time from a second before it was seen',
      { sandbox: asking(released(later(-900_000)), later(-600_000)) },
      { state: 'waiting', requestedAt: noonMs },
    ],
    [
      'has unfinished work when a run was interrupted',
      {
        sandbox: {
          ...quotaPaused,
          status: { ...quotaPaused.status, interruptedConversationIDs: ['a'] },
        },
      },
      { unfinished: true },
    ],
  ];
  it.each(cases)('%s', (_sentence, facts, expected) => {
    expect(
      classify({ sandbox: aSandbox(), conversations: [], now: noonMs + 1000, ...facts }),
    ).toMatchObject(expected);
  });
});
