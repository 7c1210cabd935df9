import { decideSandbox } from '../../../../src/controllers/sandbox/decide.ts';
import type { ObservedSandbox, SandboxStep } from '../../../../src/controllers/sandbox/scope.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import {
  aClaim,
  aContainer,
  aPod,
  aRunningPod,
  aSandbox,
  aTemplate,
  admitted,
  condition,
  later,
  noon,
  noonMs,
  type SandboxWish,
} from '../../../support/builders.ts';

const starting = aSandbox({ status: { conditions: [admitted], startingSinceTime: noon } });
const connected = aSandbox({
  status: { conditions: [admitted], containerID: 'process://1', podIP: '127.70.0.1' },
});
const paused = aSandbox({
  replicas: 0,
  status: { conditions: [admitted], containerID: 'process://1' },
});
const waitingPod = (sandbox: Sandbox, reason: string, restartCount = 0) =>
  aPod(sandbox, {
    phase: 'Pending',
    containerStatuses: [
      aContainer({
        restartCount,
        state: { waiting: { reason } },
        lastState: { terminated: { exitCode: 3 } },
      }),
    ],
  });

const decide = (observed: Partial<ObservedSandbox>): SandboxStep => {
  const sandbox = observed.sandbox ?? starting;
  const { now = noonMs + 1000 } = observed;
  const { startingSinceTime } = sandbox.status ?? {};
  const startingForMs = startingSinceTime === undefined ? 0 : now - Date.parse(startingSinceTime);
  const found = {
    template: aTemplate(),
    claim: aClaim(sandbox),
    pod: undefined,
    startingForMs,
    bindsInMs: 0,
    replaceInMs: 0,
  };
  return decideSandbox({ ...found, ...observed, now, sandbox });
};

describe('a sandbox that is meant to run', () => {
  const cases: [string, Partial<ObservedSandbox>, Partial<SandboxStep>][] = [
    ['gets its volume first', { claim: undefined }, { kind: 'create-claim' }],
    [
      'waits a moment for the volume to be bound',
      { bindsInMs: 300 },
      { kind: 'wait', reason: 'WaitingForVolume', requeueAfterMs: 300 },
    ],
    ['then gets its pod', {}, { kind: 'create-pod' }],
    [
      'waits for a pod that is on its way',
      { pod: aPod(starting, { phase: 'Pending' }) },
      { kind: 'wait', reason: 'WaitingForPod' },
    ],
    [
      'waits until the pod before has ended',
      { pod: aPod(starting, {}, { deleting: true }) },
      { kind: 'wait', reason: 'WaitingForPod' },
    ],
    [
      'never takes a pod that is not its own',
      { pod: aPod(starting, {}, { foreign: true }) },
      { kind: 'wait', requeueAfterMs: 2000 },
    ],
    [
      'asks the agent once its container runs',
      { pod: aRunningPod(starting) },
      { kind: 'connect-agent', containerID: 'process://1' },
    ],
    [
      'runs once the agent of this container has answered',
      { sandbox: connected, pod: aRunningPod(connected) },
      { kind: 'running' },
    ],
    [
      'asks again when it was resumed while it was being stopped',
      {
        sandbox: aSandbox({ status: { ...connected.status, pauseTime: noon } }),
        pod: aRunningPod(connected),
      },
      { kind: 'connect-agent' },
    ],
    [
      'asks again when it was paused and resumed between two reconciles',
      {
        sandbox: aSandbox({
          status: { ...connected.status, observedGeneration: connected.metadata.generation - 2 },
        }),
        pod: aRunningPod(connected),
      },
      { kind: 'connect-agent' },
    ],
    [
      'asks again after the container restarted',
      { sandbox: connected, pod: aRunningPod(connected, 'process://2') },
      { kind: 'connect-agent' },
    ],
    [
      'replaces a pod that was evicted',
      { pod: aPod(starting, { phase: 'Failed', reason: 'Evicted' }) },
      { kind: 'replace-pod' },
    ],
    [
      'fails at once when its image will never come',
      { pod: waitingPod(starting, 'ImagePullBackOff') },
      { kind: 'fail', code: 'ImagePullFailed' },
    ],
    [
      'gives a pull a second try',
      { pod: waitingPod(starting, 'ErrImagePull') },
      { kind: 'wait', reason: 'ImagePullFailed' },
    ],
    [
      'gives a crash a second try',
      { pod: waitingPod(starting, 'CrashLoopBackOff', 1) },
      { kind: 'wait', reason: 'CrashLoop' },
    ],
    [
      'fails in a crash loop',
      { pod: waitingPod(starting, 'CrashLoopBackOff', 3) },
      { kind: 'fail', code: 'CrashLoop' },
    ],
    [
      'waits a moment for its template',
      { template: undefined },
      { kind: 'wait', reason: 'TemplateNotFound' },
    ],
    [
      'fails without a template',
      { template: undefined, now: noonMs + 5000 },
      { kind: 'fail', code: 'TemplateNotFound' },
    ],
    [
      'keeps running when its template is gone',
      { sandbox: connected, pod: aRunningPod(connected), template: undefined },
      { kind: 'running' },
    ],
    [
      'fails at its deadline',
      { pod: aRunningPod(starting), now: noonMs + 120_000 },
      { kind: 'fail', code: 'StartDeadlineExceeded' },
    ],
    [
      'names what kept it at its deadline',
      {
        now: noonMs + 120_000,
        pod: aPod(starting, {
          phase: 'Pending',
          conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }],
        }),
      },
      { kind: 'fail', code: 'Unschedulable' },
    ],
  ];
  it.each(cases)('%s', (_sentence, observed, expected) => {
    expect(decide(observed)).toMatchObject(expected);
  });
});

/** A pod that has had a minute to be scheduled and started, and its claim. */
const aMinuteOld = (status: Parameters<typeof aPod>[1], more: Parameters<typeof aPod>[2] = {}) => {
  const pod = aPod(ran, status, more);
  return { ...pod, metadata: { ...pod.metadata, creationTimestamp: '2026-03-01T11:59:00Z' } };
};
const ran = aSandbox({
  status: { conditions: [admitted], lastContainerID: 'process://1', startingSinceTime: noon },
});
const inUse = aSandbox({
  status: {
    conditions: [admitted, condition('Ready', 'True', 'Running')],
    lastContainerID: 'process://1',
    containerID: 'process://1',
  },
});
const endsAt = (
  sandbox: Sandbox,
  deletionTimestamp: string,
  status: Parameters<typeof aPod>[1] = {},
) => {
  const pod = aPod(sandbox, status);
  return { ...pod, metadata: { ...pod.metadata, deletionTimestamp } };
};
const refusedWith = (code: string) =>
  aSandbox({
    status: { conditions: [admitted, condition('Ready', 'False', code)], startingSinceTime: noon },
  });
const drained = {
  conditions: [{ type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' }],
};
const lostNode = {
  phase: 'Running',
  podIP: '127.70.0.1',
  conditions: [
    { type: 'Ready', status: 'False' },
    { type: 'ContainersReady', status: 'True' },
  ],
  containerStatuses: [aContainer({ containerID: 'process://1', state: { running: {} } })],
};
const overdue = noonMs + 120_000;
const withoutNode = {
  phase: 'Pending',
  conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }],
};

describe('a sandbox with files', () => {
  const cases: [string, Partial<ObservedSandbox>, Partial<SandboxStep>][] = [
    [
      'is not given up at once for an image that is away',
      { sandbox: ran, pod: waitingPod(ran, 'ImagePullBackOff') },
      { kind: 'wait', reason: 'ImagePullFailed' },
    ],
    [
      'is given up at once in a crash loop',
      { sandbox: ran, pod: waitingPod(ran, 'CrashLoopBackOff', 3) },
      { kind: 'fail', code: 'CrashLoop' },
    ],
    [
      'waits for its template',
      { sandbox: ran, template: undefined, now: noonMs + 10_000 },
      { kind: 'wait', reason: 'TemplateNotFound' },
    ],
    [
      'waits for its node, however long',
      { sandbox: ran, pod: aPod(ran, lostNode), now: noonMs + 3_600_000 },
      { kind: 'wait', reason: 'NodeLost' },
    ],
    [
      'waits for a pod that does not end, however long',
      { sandbox: ran, pod: endsAt(ran, noon), now: noonMs + 3_600_000 },
      { kind: 'wait', reason: 'NodeLost' },
    ],
    [
      'reports that its pod was deleted while it was in use',
      { sandbox: inUse, pod: endsAt(inUse, noon) },
      {
        kind: 'wait',
        reason: 'PodLost',
        message: 'The pod of the sandbox was deleted.',
        requeueAfterMs: 29_000,
      },
    ],
    [
      'reports that its node is drained',
      { sandbox: inUse, pod: endsAt(inUse, noon, drained) },
      { kind: 'wait', reason: 'PodEvicted' },
    ],
    [
      'does not take the end of a pause for a loss',
      { sandbox: ran, pod: endsAt(ran, noon) },
      { kind: 'wait', reason: 'WaitingForPod', message: 'Waiting for the old pod to end.' },
    ],
    [
      'is not running where its node does not answer, whatever the pod says',
      {
        sandbox: { ...inUse, status: { ...inUse.status, podIP: '127.70.0.1' } },
        pod: aPod(inUse, lostNode),
      },
      { kind: 'wait', reason: 'NodeLost' },
    ],
  ];
  it.each(cases)('%s', (_sentence, observed, expected) => {
    expect(decide(observed)).toMatchObject(expected);
  });
});

describe('a sandbox that has run', () => {
  const dayLater = noonMs + 24 * 3_600_000;
  /** One that has shown this reason since noon. */
  const showing = (reason: string) =>
    aSandbox({
      status: {
        ...ran.status,
        conditions: [admitted, condition('Ready', 'False', reason)],
        startingSinceTime: noon,
      },
    });
  const unschedulable = {
    phase: 'Pending',
    conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }],
  };
  const attaching = {
    phase: 'Pending',
    conditions: [
      { type: 'PodScheduled', status: 'True' },
      { type: 'PodReadyToStartContainers', status: 'False' },
    ],
    containerStatuses: [aContainer({ state: { waiting: { reason: 'ContainerCreating' } } })],
  };
  const configError = (message: string) =>
    aPod(ran, {
      phase: 'Pending',
      containerStatuses: [
        aContainer({ state: { waiting: { reason: 'CreateContainerConfigError', message } } }),
      ],
    });

  it.each<[string, string, Partial<ObservedSandbox>]>([
    ['room on the nodes', 'Unschedulable', { pod: aPod(ran, unschedulable) }],
    ['the image registry', 'ImagePullFailed', { pod: waitingPod(ran, 'ImagePullBackOff') }],
    ['the attachment of its volume', 'WaitingForPod', { pod: aPod(ran, attaching) }],
    ['a lost node', 'NodeLost', { pod: aPod(ran, lostNode) }],
    ['a Secret', 'ContainerConfigError', { pod: configError('secret "llm" not found') }],
    ['an agent that does not answer', 'WaitingForAgent', { pod: aRunningPod(ran, 'process://2') }],
    ['a pod of another owner', 'WaitingForPod', { pod: aPod(ran, {}, { foreign: true }) }],
    [
      'a claim of another owner',
      'VolumeNameTaken',
      { claim: { ...aClaim(ran), metadata: { ...aClaim(ran).metadata, ownerReferences: [] } } },
    ],
    [
      'a claim on its way out',
      'WaitingForVolume',
      { claim: { ...aClaim(ran), metadata: { ...aClaim(ran).metadata, deletionTimestamp: noon } } },
    ],
    ...[
      'ResourceQuotaExceeded',
      'ResourcesNotSpecified',
      'LimitRangeViolated',
      'PodSecurityViolated',
      'AdmissionDenied',
      'AdmissionUnavailable',
      'PermissionDenied',
      'NamespaceTerminating',
      'ReferenceNotFound',
      'CreationForbidden',
    ].map((code): [string, string, Partial<ObservedSandbox>] => [
      `what was refused with ${code}`,
      code,
      {},
    ]),
  ])('waits for %s without a deadline', (_sentence, reason, observed) => {
    for (const now of [noonMs + 119_000, overdue, dayLater]) {
      const step = decide({ sandbox: showing(reason), now, ...observed });
      expect(step.kind).not.toBe('fail');
      expect('requeueAfterMs' in step ? step.requeueAfterMs : 1).toBeGreaterThan(0);
    }
  });

  it.each<[string, string, Partial<ObservedSandbox>]>([
    ['without its template', 'TemplateNotFound', { template: undefined }],
    ['with a template that makes no valid pod', 'TemplateInvalid', {}],
    [
      'with an image that runs as root',
      'ContainerConfigError',
      { pod: configError('container has runAsNonRoot and image will run as root') },
    ],
    [
      'with an image name that is none',
      'ImagePullFailed',
      { pod: waitingPod(ran, 'InvalidImageName') },
    ],
    [
      'with a command that can not be started',
      'ContainerStartFailed',
      { pod: waitingPod(ran, 'RunContainerError', 3) },
    ],
    [
      'without its volume',
      'VolumeLost',
      {
        claim: { ...aClaim(ran), status: { phase: 'Lost' } },
        pod: aPod(ran, { phase: 'Pending' }),
      },
    ],
  ])(
    'is in ERROR %s once that has lasted as long as a start may take',
    (_sentence, code, observed) => {
      // The default is all that is known of a template that does not exist.
      const deadline = noonMs + ('template' in observed ? 300_000 : 120_000);
      expect(decide({ sandbox: showing(code), now: deadline - 1, ...observed }).kind).not.toBe(
        'fail',
      );
      expect(decide({ sandbox: showing(code), now: deadline, ...observed })).toMatchObject({
        kind: 'fail',
        code,
      });
      // Something else has kept it until now.
      if (code !== 'TemplateInvalid')
        expect(decide({ sandbox: showing('Unschedulable'), now: deadline, ...observed }).kind).toBe(
          'wait',
        );
    },
  );

  it('is reported when a node has not set up its volume', () => {
    const pod = aPod(ran, attaching);
    const claim = { ...aClaim(ran), status: { phase: 'Bound' } };
    expect(decide({ sandbox: ran, claim, pod, now: noonMs + 30_000 })).toMatchObject({
      message:
        'Waiting for its pod to start: its node could not set up its volumes or its network.',
    });
  });
});

describe('an agent that is lost with its pod', () => {
  const inPod = {
    containerStatuses: [aContainer({ containerID: 'process://1', state: { running: {} } })],
  };
  const silent = aSandbox({
    status: { ...inUse.status, conditions: [admitted, condition('Ready', 'False', 'AgentSilent')] },
  });
  const crashed = aSandbox({
    status: { ...inUse.status, conditions: [admitted, condition('Ready', 'False', 'CrashLoop')] },
  });
  const other = {
    containerStatuses: [aContainer({ containerID: 'process://2', state: { running: {} } })],
  };
  const isDisrupted = (sandbox: Sandbox, pod: ReturnType<typeof aPod>) => {
    const step = decide({ sandbox, pod });
    return 'isDisrupted' in step && step.isDisrupted;
  };

  it.each<[string, boolean, Sandbox, ReturnType<typeof aPod>]>([
    ['by a drain is', true, inUse, endsAt(inUse, noon, { ...drained, ...inPod })],
    ['by a deletion is', true, inUse, endsAt(inUse, noon, inPod)],
    ['after it had fallen silent is', true, silent, endsAt(silent, noon, { ...drained, ...inPod })],
    ['with its node is', true, inUse, aPod(inUse, lostNode)],
    [
      'in the shutdown of its node is',
      true,
      inUse,
      aPod(inUse, { phase: 'Failed', reason: 'NodeShutdown' }),
    ],
    [
      'by an eviction for what it used is not',
      false,
      inUse,
      aPod(inUse, { phase: 'Failed', reason: 'Evicted', message: 'low on resource: memory' }),
    ],
    [
      'after its container had crashed is not',
      false,
      crashed,
      endsAt(crashed, noon, { ...drained, ...inPod }),
    ],
    [
      'after its container had been exchanged is not',
      false,
      inUse,
      endsAt(inUse, noon, { ...drained, ...other }),
    ],
  ])('%s counted as a disruption', (_sentence, expected, sandbox, pod) => {
    expect(isDisrupted(sandbox, pod)).toBe(expected);
  });
});

describe('a first start', () => {
  const cases: [string, Partial<ObservedSandbox>, Partial<SandboxStep>][] = [
    [
      'comes to an end on a lost node',
      { pod: aPod(starting, lostNode), now: overdue },
      { kind: 'fail', code: 'NodeLost' },
    ],
    [
      'comes to an end when its pod does not',
      { pod: endsAt(starting, noon), now: overdue },
      { kind: 'fail', code: 'NodeLost' },
    ],
    [
      'comes to an end when a pod of another owner is in its way',
      { pod: aPod(starting, {}, { foreign: true }), now: overdue },
      { kind: 'fail', code: 'StartDeadlineExceeded' },
    ],
    [
      'is tried again after a refusal',
      { sandbox: refusedWith('ResourceQuotaExceeded') },
      { kind: 'create-pod' },
    ],
    [
      'names the refusal at its deadline',
      { sandbox: refusedWith('ResourceQuotaTooSmall'), now: overdue },
      { kind: 'fail', code: 'ResourceQuotaTooSmall' },
    ],
    [
      'waits past its deadline for room in a resource quota',
      { sandbox: refusedWith('ResourceQuotaExceeded'), now: overdue },
      { kind: 'create-pod' },
    ],
    [
      'waits past its deadline at a scheduling gate',
      {
        pod: aPod(starting, {
          phase: 'Pending',
          conditions: [{ type: 'PodScheduled', status: 'False', reason: 'SchedulingGated' }],
        }),
        now: overdue,
      },
      { kind: 'wait', reason: 'SchedulingGated' },
    ],
    [
      'waits past its deadline for a node that an autoscaler adds',
      { pod: aPod(starting, withoutNode), now: overdue, nodeAddition: 'announced' },
      { kind: 'wait', reason: 'NodeBeingAdded', requeueAfterMs: 60_000 },
    ],
    [
      'names at its deadline that no node has room',
      { pod: aPod(starting, withoutNode), now: overdue, nodeAddition: 'denied' },
      { kind: 'fail', code: 'Unschedulable' },
    ],
    [
      'waits past its deadline until it is known whether a node is added',
      { pod: aPod(starting, withoutNode), now: overdue + 59_000, nodeAddition: 'unknown' },
      { kind: 'wait', reason: 'Unschedulable', requeueAfterMs: 5_000 },
    ],
    [
      'waits for a minute until that is known',
      { pod: aPod(starting, withoutNode), now: overdue + 60_000, nodeAddition: 'unknown' },
      { kind: 'fail', code: 'Unschedulable' },
    ],
    [
      'does not name at its deadline what is over',
      { sandbox: refusedWith('PodEvicted'), now: overdue },
      { kind: 'fail', code: 'StartDeadlineExceeded' },
    ],
    [
      'says what its node has not done',
      {
        claim: { ...aClaim(starting), status: { phase: 'Bound' } },
        pod: aPod(starting, {
          phase: 'Pending',
          conditions: [{ type: 'PodReadyToStartContainers', status: 'False' }],
        }),
        now: overdue,
      },
      {
        kind: 'fail',
        message:
          'The sandbox was not ready within 120 s: its node could not set up its volumes or its network.',
      },
    ],
    [
      'leaves a node that refuses its pod a moment',
      { pod: aPod(starting, { phase: 'Failed', reason: 'OutOfcpu' }), replaceInMs: 4_000 },
      { kind: 'wait', reason: 'PodLost', requeueAfterMs: 4_000 },
    ],
    [
      'then gets another pod',
      { pod: aPod(starting, { phase: 'Failed', reason: 'OutOfcpu' }) },
      { kind: 'replace-pod', reason: 'PodLost', message: 'The pod ended (OutOfcpu).' },
    ],
    [
      'is not given up for crashes before an eviction',
      {
        pod: aPod(starting, {
          phase: 'Failed',
          reason: 'Evicted',
          containerStatuses: [
            aContainer({ restartCount: 3, state: { terminated: { exitCode: 137 } } }),
          ],
        }),
      },
      { kind: 'replace-pod', reason: 'PodEvicted' },
    ],
  ];
  it.each(cases)('%s', (_sentence, observed, expected) => {
    expect(decide(observed)).toMatchObject(expected);
  });
});

describe('a volume claim', () => {
  const bound = aClaim(ran);
  const claim = (metadata: Partial<typeof bound.metadata>, more: Partial<typeof bound> = {}) => ({
    ...bound,
    ...more,
    metadata: { ...bound.metadata, ...metadata },
  });
  const retained = {
    ownerReferences: [],
    annotations: { 'conversation-operator.dev/owner': 'alice' },
  };
  const ofAnotherSandbox = {
    ownerReferences: aClaim(aSandbox({ name: 'earlier' })).metadata.ownerReferences ?? [],
  };
  const unscheduled = aMinuteOld({ phase: 'Pending' });
  const cases: [string, Partial<ObservedSandbox>, Partial<SandboxStep>][] = [
    [
      'that was retained for the same owner is used',
      { claim: claim(retained) },
      { kind: 'create-pod' },
    ],
    [
      'that was retained for another owner never is',
      {
        claim: claim({
          ...retained,
          annotations: { 'conversation-operator.dev/owner': 'mallory' },
        }),
      },
      { kind: 'wait', reason: 'VolumeNameTaken' },
    ],
    [
      'without an owner never is',
      { claim: claim({ ownerReferences: [], annotations: {} }) },
      { kind: 'wait', reason: 'VolumeNameTaken' },
    ],
    [
      'of another owner ends the start at its deadline',
      { claim: claim({ ownerReferences: [] }), now: overdue },
      { kind: 'fail', code: 'VolumeNameTaken' },
    ],
    [
      'of an earlier sandbox of the name is waited for',
      { claim: claim(ofAnotherSandbox) },
      { kind: 'wait', reason: 'WaitingForVolume' },
    ],
    [
      'that is being deleted is waited for',
      { claim: claim({ deletionTimestamp: noon }) },
      { kind: 'wait', reason: 'WaitingForVolume' },
    ],
    [
      'that is being deleted does not matter to a pod that uses it',
      {
        sandbox: connected,
        claim: claim({ deletionTimestamp: noon }),
        pod: aRunningPod(connected),
      },
      { kind: 'running' },
    ],
    [
      'that a late binding class does not provide is reported, with the class',
      {
        sandbox: ran,
        claim: claim({}, { spec: { storageClassName: 'fast' }, status: { phase: 'Pending' } }),
        pod: unscheduled,
      },
      {
        kind: 'wait',
        reason: 'VolumeNotBound',
        message: expect.stringContaining('storage class fast does not exist') as string,
      },
    ],
    [
      'without a class is reported too',
      {
        sandbox: ran,
        claim: claim({}, { spec: {}, status: { phase: 'Pending' } }),
        pod: unscheduled,
      },
      {
        kind: 'wait',
        reason: 'VolumeNotBound',
        message: expect.stringContaining('names no storage class') as string,
      },
    ],
    [
      'that is bound is no trouble',
      { sandbox: ran, claim: claim({}, { status: { phase: 'Bound' } }), pod: unscheduled },
      { kind: 'wait', reason: 'WaitingForPod' },
    ],
    [
      'may take some seconds',
      {
        sandbox: ran,
        claim: claim({}, { status: { phase: 'Pending' } }),
        pod: aPod(ran, { phase: 'Pending' }),
      },
      { kind: 'wait', reason: 'WaitingForPod', requeueAfterMs: 19_000 },
    ],
    [
      'whose volume is gone is reported',
      { sandbox: ran, claim: claim({}, { status: { phase: 'Lost' } }), pod: unscheduled },
      { kind: 'wait', reason: 'VolumeLost' },
    ],
  ];
  it.each(cases)('%s', (_sentence, observed, expected) => {
    expect(decide(observed)).toMatchObject(expected);
  });
});

describe('a claim that the scheduler says is not bound', () => {
  const message = '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.';
  const pod = aPod(starting, {
    phase: 'Pending',
    conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
  });
  const unbound = { ...aClaim(starting), status: { phase: 'Pending' } };
  const bound = { ...aClaim(starting), status: { phase: 'Bound' } };
  const isBinding = {
    kind: 'wait',
    reason: 'WaitingForVolume',
    message: 'Waiting for its volume to be bound.',
  } as const;
  const template = aTemplate();
  const cases: [string, Partial<ObservedSandbox>, Partial<SandboxStep>][] = [
    ['is being bound at first', { claim: unbound }, { ...isBinding, requeueAfterMs: 19_000 }],
    [
      'is being bound until the grace is over',
      { claim: unbound, now: noonMs + 19_999 },
      { ...isBinding, requeueAfterMs: 1 },
    ],
    [
      'is trouble then',
      { claim: unbound, now: noonMs + 20_000 },
      { kind: 'wait', reason: 'VolumeNotBound' },
    ],
    ['that is bound in the meantime is no trouble at first', { claim: bound }, isBinding],
    [
      'that is bound is trouble as long as the scheduler says so',
      { claim: bound, now: noonMs + 20_000 },
      { reason: 'VolumeNotBound' },
    ],
    [
      'that no cache shows yet is being bound',
      { claim: undefined, template: undefined },
      isBinding,
    ],
    [
      'whose volume is gone is trouble at once',
      { claim: { ...unbound, status: { phase: 'Lost' } } },
      { kind: 'wait', reason: 'VolumeLost' },
    ],
    [
      'ends a start at a deadline within the grace, with its own code',
      {
        claim: unbound,
        template: { ...template, spec: { ...template.spec, startDeadline: '5s' } },
        now: noonMs + 5_000,
      },
      { kind: 'fail', code: 'VolumeNotBound' },
    ],
    [
      'is no cluster without room',
      {
        claim: bound,
        pod: aPod(starting, {
          phase: 'Pending',
          conditions: [
            {
              type: 'PodScheduled',
              status: 'False',
              reason: 'Unschedulable',
              message: '0/1 nodes are available: 1 Insufficient cpu.',
            },
          ],
        }),
      },
      { kind: 'wait', reason: 'Unschedulable' },
    ],
  ];
  it.each(cases)('%s', (_sentence, observed, expected) => {
    expect(decide({ pod, ...observed })).toMatchObject(expected);
  });
});

describe('a sandbox that is not meant to run', () => {
  const notAdmitted = aSandbox({
    status: { conditions: [condition('Admitted', 'False', 'WaitingForQuota')] },
  });
  const forgotten = aSandbox({
    replicas: 0,
    status: { conditions: [admitted], lastContainerID: 'process://1', agentEpoch: 1 },
  });
  const failed = aSandbox({
    status: { conditions: [admitted, condition('Failed', 'True', 'CrashLoop')] },
  });
  const cases: [string, Partial<ObservedSandbox>, Partial<SandboxStep>][] = [
    [
      'creates nothing before it is admitted',
      { sandbox: notAdmitted, claim: undefined },
      { kind: 'stopped' },
    ],
    [
      'asks its agent to stop before the pod goes',
      { sandbox: paused, pod: aRunningPod(paused) },
      { kind: 'stop-agent', podIP: '127.70.0.1' },
    ],
    [
      'asks the agent of its last container, although a stale cache has shown no pod meanwhile',
      { sandbox: forgotten, pod: aRunningPod(forgotten) },
      { kind: 'stop-agent', podIP: '127.70.0.1' },
    ],
    [
      'has no agent to ask in a container that it has never connected to',
      { sandbox: forgotten, pod: aRunningPod(forgotten, 'process://2') },
      { kind: 'stop-agent', podIP: undefined },
    ],
    [
      'has no agent to ask while the pod is pending',
      { sandbox: paused, pod: aPod(paused, { phase: 'Pending' }) },
      { kind: 'stop-agent', podIP: undefined },
    ],
    [
      'waits for the pod to end',
      { sandbox: paused, pod: aPod(paused, {}, { deleting: true }) },
      { kind: 'wait', reason: 'User' },
    ],
    ['is stopped when its pod is gone', { sandbox: paused }, { kind: 'stopped' }],
    [
      'leaves a pod of another owner alone',
      { sandbox: paused, pod: aPod(paused, {}, { foreign: true }) },
      { kind: 'stopped' },
    ],
    [
      'gives its pod up once it has failed',
      { sandbox: failed, pod: aRunningPod(failed) },
      { kind: 'stop-agent' },
    ],
    [
      'stays failed, whatever time it is',
      { sandbox: failed, claim: undefined, now: Date.parse(later(1e9)) },
      { kind: 'stopped' },
    ],
  ];
  it.each(cases)('%s', (_sentence, observed, expected) => {
    expect(decide(observed)).toMatchObject(expected);
  });
});

describe('a sandbox that has failed', () => {
  const hasFailed = condition('Failed', 'True', 'CrashLoop');
  const lost = (more: SandboxWish['status'] = {}, replicas: 0 | 1 = 1) =>
    aSandbox({
      replicas,
      status: {
        conditions: [admitted, { ...hasFailed, observedGeneration: 1 }],
        replicas: 0,
        ...more,
      },
    });
  const asked = (sandbox: Sandbox, generation = 1): Sandbox => ({
    ...sandbox,
    metadata: {
      ...sandbox.metadata,
      generation,
      annotations: { 'conversation-operator.dev/resume-requested-at': later(1_000) },
    },
  });
  const lived = { lastContainerID: 'process://1' };

  it.each<[string, Sandbox, SandboxStep['kind']]>([
    ['stays failed while no person asks for it', lost(lived), 'stopped'],
    ['tries again when it is asked for', asked(lost(lived)), 'recover'],
    ['tries again when it was turned off and on', { ...asked(lost(lived), 3) }, 'recover'],
    ['does not when it was turned off', asked(lost(lived, 0), 2), 'stopped'],
    [
      'does not for what was asked before',
      asked(lost({ ...lived, observedResumeRequest: later(1_000) })),
      'stopped',
    ],
    ['does not before its slot is given back', asked(lost({ ...lived, replicas: 1 })), 'stopped'],
    ['loses the volume of a start that has come to nothing', lost(), 'delete-claim'],
    ['does not come back from a start that has come to nothing', asked(lost(), 3), 'delete-claim'],
  ])('%s', (_sentence, sandbox, kind) => {
    expect(decide({ sandbox }).kind).toBe(kind);
  });

  it('keeps a volume that is retained, and takes none twice', () => {
    const claim = aClaim(lost());
    expect(
      decide({
        sandbox: lost(),
        claim: { ...claim, metadata: { ...claim.metadata, ownerReferences: [] } },
      }).kind,
    ).toBe('stopped');
    expect(
      decide({
        sandbox: lost(),
        claim: { ...claim, metadata: { ...claim.metadata, deletionTimestamp: noon } },
      }).kind,
    ).toBe('stopped');
  });
});
