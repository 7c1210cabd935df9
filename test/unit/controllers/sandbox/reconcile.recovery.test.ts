import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import { persistentVolumeClaims, pods, type Pod } from '@conversation-operator/kube/core';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../../../src/status/sandbox-phase.ts';
import {
  aClaim,
  aContainer,
  aPod,
  aSandbox,
  admitted,
  condition,
  later,
  noon,
} from '../../../support/builders.ts';
import { SandboxScene, sceneKeys } from '../../../support/sandbox-scene.ts';

const lived: NonNullable<Sandbox['status']> = {
  conditions: [admitted, condition('Ready', 'False', 'WaitingForAgent')],
  observedGeneration: 1,
  replicas: 1,
  masterKeyId: sceneKeys.currentKeyId,
  agentKind: 'openhands',
  agentEpoch: 1,
  lastContainerID: 'process://1',
  startingSinceTime: noon,
};
const crashes = (pod: Pod): Pod => ({
  ...pod,
  status: {
    phase: 'Running',
    containerStatuses: [
      aContainer({
        restartCount: 3,
        state: { waiting: { reason: 'CrashLoopBackOff' } },
        lastState: { terminated: { exitCode: 1 } },
      }),
    ],
  },
});
const asks = (sandbox: Sandbox, at: string): Sandbox => ({
  ...sandbox,
  metadata: {
    ...sandbox.metadata,
    annotations: { 'conversation-operator.dev/resume-requested-at': at },
  },
});
const agent = new OpenHandsClient();
afterAll(() => agent.close());

let scene: SandboxScene;
beforeEach(() => {
  scene = new SandboxScene({ agent });
  const sandbox = aSandbox({ status: lived });
  scene.client.put(sandboxes, sandbox);
  scene.client.put(persistentVolumeClaims, aClaim(sandbox));
  scene.client.put(pods, crashes(aPod(sandbox, {}, { uid: 'first' })));
});

/** Reconciles as often as the controller asks for it at once. */
async function settle() {
  for (let round = 0; round < 10; round++) {
    const found = await scene.reconcile();
    if (found.requeueAfterMs !== 0) return found;
  }
  throw new Error('the sandbox does not settle');
}
/** The decision of admission once a sandbox has released its slot, and is to get another. */
const release = () =>
  scene.sandbox((sandbox) => ({
    ...sandbox,
    status: withAdmitted(sandbox, 'False', 'WaitingForAdmission'),
  }));
const admit = () =>
  scene.sandbox((sandbox) => ({ ...sandbox, status: withAdmitted(sandbox, 'True', 'Admitted') }));
const withAdmitted = (
  { status }: Sandbox,
  value: 'True' | 'False',
  reason: string,
): NonNullable<Sandbox['status']> => ({
  ...status,
  conditions: [
    condition('Admitted', value, reason),
    ...(status?.conditions ?? []).filter(({ type }) => type !== 'Admitted'),
  ],
});
async function failOnce() {
  expect(await settle()).toMatchObject({ phase: 'ERROR', reason: 'CrashLoop' });
  // Its pod goes, then its slot.
  for (let round = 0; round < 3; round++) await scene.reconcile();
  expect((await scene.sandbox()).status?.replicas).toBe(0);
  await release();
}

it('comes back from a crash loop when a person asks for it, once admission has let it in again', async () => {
  await failOnce();
  expect(await settle()).toMatchObject({ phase: 'ERROR', requeueAfterMs: undefined });
  expect(
    viewOfSandbox(await scene.sandbox((sandbox) => asks(sandbox, later(1_000)))),
  ).toMatchObject({ phase: 'STARTING', reason: 'CrashLoop' });
  expect(await settle()).toMatchObject({
    phase: 'STARTING',
    reason: 'CrashLoop',
    requeueAfterMs: 5_000,
  });
  await scene.clock.advance(5_000);
  expect(await settle()).toMatchObject({ phase: 'STARTING', reason: 'WaitingForAdmission' });
  expect((await scene.sandbox()).status?.conditions?.map(({ type }) => type)).not.toContain(
    'Failed',
  );
  expect(await scene.pod()).toBeUndefined();
  await admit();
  expect(await settle()).toMatchObject({ phase: 'STARTING', reason: 'WaitingForPod' });
  expect(await scene.pod()).toBeDefined();
});

it('waits twice as long each time that a client asks for a sandbox that crashes on', async () => {
  const waits = [];
  for (let attempt = 1; attempt <= 4; attempt++) {
    await failOnce();
    await scene.sandbox((sandbox) => asks(sandbox, later(attempt)));
    const { requeueAfterMs = 0 } = await settle();
    waits.push(requeueAfterMs);
    await scene.clock.advance(requeueAfterMs);
    await settle();
    await admit();
    await settle();
    const pod = await scene.pod();
    if (pod !== undefined) scene.client.put(pods, crashes(pod));
  }
  expect(waits).toEqual([5_000, 10_000, 20_000, 40_000]);
});

it('does not fail a second time for a pod that only its cache still shows', async () => {
  await failOnce();
  await scene.sandbox((sandbox) => asks(sandbox, later(1_000)));
  await scene.clock.advance(5_000);
  await settle();
  const sandbox = await admit();
  scene.stalePod = crashes(aPod(sandbox, {}, { uid: 'first' }));
  expect(await scene.reconcile()).toMatchObject({ phase: 'STARTING' });
});

it('keeps its failure for a first start, also after requests, and loses pod and volume', async () => {
  const { lastContainerID: _never, ...status } = lived;
  await scene.sandbox((sandbox) => ({ ...sandbox, status }));
  await failOnce();
  await scene.sandbox((sandbox) => asks(sandbox, later(1_000)));
  expect(await settle()).toMatchObject({ phase: 'ERROR', reason: 'CrashLoop' });
  expect(await scene.pod()).toBeUndefined();
  expect((await scene.client.list(persistentVolumeClaims)).items).toEqual([]);
});

describe('what an agent that crashes has printed', () => {
  const printing = (message: string, policy = lived) => {
    const sandbox = aSandbox({ status: policy });
    scene.client.put(sandboxes, sandbox);
    const pod = crashes(aPod(sandbox, {}, { uid: 'first' }));
    const status = aContainer({
      restartCount: 3,
      state: { waiting: { reason: 'CrashLoopBackOff' } },
      lastState: { terminated: { exitCode: 1, message } },
    });
    scene.client.put(pods, { ...pod, status: { ...pod.status, containerStatuses: [status] } });
  };
  const { lastContainerID: _never, ...neverRan } = lived;

  it('is in the error of a first start, in one line, without its keys', async () => {
    const key = sceneKeys.bootstrapKey('uid-of-sbx-1', sceneKeys.currentKeyId);
    printing(
      `\u001b[31mTraceback (most recent call last):\u001b[0m\n  KeyError: 'PORT'\nOH_SECRET_KEY=${key}\n`,
      neverRan,
    );
    await settle();
    expect((await scene.sandbox()).status?.message).toBe(
      "The container agent ended 3 times, the last time with exit code 1. The container printed: Traceback (most recent call last): / KeyError: 'PORT' / OH_SECRET_KEY=<redacted>",
    );
  });

  it('is bounded', async () => {
    printing('x'.repeat(4096), neverRan);
    await settle();
    expect((await scene.sandbox()).status?.message?.length).toBeLessThan(1_200);
  });

  it('is not shown once the agent has been given keys of others', async () => {
    printing('sent x-api-key: 0123456789');
    await settle();
    expect((await scene.sandbox()).status?.message).toBe(
      'The container agent ended 3 times, the last time with exit code 1.',
    );
  });
});
