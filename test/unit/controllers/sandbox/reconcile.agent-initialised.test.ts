import { createServer, type Server } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import { FailureCode } from '../../../../src/controllers/sandbox/failure.ts';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { findCondition } from '../../../../src/resources/conditions.ts';
import { sandboxes, type SandboxState } from '../../../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../../../src/status/sandbox-phase.ts';
import {
  aClaim,
  aContainer,
  aSandbox,
  aTemplate,
  admitted,
  noon,
} from '../../../support/builders.ts';
import { SandboxScene, sceneKeys } from '../../../support/sandbox-scene.ts';

/** Answers of an agent that another process has given keys, by the protocol of deferred init. */
let state: 'dormant' | 'ready';
let initStatus: 400 | 401;
let knowsOurs: boolean;
let server: Server;
const agent = new OpenHandsClient();
let scene: SandboxScene;
let containers: number;

beforeAll(async () => {
  server = createServer(({ method, url }, response) => {
    const [status, body] =
      url !== '/api/init'
        ? knowsOurs
          ? [200, url?.includes('count') === true ? 0 : { items: [], next_page_id: null }]
          : [401, { detail: 'Unauthorized' }]
        : method === 'GET'
          ? [200, { state, error: null }]
          : [initStatus, { detail: 'server already in state: ready' }];
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});
afterAll(async () => {
  await agent.close();
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  [state, initStatus, knowsOurs, containers] = ['dormant', 400, false, 0];
  scene = new SandboxScene({ agent });
  const { port } = server.address() as AddressInfo;
  scene.template = aTemplate({ agent: { port, workingDir: '/workspace' } });
});

/** A sandbox with a slot, for example a warm sandbox that a start has claimed. */
function putSandbox(more: Partial<SandboxState> = {}): void {
  const sandbox = aSandbox({
    status: {
      conditions: [admitted],
      replicas: 1,
      masterKeyId: sceneKeys.currentKeyId,
      agentKind: 'openhands',
      startingSinceTime: noon,
      ...more,
    },
  });
  scene.client.put(sandboxes, sandbox);
  scene.client.put(persistentVolumeClaims, { ...aClaim(sandbox), status: { phase: 'Bound' } });
}

/** Reconciles until the sandbox has a pod, runs its container, and lets the operator connect. */
async function connect() {
  await scene.reconcile();
  const pod = await scene.pod();
  if (pod === undefined) throw new Error('the sandbox has no pod');
  containers += 1;
  const running = aContainer({
    containerID: `process://${containers}`,
    state: { running: {} },
    ready: true,
  });
  scene.client.put(pods, {
    ...pod,
    status: { phase: 'Running', podIP: '127.0.0.1', containerStatuses: [running] },
  });
  return { uid: pod.metadata.uid, ...(await scene.reconcile()) };
}

const reason = FailureCode.agentInitialised;
const message = expect.stringContaining('keys that the operator did not give it') as string;

describe('a sandbox whose agent has got keys from another process', () => {
  it.each<[string, () => void]>([
    ['refuses its keys with 400', () => undefined],
    ['refuses its keys with 401', () => (initStatus = 401)],
    ['says that it is ready', () => (state = 'ready')],
  ])('gets another pod at once where the agent %s', async (_how, set) => {
    set();
    putSandbox();
    expect(await connect()).toMatchObject({ phase: 'STARTING', reason });
    expect(await scene.pod()).toBeUndefined();
    const { conditions } = (await scene.sandbox()).status ?? {};
    expect(findCondition(conditions, 'Ready')).toMatchObject({ status: 'False', reason, message });
    expect(scene.events).toContainEqual({ type: 'Warning', reason, message });
    knowsOurs = true;
    expect(await connect()).toMatchObject({ phase: 'RUNNING' });
  });

  it('waits longer for each further pod, and ends in ERROR at its start deadline', async () => {
    putSandbox();
    const first = await connect();
    const second = await connect();
    expect(second).toMatchObject({ phase: 'STARTING', reason, requeueAfterMs: 5_000 });
    expect(second.uid).not.toBe(first.uid);
    expect((await scene.pod())?.metadata.uid).toBe(second.uid);
    await scene.clock.advance(5_000);
    await scene.reconcile();
    expect(await scene.pod()).toBeUndefined();
    expect(await connect()).toMatchObject({ phase: 'STARTING', reason, requeueAfterMs: 10_000 });
    await scene.clock.advance(120_000);
    expect(await scene.reconcile()).toMatchObject({ phase: 'ERROR', reason });
    expect(viewOfSandbox(await scene.sandbox())).toMatchObject({ message });
  });

  it('shows the reason while its new pod starts', async () => {
    putSandbox();
    await connect();
    expect(await scene.reconcile()).toMatchObject({ phase: 'STARTING', reason });
    expect(await scene.pod()).toBeDefined();
    expect(await scene.reconcile()).toMatchObject({ phase: 'STARTING', reason });
  });

  it('keeps the pod whose container has had the keys of the operator', async () => {
    putSandbox({ lastContainerID: 'process://1', agentEpoch: 1 });
    const { uid, ...found } = await connect();
    expect(found).toMatchObject({ phase: 'STARTING', reason: 'AgentSilent' });
    expect((await scene.pod())?.metadata.uid).toBe(uid);
  });
});
