import type { AgentConversation } from '../../../../../src/agent/agent.ts';
import {
  maxContainerLosses,
  withResumeAttempt,
  withRunResumed,
  withRunStuck,
} from '../../../../../src/controllers/conversation/execution/run-resume.ts';
import {
  withAgentReport,
  withUnseenInterruption,
} from '../../../../../src/controllers/conversation/execution/decide.ts';
import { withSandboxAway } from '../../../../../src/controllers/conversation/execution/sandbox-away.ts';
import {
  type SandboxInterruptions,
  type InterruptedRun,
} from '../../../../../src/controllers/conversation/execution/interruption.ts';
import type {
  ConversationStatus,
  ExecutionStatus,
} from '../../../../../src/resources/conversation-status.ts';
import type { SandboxView } from '../../../../../src/status/sandbox-phase.ts';
import { aSandbox, later, noon, noonMs } from '../../../../support/builders.ts';

const agentSays = (executionStatus: ExecutionStatus | undefined): AgentConversation => ({
  id: 'c1',
  executionStatus,
  reportedStatus: executionStatus ?? 'dreaming',
  title: undefined,
  updatedAt: undefined,
  lastUserMessageId: 'm1',
  metrics: undefined,
});
const view = (phase: SandboxView['phase'], reason: string): SandboxView => ({
  phase,
  reason,
  message: '',
});
const interruptedBy = (reason: string, lastResumeTime?: string): ConversationStatus => ({
  executionStatus: 'paused',
  agentEpoch: 1,
  interruption: { reason, time: noon, ...(lastResumeTime === undefined ? {} : { lastResumeTime }) },
});

describe('when the sandbox goes away', () => {
  const cases: [string, ConversationStatus, SandboxView, string[], Partial<ConversationStatus>][] =
    [
      [
        'a run is paused, with the reason',
        { executionStatus: 'running' },
        view('PAUSED', 'Quota'),
        [],
        { executionStatus: 'paused', interruption: { reason: 'Quota', time: noon } },
      ],
      [
        'a lost pod is a loss',
        { executionStatus: 'running' },
        view('STARTING', 'PodLost'),
        [],
        { executionStatus: 'paused', interruption: { reason: 'Loss', time: noon } },
      ],
      [
        'a run that no poll had seen yet counts when the pause stopped it',
        { executionStatus: 'idle' },
        view('PAUSED', 'Quota'),
        ['c1'],
        { executionStatus: 'paused' },
      ],
      [
        'a finished run stays finished',
        { executionStatus: 'finished' },
        view('PAUSED', 'User'),
        [],
        { executionStatus: 'finished' },
      ],
      [
        "the owner's pause outweighs the quota's",
        interruptedBy('Quota'),
        view('PAUSED', 'User'),
        [],
        { interruption: { reason: 'User', time: noon } },
      ],
      [
        "the quota's pause does not outweigh the owner's",
        interruptedBy('User'),
        view('PAUSED', 'Quota'),
        [],
        { interruption: { reason: 'User', time: noon } },
      ],
      [
        'a run is over when its sandbox is gone',
        { executionStatus: 'running' },
        view('MISSING', 'Deleted'),
        [],
        { executionStatus: 'error', executionDetail: 'The sandbox is gone, and the run with it.' },
      ],
      [
        'what was finished stays so',
        { executionStatus: 'finished' },
        view('MISSING', 'Deleted'),
        [],
        { executionStatus: 'finished' },
      ],
      [
        'a run stays paused when its sandbox has failed, and is remembered for the resume of the sandbox',
        { executionStatus: 'running' },
        view('ERROR', 'CrashLoop'),
        [],
        {
          executionStatus: 'error',
          executionDetail: expect.stringContaining('The sandbox has failed') as string,
          interruption: { reason: 'Loss', time: noon },
        },
      ],
      [
        'so is one that was interrupted before that',
        interruptedBy('Loss'),
        view('ERROR', 'CrashLoop'),
        [],
        { executionStatus: 'error', interruption: { reason: 'Loss', time: noon } },
      ],
      [
        'what was given up before stays so',
        {
          ...interruptedBy('Loss'),
          executionStatus: 'stuck',
          interruption: { reason: 'Stalled', time: noon, abandonedReason: 'Stalled' },
        },
        view('ERROR', 'CrashLoop'),
        [],
        {
          executionStatus: 'stuck',
          interruption: { reason: 'Stalled', time: noon, abandonedReason: 'Stalled' },
        },
      ],
      [
        'a question is over when its sandbox has failed',
        { executionStatus: 'waiting_for_confirmation' },
        view('ERROR', 'CrashLoop'),
        [],
        { executionStatus: 'error' },
      ],
      [
        'a run whose sandbox had failed is paused again once that is resumed',
        {
          ...interruptedBy('Loss'),
          executionStatus: 'error',
          executionDetail: 'The sandbox has failed.',
        },
        view('STARTING', 'WaitingForPod'),
        [],
        {
          executionStatus: 'paused',
          executionDetail: expect.stringContaining('resumes by itself') as string,
        },
      ],
      [
        'a run that failed by itself stays so when its sandbox is resumed',
        { executionStatus: 'error', executionDetail: 'LLMAuthenticationError' },
        view('STARTING', 'WaitingForPod'),
        [],
        { executionStatus: 'error', executionDetail: 'LLMAuthenticationError' },
      ],
    ];
  it.each(cases)('%s', (_sentence, status, seen, interrupted, expected) => {
    const stop =
      interrupted.length === 0
        ? {}
        : {
            interruptedConversationIDs: interrupted,
            lastInterruption: { reason: 'Quota', agentEpoch: 1 },
          };
    expect(
      withSandboxAway(status, {
        id: 'c1',
        sandbox: aSandbox({ status: stop }),
        view: seen,
        now: noon,
      }),
    ).toMatchObject(expected);
  });

  it('a run that is over for good is not said to wait', () => {
    expect(
      withSandboxAway(interruptedBy('Quota'), {
        id: 'c1',
        sandbox: undefined,
        view: view('MISSING', 'Deleted'),
        now: noon,
      }),
    ).not.toHaveProperty('interruption');
  });
});

describe('when the agent is there', () => {
  const running: ConversationStatus = { executionStatus: 'running', agentEpoch: 1 };
  const cases: [
    string,
    ConversationStatus,
    ExecutionStatus | undefined,
    number,
    { resume: boolean; execution: string; interrupted?: boolean },
  ][] = [
    ['its word is taken', running, 'finished', 1, { resume: false, execution: 'finished' }],
    ['an error of its own is an error', running, 'error', 1, { resume: false, execution: 'error' }],
    [
      'an error after another container has come up is a loss, and the run resumes',
      running,
      'error',
      2,
      { resume: true, execution: 'paused', interrupted: true },
    ],
    [
      'a run that was stopped for the quota resumes',
      interruptedBy('Quota'),
      'paused',
      2,
      { resume: true, execution: 'paused', interrupted: true },
    ],
    [
      'a run that its owner stopped does not',
      interruptedBy('User'),
      'paused',
      2,
      { resume: false, execution: 'paused', interrupted: true },
    ],
    [
      'a run that was over before the pause needs nothing',
      interruptedBy('Quota'),
      'finished',
      2,
      { resume: false, execution: 'finished' },
    ],
    [
      'a run that has been seen running again is interrupted no more',
      interruptedBy('User'),
      'running',
      2,
      { resume: false, execution: 'running' },
    ],
    [
      'a report just after a resume is old',
      interruptedBy('Loss', later(500)),
      'error',
      2,
      { resume: false, execution: 'running', interrupted: true },
    ],
    [
      'what it says later is true, and is not continued for ever',
      interruptedBy('Loss', later(-4001)),
      'error',
      2,
      { resume: false, execution: 'error' },
    ],
    [
      'a run that was lost before its agent had saved that it began resumes',
      running,
      'idle',
      2,
      { resume: true, execution: 'paused', interrupted: true },
    ],
    [
      'an agent that is idle in the container that was seen is idle',
      running,
      'idle',
      1,
      { resume: false, execution: 'idle' },
    ],
    [
      'a run whose action was rejected for a pause of the quota resumes',
      interruptedBy('Quota'),
      'idle',
      2,
      { resume: true, execution: 'paused', interrupted: true },
    ],
    [
      'a report of idleness just after a resume is old',
      interruptedBy('Quota', later(500)),
      'idle',
      1,
      { resume: false, execution: 'running', interrupted: true },
    ],
    [
      'a resumed run remembers its interruption',
      interruptedBy('Loss', later(-60_000)),
      'running',
      1,
      { resume: false, execution: 'running', interrupted: true },
    ],
    [
      'one that is stuck again is left alone',
      interruptedBy('Loss', later(-60_000)),
      'stuck',
      1,
      { resume: false, execution: 'stuck' },
    ],
    [
      'an unknown word is an error that says so',
      running,
      undefined,
      1,
      { resume: false, execution: 'error' },
    ],
  ];
  it.each(cases)(
    '%s',
    (_sentence, status, says, agentEpoch, { resume, execution, interrupted = false }) => {
      const decision = withAgentReport(status, agentSays(says), {
        agentEpoch,
        nowMs: noonMs + 1000,
      });
      expect(decision.resume).toBe(resume);
      expect(decision.status.executionStatus).toBe(execution);
      expect(decision.status.interruption !== undefined).toBe(interrupted);
      expect(decision.status.agentEpoch).toBe(agentEpoch);
    },
  );

  it('does not take an interrupted run for a resumed one, just after its agent has come back', () => {
    const { status } = withAgentReport(interruptedBy('User'), agentSays('running'), {
      agentEpoch: 2,
      nowMs: noonMs + 1000,
      interruptions: { activeSinceTime: noon },
    });
    expect(status).toMatchObject({ executionStatus: 'paused', interruption: { reason: 'User' } });
    expect(
      withAgentReport(status, agentSays('running'), {
        agentEpoch: 2,
        nowMs: noonMs + 2000,
        interruptions: { activeSinceTime: noon },
      }).status,
    ).not.toHaveProperty('interruption');
  });

  it('believes its agent where the clock was ahead at the resume, or at the return of the agent', () => {
    const continued = {
      ...interruptedBy('Loss', later(60_000)),
      executionStatus: 'running' as const,
    };
    expect(
      withAgentReport(continued, agentSays('paused'), { agentEpoch: 1, nowMs: noonMs }).status
        .executionStatus,
    ).toBe('paused');
    expect(
      withAgentReport(interruptedBy('Quota'), agentSays('running'), {
        agentEpoch: 2,
        nowMs: noonMs,
        interruptions: { activeSinceTime: later(60_000) },
      }).status.executionStatus,
    ).toBe('running');
  });

  it('remembers the resume that it has requested', () => {
    expect(withRunResumed(interruptedBy('Quota'), noon)).toMatchObject({
      executionStatus: 'running',
      interruption: { lastResumeTime: noon },
    });
  });
});

describe('a run that was given up', () => {
  const abandonedReason: ConversationStatus = {
    executionStatus: 'error',
    executionDetail: 'Because.',
    agentEpoch: 4,
    interruption: {
      reason: 'Loss',
      time: noon,
      containerLosses: 3,
      abandonedReason: 'LostTooOften',
    },
  };

  it.each<ExecutionStatus>(['paused', 'error', 'idle'])(
    'stays so, also in another container, as long as its agent is %s',
    (says) => {
      const decision = withAgentReport(abandonedReason, agentSays(says), {
        agentEpoch: 5,
        nowMs: noonMs,
        interruptions: {},
        runRequested: true,
      });
      expect(decision).toMatchObject({
        resume: false,
        status: { executionStatus: 'error', executionDetail: 'Because.', agentEpoch: 5 },
      });
    },
  );

  it('is one that runs when a person has resumed it', () => {
    const { status } = withAgentReport(abandonedReason, agentSays('running'), {
      agentEpoch: 4,
      nowMs: noonMs,
      interruptions: { activeSinceTime: noon },
    });
    expect(status).toEqual({ executionStatus: 'running', agentEpoch: 4 });
  });

  it("is its owner's after a pause by them", () => {
    const stops = { lastUserPauseEpoch: 4 };
    expect(
      withAgentReport(abandonedReason, agentSays('error'), {
        agentEpoch: 5,
        nowMs: noonMs,
        interruptions: stops,
      }),
    ).toMatchObject({
      resume: false,
      status: { executionStatus: 'paused', interruption: { reason: 'User' } },
    });
    expect(
      withAgentReport(abandonedReason, agentSays('error'), {
        agentEpoch: 5,
        nowMs: noonMs,
        interruptions: stops,
        runRequested: true,
      }).resume,
    ).toBe(true);
  });

  it('is said of one that was lost once more than it may be', () => {
    const lost = {
      ...abandonedReason,
      executionStatus: 'paused' as const,
      interruption: { reason: 'Loss', time: noon, containerLosses: 3 },
    };
    const { status, resume: resume } = withAgentReport(lost, agentSays('error'), {
      agentEpoch: 4,
      nowMs: noonMs,
    });
    expect(resume).toBe(false);
    expect(status).toMatchObject({
      executionStatus: 'error',
      interruption: { abandonedReason: 'LostTooOften' },
    });
    expect(status.executionDetail).toContain('lost 3 times');
  });

  it('is stuck when it was stopped because nothing was heard of it', () => {
    const stalled = withRunStuck({ executionStatus: 'running', agentEpoch: 1 }, noon, '45m');
    expect(stalled).toMatchObject({
      executionStatus: 'stuck',
      executionDetail: expect.stringContaining('45m') as string,
    });
    const { status } = withAgentReport(stalled, agentSays('paused'), {
      agentEpoch: 1,
      nowMs: noonMs + 60_000,
    });
    expect(status).toEqual(stalled);
  });
});

describe('an action that waits for a confirmation', () => {
  const waiting: ConversationStatus = {
    executionStatus: 'waiting_for_confirmation',
    agentEpoch: 1,
  };

  it('is reported as half forgotten after its agent was restarted, and as long as it waits', () => {
    const { status } = withAgentReport(waiting, agentSays('waiting_for_confirmation'), {
      agentEpoch: 2,
      nowMs: noonMs,
    });
    expect(status.executionDetail).toContain('forgets');
    expect(
      withAgentReport(status, agentSays('waiting_for_confirmation'), {
        agentEpoch: 2,
        nowMs: noonMs,
      }).status,
    ).toEqual(status);
    expect(
      withAgentReport(status, agentSays('running'), { agentEpoch: 2, nowMs: noonMs }).status,
    ).not.toHaveProperty('executionDetail');
    expect(
      withAgentReport(waiting, agentSays('waiting_for_confirmation'), {
        agentEpoch: 1,
        nowMs: noonMs,
      }).status,
    ).toEqual(waiting);
  });

  it('needs no explanation for an agent that keeps its question', () => {
    const report = agentSays('waiting_for_confirmation');
    const { status } = withAgentReport(waiting, report, {
      agentEpoch: 2,
      nowMs: noonMs,
      interruptions: {},
      runRequested: false,
      keepsQuestions: true,
    });
    expect(status).not.toHaveProperty('executionDetail');
  });
});

describe('the reason why a run was interrupted', () => {
  const running: ConversationStatus = { executionStatus: 'running', agentEpoch: 1 };
  const byOwner = (agentEpoch: number) => ({
    lastInterruption: { reason: 'User', agentEpoch },
    lastUserPauseEpoch: agentEpoch,
  });
  const byQuota = (agentEpoch: number) => ({ lastInterruption: { reason: 'Quota', agentEpoch } });

  it('is the pause by its owner, however soon the sandbox runs again', () => {
    const sandbox = aSandbox({ status: { interruptedConversationIDs: ['c1'], ...byOwner(1) } });
    expect(
      withSandboxAway(running, {
        id: 'c1',
        sandbox,
        view: view('STARTING', 'WaitingForPod'),
        now: noon,
      }).interruption,
    ).toMatchObject({ reason: 'User' });
    expect(
      withAgentReport(running, agentSays('error'), {
        agentEpoch: 2,
        nowMs: noonMs,
        interruptions: byOwner(1),
      }).resume,
    ).toBe(false);
  });

  it('is a loss where the stop was before the run', () => {
    expect(
      withAgentReport({ ...running, agentEpoch: 2 }, agentSays('error'), {
        agentEpoch: 3,
        nowMs: noonMs,
        interruptions: byOwner(1),
      }).resume,
    ).toBe(true);
  });

  it('is the pause by its owner also where the run was lost before, or seen by one who knew only an earlier container', () => {
    expect(
      withAgentReport(running, agentSays('error'), {
        agentEpoch: 3,
        nowMs: noonMs,
        interruptions: byOwner(2),
      }).resume,
    ).toBe(false);
    expect(
      withUnseenInterruption({ executionStatus: 'error', agentEpoch: 3 }, running, {
        now: noon,
        interruptions: byOwner(2),
      }).resume,
    ).toBe(false);
  });

  it('is the pause by its owner also where the quota stopped it before or after', () => {
    const pausedAgain = aSandbox({
      status: { interruptedConversationIDs: ['c1'], ...byQuota(2), lastUserPauseEpoch: 2 },
    });
    expect(
      withSandboxAway(running, {
        id: 'c1',
        sandbox: pausedAgain,
        view: view('STARTING', 'WaitingForPod'),
        now: noon,
      }).interruption?.reason,
    ).toBe('User');
    expect(
      withAgentReport(running, agentSays('paused'), {
        agentEpoch: 3,
        nowMs: noonMs,
        interruptions: { ...byQuota(2), lastUserPauseEpoch: 1 },
      }).resume,
    ).toBe(false);
    const waiting = aSandbox({ status: { interruptedConversationIDs: ['c1'], ...byOwner(1) } });
    expect(
      withSandboxAway(running, {
        id: 'c1',
        sandbox: waiting,
        view: view('PAUSED', 'Quota'),
        now: noon,
      }).interruption?.reason,
    ).toBe('User');
  });

  it('is the quota where a run that no poll had seen began after the pause of its owner', () => {
    const idle: ConversationStatus = { executionStatus: 'idle', agentEpoch: 1 };
    const stopped = aSandbox({
      status: { interruptedConversationIDs: ['c1'], ...byQuota(2), lastUserPauseEpoch: 1 },
    });
    expect(
      withSandboxAway(idle, {
        id: 'c1',
        sandbox: stopped,
        view: view('PAUSED', 'Quota'),
        now: noon,
      }).interruption?.reason,
    ).toBe('Quota');
  });

  it('is known also to a poll after the agent has come back', () => {
    const idle: ConversationStatus = { executionStatus: 'idle', agentEpoch: 1 };
    const stops = { interruptedConversationIDs: ['c1'], ...byQuota(2) };
    expect(
      withAgentReport(idle, agentSays('paused'), {
        agentEpoch: 3,
        nowMs: noonMs,
        interruptions: stops,
      }),
    ).toMatchObject({
      resume: true,
      status: { executionStatus: 'paused', agentEpoch: 3, interruption: { reason: 'Quota' } },
    });
    expect(
      withAgentReport(idle, agentSays('paused'), {
        agentEpoch: 3,
        nowMs: noonMs,
        interruptions: { ...stops, lastUserPauseEpoch: 2 },
      }).resume,
    ).toBe(false);
    // Polled since: it is paused because a person has stopped it in the agent itself.
    expect(
      withAgentReport({ ...idle, agentEpoch: 3 }, agentSays('paused'), {
        agentEpoch: 3,
        nowMs: noonMs,
        interruptions: stops,
      }).resume,
    ).toBe(false);
  });

  it('is the pause by its owner also where a loss had been seen before', () => {
    const lost: ConversationStatus = {
      executionStatus: 'paused',
      agentEpoch: 1,
      interruption: { reason: 'Loss', time: noon },
    };
    expect(
      withAgentReport(lost, agentSays('error'), {
        agentEpoch: 2,
        nowMs: noonMs,
        interruptions: { lastUserPauseEpoch: 1 },
      }).resume,
    ).toBe(false);
    const away = withSandboxAway(lost, {
      id: 'c1',
      sandbox: aSandbox({ status: { lastUserPauseEpoch: 1 } }),
      view: view('STARTING', 'WaitingForPod'),
      now: noon,
    });
    expect(away.interruption?.reason).toBe('User');
  });

  it('is a disruption where its pod was taken away, and is not counted however often that is', () => {
    let status: ConversationStatus = running;
    for (let drains = 1; drains <= 5; drains++) {
      const drained = { lastDisruptionEpoch: drains };
      const away = withSandboxAway(status, {
        id: 'c1',
        sandbox: aSandbox({ status: drained }),
        view: view('STARTING', 'PodEvicted'),
        now: later(drains * 60_000),
      });
      expect(away).toMatchObject({
        executionStatus: 'paused',
        interruption: { reason: 'Disruption' },
      });
      const { resume: resume, status: back } = withAgentReport(away, agentSays('error'), {
        agentEpoch: drains + 1,
        nowMs: noonMs + drains * 60_000 + 10_000,
        interruptions: drained,
      });
      expect(resume).toBe(true);
      status = withRunResumed({ ...back, agentEpoch: drains + 1 }, later(drains * 60_000 + 20_000));
    }
    expect(status.interruption).not.toHaveProperty('containerLosses');
  });

  it('is a loss where its container was lost after an earlier disruption, and its owner where they paused it since', () => {
    expect(
      withAgentReport({ ...running, agentEpoch: 2 }, agentSays('error'), {
        agentEpoch: 3,
        nowMs: noonMs,
        interruptions: { lastDisruptionEpoch: 1 },
      }).status.interruption,
    ).toMatchObject({ reason: 'Loss', containerLosses: 1 });
    expect(
      withAgentReport(running, agentSays('error'), {
        agentEpoch: 3,
        nowMs: noonMs,
        interruptions: { lastDisruptionEpoch: 2, lastUserPauseEpoch: 2 },
      }).resume,
    ).toBe(false);
  });

  it('is another loss when it had been continued already', () => {
    const continued = {
      ...running,
      interruption: { reason: 'Loss', time: noon, lastResumeTime: noon },
    };
    expect(
      withAgentReport(continued, agentSays('error'), { agentEpoch: 2, nowMs: noonMs + 60_000 }),
    ).toMatchObject({
      resume: true,
      status: { interruption: { reason: 'Loss', time: later(60_000) } },
    });
    const away = withSandboxAway(continued, {
      id: 'c1',
      sandbox: aSandbox(),
      view: view('STARTING', 'PodLost'),
      now: later(60_000),
    });
    expect(away).toMatchObject({
      executionStatus: 'paused',
      interruption: { reason: 'Loss', time: later(60_000) },
    });
  });

  const orders: [
    string,
    Partial<InterruptedRun>,
    number,
    SandboxInterruptions,
    Partial<InterruptedRun>,
  ][] = [
    [
      'is another loss when the answer to the resume was lost',
      { resumeAttempts: 1 },
      2,
      {},
      { containerLosses: 2 },
    ],
    [
      'is another loss when one of several orders was not answered',
      { resumeAttempts: 3, resumeRejections: 2 },
      2,
      {},
      { containerLosses: 2 },
    ],
    [
      'is the same loss in the container that got the resume',
      { resumeAttempts: 1 },
      1,
      {},
      { containerLosses: 1, resumeAttempts: 1 },
    ],
    ['is the same loss when no resume was requested', {}, 2, {}, { containerLosses: 1 }],
    [
      'is the same loss when every order was refused',
      { resumeAttempts: 2, resumeRejections: 2 },
      2,
      {},
      { containerLosses: 1, resumeAttempts: 2 },
    ],
    [
      'is the same loss when no order reached the agent',
      { resumeAttempts: 1, resumesNotExecuted: 1 },
      2,
      {},
      { containerLosses: 1, resumeAttempts: 1 },
    ],
    [
      'is another loss when one order was not answered, and the others did not reach the agent',
      { resumeAttempts: 4, resumeRejections: 1, resumesNotExecuted: 2 },
      2,
      {},
      { containerLosses: 2 },
    ],
    [
      'is a disruption when the pod was taken away after the order',
      { resumeAttempts: 1 },
      2,
      { lastDisruptionEpoch: 1 },
      { reason: 'Disruption', containerLosses: 1 },
    ],
    [
      'is the pause by its owner when they paused it after the order',
      { resumeAttempts: 1 },
      2,
      { lastUserPauseEpoch: 1 },
      { reason: 'User' },
    ],
    [
      'is the same pause by its owner when they had asked for the order',
      { resumeAttempts: 1, reason: 'User' },
      2,
      {},
      { reason: 'User' },
    ],
  ];
  it.each(orders)('%s', (_sentence, more, agentEpoch, stops, expected) => {
    const resumed: ConversationStatus = {
      executionStatus: 'paused',
      agentEpoch: 1,
      interruption: { reason: 'Loss', time: noon, containerLosses: 1, ...more },
    };
    const { status } = withAgentReport(resumed, agentSays('error'), {
      agentEpoch,
      nowMs: noonMs + 60_000,
      interruptions: stops,
    });
    expect(status).toMatchObject({
      executionStatus: 'paused',
      interruption: { reason: 'Loss', ...expected },
    });
  });

  it('counts also where the order had reached the container that runs, and is old where it was stopped since', () => {
    const resumed = {
      executionStatus: 'paused' as const,
      agentEpoch: 1,
      interruption: { reason: 'Loss', time: noon, containerLosses: 1, resumeAttempts: 1 },
    };
    const now = later(60_000);
    expect(
      withAgentReport(resumed, agentSays('running'), { agentEpoch: 2, nowMs: noonMs + 60_000 })
        .status,
    ).toMatchObject({
      executionStatus: 'running',
      interruption: { containerLosses: 2, lastResumeTime: now },
    });
    expect(
      withAgentReport(resumed, agentSays('running'), {
        agentEpoch: 2,
        nowMs: noonMs + 60_000,
        interruptions: { ...byQuota(1), activeSinceTime: now },
      }).status,
    ).toMatchObject({
      executionStatus: 'paused',
      interruption: { reason: 'Quota', containerLosses: 1 },
    });
  });

  it('is given up where the answer to every order was lost, and the container each time', () => {
    let status: ConversationStatus = running;
    let orders = 0;
    for (let agentEpoch = 2; agentEpoch < 10; agentEpoch++) {
      const decision = withAgentReport(status, agentSays('error'), {
        agentEpoch,
        nowMs: noonMs + agentEpoch * 60_000,
      });
      if (!decision.resume) break;
      status = withResumeAttempt(decision.status);
      orders++;
    }
    expect(orders).toBe(maxContainerLosses);
  });

  it('is a loss too when no poll had seen the run begin', () => {
    const before: ConversationStatus = { executionStatus: 'idle', agentEpoch: 1 };
    const now: ConversationStatus = { executionStatus: 'error', agentEpoch: 2 };
    expect(withUnseenInterruption(now, before, { now: noon, interruptions: {} })).toMatchObject({
      resume: true,
      status: { executionStatus: 'paused' },
    });
    expect(
      withUnseenInterruption(now, before, { now: noon, interruptions: byOwner(1) }).resume,
    ).toBe(false);
  });
});
