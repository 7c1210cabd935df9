import type { AgentConversation } from '../../../src/agent/agent.ts';
import { withAgentState, withRunContinued, withSandboxAway, withUnseenLoss } from '../../../src/controllers/conversation/execution.ts';
import type { ConversationStatus, ExecutionStatus } from '../../../src/resources/conversation.ts';
import type { SandboxView } from '../../../src/resources/sandbox.ts';
import { aSandbox, later, noon, noonMs } from '../../support/builders.ts';

const agentSays = (executionStatus: ExecutionStatus | undefined): AgentConversation => ({
  id: 'c1',
  executionStatus,
  reportedStatus: executionStatus ?? 'dreaming',
  title: undefined,
  createdAt: undefined,
  updatedAt: undefined,
  lastUserMessageId: 'm1',
  metrics: undefined,
});
const view = (phase: SandboxView['phase'], reason: string): SandboxView => ({ phase, reason, message: '' });
const interruptedBy = (reason: string, continuedAt?: string): ConversationStatus => ({
  executionStatus: 'paused',
  agentInstance: 'a',
  interruption: { reason, time: noon, ...(continuedAt === undefined ? {} : { continuedAt }) },
});

describe('when the sandbox goes away', () => {
  const cases: [string, ConversationStatus, SandboxView, string[], Partial<ConversationStatus>][] = [
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
      'a run nobody had seen yet counts when the pause stopped it',
      { executionStatus: 'idle' },
      view('PAUSED', 'Quota'),
      ['c1'],
      { executionStatus: 'paused' },
    ],
    ['a finished run stays finished', { executionStatus: 'finished' }, view('PAUSED', 'User'), [], { executionStatus: 'finished' }],
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
    ['a deleted sandbox changes nothing', { executionStatus: 'running' }, view('MISSING', 'Deleted'), [], { executionStatus: 'running' }],
  ];
  it.each(cases)('%s', (_sentence, status, seen, interrupted, expected) => {
    const sandbox = aSandbox({ status: { interrupted } });
    expect(withSandboxAway(status, 'c1', sandbox, seen, noon)).toMatchObject(expected);
  });
});

describe('when the agent is there', () => {
  const running: ConversationStatus = { executionStatus: 'running', agentInstance: 'a' };
  const cases: [
    string,
    ConversationStatus,
    ExecutionStatus | undefined,
    string,
    { continueRun: boolean; execution: string; interrupted?: boolean },
  ][] = [
    ['its word is taken', running, 'finished', 'a', { continueRun: false, execution: 'finished' }],
    ['an error of its own is an error', running, 'error', 'a', { continueRun: false, execution: 'error' }],
    [
      'an error after another container has come up is a loss, and goes on',
      running,
      'error',
      'b',
      { continueRun: true, execution: 'paused', interrupted: true },
    ],
    [
      'a run that was stopped for the quota goes on',
      interruptedBy('Quota'),
      'paused',
      'b',
      { continueRun: true, execution: 'paused', interrupted: true },
    ],
    [
      'a run that its owner stopped does not',
      interruptedBy('User'),
      'paused',
      'b',
      { continueRun: false, execution: 'paused', interrupted: true },
    ],
    [
      'a run that was over before the pause needs nothing',
      interruptedBy('Quota'),
      'finished',
      'b',
      { continueRun: false, execution: 'finished' },
    ],
    [
      'a run that has been seen going on is interrupted no more',
      interruptedBy('User'),
      'running',
      'b',
      { continueRun: false, execution: 'running' },
    ],
    [
      'what it says just after going on is old',
      interruptedBy('Loss', later(500)),
      'error',
      'b',
      { continueRun: false, execution: 'running', interrupted: true },
    ],
    [
      'what it says later is true, and is not continued for ever',
      interruptedBy('Loss', later(-2000)),
      'error',
      'b',
      { continueRun: false, execution: 'error' },
    ],
    ['an unknown word is an error that says so', running, undefined, 'a', { continueRun: false, execution: 'error' }],
  ];
  it.each(cases)('%s', (_sentence, status, says, instance, { continueRun, execution, interrupted = false }) => {
    const decision = withAgentState(status, agentSays(says), instance, noonMs + 1000);
    expect(decision.continueRun).toBe(continueRun);
    expect(decision.status.executionStatus).toBe(execution);
    expect(decision.status.interruption !== undefined).toBe(interrupted);
    expect(decision.status.agentInstance).toBe(instance);
  });

  it('remembers that it has told the agent to go on', () => {
    expect(withRunContinued(interruptedBy('Quota'), noon)).toMatchObject({
      executionStatus: 'running',
      interruption: { continuedAt: noon },
    });
  });
});

describe('why a run was cut', () => {
  const running: ConversationStatus = { executionStatus: 'running', agentInstance: 'a' };
  const stopped = (containerID: string) => ({ reason: 'User', containerID });

  it('is the pause by its owner, however soon the sandbox runs again', () => {
    const sandbox = aSandbox({ status: { interrupted: ['c1'], lastStop: stopped('a') } });
    expect(withSandboxAway(running, 'c1', sandbox, view('STARTING', 'WaitingForPod'), noon).interruption).toMatchObject({ reason: 'User' });
    expect(withAgentState(running, agentSays('error'), 'b', noonMs, stopped('a')).continueRun).toBe(false);
  });

  it('is a loss where another container was stopped', () => {
    expect(withAgentState(running, agentSays('error'), 'c', noonMs, stopped('b')).continueRun).toBe(true);
  });

  it('is another loss when it had been continued already', () => {
    const continued = { ...running, interruption: { reason: 'Loss', time: noon, continuedAt: noon } };
    expect(withAgentState(continued, agentSays('error'), 'b', noonMs + 60_000)).toMatchObject({
      continueRun: true,
      status: { interruption: { reason: 'Loss', time: later(60_000) } },
    });
    const away = withSandboxAway(continued, 'c1', aSandbox(), view('STARTING', 'PodLost'), later(60_000));
    expect(away).toMatchObject({ executionStatus: 'paused', interruption: { reason: 'Loss', time: later(60_000) } });
  });

  it('is a loss too when nobody had seen the run begin', () => {
    const before: ConversationStatus = { executionStatus: 'idle', agentInstance: 'a' };
    const now: ConversationStatus = { executionStatus: 'error', agentInstance: 'b' };
    expect(withUnseenLoss(now, before, noon, undefined)).toMatchObject({ continueRun: true, status: { executionStatus: 'paused' } });
    expect(withUnseenLoss(now, before, noon, stopped('a')).continueRun).toBe(false);
  });
});
