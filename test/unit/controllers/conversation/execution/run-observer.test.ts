import type { CachedClaim, CachedPod } from '../../../../../src/resources/cached-core.ts';
import { sandboxIndexers, usageRecordIndexers } from '../../../../../src/controllers/caches.ts';
import type { AgentConversation } from '../../../../../src/agent/agent.ts';
import { noAgentCredentials } from '../../../../../src/agent/credentials.ts';
import { AgentError } from '../../../../../src/agent/errors.ts';
import { SandboxKeys } from '../../../../../src/agent/keys.ts';
import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import { UnresponsiveAgents } from '../../../../../src/controllers/agent-calls/unresponsive-agents.ts';
import { createConversations } from '../../../../../src/controllers/conversation/controllers.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../../../../src/observability/metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../../src/resources/cached-conversation.ts';
import {
  conversations,
  type Conversation,
  type LaterMessage,
} from '../../../../../src/resources/conversation.ts';
import type {
  ConversationStatus,
  ExecutionStatus,
} from '../../../../../src/resources/conversation-status.ts';
import { pods } from '@conversation-operator/kube/core';
import type { CachedUsageRecord } from '../../../../../src/resources/usage-record.ts';
import type { Sandbox } from '../../../../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../../../../src/resources/sandbox-template.ts';
import {
  aConversation,
  aRunningPod,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  later,
  noon,
  noonMs,
} from '../../../../support/builders.ts';
import { FakeKubeClient } from '../../../../support/fake-kube-client.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const name = '019aa6a65c4d7b1e8f1f2f7f4f3a2b10';
const keys = new SandboxKeys([Buffer.alloc(32, 1)]);
const state = (executionStatus: ExecutionStatus): AgentConversation => ({
  id: name,
  executionStatus,
  reportedStatus: executionStatus,
  title: undefined,
  updatedAt: undefined,
  lastUserMessageId: undefined,
  metrics: undefined,
});
const nonsense = () =>
  Promise.reject(
    new AgentError('malformed', 'The agent answered with something unexpected.', { status: 200 }),
  );

/** A conversation that runs, and an agent that answers each question from a script. */
function followed(messages: LaterMessage[] = [], known: ConversationStatus = {}) {
  const client = new FakeKubeClient();
  const clock = new VirtualClock(noonMs);
  const agent = new OpenHandsClient();
  const sandbox = aSandbox({
    status: {
      conditions: [admitted, condition('Ready', 'True', 'Running')],
      observedGeneration: 1,
      replicas: 1,
      masterKeyId: keys.currentKeyId,
      agentEpoch: 1,
      podIP: '127.70.0.1',
      containerID: 'process://1',
      activeSinceTime: later(-60_000),
    },
  });
  const status: ConversationStatus = {
    start: { status: 'READY', transitions: [{ status: 'READY', time: later(-60_000) }] },
    executionStatus: 'running',
    agentEpoch: 1,
    sandboxName: 'sbx-1',
    sandboxUID: sandbox.metadata.uid,
    sandboxStatus: 'RUNNING',
    ...known,
  };
  client.put(conversations, aConversation({ name, status, spec: { messages } }));
  const stores = {
    conversations: new IndexedStore<CachedConversation>(),
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
    pods: new IndexedStore<CachedPod>(),
    claims: new IndexedStore<CachedClaim>(),
    usageRecords: new IndexedStore<CachedUsageRecord>(usageRecordIndexers),
  };
  stores.sandboxes.set(sandbox);
  client.put(pods, aRunningPod(sandbox));
  stores.templates.set(aTemplate());
  const reconciler = createConversations({
    client,
    stores,
    agent,
    keys,
    gitHosts: {},
    clock,
    logger: silentLogger,
    metrics: createMetrics(),
    random: () => 0,
    credentials: noAgentCredentials,
    events: { record: () => undefined },
    unresponsiveAgents: new UnresponsiveAgents({ clock }),
    onUnresponsive: () => undefined,
  });
  let writes = 0;
  client.fault = ({ verb }) => {
    if (verb === 'updateStatus') writes += 1;
    return undefined;
  };
  return {
    agent,
    writes: () => writes,
    /** Exchanges the container, which no cache shows yet. */
    exchangeUnseen: () => client.put(pods, aRunningPod(sandbox, 'process://2')),
    /** Exchanges the container, which the sandbox shows. */
    exchange: () =>
      stores.sandboxes.set({
        ...sandbox,
        metadata: { ...sandbox.metadata, resourceVersion: '2' },
        status: { ...sandbox.status, agentEpoch: 2 },
      }),
    close: () => agent.close(),
    /** Reconciles as often as the result asks for, and at least every `everyMs`, for `forMs`. */
    pass: async (ms: number, atLeastEachMs = Infinity) => {
      const endMs = clock.monotonic() + ms;
      while (clock.monotonic() < endMs) {
        const stored = JSON.stringify(await client.get(conversations, 'default', name));
        // Parsed here, as a watch does: what is cloned has the prototypes of another realm under
        // Jest, and equals nothing strictly.
        stores.conversations.set(cachedConversation(JSON.parse(stored) as Conversation));
        const done = reconciler.reconcile(
          { namespace: 'default', name },
          new AbortController().signal,
        );
        await clock.advance(5);
        await clock.advance(Math.min((await done)?.requeueAfterMs ?? ms, atLeastEachMs));
      }
      return (await client.get(conversations, 'default', name)).status;
    },
  };
}

const unknownRun = {
  executionStatus: 'paused',
  executionDetail: expect.stringMatching(
    /^The operator can not read what the agent reports.*something unexpected/,
  ) as string,
  interruption: { reason: 'Loss' },
};

describe('a run whose agent answers nonsense', () => {
  it('continues, as far as is known, while that may pass', async () => {
    const { agent, pass, close } = followed();
    agent.conversation = nonsense;
    expect(await pass(40_000)).toMatchObject({ executionStatus: 'running' });
    await close();
  });

  it('is not said to run for ever, with the reason; and does again once its agent says so', async () => {
    const { agent, pass, close } = followed();
    agent.conversation = nonsense;
    expect(await pass(100_000)).toMatchObject(unknownRun);
    agent.conversation = () => Promise.resolve(state('running'));
    const again = await pass(60_000);
    expect(again).toMatchObject({ executionStatus: 'running' });
    expect(again).not.toHaveProperty('interruption');
    expect(again).not.toHaveProperty('executionDetail');
    await close();
  });

  it('is not said to run for ever when only the reason of its error can not be had', async () => {
    const { agent, pass, close } = followed();
    agent.conversation = () => Promise.resolve(state('error'));
    agent.lastError = nonsense;
    expect(await pass(100_000)).toMatchObject(unknownRun);
    agent.lastError = () =>
      Promise.resolve({ timestamp: noon, code: 'Broken', detail: 'It broke.' });
    expect(await pass(60_000)).toMatchObject({
      executionStatus: 'error',
      executionDetail: 'Broken: It broke.',
    });
    await close();
  });

  it('continues when only a message can not be delivered', async () => {
    const { agent, pass, close } = followed([
      { number: 1, id: 'm1', role: 'user', content: [{ type: 'text', text: 'x' }], run: true },
    ]);
    agent.conversation = () => Promise.resolve(state('running'));
    let asked = 0;
    agent.userMessages = () => {
      asked += 1;
      return nonsense();
    };
    expect(await pass(100_000)).toMatchObject({ executionStatus: 'running' });
    expect(asked).toBeGreaterThan(3);
    await close();
  });
});

describe('a run that a message straight to the agent has begun, and that failed before a poll', () => {
  it.each<[string, ConversationStatus]>([
    [
      'after a pause by its owner',
      { executionStatus: 'paused', interruption: { reason: 'User', time: later(-60_000) } },
    ],
    [
      'after it was stuck',
      {
        executionStatus: 'stuck',
        interruption: { reason: 'Stalled', time: later(-60_000), abandonedReason: 'Stalled' },
      },
    ],
  ])('is in error, with its reason, %s', async (_when, known) => {
    const { agent, pass, close } = followed([], { ...known, lastActivityTime: later(-50_000) });
    agent.conversation = () => Promise.resolve({ ...state('error'), updatedAt: later(-10_000) });
    agent.lastError = () =>
      Promise.resolve({ timestamp: later(-10_000), code: 'Broken', detail: 'It broke.' });
    expect(await pass(10_000)).toMatchObject({
      executionStatus: 'error',
      executionDetail: 'Broken: It broke.',
    });
    await close();
  });

  it('is asked for its error once, where the error is an interruption', async () => {
    const { agent, pass, close } = followed([], {
      executionStatus: 'paused',
      interruption: { reason: 'User', time: later(-60_000) },
    });
    let asked = 0;
    agent.conversation = () => Promise.resolve({ ...state('error'), updatedAt: later(-10_000) });
    agent.lastError = () => {
      asked += 1;
      return Promise.resolve(undefined);
    };
    expect(await pass(600_000)).toMatchObject({
      executionStatus: 'paused',
      interruption: { reason: 'User' },
    });
    expect(asked).toBeLessThanOrEqual(2);
    await close();
  });
});

describe('a run that shows an error without a cause', () => {
  const errorAlone = (agent: OpenHandsClient) => {
    agent.conversation = () => Promise.resolve(state('error'));
    agent.lastError = () => Promise.resolve(undefined);
  };

  it('was interrupted, once its container has proved to be the same', async () => {
    const { agent, pass, close } = followed();
    errorAlone(agent);
    expect(await pass(2_000)).toMatchObject({ executionStatus: 'running' });
    expect(await pass(8_000)).toMatchObject({
      executionStatus: 'error',
      executionDetail: 'The run ended without a cause.',
    });
    await close();
  });

  it('was lost with its container, and resumes, when the sandbox reports a moment later that it is another', async () => {
    const { agent, pass, exchange, close } = followed();
    errorAlone(agent);
    let runs = 0;
    agent.run = () => {
      runs += 1;
      return Promise.resolve();
    };
    expect(await pass(2_000)).toMatchObject({ executionStatus: 'running' });
    exchange();
    const again = {
      agentEpoch: 2,
      executionStatus: 'running',
      interruption: { reason: 'Loss', lastResumeTime: expect.any(String) as string },
    };
    expect(await pass(2_000)).toMatchObject(again);
    expect(runs).toBe(1);
    await close();
  });

  it('is a loss in a row with those before, however long no cache shows that its container is another', async () => {
    const interruption = {
      reason: 'Loss',
      time: later(-60_000),
      containerLosses: 1,
      lastResumeTime: later(-30_000),
    };
    const { agent, pass, exchange, exchangeUnseen, close } = followed([], { interruption });
    errorAlone(agent);
    agent.run = () => Promise.resolve();
    exchangeUnseen();
    expect(await pass(60_000)).toMatchObject({ executionStatus: 'running', agentEpoch: 1 });
    exchange();
    expect(await pass(2_000)).toMatchObject({
      agentEpoch: 2,
      executionStatus: 'running',
      interruption: { containerLosses: 2 },
    });
    await close();
  });

  it('was lost too often, and its agent is asked once whether it had ended by itself before that', async () => {
    const interruption = {
      reason: 'Loss',
      time: later(-60_000),
      containerLosses: 2,
      lastResumeTime: later(-30_000),
    };
    const { agent, pass, exchange, close } = followed([], { interruption });
    let asked = 0;
    agent.conversation = () => Promise.resolve({ ...state('error'), updatedAt: later(-10_000) });
    agent.lastError = () => {
      asked += 1;
      return Promise.resolve(undefined);
    };
    exchange();
    const abandonedReason = {
      executionStatus: 'error',
      interruption: { containerLosses: 3, abandonedReason: 'LostTooOften' },
    };
    expect(await pass(600_000)).toMatchObject(abandonedReason);
    expect(asked).toBe(1);
    await close();
  });

  it('is doubted anew after it has passed', async () => {
    const { agent, pass, close } = followed();
    errorAlone(agent);
    await pass(3_000);
    agent.conversation = () => Promise.resolve(state('running'));
    await pass(60_000);
    errorAlone(agent);
    expect(await pass(2_000)).toMatchObject({ executionStatus: 'running' });
    await close();
  });
});

describe('a run that failed by itself before its container was lost once too often', () => {
  const interruption = {
    reason: 'Loss',
    time: later(-60_000),
    containerLosses: 2,
    lastResumeTime: later(-30_000),
  };

  it('is in error with its own reason, and not given up for the loss', async () => {
    const { agent, pass, exchange, close } = followed([], { interruption });
    agent.conversation = () => Promise.resolve({ ...state('error'), updatedAt: later(-10_000) });
    agent.lastError = () =>
      Promise.resolve({ timestamp: later(-10_000), code: 'Broken', detail: 'It broke.' });
    exchange();
    const failed = await pass(60_000);
    expect(failed).toMatchObject({
      executionStatus: 'error',
      executionDetail: 'Broken: It broke.',
      agentEpoch: 2,
    });
    expect(failed).not.toHaveProperty('interruption');
    await close();
  });
});

describe('a sign of activity alone, which is not worth a write of its own yet', () => {
  /** Everything else is stored, and then the agent does something. */
  const active = async (agent: OpenHandsClient, pass: (ms: number) => Promise<unknown>) => {
    agent.conversation = () => Promise.resolve(state('running'));
    await pass(1_000);
    agent.conversation = () => Promise.resolve({ ...state('running'), updatedAt: later(-1_000) });
  };

  it('is written in time, however often the controller checks in between whether a poll is due', async () => {
    const { agent, pass, close } = followed();
    await active(agent, pass);
    expect(await pass(20_000, 50)).not.toHaveProperty('lastActivityTime');
    expect(await pass(20_000, 50)).toHaveProperty('lastActivityTime');
    await close();
  });

  it.each<[string, AgentConversation]>([
    ['shows an error without a cause, in a container that no cache shows', state('error')],
    ['shows again what is stored', state('running')],
  ])('does not have its agent polled all the time once that %s', async (_what, next) => {
    const { agent, pass, exchangeUnseen, close } = followed();
    await active(agent, pass);
    await pass(5_000);
    exchangeUnseen();
    let polls = 0;
    agent.conversation = () => {
      polls += 1;
      return Promise.resolve(next);
    };
    agent.lastError = () => Promise.resolve(undefined);
    await pass(60_000);
    expect(polls).toBeLessThanOrEqual(100);
    await close();
  });
});

describe('the result of a run', () => {
  const over = (time: number, lastUserMessageId: string): AgentConversation => ({
    ...state('finished'),
    updatedAt: later(time),
    lastUserMessageId,
  });

  it('is written with the status of the run, and that of a run that no poll has seen with its activity', async () => {
    const { agent, pass, writes, close } = followed();
    let reads = 0;
    agent.lastResult = () => Promise.resolve({ message: `Result ${(reads += 1)}.` });
    agent.conversation = () => Promise.resolve(over(-1_000, 'm1'));
    expect(await pass(120_000)).toMatchObject({
      executionStatus: 'finished',
      lastResult: { message: 'Result 1.' },
    });
    expect([reads, writes()]).toEqual([1, 1]);
    agent.conversation = () => Promise.resolve(over(0, 'm2'));
    const { lastResult } = (await pass(180_000)) ?? {};
    expect(lastResult).toEqual({ message: `Result ${reads}.` });
    expect(writes()).toBe(2);
    await close();
  });
});
