import { sleep } from '@conversation-operator/base/clock';
import { TransportError } from '@conversation-operator/kube/errors';
import { isTrue } from '../../../../src/resources/conditions.ts';
import { pods } from '@conversation-operator/kube/core';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { sandboxes, type SandboxState } from '../../../../src/resources/sandbox.ts';
import { AdmissionScene } from '../../../support/admission-scene.ts';
import { aConversation, aQuota, admitted } from '../../../support/builders.ts';

const running: Partial<SandboxState> = { conditions: [admitted], replicas: 1 };

let scene: AdmissionScene;
let reads: string[];
/** How long the API server takes for a read of a pod. */
let latencyMs: number;
let underWay: number;
let maxUnderWay: number;

beforeEach(() => {
  scene = new AdmissionScene();
  [reads, latencyMs, underWay, maxUnderWay] = [[], 0, 0, 0];
  const { client, clock } = scene;
  const get = client.get.bind(client);
  client.get = async <T extends KubeObject>(
    resource: ResourceDefinition<T>,
    namespace: string,
    name: string,
  ) => {
    if (resource.kind !== pods.kind) return get(resource, namespace, name);
    reads.push(name);
    maxUnderWay = Math.max(maxUnderWay, ++underWay);
    if (latencyMs > 0) await sleep(clock, latencyMs);
    underWay--;
    return get(resource, namespace, name);
  };
});
afterEach(() => scene.stop());

const isAdmitted = async (name: string) =>
  isTrue((await scene.stored(name)).status?.conditions, 'Admitted');

describe('pods that outlive their sandboxes', () => {
  it('keep no decision waiting, and are read for no change of others', async () => {
    latencyMs = 1_000;
    for (let index = 0; index < 50; index++)
      await scene.leavePod(await scene.addSandbox(`old-${index}`, { status: running }), {
        cached: false,
      });
    await scene.addSandbox('new');
    await scene.clock.advance(0);
    expect(await isAdmitted('new')).toBe(true);
    await scene.clock.advance(8_000);
    const before = reads.length;
    for (let change = 0; change < 100; change++)
      scene.admission.observeConversation(aConversation());
    await scene.clock.advance(0);
    expect(reads.length).toBe(before);
    expect(maxUnderWay).toBeLessThanOrEqual(8);
  });

  it('keep their slots', async () => {
    await scene.addQuota(aQuota('everyone', { limit: 1 }));
    await scene.leavePod(await scene.addSandbox('old', { status: running }));
    await scene.addSandbox('new');
    await scene.clock.advance(3_600_000);
    expect(await isAdmitted('new')).toBe(false);
    expect(scene.takenBy('alice')).toBe(1);
  });

  it('give them back as soon as the cache has lost them and the API server has too', async () => {
    await scene.addQuota(aQuota('everyone', { limit: 1 }));
    const pod = await scene.leavePod(await scene.addSandbox('old', { status: running }));
    await scene.addSandbox('new');
    await scene.clock.advance(10_000);
    expect(reads).toEqual([]);
    // A cache that is wrong changes nothing.
    scene.stores.pods.delete('default', 'old');
    scene.reads.podDeleted(pod);
    await scene.clock.advance(0);
    expect(reads).toEqual(['old']);
    expect(await isAdmitted('new')).toBe(false);
    await scene.client.delete(pods, 'default', 'old', { gracePeriodSeconds: 0 });
    scene.reads.podDeleted(pod);
    await scene.clock.advance(500);
    expect(await isAdmitted('new')).toBe(true);
    await scene.clock.advance(3_600_000);
    expect(reads).toEqual(['old', 'old']);
  });

  it('are asked for in ever longer intervals where no cache shows them', async () => {
    await scene.leavePod(await scene.addSandbox('old', { status: running }), { cached: false });
    const after = async (ms: number) => {
      await scene.clock.advance(ms);
      return reads.length;
    };
    expect(await after(0)).toBe(1);
    expect(await after(499)).toBe(1);
    expect(await after(1)).toBe(2);
    expect(await after(1_000)).toBe(3);
    expect(await after(60_000)).toBe(8);
    expect(await after(600_000)).toBe(28);
  });

  it('are asked for all the same when the watch of pods has fallen silent', async () => {
    await scene.leavePod(await scene.addSandbox('old', { status: running }));
    await scene.client.delete(pods, 'default', 'old', { gracePeriodSeconds: 0 });
    await scene.clock.advance(29_000);
    expect(scene.takenBy('alice')).toBe(1);
    await scene.clock.advance(2_000);
    expect(scene.takenBy('alice')).toBe(0);
  });

  it('count as there while their creation may still be executed', async () => {
    const sandbox = await scene.addSandbox('old', { status: running });
    const { podCreations, clock, stores, admission } = scene;
    await podCreations.during(sandbox.metadata.uid, () => {
      podCreations.failed(sandbox.metadata.uid, new TransportError('the answer is lost'));
      return Promise.resolve();
    });
    stores.sandboxes.delete('default', 'old');
    admission.forget(sandbox);
    await clock.advance(9_000);
    expect(reads).toEqual([]);
    expect(scene.takenBy('alice')).toBe(1);
    await clock.advance(2_000);
    expect(scene.takenBy('alice')).toBe(0);
  });

  it('are distinguished by their owners, when a sandbox of the same name came and went', async () => {
    const first = await scene.addSandbox('same', { status: running });
    scene.stores.sandboxes.delete('default', 'same');
    await scene.client.delete(sandboxes, 'default', 'same');
    scene.admission.forget(first);
    const second = await scene.addSandbox('same', { status: running });
    await scene.leavePod(second, { cached: false });
    await scene.clock.advance(1_000);
    expect(scene.takenBy('alice')).toBe(1);
  });
});
