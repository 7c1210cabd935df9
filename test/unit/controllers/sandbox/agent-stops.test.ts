import type { AgentCallOptions, AgentState } from '../../../../src/agent/agent.ts';
import { AgentError } from '../../../../src/agent/errors.ts';
import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import { SandboxKeys } from '../../../../src/agent/keys.ts';
import { UnresponsiveAgents } from '../../../../src/controllers/agent-calls/unresponsive-agents.ts';
import { PodCreations } from '../../../../src/controllers/sandbox/pod-creations.ts';
import { createSandboxes } from '../../../../src/controllers/sandbox/controller.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import {
  persistentVolumeClaims,
  pods,
  type PersistentVolumeClaim,
  type Pod,
} from '@conversation-operator/kube/core';
import { sandboxes, type Sandbox, type SandboxState } from '../../../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../../../src/status/sandbox-phase.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import {
  aClaim,
  aRunningPod,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  later,
  noon,
  noonMs,
} from '../../../support/builders.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { recordingLogger } from '../../../support/recording-logger.ts';
import { SandboxScene } from '../../../support/sandbox-scene.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

/** An agent whose runs end one question after they were interrupted. */
class BusyAgent extends OpenHandsClient {
  readonly asked: string[] = [];
  #runs: string[] = ['c1', 'c2'];
  #next = this.#runs;

  override probe = (): Promise<AgentState> => Promise.resolve('ready');
  override runningConversations = (): Promise<readonly string[]> => {
    const now = this.#runs;
    this.#runs = this.#next;
    return Promise.resolve(now);
  };
  override losableQuestions = (): Promise<readonly string[]> => Promise.resolve([]);
  override interrupt = (_endpoint: unknown, id: string) => {
    this.asked.push(id);
    this.#next = this.#next.filter((run) => run !== id);
    return Promise.resolve();
  };
}

/** An agent that waits for a person until its action is rejected. */
class AskingAgent extends BusyAgent {
  readonly rejected: string[] = [];
  override runningConversations = () => Promise.resolve([]);
  override losableQuestions = () => Promise.resolve(this.rejected.length === 0 ? ['c3'] : []);
  override async rejectPending(
    ...[, id, reason]: Parameters<BusyAgent['rejectPending']>
  ): Promise<void> {
    await Promise.resolve();
    expect(reason).toContain('paused');
    this.rejected.push(id);
  }
}

const keys = new SandboxKeys([Buffer.alloc(32, 1)]);
const running: SandboxState = {
  conditions: [admitted, condition('Ready', 'True', 'Running')],
  observedGeneration: 1,
  replicas: 1,
  masterKeyId: keys.currentKeyId,
  agentEpoch: 1,
  agentPort: 8000,
  containerID: 'process://1',
  lastContainerID: 'process://1',
  podIP: '127.70.0.1',
  activeSinceTime: later(-60_000),
};
const resumed = (status: SandboxState): Sandbox => {
  const sandbox = aSandbox({ status });
  return { ...sandbox, metadata: { ...sandbox.metadata, generation: 3 } };
};
const byOwner: SandboxState = {
  ...running,
  conditions: [admitted, condition('Ready', 'False', 'User')],
  observedGeneration: 2,
  pauseTime: noon,
  lastInterruption: { reason: 'User', agentEpoch: 1 },
  lastUserPauseEpoch: 1,
};

/** Reconciles until nothing more is to be done at once; says every phase on the way. */
async function settle(sandbox: Sandbox, agent: BusyAgent, silence?: UnresponsiveAgents) {
  const client = new FakeKubeClient();
  const clock = new VirtualClock(noonMs);
  client.put(sandboxes, sandbox);
  client.put(pods, aRunningPod(sandbox));
  client.put(persistentVolumeClaims, aClaim(sandbox));
  const templates = new IndexedStore<SandboxTemplate>();
  templates.set(aTemplate());
  const cached = async <T extends Sandbox | Pod | PersistentVolumeClaim>(
    resource: Parameters<typeof client.list<T>>[0],
  ) => {
    const store = new IndexedStore<T>();
    for (const object of (await client.list(resource)).items) store.set(object);
    return store;
  };
  const phases = [];
  for (let round = 0; round < 10; round++) {
    const stores = {
      sandboxes: await cached<Sandbox>(sandboxes),
      pods: await cached<Pod>(pods),
      claims: await cached<PersistentVolumeClaim>(persistentVolumeClaims),
      templates,
    };
    phases.push(viewOfSandbox(stores.sandboxes.get('default', 'sbx-1')).phase);
    const reconciler = createSandboxes({
      client,
      stores,
      agent,
      clock,
      keys,
      random: () => 0,
      logger: recordingLogger().logger,
      ...(silence === undefined ? {} : { unresponsiveAgents: silence }),
      podCreations: new PodCreations(clock),
      events: { record: () => undefined },
    });
    const result = await reconciler.reconcile(
      { namespace: 'default', name: 'sbx-1' },
      new AbortController().signal,
    );
    if (result?.requeueAfterMs === undefined) break;
    await clock.advance(result.requeueAfterMs);
  }
  return { phases, status: (await client.get(sandboxes, 'default', 'sbx-1')).status };
}

describe('an agent that others have asked in vain', () => {
  const silentOne = () => {
    const silence = new UnresponsiveAgents({ clock: new VirtualClock(noonMs), boundMs: 0 });
    silence.recordFailure(aSandbox().metadata.uid);
    return silence;
  };

  it('is not said to be ready while it does not answer, for as long as that takes, and then is where it was', async () => {
    const agent = new BusyAgent({});
    agent.probe = () => Promise.resolve('unreachable');
    const { status } = await settle(aSandbox({ status: running }), agent, silentOne());
    expect(status).toMatchObject({ phase: 'STARTING', reason: 'AgentSilent', agentEpoch: 1 });
    expect(status?.conditions?.find(({ type }) => type === 'AgentReady')).toMatchObject({
      status: 'False',
      reason: 'AgentSilent',
    });
    agent.probe = () => Promise.resolve('ready');
    expect((await settle(aSandbox({ status: status ?? {} }), agent)).status).toMatchObject({
      phase: 'RUNNING',
      agentEpoch: 1,
    });
    await agent.close();
  });

  it('is ready when it answers here', async () => {
    const agent = new BusyAgent({});
    const silence = silentOne();
    expect((await settle(aSandbox({ status: running }), agent, silence)).status).toMatchObject({
      phase: 'RUNNING',
      agentEpoch: 1,
    });
    expect(silence.isUnresponsive(aSandbox().metadata.uid)).toBe(false);
    await agent.close();
  });
});

it('records the stop of a pod at once where its sandbox has no status yet', async () => {
  const scene = new SandboxScene();
  scene.client.put(sandboxes, aSandbox());
  scene.client.put(pods, aRunningPod(aSandbox()));
  scene.client.put(persistentVolumeClaims, aClaim(aSandbox()));
  await scene.clock.run(scene.reconcile());
  expect((await scene.sandbox()).status?.pauseTime).toBe(noon);
});

it('does not wait for a silent agent when its sandbox is paused', async () => {
  const agent = new BusyAgent({});
  const hangs = (_endpoint: unknown, { signal }: AgentCallOptions = {}) =>
    new Promise<never>((_resolve, reject) => {
      signal?.addEventListener('abort', () => reject(new AgentError('aborted', 'given up')), {
        once: true,
      });
    });
  Object.assign(agent, { probe: hangs, runningConversations: hangs, losableQuestions: hangs });
  const silent = {
    ...running,
    conditions: [admitted, condition('Ready', 'False', 'AgentSilent')],
    podUID: 'uid-of-the-pod',
  };
  const { containerID: _unconnected, ...status } = silent;
  const scene = new SandboxScene({ agent });
  scene.client.put(sandboxes, aSandbox({ status }));
  scene.client.put(pods, aRunningPod(aSandbox()));
  scene.client.put(persistentVolumeClaims, aClaim(aSandbox()));
  await scene.clock.run(scene.reconcile());
  await scene.sandbox((sandbox) => ({ ...sandbox, spec: { ...sandbox.spec, replicas: 0 } }));
  const began = scene.clock.monotonic();
  for (let round = 0; round < 3; round++) await scene.clock.run(scene.reconcile());
  await agent.close();
  expect(await scene.pod()).toBeUndefined();
  expect(scene.clock.monotonic() - began).toBeLessThanOrEqual(1_000);
});

it('interrupts the runs of an agent whose pod the cache shows as it was before they began', async () => {
  const agent = new BusyAgent({});
  const scene = new SandboxScene({ agent });
  const paused = aSandbox({ status: running });
  const pod = aRunningPod(paused);
  scene.client.put(sandboxes, { ...paused, spec: { ...paused.spec, replicas: 0 } });
  scene.client.put(pods, pod);
  scene.client.put(persistentVolumeClaims, aClaim(paused));
  const { status: _later, ...created } = pod;
  scene.stalePod = created;
  for (let round = 0; round < 4; round++) await scene.clock.run(scene.reconcile());
  await agent.close();
  expect([...new Set(agent.asked)]).toEqual(['c1', 'c2']);
});

it('archives the end of a pause once, also while the cache shows the pod that it has deleted', async () => {
  const agent = new BusyAgent({});
  const seals: boolean[] = [];
  const seal = (
    _sandbox: unknown,
    _endpoint: unknown,
    { isLast }: { readonly isLast: boolean },
  ) => {
    seals.push(isLast);
    return Promise.resolve();
  };
  const scene = new SandboxScene({ agent, archives: { seal } });
  const paused = aSandbox({ status: running });
  scene.client.put(sandboxes, { ...paused, spec: { ...paused.spec, replicas: 0 } });
  scene.client.put(pods, aRunningPod(paused));
  scene.client.put(persistentVolumeClaims, aClaim(paused));
  scene.stalePod = aRunningPod(paused);
  for (let round = 0; round < 6; round++) await scene.clock.run(scene.reconcile());
  await agent.close();
  expect(await scene.pod()).toBeUndefined();
  expect(seals).toEqual([false, true]);
});

it('is not RUNNING after a resume while the cache shows a pod that the pause has deleted', async () => {
  const agent = new BusyAgent({});
  const scene = new SandboxScene({ agent });
  const sandbox = resumed({ ...byOwner, interruptedConversationIDs: ['c1', 'c2'] });
  scene.client.put(sandboxes, sandbox);
  scene.client.put(persistentVolumeClaims, aClaim(sandbox));
  scene.stalePod = aRunningPod(sandbox);
  const phases = [];
  for (let round = 0; round < 4; round++)
    phases.push((await scene.clock.run(scene.reconcile())).phase);
  await agent.close();
  expect(phases).toEqual(Array(4).fill('STARTING'));
  expect((await scene.sandbox()).status?.agentEpoch).toBe(1);
});

describe('a pause while an action waits for a confirmation', () => {
  it('rejects the action before the pod goes, and remembers whose it was', async () => {
    const agent = new AskingAgent({});
    const { status } = await settle(
      { ...aSandbox({ status: running }), spec: { ...aSandbox().spec, replicas: 0 } },
      agent,
    );
    await agent.close();
    expect(agent.rejected).toEqual(['c3']);
    expect(status).toMatchObject({ phase: 'PAUSED', interruptedConversationIDs: ['c3'] });
  });
});

describe('a pause by its owner that is taken back', () => {
  it.each<[string, Sandbox]>([
    ['before a reconcile has seen it', resumed(running)],
    ['before a reconcile has asked what runs', resumed(byOwner)],
  ])('%s interrupts the runs, which end before the sandbox is RUNNING', async (_case, sandbox) => {
    const agent = new BusyAgent({});
    const { phases, status } = await settle(sandbox, agent);
    await agent.close();
    expect([...new Set(agent.asked)]).toEqual(['c1', 'c2']);
    expect(new Set(phases)).toEqual(new Set(['STARTING']));
    expect(status).toMatchObject({
      phase: 'RUNNING',
      interruptedConversationIDs: ['c1', 'c2'],
      lastUserPauseEpoch: 1,
      agentEpoch: 2,
      observedGeneration: 3,
    });
    expect(status?.pauseTime).toBeUndefined();
  });

  it('is kept while its agent does not answer, so that what runs later counts as begun after it', async () => {
    const agent = new BusyAgent({});
    agent.probe = () => Promise.resolve('unreachable');
    const { status } = await settle(resumed(running), agent);
    expect(status).toMatchObject({
      phase: 'STARTING',
      reason: 'AgentSilent',
      agentEpoch: 1,
      lastUserPauseEpoch: 1,
    });
    expect(status?.pauseTime).toBeDefined();
    agent.probe = () => Promise.resolve('ready');
    const after = await settle(resumed(status ?? {}), agent);
    await agent.close();
    expect(after.status).toMatchObject({ phase: 'RUNNING', agentEpoch: 2, lastUserPauseEpoch: 1 });
    expect(after.status?.pauseTime).toBeUndefined();
  });

  it('interrupts no run after a pause by the quota was taken back', async () => {
    const agent = new BusyAgent({});
    const { lastUserPauseEpoch: _none, ...byQuota } = {
      ...byOwner,
      lastInterruption: { reason: 'Quota', agentEpoch: 1 },
    };
    const { status } = await settle(aSandbox({ status: byQuota }), agent);
    await agent.close();
    expect(agent.asked).toEqual([]);
    expect(status).toMatchObject({ phase: 'RUNNING', agentEpoch: 2 });
  });
});
