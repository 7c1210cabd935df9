import { kubeEvents, pods, type KubeEvent } from '@conversation-operator/kube/core';
import { ApiError } from '@conversation-operator/kube/errors';
import { announcementIn } from '../../../../src/controllers/sandbox/node-additions.ts';
import { sandboxes } from '../../../../src/resources/sandbox.ts';
import { aClaim, aPod, aSandbox, admitted, later, noon } from '../../../support/builders.ts';
import { persistentVolumeClaims } from '@conversation-operator/kube/core';
import { SandboxScene } from '../../../support/sandbox-scene.ts';

const minute = 60_000;

const anEvent = (reason: string, atMs: number, parts: Partial<KubeEvent> = {}): KubeEvent => ({
  apiVersion: 'v1',
  kind: 'Event',
  metadata: {
    name: `${reason}-${atMs}`,
    namespace: 'default',
    uid: `${reason}-${atMs}`,
    resourceVersion: '1',
    creationTimestamp: noon,
  },
  involvedObject: { kind: 'Pod', name: 'sbx-1', namespace: 'default', uid: 'pod-1' },
  reason,
  lastTimestamp: later(atMs),
  ...parts,
});
const withoutTimes = ({ lastTimestamp: _, ...event }: KubeEvent): KubeEvent => event;
const triggered = anEvent('TriggeredScaleUp', minute);

it.each<[string, readonly KubeEvent[], number | undefined]>([
  ['no Event', [], undefined],
  ['Events of the scheduler and a kubelet', [anEvent('FailedScheduling', 0)], undefined],
  ['a scale-up by the cluster autoscaler', [triggered], minute],
  ['a node of Karpenter', [anEvent('Nominated', minute)], minute],
  [
    'the last of several announcements',
    [anEvent('Nominated', 3 * minute), anEvent('Nominated', minute)],
    3 * minute,
  ],
  [
    'a scale-up that has failed since',
    [triggered, anEvent('NotTriggerScaleUp', 2 * minute)],
    undefined,
  ],
  ['a scale-up after none was possible', [anEvent('NotTriggerScaleUp', 0), triggered], minute],
  [
    'a node of Karpenter that can not be had any more',
    [
      anEvent('Nominated', minute),
      anEvent('FailedScheduling', 2 * minute, {
        message: 'Failed to schedule pod, all available instance types exceed limits',
      }),
    ],
    undefined,
  ],
  [
    'a scheduler that tries again meanwhile',
    [
      triggered,
      anEvent('FailedScheduling', 2 * minute, { message: '0/3 nodes are available: 3 full' }),
    ],
    minute,
  ],
  [
    'the time of a repetition',
    [anEvent('Nominated', 0, { series: { count: 2, lastObservedTime: later(4 * minute) } })],
    4 * minute,
  ],
  ['no time but that of the creation', [withoutTimes(anEvent('Nominated', minute))], 0],
  ['a time that is none', [anEvent('Nominated', 0, { lastTimestamp: 'soon' })], undefined],
])('the announcement in the Events about a pod: %s', (_sentence, events, atMs) => {
  expect(announcementIn(events)).toBe(
    atMs === undefined ? undefined : new Date(Date.parse(noon) + atMs).toISOString(),
  );
});

describe('a first start without a node', () => {
  const begin = () => {
    const scene = new SandboxScene();
    const sandbox = aSandbox({ status: { conditions: [admitted], replicas: 1 } });
    scene.client.put(sandboxes, sandbox);
    scene.client.put(persistentVolumeClaims, { ...aClaim(sandbox), status: { phase: 'Bound' } });
    const pod = scene.client.put(
      pods,
      aPod(sandbox, {
        phase: 'Pending',
        conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }],
      }),
    );
    const announce = (event: KubeEvent) =>
      scene.client.put(kubeEvents, {
        ...event,
        involvedObject: { ...event.involvedObject, uid: pod.metadata.uid },
      });
    let reads = 0;
    const readsFail = (error: Error | undefined) => {
      scene.client.fault = ({ verb, plural }) => {
        if (verb !== 'list' || plural !== 'events') return undefined;
        reads += 1;
        return error;
      };
    };
    readsFail(undefined);
    /** Reconciles as the controller asks for that, and returns each reason with its time. */
    const pass = async (forMs: number): Promise<string[]> => {
      const seen: string[] = [];
      const end = scene.clock.now() + forMs;
      for (;;) {
        const { phase, reason, requeueAfterMs = Infinity } = await scene.reconcile();
        const text = `${phase} ${reason}`;
        if (seen.at(-1) !== text) seen.push(text);
        const leftMs = end - scene.clock.now();
        if (leftMs <= 0) return seen;
        await scene.clock.advance(Math.min(leftMs, Math.max(1, requeueAfterMs)));
      }
    };
    return { scene, announce, readsFail, pass, reads: () => reads };
  };

  const refused = new ApiError(403, { reason: 'Forbidden', message: 'no right to list events' });
  const failed = new ApiError(500, { reason: 'InternalError', message: 'etcd' });

  it('ends at its deadline when no autoscaler adds a node, with two reads a minute', async () => {
    const { scene, pass, reads } = begin();
    expect(await pass(2 * minute - 1)).toEqual(['STARTING Unschedulable']);
    // After 10, 40, 70 and 100 s, and at the deadline.
    await scene.reconcile();
    expect(reads()).toBe(4);
    expect((await pass(1)).at(-1)).toBe('ERROR Unschedulable');
    expect(reads()).toBe(5);
  });

  it('waits for a node while an autoscaler adds it, with one read a minute', async () => {
    const { scene, announce, pass, reads } = begin();
    announce(triggered);
    expect(await pass(10 * minute)).toEqual(['STARTING Unschedulable', 'STARTING NodeBeingAdded']);
    await scene.reconcile();
    // After 10 s, and every minute from then on.
    expect(reads()).toBe(10);
    const { status } = await scene.sandbox();
    expect(status?.startingSinceTime).toBeUndefined();
    expect(status?.message).toMatch(/autoscaler is adding one/);
    expect(scene.events.at(-1)).toMatchObject({ type: 'Normal', reason: 'NodeBeingAdded' });
  });

  it('reads a denial again at its deadline', async () => {
    const { announce, pass } = begin();
    announce(anEvent('NotTriggerScaleUp', 0));
    await pass(2 * minute - 1);
    announce(anEvent('TriggeredScaleUp', 2 * minute - 1000));
    expect((await pass(1)).at(-1)).toBe('STARTING NodeBeingAdded');
  });

  it('has its whole deadline once its node has joined', async () => {
    const { scene, announce, pass } = begin();
    announce(anEvent('TriggeredScaleUp', 5_000));
    expect(await pass(minute)).toEqual(['STARTING Unschedulable', 'STARTING NodeBeingAdded']);
    const pod = await scene.pod();
    if (pod !== undefined) scene.client.put(pods, { ...pod, status: { phase: 'Pending' } });
    // The watch shows the controller its own write.
    await scene.reconcile();
    expect(await pass(2 * minute - 1)).toEqual(['STARTING WaitingForPod']);
    expect((await pass(1)).at(-1)).toBe('ERROR StartDeadlineExceeded');
  });

  it('has its deadline again after a node that did not come in 15 minutes, and then ends', async () => {
    const { announce, pass } = begin();
    announce(triggered);
    expect(await pass(25 * minute)).toEqual([
      'STARTING Unschedulable',
      'STARTING NodeBeingAdded',
      'STARTING Unschedulable',
      'ERROR Unschedulable',
    ]);
  });

  it('has its deadline again once the autoscaler says that it adds none', async () => {
    const { announce, pass } = begin();
    announce(triggered);
    await pass(3 * minute);
    announce(anEvent('NotTriggerScaleUp', 4 * minute));
    expect(await pass(2 * minute)).toEqual(['STARTING NodeBeingAdded', 'STARTING Unschedulable']);
    expect((await pass(2 * minute)).at(-1)).toBe('ERROR Unschedulable');
  });

  it('ends at its deadline without the right to read Events', async () => {
    const { announce, readsFail, pass } = begin();
    announce(triggered);
    readsFail(refused);
    expect((await pass(2 * minute)).at(-1)).toBe('ERROR Unschedulable');
  });

  it('does not end while the Events can not be read for a moment', async () => {
    const { announce, readsFail, pass } = begin();
    announce(triggered);
    readsFail(failed);
    expect(await pass(2 * minute + 30_000)).toEqual(['STARTING Unschedulable']);
    readsFail(undefined);
    expect((await pass(10_000)).at(-1)).toBe('STARTING NodeBeingAdded');
  });

  it('ends a minute after its deadline when the Events can not be read', async () => {
    const { announce, readsFail, pass } = begin();
    announce(triggered);
    readsFail(failed);
    expect((await pass(3 * minute - 1)).at(-1)).toBe('STARTING Unschedulable');
    expect((await pass(10_000)).at(-1)).toBe('ERROR Unschedulable');
  });

  it('waits for an announced node, and not for ever, while the Events can not be read', async () => {
    const { announce, readsFail, pass } = begin();
    announce(triggered);
    await pass(3 * minute);
    readsFail(failed);
    expect(await pass(10 * minute)).toEqual(['STARTING NodeBeingAdded']);
    expect((await pass(15 * minute)).at(-1)).toBe('ERROR Unschedulable');
  });
});
