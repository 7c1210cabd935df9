import type { AgentConversation } from '../../../../../src/agent/agent.ts';
import { AgentError } from '../../../../../src/agent/errors.ts';
import {
  AgentPoller,
  type AgentPollerOptions,
} from '../../../../../src/controllers/conversation/polling/agent-poller.ts';
import { PollBulkhead } from '../../../../../src/controllers/agent-calls/poll-bulkhead.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const state = (id: string): AgentConversation => ({
  id,
  executionStatus: 'idle',
  reportedStatus: 'idle',
  title: undefined,
  updatedAt: undefined,
  lastUserMessageId: undefined,
  metrics: undefined,
});
const target = {
  endpoint: { baseUrl: 'http://agent', sessionKey: 'k' },
  agent: 'container',
  owner: 'alice',
};
const never = new AbortController().signal;

function setUp(agent: Partial<AgentPollerOptions['agent']> = {}) {
  const clock = new VirtualClock();
  const calls: string[] = [];
  const poller = new AgentPoller({
    clock,
    bulkhead: new PollBulkhead({ clock, random: () => 0 }),
    agent: {
      conversation: (_, id) => {
        calls.push(id);
        return Promise.resolve(id === 'unknown' ? undefined : state(id));
      },
      conversations: (_, ids) => {
        calls.push(ids.join(' '));
        return Promise.resolve(ids.map((id) => (id === 'unknown' ? undefined : state(id))));
      },
      ...agent,
    },
  });
  const pollAll = async (...ids: string[]) => {
    const all = Promise.all(ids.map((id) => poller.poll(target, id, never)));
    await clock.advance(100);
    return (await all).map((polled) => ('answer' in polled ? polled.answer?.id : 'later'));
  };
  return { clock, calls, poller, pollAll };
}

describe('AgentPoller', () => {
  it('one that is due alone is asked for alone', async () => {
    const { calls, pollAll } = setUp();
    expect(await pollAll('one')).toEqual(['one']);
    expect(calls).toEqual(['one']);
  });

  it('those that are due together are asked for together, and each gets its own answer', async () => {
    const { calls, pollAll } = setUp();
    expect(await pollAll('one', 'unknown', 'two')).toEqual(['one', undefined, 'two']);
    expect(calls).toEqual(['one unknown two']);
  });

  it('another agent is target by itself', async () => {
    const { clock, calls, poller } = setUp();
    const both = Promise.all([
      poller.poll(target, 'one', never),
      poller.poll({ ...target, agent: 'other' }, 'two', never),
    ]);
    await clock.advance(100);
    await both;
    expect(calls).toEqual(['one', 'two']);
  });

  it('twenty at once are the most', async () => {
    const { calls, pollAll } = setUp();
    await pollAll(...Array.from({ length: 45 }, (_, index) => `c${index}`));
    expect(calls.map((call) => call.split(' ').length)).toEqual([20, 20, 5]);
  });

  it('one call at a time is under way to each agent', async () => {
    let underWay = 0;
    let most = 0;
    const { pollAll, clock } = setUp({
      conversations: async (_, ids) => {
        most = Math.max(most, ++underWay);
        await new Promise<void>((resolve) => clock.after(20, resolve));
        underWay--;
        return ids.map(state);
      },
    });
    await pollAll(...Array.from({ length: 60 }, (_, index) => `c${index}`));
    expect(most).toBe(1);
  });

  it('where the whole can not be read, each is asked for', async () => {
    const { calls, pollAll } = setUp({
      conversations: () => Promise.reject(new AgentError('malformed', 'too large')),
    });
    expect(await pollAll('one', 'two')).toEqual(['one', 'two']);
    expect(calls).toEqual(['one', 'two']);
  });

  it('one that can not be read does not hide the others, which are asked for as ever', async () => {
    const tooLarge = new AgentError('malformed', 'too large', { status: 200 });
    const { poller, clock, pollAll } = setUp({
      conversations: () => Promise.reject(tooLarge),
      conversation: (_, id) =>
        id === 'large' ? Promise.reject(tooLarge) : Promise.resolve(state(id)),
    });
    expect(await pollAll('one', 'large', 'two')).toEqual(['one', 'later', 'two']);
    const polled = poller.poll(target, 'large', never);
    const other = poller.poll(target, 'one', never);
    await clock.advance(100);
    expect(await polled).toEqual({ laterMs: 15_000, error: tooLarge });
    expect(await other).toMatchObject({ answer: { id: 'one' } });
  });

  it('where none can be read it is the agent that is left alone', async () => {
    const fails = () =>
      Promise.reject(new AgentError('failed', 'The agent answered 500.', { status: 500 }));
    const { poller, pollAll, clock } = setUp({ conversations: fails, conversation: fails });
    expect(await pollAll('one', 'two')).toEqual(['later', 'later']);
    const polled = poller.poll(target, 'one', never);
    await clock.advance(100);
    // No agent has been the target.
    expect(Object.keys(await polled)).toEqual(['laterMs']);
  });

  it('an agent that does not answer is not asked for each', async () => {
    const { calls, pollAll } = setUp({
      conversations: () => Promise.reject(new AgentError('timeout', 'no answer')),
    });
    expect(await pollAll('one', 'two')).toEqual(['later', 'later']);
    expect(calls).toEqual([]);
  });
});
