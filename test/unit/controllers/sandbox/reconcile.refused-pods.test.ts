import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { sandboxes } from '../../../../src/resources/sandbox.ts';
import { aClaim, aSandbox, admitted, condition, noon } from '../../../support/builders.ts';
import { SandboxScene, sceneKeys } from '../../../support/sandbox-scene.ts';

/** Reconciles while a node refuses each pod; returns the times in seconds of all creations. */
async function creations(reason: string, seconds: number): Promise<readonly number[]> {
  const scene = new SandboxScene();
  const sandbox = aSandbox({
    status: {
      conditions: [admitted, condition('Ready', 'False', 'PodEvicted')],
      observedGeneration: 1,
      replicas: 1,
      masterKeyId: sceneKeys.currentKeyId,
      agentKind: 'openhands',
      agentEpoch: 3,
      startingSinceTime: noon,
      activeSinceTime: noon,
      lastContainerID: 'process://1',
    },
  });
  scene.client.put(sandboxes, sandbox);
  scene.client.put(persistentVolumeClaims, aClaim(sandbox));
  const times: number[] = [];
  const seen = new Set<string>();
  for (let second = 0; second < seconds; second++) {
    await scene.reconcile();
    const pod = await scene.pod();
    if (pod !== undefined && !seen.has(pod.metadata.uid)) {
      seen.add(pod.metadata.uid);
      times.push(second);
      const creationTimestamp = new Date(scene.clock.now()).toISOString();
      scene.client.put(pods, {
        ...pod,
        metadata: { ...pod.metadata, creationTimestamp },
        status: { phase: 'Failed', reason },
      });
    }
    expect((await scene.reconcile()).phase).toBe('STARTING');
    await scene.clock.advance(1_000);
  }
  return times;
}

it.each(['Evicted', 'NodeShutdown', 'OutOfcpu', 'UnexpectedAdmissionError'])(
  'a sandbox that has run, whose pods a node refuses with %s, gets another one after ever longer, and does not fail',
  async (reason) => {
    const times = await creations(reason, 1_000);
    const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
    // A deletion takes a reconcile of its own, hence the second more.
    for (const [index, minGap] of [5, 10, 20, 40, 80, 160, 300].entries()) {
      expect(gaps[index]).toBeGreaterThanOrEqual(minGap);
      expect(gaps[index]).toBeLessThanOrEqual(minGap + 2);
    }
    expect(times.length).toBeLessThanOrEqual(9);
  },
);
