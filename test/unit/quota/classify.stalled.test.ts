import { decide, wakeAt } from '../../../src/quota/decide.ts';
import { Snapshot } from '../../../src/quota/snapshot.ts';
import { classify } from '../../../src/quota/classify.ts';
import type { Slot } from '../../../src/quota/slot.ts';
import type { SlotFacts } from '../../../src/quota/time-limits.ts';
import { quotaRules } from '../../../src/quota/rules.ts';
import type { SandboxState } from '../../../src/resources/sandbox.ts';
import {
  aConversation,
  aQuota,
  aSandbox,
  admitted,
  condition,
  later,
  noon,
  noonMs,
} from '../../support/builders.ts';

const second = 1_000;
const minute = 60 * second;
const day = 24 * 60 * minute;
const unready = (reason: string, time = noon) => condition('Ready', 'False', reason, time);
const anActive = (status: Partial<SandboxState>) =>
  aSandbox({
    name: 'silent',
    status: {
      replicas: 1,
      activeSinceTime: noon,
      lastContainerID: 'c',
      observedGeneration: 1,
      ...status,
    },
  });
const silent = anActive({ conditions: [admitted, unready('AgentSilent', later(minute))] });
/** Paused for a day, and resumed a minute ago. */
const comingBack = aSandbox({
  status: {
    replicas: 1,
    lastContainerID: 'c',
    conditions: [condition('Admitted', 'True', 'Admitted', later(day)), unready('Unschedulable')],
  },
});
const started = aConversation({
  status: {
    start: { status: 'READY', transitions: [] },
    executionStatus: 'finished',
    agentEpoch: 1,
  },
});
const asking = aConversation({
  status: {
    start: { status: 'READY', transitions: [] },
    executionStatus: 'waiting_for_confirmation',
  },
});
const starting = aConversation({
  status: { start: { status: 'WAITING_FOR_SANDBOX', transitions: [] } },
});

describe('a sandbox whose agent can not be used', () => {
  const limits = { idleTimeout: '30m', maxActiveTime: '8h', startDeadline: '10m' };
  const idle = (at: number) => ({ at, reason: 'Idle', limit: '30m' });
  const cases: [string, Partial<SlotFacts>, Partial<Slot>][] = [
    [
      'may be paused 30 s after its agent fell silent, and counts as idle from then on',
      { sandbox: silent, conversations: [started] },
      {
        state: 'starting',
        idleSince: noonMs,
        stalledAt: noonMs + minute + 30 * second,
        expiry: idle(noonMs + 31 * minute) as Slot['expiry'],
      },
    ],
    [
      'also when an answer of a person is waited for',
      { sandbox: silent, conversations: [asking] },
      {
        stalledAt: noonMs + minute + 30 * second,
        expiry: idle(noonMs + 31 * minute) as Slot['expiry'],
      },
    ],
    [
      'keeps its age while its pod is replaced',
      {
        sandbox: anActive({
          conditions: [admitted, unready('Unschedulable', later(7.8 * 60 * minute))],
        }),
      },
      { expiry: { at: noonMs + 8 * 60 * minute, reason: 'MaxActiveTime', limit: '8h' } },
    ],
    [
      'has the time of a start when it comes back from a pause',
      { sandbox: comingBack },
      {
        state: 'starting',
        stalledAt: noonMs + day + 10 * minute,
        expiry: idle(noonMs + day + 30 * minute) as Slot['expiry'],
      },
    ],
    [
      'has that time also where it may be idle for less',
      { sandbox: comingBack, limits: { ...limits, idleTimeout: '1m' } },
      { expiry: { at: noonMs + day + 10 * minute, reason: 'Idle', limit: '1m' } },
    ],
    [
      'is paused for its age where it comes back from a pause, never answers, and may be idle for ever',
      { sandbox: comingBack, limits: { maxActiveTime: '8h', startDeadline: '10m' } },
      { expiry: { at: noonMs + day + 8 * 60 * minute, reason: 'MaxActiveTime', limit: '8h' } },
    ],
    [
      'has the time of a start also where it may run for less',
      { sandbox: comingBack, limits: { maxActiveTime: '1m', startDeadline: '10m' } },
      { expiry: { at: noonMs + day + 10 * minute, reason: 'MaxActiveTime', limit: '1m' } },
    ],
    [
      'has that time also while something starts in it, and does not expire then',
      { sandbox: silent, conversations: [starting] },
      { stalledAt: noonMs + 11 * minute, idleSince: Infinity, expiry: undefined },
    ],
    [
      'is not stalled before it has run',
      { sandbox: aSandbox({ status: { conditions: [admitted] } }) },
      { stalledAt: Infinity, expiry: undefined },
    ],
    [
      'is not stalled while a start in it keeps it from running',
      {
        sandbox: anActive({ conditions: [admitted, condition('Ready', 'True')] }),
        conversations: [starting],
      },
      { state: 'starting', stalledAt: Infinity, expiry: undefined },
    ],
  ];
  it.each(cases)('%s', (_sentence, facts, expected) => {
    expect(
      classify({ sandbox: aSandbox(), conversations: [], limits, now: noonMs + 2 * day, ...facts }),
    ).toMatchObject(expected);
  });

  it('gives its slot to a newcomer, before any that works', () => {
    const snapshot = new Snapshot();
    snapshot.setRules(quotaRules([aQuota('everyone', { limit: 2, onExceeded: 'PauseOldest' })]));
    const older = aSandbox({
      name: 'older',
      status: {
        replicas: 1,
        activeSinceTime: later(-day),
        lastContainerID: 'c',
        conditions: [admitted, condition('Ready', 'True')],
      },
    });
    for (const sandbox of [silent, older, aSandbox({ name: 'newcomer' })])
      snapshot.put(classify({ sandbox, conversations: [], now: noonMs }));
    const evictableAt = noonMs + minute + 30 * second;
    expect(decide(snapshot, noonMs + minute)).toMatchObject({
      kind: 'evict',
      slot: { name: 'older' },
    });
    expect(decide(snapshot, evictableAt)).toMatchObject({
      kind: 'evict',
      slot: { name: 'silent' },
    });
  });

  it('is paused for its idleness after 30 min of silence, and not kept for ever', () => {
    const snapshot = new Snapshot();
    snapshot.put(classify({ sandbox: silent, conversations: [], limits, now: noonMs }));
    expect(decide(snapshot, noonMs + 30 * minute)).toBeUndefined();
    expect(wakeAt(snapshot, noonMs + 30 * minute)).toBe(noonMs + 31 * minute);
    expect(decide(snapshot, noonMs + 31 * minute)).toMatchObject({
      kind: 'expire',
      slot: { name: 'silent' },
      reason: 'Idle',
    });
  });
});
