import { silentLogger } from '@conversation-operator/base/logger';
import type { AgentClient, AgentConversation } from '../../../../../src/agent/agent.ts';
import { AgentError } from '../../../../../src/agent/errors.ts';
import { withAgentReport } from '../../../../../src/controllers/conversation/execution/decide.ts';
import { resumeRun } from '../../../../../src/controllers/conversation/execution/run-control.ts';
import {
  StuckDetection,
  type PolledRun,
} from '../../../../../src/controllers/conversation/execution/run-observer.ts';
import type { ConversationStatus } from '../../../../../src/resources/conversation-status.ts';
import { noon, noonMs } from '../../../../support/builders.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const paused: ConversationStatus = {
  executionStatus: 'paused',
  agentEpoch: 1,
  interruption: { reason: 'Loss', time: noon, containerLosses: 1 },
};

const broken: AgentConversation = {
  id: 'c1',
  executionStatus: 'error',
  reportedStatus: 'error',
  title: undefined,
  updatedAt: undefined,
  lastUserMessageId: undefined,
  metrics: undefined,
};

/** The status after a resume in one container, and the first report of the next container. */
async function afterNextContainer(
  agent: Pick<AgentClient, 'conversation' | 'run'>,
): Promise<ConversationStatus> {
  const clock = new VirtualClock(noonMs);
  const options = {
    agent: agent as AgentClient,
    clock,
    logger: silentLogger,
    stuck: new StuckDetection({ clock }),
  };
  const run = { endpoint: { baseUrl: 'http://10.0.0.1:8000' }, id: 'c1' } as PolledRun;
  const { signal } = new AbortController();
  const save = (status: ConversationStatus) => Promise.resolve(status);
  const { status } = await resumeRun(options, run, { status: paused, save, signal });
  return withAgentReport(status, broken, { agentEpoch: 2, nowMs: noonMs + 60_000 }).status;
}

const known = () => Promise.resolve(broken);
const fails = (code: AgentError['code']) => () => Promise.reject(new AgentError(code, 'no'));
const neverSent = () => Promise.reject(new Error('no call to run was expected'));

describe('the loss of a container after a resume', () => {
  it('is none of the run when there was no connection to request the resume', async () => {
    const { interruption } = await afterNextContainer({
      conversation: known,
      run: fails('unreachable'),
    });
    expect(interruption).toMatchObject({ containerLosses: 1, resumesNotExecuted: 1 });
  });

  it('is none of the run when the call before the resume failed', async () => {
    const { interruption } = await afterNextContainer({
      conversation: fails('timeout'),
      run: neverSent,
    });
    expect(interruption).toMatchObject({ containerLosses: 1, resumesNotExecuted: 1 });
  });

  it('counts when the answer to the resume was lost', async () => {
    const { interruption } = await afterNextContainer({
      conversation: known,
      run: fails('connection-lost'),
    });
    expect(interruption).toEqual({
      reason: 'Loss',
      time: expect.any(String) as unknown,
      containerLosses: 2,
    });
  });
});
