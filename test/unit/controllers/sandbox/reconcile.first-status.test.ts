import { sandboxes } from '../../../../src/resources/sandbox.ts';
import { aSandbox, admitted } from '../../../support/builders.ts';
import { SandboxScene } from '../../../support/sandbox-scene.ts';

it('leaves the first status of a sandbox to admission, unless admission takes five seconds', async () => {
  const scene = new SandboxScene();
  scene.client.put(sandboxes, aSandbox());
  const created = (await scene.sandbox()).metadata.resourceVersion;
  for (let waitedMs = 0; waitedMs < 4_000; waitedMs += 1_000) {
    expect((await scene.reconcile()).requeueAfterMs).toBe(5_000 - waitedMs);
    await scene.clock.advance(1_000);
  }
  expect((await scene.sandbox()).metadata.resourceVersion).toBe(created);
  await scene.clock.advance(1_000);
  await scene.reconcile();
  expect((await scene.sandbox()).status).toMatchObject({
    phase: 'STARTING',
    reason: 'WaitingForAdmission',
  });
});

it('writes the steps of a start once it has lasted three seconds', async () => {
  const scene = new SandboxScene();
  scene.client.put(sandboxes, aSandbox({ status: { conditions: [admitted] } }));
  await scene.reconcile();
  const { resourceVersion } = (await scene.sandbox()).metadata;
  await scene.clock.advance(2_500);
  await scene.reconcile();
  expect((await scene.sandbox()).metadata.resourceVersion).toBe(resourceVersion);
  await scene.clock.advance(500);
  await scene.reconcile();
  expect((await scene.sandbox()).status).toMatchObject({ reason: 'WaitingForPod' });
});
