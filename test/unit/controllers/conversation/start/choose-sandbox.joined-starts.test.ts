import type { CachedClaim, CachedPod } from '../../../../../src/resources/cached-core.ts';
import { sandboxIndexers, usageRecordIndexers } from '../../../../../src/controllers/caches.ts';
import type { CachedUsageRecord } from '../../../../../src/resources/usage-record.ts';
import { noAgentCredentials } from '../../../../../src/agent/credentials.ts';
import type {
  AgentCallOptions,
  AgentConversation,
  AgentEndpoint,
  NewAgentConversation,
} from '../../../../../src/agent/agent.ts';
import { AgentError } from '../../../../../src/agent/errors.ts';
import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import { UnresponsiveAgents } from '../../../../../src/controllers/agent-calls/unresponsive-agents.ts';
import { createConversations } from '../../../../../src/controllers/conversation/controllers.ts';
import {
  maxPerOwner,
  ownerShare,
  workers,
} from '../../../../../src/controllers/controller-spec.ts';
import { Controller } from '@conversation-operator/kube/controller';
import { sleep } from '@conversation-operator/base/clock';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../../../../src/observability/metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../../../src/resources/cached-conversation.ts';
import { conversations, startStatusOf } from '../../../../../src/resources/conversation.ts';
import { sandboxes, type Sandbox } from '../../../../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../../../../src/resources/sandbox-template.ts';
import {
  aConversation,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  noon,
  noonMs,
} from '../../../../support/builders.ts';
import { FakeKubeClient } from '../../../../support/fake-kube-client.ts';
import { sceneKeys } from '../../../../support/sandbox-scene.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const hangingIP = '127.70.0.2';
const agent = new OpenHandsClient();
afterAll(() => agent.close());

const state = (id: string): AgentConversation => ({
  id,
  executionStatus: 'idle',
  reportedStatus: 'idle',
  title: undefined,
  updatedAt: undefined,
  lastUserMessageId: undefined,
  metrics: undefined,
});

/** The controller of starts, with conversations in one sandbox whose agent hangs. */
function besideHanging(count: number) {
  const clock = new VirtualClock(noonMs);
  const client = new FakeKubeClient();
  const stores = {
    conversations: new IndexedStore<CachedConversation>(),
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    templates: new IndexedStore<SandboxTemplate>(),
    pods: new IndexedStore<CachedPod>(),
    claims: new IndexedStore<CachedClaim>(),
    usageRecords: new IndexedStore<CachedUsageRecord>(usageRecordIndexers),
  };
  stores.templates.set(aTemplate());
  const addSandbox = (name: string, owner: string, podIP: string) =>
    stores.sandboxes.set(
      client.put(
        sandboxes,
        aSandbox({
          name,
          owner,
          status: {
            conditions: [admitted, condition('Ready', 'True', 'Running')],
            observedGeneration: 1,
            replicas: 1,
            masterKeyId: sceneKeys.currentKeyId,
            podIP,
            agentPort: 8000,
            agentEpoch: 1,
            containerID: 'process://1',
            lastContainerID: 'process://1',
            activeSinceTime: noon,
          },
        }),
      ),
    );
  const addConversation = (name: string, owner: string, sandboxName: string) => {
    const made = aConversation({
      name,
      spec: { owner, sandboxName },
      status: {
        start: {
          status: 'WAITING_FOR_SANDBOX',
          transitions: [{ status: 'WAITING_FOR_SANDBOX', time: noon }],
        },
        sandboxName,
        sandboxUID: `uid-of-${sandboxName}`,
      },
    });
    const stored = client.put(conversations, {
      ...made,
      metadata: { ...made.metadata, uid: `uid-of-${name}` },
    });
    stores.conversations.set(cachedConversation(stored));
  };
  const underWay = new Map<string, number>();
  let most = 0;
  const call = async <T>(
    { baseUrl }: AgentEndpoint,
    { signal }: AgentCallOptions,
    answer: T,
  ): Promise<T> => {
    if (!baseUrl.includes(hangingIP)) return answer;
    underWay.set(baseUrl, (underWay.get(baseUrl) ?? 0) + 1);
    most = Math.max(most, underWay.get(baseUrl) ?? 0);
    await sleep(clock, 25_000, signal);
    underWay.set(baseUrl, (underWay.get(baseUrl) ?? 0) - 1);
    throw new AgentError('timeout', 'The agent did not answer within 25 s.');
  };
  const ran = { exitCode: 0, stdout: '/workspace/project\n', stderr: '', timedOut: false };
  Object.assign(agent, {
    execute: (endpoint: AgentEndpoint, _command: unknown, options: AgentCallOptions = {}) =>
      call(endpoint, options, ran),
    hookConfig: (endpoint: AgentEndpoint, _dir: unknown, options: AgentCallOptions = {}) =>
      call(endpoint, options, undefined),
    createConversation: (
      endpoint: AgentEndpoint,
      { id }: NewAgentConversation,
      options: AgentCallOptions = {},
    ) => call(endpoint, options, { created: true, status: state(id) }),
  });
  const silent: string[] = [];
  const reconciler = createConversations({
    client,
    stores,
    agent,
    clock,
    keys: sceneKeys,
    gitHosts: {},
    random: () => 0.5,
    logger: silentLogger,
    metrics: createMetrics(),
    credentials: noAgentCredentials,
    events: { record: () => undefined },
    unresponsiveAgents: new UnresponsiveAgents({ clock }),
    onUnresponsive: ({ metadata }) => void silent.push(metadata.name),
  });
  const controller = new Controller({
    name: 'conversation',
    clock,
    random: () => 0.5,
    logger: silentLogger,
    workers: workers.conversation,
    maxPerShare: maxPerOwner('conversation'),
    shareOf: ({ namespace, name }) => ownerShare(stores.conversations.get(namespace, name)),
    reconcile: async (request, signal) => {
      const known = await client.get(conversations, request.namespace, request.name);
      stores.conversations.set(cachedConversation(known));
      return startStatusOf(known) === 'READY' ? undefined : reconciler.reconcile(request, signal);
    },
  });
  addSandbox('sbx-hanging', 'mallory', hangingIP);
  for (let index = 0; index < count; index++) {
    addConversation(`joined-${index}`, 'mallory', 'sbx-hanging');
    controller.enqueue({ namespace: 'default', name: `joined-${index}` });
  }
  controller.start();
  return {
    clock,
    silent,
    most: () => most,
    /** How long a start in a sandbox of another owner takes. */
    start: async (name: string): Promise<number> => {
      addSandbox(`sbx-${name}`, name, '127.70.0.1');
      addConversation(name, name, `sbx-${name}`);
      const began = clock.monotonic();
      controller.enqueue({ namespace: 'default', name });
      for (;;) {
        await clock.advance(50);
        if (startStatusOf(await client.get(conversations, 'default', name)) === 'READY')
          return clock.monotonic() - began;
        if (clock.monotonic() - began > 120_000) return Infinity;
      }
    },
  };
}

it('200 conversations that have joined one hanging sandbox delay no start of another owner', async () => {
  const { clock, start, most, silent } = besideHanging(200);
  await clock.advance(1_000);
  const took = [];
  for (const name of ['alice', 'bob', 'carol', 'dave']) {
    took.push(await start(name));
    await clock.advance(20_000);
  }
  expect(Math.max(...took)).toBeLessThanOrEqual(500);
  expect(most()).toBe(4);
  // Noticed long before the step's deadline: from then on no worker waits for that agent.
  await clock.advance(60_000);
  expect(silent).toEqual(['sbx-hanging']);
});
