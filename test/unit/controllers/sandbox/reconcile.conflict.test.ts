import { OpenHandsClient } from '../../../../src/agent/openhands-client.ts';
import { sandboxes, type Sandbox } from '../../../../src/resources/sandbox.ts';
import { aSandbox, admitted } from '../../../support/builders.ts';
import { SandboxScene } from '../../../support/sandbox-scene.ts';

const agent = new OpenHandsClient();
afterAll(() => agent.close());

let scene: SandboxScene;
beforeEach(() => {
  scene = new SandboxScene({ agent });
  scene.client.put(sandboxes, aSandbox({ status: { conditions: [admitted] } }));
});

const paused = (sandbox: Sandbox): Sandbox => ({
  ...sandbox,
  metadata: { ...sandbox.metadata, generation: 2 },
  spec: { ...sandbox.spec, replicas: 0 },
});

it('decides on what it wrote last, while the cache is behind', async () => {
  await scene.reconcile();
  await expect(scene.reconcileBehind()).resolves.toMatchObject({ phase: 'STARTING' });
});

it('decides on what the API server has after a conflict, while the cache is behind', async () => {
  await scene.reconcile();
  await scene.sandbox(paused);
  await scene.refresh();
  await expect(scene.reconcileBehind()).resolves.toMatchObject({ phase: 'PAUSED', reason: 'User' });
  expect((await scene.sandbox()).status?.observedGeneration).toBe(2);
});
