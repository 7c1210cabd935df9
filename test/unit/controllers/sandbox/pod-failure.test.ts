import { podFailure } from '../../../../src/controllers/sandbox/pod-failure.ts';
import type { FailurePolicy, FailureCode } from '../../../../src/controllers/sandbox/failure.ts';
import { aContainer, aPod, aSandbox } from '../../../support/builders.ts';

const sandbox = aSandbox();
type Status = NonNullable<Parameters<typeof aPod>[1]>;
type Container = ReturnType<typeof aContainer>;

const pending = (status: Partial<Container>): Status => ({
  phase: 'Pending',
  containerStatuses: [aContainer(status)],
});
const waiting = (reason: string, message: string, more: Partial<Container> = {}): Status =>
  pending({ state: { waiting: { reason, message } }, ...more });
/** A container in its back-off after runs that ended like this. */
const crashing = (
  restartCount: number,
  terminated: object,
  more: Partial<Container> = {},
): Status =>
  waiting(
    'CrashLoopBackOff',
    'back-off 40s restarting failed container=agent pod=sbx-1_default(0a1b)',
    { restartCount, lastState: { terminated: { exitCode: 1, ...terminated } }, ...more },
  );
const unscheduled = (message: string, reason = 'Unschedulable'): Status => ({
  phase: 'Pending',
  conditions: [{ type: 'PodScheduled', status: 'False', reason, message }],
});

const failures: [string, Status, FailureCode, FailurePolicy, string?][] = [
  [
    'an image that the registry does not have',
    waiting(
      'ImagePullBackOff',
      'Back-off pulling image "agent:1": ErrImagePull: failed to pull and unpack image "docker.io/library/agent:1": failed to resolve reference "docker.io/library/agent:1": docker.io/library/agent:1: not found',
    ),
    'ImagePullFailed',
    'environment',
    'The image agent:1 can',
  ],
  [
    'an image that asks for credentials',
    waiting(
      'ImagePullBackOff',
      'Back-off pulling image "agent:1": ErrImagePull: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed',
    ),
    'ImagePullFailed',
    'environment',
  ],
  [
    'a kubelet before 1.32, which does not say why',
    waiting('ImagePullBackOff', 'Back-off pulling image "agent:1"'),
    'ImagePullFailed',
    'environment',
  ],
  [
    'a pull that has failed once',
    waiting('ErrImagePull', 'rpc error: code = NotFound desc = …'),
    'ImagePullFailed',
    'transient',
  ],
  [
    'a registry that limits its rate',
    waiting(
      'ImagePullBackOff',
      'Back-off pulling image "agent:1": ErrImagePull: failed to copy: httpReadSeeker: failed open: unexpected status code https://registry-1.docker.io/v2/library/agent/manifests/sha256:1: 429 Too Many Requests - Server message: toomanyrequests: You have reached your unauthenticated pull rate limit.',
    ),
    'ImagePullFailed',
    'transient',
  ],
  [
    'a registry that can not be reached',
    waiting(
      'ImagePullBackOff',
      'Back-off pulling image "agent:1": ErrImagePull: failed to pull and unpack image "r.example.com/agent:1": failed to do request: Head "https://r.example.com/v2/agent/manifests/1": dial tcp 192.0.2.7:443: i/o timeout',
    ),
    'ImagePullFailed',
    'transient',
  ],
  [
    'a name server that does not know the registry at the moment',
    waiting(
      'ImagePullBackOff',
      'Back-off pulling image "r/agent:1": ErrImagePull: dial tcp: lookup r.example.com on 10.96.0.10:53: server misbehaving',
    ),
    'ImagePullFailed',
    'transient',
  ],
  [
    'a registry that is down',
    waiting(
      'RegistryUnavailable',
      'image pull failed for agent:1 because the registry is unavailable',
    ),
    'ImagePullFailed',
    'transient',
  ],
  [
    'a name that is none',
    waiting(
      'InvalidImageName',
      'Failed to apply default image tag "Agent:1": couldn\'t parse image name "Agent:1"',
    ),
    'ImagePullFailed',
    'template',
  ],
  [
    'an image that is to be there, and is not',
    waiting(
      'ErrImageNeverPull',
      'Container image "agent:1" is not present with pull policy of Never',
    ),
    'ImagePullFailed',
    'environment',
  ],
  [
    'an image without the signature it needs',
    waiting(
      'SignatureValidationFailed',
      'image pull failed for agent:1 because the signature validation failed',
    ),
    'ImagePullFailed',
    'environment',
  ],
  [
    'a Secret that does not exist',
    waiting('CreateContainerConfigError', 'secret "llm" not found'),
    'ContainerConfigError',
    'environment',
    'Secret, ConfigMap or key',
  ],
  [
    'a key that its ConfigMap lacks',
    waiting('CreateContainerConfigError', "couldn't find key url in ConfigMap default/llm"),
    'ContainerConfigError',
    'environment',
  ],
  [
    'a kubelet whose cache was behind',
    waiting(
      'CreateContainerConfigError',
      'failed to sync secret cache: timed out waiting for the condition',
    ),
    'ContainerConfigError',
    'transient',
  ],
  [
    'an image that runs as root',
    waiting(
      'CreateContainerConfigError',
      'container has runAsNonRoot and image will run as root (pod: "sbx-1_default(0a1b)", container: agent)',
    ),
    'ContainerConfigError',
    'template',
    'not root',
  ],
  [
    'an image whose user has a name only',
    waiting(
      'CreateContainerConfigError',
      'container has runAsNonRoot and image has non-numeric user (node), cannot verify user is non-root (pod: "sbx-1_default(0a1b)", container: agent)',
    ),
    'ContainerConfigError',
    'template',
    'by number',
  ],
  [
    'a Secret whose name is a word of another cause',
    waiting('CreateContainerConfigError', 'secret "supported-models" not found'),
    'ContainerConfigError',
    'environment',
    'names a Secret',
  ],
  [
    'a probe that the node does not know',
    waiting('CreateContainerConfigError', 'only httpGet and tcpSocket probes are supported'),
    'ContainerConfigError',
    'template',
    'only httpGet and tcpSocket probes are supported',
  ],
  [
    'a mount whose path leaves its volume',
    waiting(
      'CreateContainerConfigError',
      'failed to prepare subPath for volumeMount "workspace" of container "agent"',
    ),
    'ContainerConfigError',
    'template',
    'subPath',
  ],
  [
    'a runtime that fails once',
    waiting(
      'CreateContainerError',
      'failed to reserve container name "agent_sbx-1_default_0": name is reserved for "3f"',
    ),
    'ContainerStartFailed',
    'transient',
  ],
  [
    'a command that the image does not have',
    crashing(3, {
      exitCode: 128,
      reason: 'StartError',
      message:
        'failed to create containerd task: runc create failed: exec: "agent-server": executable file not found in $PATH: unknown',
    }),
    'ContainerStartFailed',
    'template',
  ],
  [
    'a first crash',
    crashing(1, { exitCode: 1, reason: 'Error' }),
    'CrashLoop',
    'transient',
    'exit code 1',
  ],
  [
    'a crash loop',
    crashing(3, { exitCode: 2, reason: 'Error' }),
    'CrashLoop',
    'permanent',
    'exit code 2',
  ],
  [
    'an agent that ends well, over and over',
    crashing(3, { exitCode: 0, reason: 'Completed' }),
    'CrashLoop',
    'permanent',
  ],
  [
    'the third crash of a pod that lives for weeks',
    crashing(3, {
      reason: 'Error',
      startedAt: '2026-03-01T09:00:00Z',
      finishedAt: '2026-03-01T11:59:00Z',
    }),
    'CrashLoop',
    'transient',
  ],
  [
    'a third crash after a short run',
    crashing(3, {
      reason: 'Error',
      startedAt: '2026-03-01T11:58:00Z',
      finishedAt: '2026-03-01T11:59:00Z',
    }),
    'CrashLoop',
    'permanent',
  ],
  [
    'an OOM kill that the runtime does not report',
    crashing(3, { exitCode: 137, reason: 'Error' }),
    'CrashLoop',
    'permanent',
    'exit code 137 (killed, maybe for lack of memory)',
  ],
  [
    'a container without enough memory',
    crashing(3, { exitCode: 137, reason: 'OOMKilled' }),
    'OutOfMemory',
    'permanent',
    'ran out of memory',
  ],
  [
    'a run that was killed for its memory, before it is begun anew',
    pending({ restartCount: 1, state: { terminated: { exitCode: 137, reason: 'OOMKilled' } } }),
    'OutOfMemory',
    'transient',
  ],
  [
    'an init container in a loop',
    {
      phase: 'Pending',
      initContainerStatuses: [
        aContainer({
          name: 'prepare',
          restartCount: 4,
          state: { waiting: { reason: 'CrashLoopBackOff' } },
          lastState: { terminated: { exitCode: 1 } },
        }),
      ],
      containerStatuses: [aContainer({ state: { waiting: { reason: 'PodInitializing' } } })],
    },
    'CrashLoop',
    'permanent',
    'container prepare',
  ],
  [
    'a cluster without room',
    unscheduled(
      '0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 Insufficient memory. preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod.',
    ),
    'Unschedulable',
    'transient',
  ],
  [
    'nodes that are all cordoned',
    unscheduled(
      '0/1 nodes are available: 1 node(s) were unschedulable. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.',
    ),
    'Unschedulable',
    'transient',
  ],
  [
    'a volume that only a node without room reaches',
    unscheduled(
      '0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had volume node affinity conflict.',
    ),
    'Unschedulable',
    'transient',
    'reach its volume',
  ],
  [
    'a volume of a class that binds at once, and has not',
    unscheduled(
      '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found.',
    ),
    'VolumeNotBound',
    'transient',
  ],
  [
    "a volume that no node's provisioner has",
    unscheduled(
      "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
    ),
    'VolumeNotBound',
    'transient',
  ],
  [
    'a late binding that has taken too long',
    unscheduled(
      'running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded',
      'SchedulerError',
    ),
    'VolumeNotBound',
    'transient',
  ],
  [
    'a scheduling gate that no controller has removed yet',
    unscheduled('Scheduling is blocked due to non-empty scheduling gates', 'SchedulingGated'),
    'SchedulingGated',
    'waiting',
    'The pod of the sandbox waits at a scheduling gate. The queue or controller that has set it, such as Kueue, has to admit the pod.',
  ],
  [
    'a node that does not answer any more',
    {
      phase: 'Running',
      conditions: [
        { type: 'Ready', status: 'False' },
        { type: 'ContainersReady', status: 'True' },
      ],
      containerStatuses: [aContainer({ ready: true, state: { running: {} } })],
    },
    'NodeLost',
    'transient',
  ],
];

it.each(failures)('%s', (_sentence, status, code, policy, words = '') => {
  const failure = podFailure(aPod(sandbox, status));
  expect(failure).toMatchObject({ code, policy });
  expect(failure?.message).toContain(words);
});

it.each(failures)(
  '%s: nothing of what the cluster says is shown to clients',
  (_sentence, status) => {
    const { message = '' } = podFailure(aPod(sandbox, status)) ?? {};
    expect(message).toMatch(/^[A-Z][^\n]*\.$/);
    expect(message).not.toMatch(
      /rpc error|\d+\.\d+\.\d+\.\d+|https?:|nodes are available|default\(|"|sha256/,
    );
  },
);

describe('no failure is', () => {
  const cases: [string, Status][] = [
    ['a pod that no component has seen', {}],
    ['a container that is being created', waiting('ContainerCreating', '')],
    ['a container that waits for the init containers', waiting('PodInitializing', '')],
    [
      'a container that runs, however often it has crashed',
      pending({ restartCount: 7, state: { running: {} } }),
    ],
    [
      'a first run that has ended, before it is begun anew',
      pending({ state: { terminated: { exitCode: 1 } } }),
    ],
    [
      'an init container that has ended well after it had failed',
      {
        phase: 'Pending',
        initContainerStatuses: [
          aContainer({
            name: 'prepare',
            restartCount: 3,
            state: { terminated: { exitCode: 0, reason: 'Completed' } },
          }),
        ],
      },
    ],
    [
      'a scheduler that has not got to it',
      {
        phase: 'Pending',
        conditions: [{ type: 'PodScheduled', status: 'False', reason: 'SchedulerError' }],
      },
    ],
    [
      'a container that is not ready',
      {
        phase: 'Running',
        conditions: [
          { type: 'Ready', status: 'False', reason: 'ContainersNotReady' },
          { type: 'ContainersReady', status: 'False', reason: 'ContainersNotReady' },
        ],
      },
    ],
  ];
  it.each(cases)('%s', (_sentence, status) => {
    expect(podFailure(aPod(sandbox, status))).toBeUndefined();
  });

  it('a readiness gate of the template', () => {
    const pod = aPod(sandbox, {
      conditions: [
        { type: 'Ready', status: 'False', reason: 'ReadinessGatesNotReady' },
        { type: 'ContainersReady', status: 'True' },
      ],
    });
    expect(
      podFailure({
        ...pod,
        spec: { containers: [], readinessGates: [{ conditionType: 'example.com/ready' }] },
      }),
    ).toBeUndefined();
  });
});

it.each([
  [
    ['kueue.x-k8s.io/admission'],
    'at the scheduling gate kueue.x-k8s.io/admission. The queue or controller that has set it,',
  ],
  // Kueue 0.17 sets two.
  [
    ['kueue.x-k8s.io/admission', 'kueue.x-k8s.io/topology'],
    'at the scheduling gates kueue.x-k8s.io/admission, kueue.x-k8s.io/topology. The queue or controller that has set them,',
  ],
  [['a', 'b', 'c', 'd'], 'at the scheduling gates a, b, c and others.'],
])('a pod behind the gates %j names who has to act', (names, words) => {
  const pod = aPod(sandbox, {
    conditions: [{ type: 'PodScheduled', status: 'False', reason: 'SchedulingGated' }],
  });
  const schedulingGates = names.map((name) => ({ name }));
  expect(podFailure({ ...pod, spec: { containers: [], schedulingGates } })).toMatchObject({
    code: 'SchedulingGated',
    message: expect.stringContaining(words) as unknown,
  });
});

it('a sidecar may not end, though it is an init container', () => {
  const status = aContainer({
    name: 'proxy',
    restartCount: 3,
    state: { terminated: { exitCode: 0, reason: 'Completed' } },
  });
  const pod = aPod(sandbox, { phase: 'Pending', initContainerStatuses: [status] });
  const initContainers = [{ name: 'proxy', image: 'proxy:1', restartPolicy: 'Always' }];
  expect(podFailure({ ...pod, spec: { containers: [], initContainers } })).toMatchObject({
    code: 'CrashLoop',
  });
});
