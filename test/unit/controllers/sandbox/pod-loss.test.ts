import { podLoss } from '../../../../src/controllers/sandbox/pod-loss.ts';
import { aPod, aSandbox } from '../../../support/builders.ts';

type Status = NonNullable<Parameters<typeof aPod>[1]>;

const failed = (reason: string, message = ''): Status => ({ phase: 'Failed', reason, message });
const disrupted = (reason: string, message = ''): Status => ({
  phase: 'Running',
  conditions: [{ type: 'DisruptionTarget', status: 'True', reason, message }],
});

const losses: [string, Status, string, string][] = [
  [
    'a node that is short of memory',
    failed(
      'Evicted',
      'The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. Container agent was using 2Gi, request is 64Mi, has larger consumption of memory. ',
    ),
    'PodEvicted',
    'short of memory',
  ],
  [
    'a container that writes too much',
    failed('Evicted', 'Container agent exceeded its local ephemeral storage limit "1Gi". '),
    'PodEvicted',
    'ephemeral storage',
  ],
  [
    'a pod that writes too much',
    failed(
      'Evicted',
      'Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ',
    ),
    'PodEvicted',
    'ephemeral storage',
  ],
  [
    'a scratch volume that is full',
    failed('Evicted', 'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". '),
    'PodEvicted',
    'ephemeral storage',
  ],
  [
    'a node under pressure of its disk',
    failed('Evicted', 'The node had condition: [DiskPressure]. '),
    'PodEvicted',
    'from its node',
  ],
  [
    'a critical pod that needs the room',
    failed('Preempting', 'Preempted in order to admit critical pod'),
    'PodEvicted',
    'higher priority',
  ],
  [
    'a node that is drained',
    disrupted('EvictionByEvictionAPI', 'Eviction API: evicting'),
    'PodEvicted',
    'being emptied',
  ],
  [
    'a pod of a higher priority',
    disrupted(
      'PreemptionByScheduler',
      'default-scheduler: preempting to accommodate a higher priority pod',
    ),
    'PodEvicted',
    'higher priority',
  ],
  [
    'a node that is out of reach',
    disrupted('DeletionByTaintManager', 'Taint manager: deleting due to NoExecute taint'),
    'NodeLost',
    'node',
  ],
  [
    'a node that is gone',
    disrupted('DeletionByPodGC', 'PodGC: node no longer exists'),
    'NodeLost',
    'does not exist',
  ],
  [
    'a node that shuts down',
    {
      ...failed('Terminated', 'Pod was terminated in response to imminent node shutdown.'),
      conditions: [{ type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet' }],
    },
    'NodeLost',
    'shut down',
  ],
  [
    'a node that shut down, in the words of older kubelets',
    failed('NodeShutdown'),
    'NodeLost',
    'shut down',
  ],
  [
    'a node that refuses the pod',
    failed(
      'OutOfcpu',
      "Node didn't have enough resource: cpu, requested: 2000, used: 3500, capacity: 4000",
    ),
    'PodLost',
    '(OutOfcpu)',
  ],
  [
    'a node that does not fit any more',
    failed('NodeAffinity', 'Predicate NodeAffinity failed'),
    'PodLost',
    '(NodeAffinity)',
  ],
  [
    'a device plugin that fails',
    failed('UnexpectedAdmissionError', 'Allocate failed due to no healthy devices present'),
    'PodLost',
    '(UnexpectedAdmissionError)',
  ],
  [
    'a deadline of the template',
    failed('DeadlineExceeded', 'Pod was active on the node longer than the specified deadline'),
    'PodLost',
    '(DeadlineExceeded)',
  ],
  ['no reason at all', { phase: 'Failed' }, 'PodLost', 'The pod ended.'],
  ['a reason that is no word', failed('see http://10.0.0.1/ <b>'), 'PodLost', 'The pod ended.'],
];

it.each(losses)('%s', (_sentence, status, code, words) => {
  const loss = podLoss(aPod(aSandbox(), status));
  expect(loss.code).toBe(code);
  expect(loss.message).toContain(words);
  expect(loss.message).not.toMatch(/Threshold|Predicate|request is|capacity/);
});

it('a pod that a person deleted', () => {
  expect(podLoss(aPod(aSandbox(), { phase: 'Running' }, { deleting: true }))).toEqual({
    code: 'PodLost',
    message: 'The pod of the sandbox was deleted.',
    isDisruption: true,
  });
});

it.each<[string, Status, boolean]>([
  ['a drained node', disrupted('EvictionByEvictionAPI'), true],
  ['a lost node', disrupted('DeletionByTaintManager'), true],
  ['a node that is gone', disrupted('DeletionByPodGC'), true],
  ['a pod of a higher priority', disrupted('PreemptionByScheduler'), true],
  ['a node that shuts down', failed('NodeShutdown'), true],
  [
    'a node that is short of memory',
    failed('Evicted', 'The node was low on resource: memory.'),
    false,
  ],
  [
    'too much scratch space',
    failed(
      'Evicted',
      'Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ',
    ),
    false,
  ],
  ['an end without a reason', { phase: 'Failed' }, false],
])(
  '%s: is it a disruption, which says nothing against what ran?',
  (_sentence, status, expected) => {
    expect(podLoss(aPod(aSandbox(), status)).isDisruption).toBe(expected);
  },
);
