import { AgentError, type AgentErrorCode } from '../../../../../src/agent/errors.ts';
import type { InterruptedRun } from '../../../../../src/controllers/conversation/execution/interruption.ts';
import {
  abandonedReasonOf,
  healthyRunMs,
  nextInterruption,
  maxContainerLosses,
  maxResumeRejections,
  retryAfterMs,
  withResumeAttempt,
  withRunRequested,
  withRunResumed,
  withResumeFailed,
  eventOfRun,
} from '../../../../../src/controllers/conversation/execution/run-resume.ts';
import { withFirstMessage } from '../../../../../src/controllers/conversation/messages/decide.ts';
import { StuckDetection } from '../../../../../src/controllers/conversation/execution/run-observer.ts';
import { UnresponsiveAgents } from '../../../../../src/controllers/agent-calls/unresponsive-agents.ts';
import type { ConversationStatus } from '../../../../../src/resources/conversation-status.ts';
import { later, noon, noonMs } from '../../../../support/builders.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const agentError = (code: AgentErrorCode) => new AgentError(code, 'no');

const loss = (more: Partial<InterruptedRun> = {}): InterruptedRun => ({
  reason: 'Loss',
  time: noon,
  ...more,
});

describe('how often a run was lost', () => {
  it.each<[string, InterruptedRun | undefined, string, string, number | undefined]>([
    ['is counted', undefined, 'Loss', noon, 1],
    [
      'is counted further when it had resumed a short while ago',
      loss({ containerLosses: 1, lastResumeTime: noon }),
      'Loss',
      later(60_000),
      2,
    ],
    [
      'is counted anew when it had run again for long',
      loss({ containerLosses: 2, lastResumeTime: noon }),
      'Loss',
      later(healthyRunMs),
      1,
    ],
    [
      'is not changed by a pause of the quota',
      loss({ containerLosses: 2, lastResumeTime: noon }),
      'Quota',
      later(60_000),
      2,
    ],
    [
      'is forgotten with a pause by its owner',
      loss({ containerLosses: 2, lastResumeTime: noon }),
      'User',
      later(60_000),
      undefined,
    ],
  ])('%s', (_sentence, before, reason, now, losses) => {
    expect(nextInterruption(before, reason, now)).toEqual({
      reason,
      time: now,
      ...(losses === undefined ? {} : { containerLosses: losses }),
    });
  });

  it('gives a run up that is lost again and again, and no other', () => {
    let status: ConversationStatus = { executionStatus: 'running' };
    let continuations = 0;
    for (let deaths = 0; deaths < 10; deaths++) {
      const interruption = nextInterruption(status.interruption, 'Loss', noon);
      status = { executionStatus: 'paused', interruption };
      if (abandonedReasonOf(interruption) !== undefined) break;
      status = withRunResumed(withResumeAttempt(status), noon);
      continuations++;
    }
    expect(continuations).toBe(maxContainerLosses);
    expect(abandonedReasonOf(status.interruption ?? loss())).toBe('LostTooOften');
    expect(abandonedReasonOf({ reason: 'Quota', time: noon, containerLosses: 9 })).toBeUndefined();
  });

  it('does not count against a message', () => {
    const status = withRunRequested(
      {
        executionStatus: 'error',
        executionDetail: 'x',
        interruption: loss({ containerLosses: 3, abandonedReason: 'LostTooOften' }),
      },
      noon,
    );
    expect(status).toEqual({
      executionStatus: 'running',
      interruption: { reason: 'Loss', time: noon, lastResumeTime: noon },
    });
    expect(withRunRequested({ executionStatus: 'idle' }, noon)).toEqual({
      executionStatus: 'running',
    });
  });
});

describe('an agent that does not resume a run', () => {
  it('gets resumes at growing intervals, and the run is abandoned after some refusals', () => {
    let status: ConversationStatus = {
      executionStatus: 'paused',
      interruption: loss({ containerLosses: 1 }),
    };
    const waits = [];
    while (
      status.interruption !== undefined &&
      abandonedReasonOf(status.interruption) === undefined
    ) {
      status = withResumeFailed(withResumeAttempt(status), {
        error: agentError('failed'),
        isRequested: true,
      });
      waits.push(retryAfterMs(status.interruption ?? loss()));
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    expect(status.interruption).toMatchObject({
      resumeRejections: maxResumeRejections,
      resumeAttempts: maxResumeRejections,
    });
  });

  it.each(['busy', 'unreachable', 'dormant', 'unauthorized'] as const)(
    'has neither refused nor executed it when it is %s',
    (code) => {
      const status: ConversationStatus = { interruption: loss({ resumesNotExecuted: 1 }) };
      expect(
        withResumeFailed(status, { error: agentError(code), isRequested: true }).interruption,
      ).toEqual(loss({ resumesNotExecuted: 2 }));
    },
  );

  it.each(['timeout', 'connection-lost', 'aborted'] as const)(
    'may have executed it when the call ends with %s, unless that was a call before it',
    (code) => {
      const status: ConversationStatus = { interruption: loss() };
      expect(withResumeFailed(status, { error: agentError(code), isRequested: true })).toBe(status);
      expect(
        withResumeFailed(status, { error: agentError(code), isRequested: false }).interruption,
      ).toEqual(loss({ resumesNotExecuted: 1 }));
    },
  );
});

describe('a run of which nothing is heard', () => {
  const hour = 3_600_000;
  const runs = (more: ConversationStatus = {}): ConversationStatus => ({
    executionStatus: 'running',
    lastActivityTime: noon,
    ...more,
  });
  const silentMs = async (
    polls: readonly (readonly [number, ConversationStatus])[],
  ): Promise<number> => {
    const clock = new VirtualClock(noonMs);
    const stalls = new StuckDetection({ clock });
    let silent = 0;
    for (const [afterMs, status] of polls) {
      await clock.advance(afterMs);
      silent = stalls.quietMs('c1', status);
    }
    return silent;
  };

  it.each<[string, readonly (readonly [number, ConversationStatus])[], number]>([
    [
      'is silent since it was first seen with nothing newer',
      [
        [0, runs()],
        [hour, runs()],
        [hour, runs()],
      ],
      2 * hour,
    ],
    [
      'is not silent when it has just begun, however old its last event is',
      [
        [hour, runs({ executionStatus: 'waiting_for_confirmation' })],
        [hour, runs()],
      ],
      0,
    ],
    [
      'is not silent when an event has come',
      [
        [0, runs()],
        [hour, runs({ lastActivityTime: later(hour) })],
      ],
      0,
    ],
    [
      'is not silent when it has just resumed',
      [
        [0, runs()],
        [hour, runs({ interruption: loss({ lastResumeTime: later(hour) }) })],
      ],
      0,
    ],
    [
      'is not silent when it has just received a message',
      [
        [0, runs()],
        [hour, runs({ messages: { lastDelivered: 1, lastDeliveredTime: later(hour) } })],
      ],
      0,
    ],
    [
      'is not silent in another container',
      [
        [0, runs({ agentEpoch: 1 })],
        [hour, runs({ agentEpoch: 2 })],
      ],
      0,
    ],
    [
      'is none where the agent does not say when it has last done something',
      [
        [0, { executionStatus: 'running' }],
        [hour, { executionStatus: 'running' }],
      ],
      0,
    ],
    [
      'is none where nothing runs',
      [
        [0, runs()],
        [hour, { ...runs(), executionStatus: 'idle' }],
      ],
      0,
    ],
  ])('%s', async (_sentence, polls, expected) => {
    expect(await silentMs(polls)).toBe(expected);
  });

  it('counts by this process alone, whatever the clocks say', async () => {
    expect(
      await silentMs([
        [0, runs({ lastActivityTime: later(-48 * hour) })],
        [1_000, runs({ lastActivityTime: later(-48 * hour) })],
      ]),
    ).toBe(1_000);
  });

  it('is not believed to run for a moment after it was stopped, and is stopped again if it did not take that', async () => {
    const clock = new VirtualClock(noonMs);
    const stalls = new StuckDetection({ clock });
    stalls.quietMs('c1', runs());
    await clock.advance(hour);
    stalls.recordInterrupt('c1');
    expect(stalls.isInterrupting('c1')).toBe(true);
    await clock.advance(1_500);
    expect(stalls.isInterrupting('c1')).toBe(false);
    expect(stalls.quietMs('c1', runs())).toBe(hour + 1_500);
    stalls.recordInterrupt('c1');
    stalls.recordAccepted('c1');
    await clock.advance(1_500);
    expect(stalls.quietMs('c1', runs())).toBe(0);
  });
});

describe('the first message', () => {
  const says = (executionStatus: 'idle' | 'running' | 'finished') => ({
    id: 'c1',
    executionStatus,
    reportedStatus: executionStatus,
    title: undefined,
    createdAt: undefined,
    updatedAt: undefined,
    lastUserMessageId: 'm',
    metrics: undefined,
  });
  const now = { agentEpoch: 1, now: noon };

  it('lets the agent run, also where it still says that it is idle', () => {
    const status = withFirstMessage(
      {},
      { message: { run: true }, state: says('idle'), created: true, ...now },
    );
    expect(status).toEqual({
      executionStatus: 'running',
      agentEpoch: 1,
      messages: { lastDelivered: 0, lastDeliveredTime: noon },
    });
  });
  it('lets nothing run that is only to be kept', () => {
    expect(
      withFirstMessage({}, { message: { run: false }, state: says('idle'), created: true, ...now }),
    ).toEqual({ executionStatus: 'idle', agentEpoch: 1 });
    expect(
      withFirstMessage({}, { message: undefined, state: says('idle'), created: true, ...now }),
    ).toEqual({ executionStatus: 'idle', agentEpoch: 1 });
  });
  it('has to be begun with where it was there before, and the agent is idle', () => {
    const there = { created: false, ...now };
    expect(withFirstMessage({}, { message: { run: true }, state: says('idle'), ...there })).toEqual(
      { messages: { lastDelivered: 0, lastDeliveredTime: noon, runPending: true } },
    );
    expect(
      withFirstMessage({}, { message: { run: true }, state: says('finished'), ...there }),
    ).toEqual({});
  });
});

describe('the Event of a run', () => {
  const given = loss({ containerLosses: 3, abandonedReason: 'LostTooOften' });
  it.each<[string, InterruptedRun | undefined, InterruptedRun | undefined, string | undefined]>([
    ['that it was interrupted', undefined, loss(), 'RunInterrupted'],
    [
      'that it was interrupted again',
      loss({ lastResumeTime: noon }),
      loss({ containerLosses: 2 }),
      'RunInterrupted',
    ],
    ['nothing while it waits', loss(), loss({ resumeAttempts: 1 }), undefined],
    [
      'nothing for a budget that its owner does not raise',
      { reason: 'BudgetExhausted', time: noon },
      { reason: 'User', time: noon },
      undefined,
    ],
    [
      'that it resumes',
      loss({ resumeAttempts: 1 }),
      loss({ lastResumeTime: noon }),
      'RunContinued',
    ],
    [
      'nothing as long as it does',
      loss({ lastResumeTime: noon }),
      loss({ lastResumeTime: noon }),
      undefined,
    ],
    ['nothing when it is over', loss({ lastResumeTime: noon }), undefined, undefined],
    ['that it was given up', loss({ containerLosses: 3 }), given, 'RunGivenUp'],
    ['that only once', given, given, undefined],
  ])('%s', (_sentence, before, after, reason) => {
    const status = (interruption: InterruptedRun | undefined) =>
      interruption === undefined ? {} : { interruption };
    expect(eventOfRun(status(before), status(after))?.reason).toBe(reason);
  });
});

describe('an agent that does not answer', () => {
  it('is reported once, when that has lasted, and anew after it has answered', async () => {
    const clock = new VirtualClock(noonMs);
    const silence = new UnresponsiveAgents({ clock, boundMs: 60_000 });
    expect(silence.recordFailure('s1')).toBe(false);
    await clock.advance(59_999);
    expect(silence.recordFailure('s1')).toBe(false);
    expect(silence.isUnresponsive('s2')).toBe(false);
    await clock.advance(1);
    expect([
      silence.recordFailure('s1'),
      silence.recordFailure('s1'),
      silence.isUnresponsive('s1'),
    ]).toEqual([true, false, true]);
    silence.forget('s1');
    expect([silence.isUnresponsive('s1'), silence.recordFailure('s1')]).toEqual([false, false]);
  });
});
