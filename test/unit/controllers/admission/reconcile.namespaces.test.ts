import { AdmissionScene } from '../../../support/admission-scene.ts';
import { aQuota, aSandbox } from '../../../support/builders.ts';

let scene: AdmissionScene;
beforeEach(() => {
  scene = new AdmissionScene();
});
afterEach(() => scene.stop());

const namespaces = () => [...scene.admission.namespaces];

describe('the cache of admission forgets a namespace', () => {
  it('with its last sandbox', () => {
    const sandbox = aSandbox({ name: 'one' });
    scene.show(sandbox);
    expect(namespaces()).toEqual(['default']);
    scene.admission.forget(sandbox);
    expect(namespaces()).toEqual([]);
  });

  it('once the pod of its last sandbox is gone too', () => {
    const sandbox = aSandbox({ name: 'one', status: { replicas: 1 } });
    scene.show(sandbox);
    scene.admission.forget(sandbox);
    expect(namespaces()).toEqual(['default']);
    for (const orphaned of scene.admission.orphanedBy('default', 'one'))
      scene.admission.removeOrphaned(orphaned);
    expect(namespaces()).toEqual([]);
  });

  it('after the grace of its last quota', async () => {
    const quota = await scene.addQuota(aQuota('default', {}));
    scene.admission.forgetQuota(quota);
    scene.admission.snapshot('default');
    expect(namespaces()).toEqual(['default']);
    await scene.clock.advance(5_000);
    scene.admission.snapshot('default');
    expect(namespaces()).toEqual([]);
  });

  it('that was only asked for', () => {
    scene.admission.snapshot('other');
    expect(namespaces()).toEqual([]);
  });
});
