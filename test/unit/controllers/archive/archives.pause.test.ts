import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import type { AgentState } from '../../../../src/agent/agent.ts';
import type { SealOptions } from '../../../../src/controllers/archive/seal.ts';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { sandboxes, type SandboxState } from '../../../../src/resources/sandbox.ts';
import {
  aClaim,
  aRunningPod,
  aSandbox,
  admitted,
  condition,
  later,
  noon,
} from '../../../support/builders.ts';
import { SandboxScene, sceneKeys } from '../../../support/sandbox-scene.ts';

/** An agent with these runs, which end when the test says so. */
class RunningAgent extends OpenHandsClient {
  runs: string[] = [];
  override probe = (): Promise<AgentState> => Promise.resolve('ready');
  override runningConversations = () => Promise.resolve(this.runs);
  override losableQuestions = () => Promise.resolve([]);
  override interrupt = () => Promise.resolve();
}

const paused: SandboxState = {
  conditions: [admitted, condition('Ready', 'True', 'Running')],
  observedGeneration: 1,
  replicas: 1,
  masterKeyId: sceneKeys.currentKeyId,
  agentEpoch: 1,
  agentPort: 8000,
  containerID: 'process://1',
  lastContainerID: 'process://1',
  podIP: '127.70.0.1',
  activeSinceTime: later(-60_000),
  pauseTime: noon,
};

/** A sandbox that is being paused, and the calls of its archive. */
function pausing(pauseBoundMs = 15_000, fails = () => false) {
  const agent = new RunningAgent();
  const seals: (Omit<SealOptions, 'signal'> & { readonly hasPod: boolean })[] = [];
  const scene: SandboxScene = new SandboxScene({
    agent,
    pauseBoundMs,
    archives: {
      seal: async (_sandbox, { baseUrl }, { maxMs, isLast }) => {
        expect(baseUrl).toBe('http://127.70.0.1:8000');
        seals.push({ maxMs, isLast, hasPod: (await scene.pod()) !== undefined });
        if (fails()) throw new Error('the API server does not accept the status');
      },
    },
  });
  const sandbox = aSandbox({ replicas: 0, status: paused });
  scene.client.put(sandboxes, sandbox);
  scene.client.put(pods, aRunningPod(sandbox));
  scene.client.put(persistentVolumeClaims, aClaim(sandbox));
  const reconcile = () => scene.clock.run(scene.reconcile());
  return { agent, seals, scene, reconcile };
}

it('archives what an idle agent has before its pod is deleted', async () => {
  const { seals, scene, reconcile } = pausing();
  await reconcile();
  expect(seals).toEqual([{ maxMs: 15_000, isLast: true, hasPod: true }]);
  expect(await scene.pod()).toBeUndefined();
});

it('archives at the beginning of a pause, and again when the runs have ended', async () => {
  const { agent, seals, scene, reconcile } = pausing();
  agent.runs = ['c1'];
  await reconcile();
  await reconcile();
  await scene.clock.advance(4_000);
  await reconcile();
  expect(seals).toEqual([{ maxMs: 15_000, isLast: false, hasPod: true }]);
  agent.runs = [];
  await scene.clock.advance(1_000);
  await reconcile();
  expect(seals.slice(1)).toEqual([{ maxMs: 10_000, isLast: true, hasPod: true }]);
  expect(await scene.pod()).toBeUndefined();
});

it('records each run that it interrupts, also one that begins when another one ends', async () => {
  const { agent, scene, reconcile } = pausing();
  for (const run of ['c1', 'c2']) {
    agent.runs = [run];
    await reconcile();
    await scene.clock.advance(200);
    await reconcile();
  }
  const { namespace, name } = aSandbox().metadata;
  const { status } = await scene.client.get(sandboxes, namespace, name);
  expect(status?.interruptedConversationIDs).toEqual(['c1', 'c2']);
});

it('leaves the archive no time after the bound of the pause', async () => {
  const { agent, seals, scene, reconcile } = pausing(5_000);
  agent.runs = ['c1'];
  await reconcile();
  await reconcile();
  await scene.clock.advance(5_001);
  await reconcile();
  expect(seals.at(-1)).toEqual({ maxMs: 0, isLast: true, hasPod: true });
  expect(await scene.pod()).toBeUndefined();
});

it('ends a pause at its bound, also where the archive fails every time', async () => {
  const { scene, reconcile } = pausing(5_000, () => true);
  await expect(reconcile()).rejects.toThrow('does not accept the status');
  expect(await scene.pod()).toBeDefined();
  await scene.clock.advance(5_001);
  await reconcile();
  expect(await scene.pod()).toBeUndefined();
});
