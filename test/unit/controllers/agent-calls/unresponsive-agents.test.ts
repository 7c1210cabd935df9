import { sandboxIndexers } from '../../../../src/controllers/caches.ts';
import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import type { AgentCallOptions, AgentState } from '../../../../src/agent/agent.ts';
import { AgentError } from '../../../../src/agent/errors.ts';
import { UnresponsiveAgents } from '../../../../src/controllers/agent-calls/unresponsive-agents.ts';
import { PodCreations } from '../../../../src/controllers/sandbox/pod-creations.ts';
import { createSandboxes } from '../../../../src/controllers/sandbox/controller.ts';
import { maxPerOwner, ownerShare, workers } from '../../../../src/controllers/controller-spec.ts';
import { Controller } from '@conversation-operator/kube/controller';
import { sleep } from '@conversation-operator/base/clock';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import type { PersistentVolumeClaim, Pod } from '@conversation-operator/kube/core';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import {
  aClaim,
  aRunningPod,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  noon,
  noonMs,
} from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { sceneKeys } from '../../../support/sandbox-scene.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const namespace = 'default';
const agent = new OpenHandsClient();
afterAll(() => agent.close());

/**
 * The sandbox controller with many sandboxes whose agents accept no answer in time: a node that
 * drops packets, a NetworkPolicy, a stopped node. The writes to the API server are left out: the
 * answer is about workers.
 */
function besideSilent(count: number, ownerOf: (index: number) => string) {
  const clock = new VirtualClock(noonMs);
  const silence = new UnresponsiveAgents({ clock });
  const stores = {
    sandboxes: new IndexedStore<Sandbox>(sandboxIndexers),
    pods: new IndexedStore<Pod>(),
    claims: new IndexedStore<PersistentVolumeClaim>(),
    templates: new IndexedStore<SandboxTemplate>(),
  };
  stores.templates.set(aTemplate());
  const add = (name: string, owner: string) => {
    const sandbox = aSandbox({
      name,
      owner,
      status: {
        conditions: [admitted, condition('Ready', 'False', 'AgentSilent')],
        observedGeneration: 1,
        replicas: 1,
        masterKeyId: sceneKeys.currentKeyId,
        podIP: '127.70.0.1',
        agentPort: 8000,
        containerID: 'process://1',
        lastContainerID: 'process://1',
        agentEpoch: 1,
        activeSinceTime: noon,
      },
    });
    stores.sandboxes.set(sandbox);
    stores.pods.set(aRunningPod(sandbox));
    stores.claims.set(aClaim(sandbox));
    silence.recordFailure(sandbox.metadata.uid);
  };
  for (let index = 0; index < count; index++) add(`silent-${index}`, ownerOf(index));
  let asked = 0;
  let most = 0;
  Object.assign(agent, {
    // As the client: it gives up after 3 s and says so.
    probe: async (_endpoint: unknown, { signal }: AgentCallOptions = {}): Promise<AgentState> => {
      most = Math.max(most, ++asked);
      try {
        await sleep(clock, 3_000, signal);
        return 'unreachable';
      } catch (error) {
        throw new AgentError('aborted', 'The call to the agent was given up.', { cause: error });
      } finally {
        asked--;
      }
    },
  });
  const client = new FakeKubeClient();
  Object.assign(client, {
    updateStatus: (_resource: unknown, object: unknown) => Promise.resolve(object),
  });
  const reconciler = createSandboxes({
    client,
    stores,
    agent,
    clock,
    unresponsiveAgents: silence,
    keys: sceneKeys,
    logger: silentLogger,
    random: () => 0.5,
    podCreations: new PodCreations(clock),
    events: { record: () => undefined },
  });
  const done: number[] = [];
  const controller = new Controller({
    name: 'sandbox',
    clock,
    random: () => 0.5,
    logger: silentLogger,
    workers: workers.sandbox,
    maxPerShare: maxPerOwner('sandbox'),
    shareOf: ({ name }) =>
      name === 'healthy' ? 'default/healthy' : ownerShare(stores.sandboxes.get(namespace, name)),
    reconcile: (request, signal) => {
      if (request.name !== 'healthy') return reconciler.reconcile(request, signal);
      done.push(clock.monotonic());
      return Promise.resolve(undefined);
    },
  });
  controller.start();
  return {
    clock,
    most: () => most,
    /** The time for which a change of a healthy sandbox waits for a worker, each second. */
    waits: async (times: number): Promise<readonly number[]> => {
      const waits = [];
      // As long as an agent may be busy before it counts as silent.
      await clock.advance(60_000);
      for (let index = 0; index < count; index++)
        controller.enqueue({ namespace, name: `silent-${index}` });
      for (let time = 0; time < times; time++) {
        const began = clock.monotonic();
        const before = done.length;
        controller.enqueue({ namespace, name: 'healthy' });
        while (done.length === before && clock.monotonic() - began < 60_000)
          await clock.advance(100);
        waits.push((done.at(-1) ?? Infinity) - began);
        await clock.advance(1_000);
      }
      return waits;
    },
  };
}

it.each<[string, number, (index: number) => string]>([
  ['512 of one owner', 512, () => 'mallory'],
  ['512 of as many owners', 512, (index) => `owner-${index}`],
])(
  '%s that are silent keep no change of a healthy sandbox waiting',
  async (_sentence, count, ownerOf) => {
    const { waits, most } = besideSilent(count, ownerOf);
    expect(Math.max(...(await waits(20)))).toBeLessThanOrEqual(500);
    expect(most()).toBeGreaterThanOrEqual(64);
  },
);
