import { isTrue } from '../../../../src/resources/conditions.ts';
import { AdmissionScene } from '../../../support/admission-scene.ts';
import { aQuota, condition } from '../../../support/builders.ts';

const limit = 10;
const paused = 100;
const quota = aQuota('everyone', { limit });

let scene: AdmissionScene;
beforeEach(async () => {
  scene = new AdmissionScene();
  await scene.addQuota(quota);
  for (let index = 0; index < paused; index++) {
    const pausedByQuota = { ...condition('Admitted', 'False', 'Quota'), observedGeneration: 1 };
    const status = { replicas: 0, conditions: [pausedByQuota], observedGeneration: 1 };
    await scene.addSandbox(`sandbox-${index}`, { status });
  }
  await scene.clock.advance(60_000);
});
afterEach(() => scene.stop());

async function admitted(): Promise<number> {
  const names = Array.from({ length: paused }, (_, index) => `sandbox-${index}`);
  const stored = await Promise.all(names.map((name) => scene.stored(name)));
  return stored.filter(({ status }) => isTrue(status?.conditions, 'Admitted')).length;
}

it.each([0, 1_000, 30_000, 59_000])(
  'lets none of the sandboxes that it has paused come back when it is made again after %i ms',
  async (ms) => {
    expect(await admitted()).toBe(limit);
    await scene.deleteQuota(quota);
    await scene.clock.advance(ms);
    expect(await admitted()).toBe(limit);
    await scene.addQuota(quota);
    await scene.clock.advance(600_000);
    expect(await admitted()).toBe(limit);
  },
);

it('lets them come back at a bounded rate when it is not made again', async () => {
  await scene.deleteQuota(quota);
  await scene.clock.advance(59_999);
  expect(await admitted()).toBe(limit);
  await scene.clock.advance(10_001);
  expect(await admitted()).toBe(limit + 20);
  await scene.clock.advance(600_000);
  expect(await admitted()).toBe(paused);
});
