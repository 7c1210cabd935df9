import { decideSandbox, type ObservedSandbox, type SandboxStep } from '../../../src/controllers/sandbox/decide.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
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
} from '../../support/builders.ts';

const starting = aSandbox({ status: { conditions: [admitted], startingSince: noon } });
const connected = aSandbox({ status: { conditions: [admitted], containerID: 'process://1', podIP: '127.70.0.1' } });
const paused = aSandbox({ replicas: 0, status: { conditions: [admitted], containerID: 'process://1' } });
const waitingPod = (sandbox: Sandbox, reason: string, restartCount = 0) =>
  aPod(sandbox, {
    phase: 'Pending',
    containerStatuses: [aContainer({ restartCount, state: { waiting: { reason } }, lastState: { terminated: { exitCode: 3 } } })],
  });

const decide = (observed: Partial<ObservedSandbox>): SandboxStep => {
  const sandbox = observed.sandbox ?? starting;
  return decideSandbox({ template: aTemplate(), claim: aClaim(sandbox), pod: undefined, now: noonMs + 1000, ...observed, sandbox });
};

describe('a sandbox that is meant to run', () => {
  const cases: [string, Partial<ObservedSandbox>, Partial<SandboxStep>][] = [
    ['gets its volume first', { claim: undefined }, { kind: 'create-claim' }],
    ['then gets its pod', {}, { kind: 'create-pod' }],
    ['waits for a pod that is on its way', { pod: aPod(starting, { phase: 'Pending' }) }, { kind: 'wait', reason: 'WaitingForPod' }],
    ['waits until the pod before has ended', { pod: aPod(starting, {}, { deleting: true }) }, { kind: 'wait', reason: 'WaitingForPod' }],
    ['never takes a pod that is not its own', { pod: aPod(starting, {}, { foreign: true }) }, { kind: 'wait', requeueAfterMs: 2000 }],
    ['asks the agent once its container runs', { pod: aRunningPod(starting) }, { kind: 'connect-agent', containerID: 'process://1' }],
    ['runs once the agent of this container has answered', { sandbox: connected, pod: aRunningPod(connected) }, { kind: 'running' }],
    [
      'asks again when it was resumed while it was being stopped',
      { sandbox: aSandbox({ status: { ...connected.status, pausedAt: noon } }), pod: aRunningPod(connected) },
      { kind: 'connect-agent' },
    ],
    [
      'asks again after the container restarted',
      { sandbox: connected, pod: aRunningPod(connected, 'process://2') },
      { kind: 'connect-agent' },
    ],
    ['replaces a pod that was evicted', { pod: aPod(starting, { phase: 'Failed', reason: 'Evicted' }) }, { kind: 'replace-pod' }],
    [
      'fails at once when its image will never come',
      { pod: waitingPod(starting, 'ImagePullBackOff') },
      { kind: 'fail', code: 'ImagePullFailed' },
    ],
    ['gives a pull a second try', { pod: waitingPod(starting, 'ErrImagePull') }, { kind: 'wait', reason: 'ImagePullFailed' }],
    ['gives a crash a second try', { pod: waitingPod(starting, 'CrashLoopBackOff', 1) }, { kind: 'wait', reason: 'CrashLoop' }],
    ['fails in a crash loop', { pod: waitingPod(starting, 'CrashLoopBackOff', 3) }, { kind: 'fail', code: 'CrashLoop' }],
    ['waits a moment for its template', { template: undefined }, { kind: 'wait', reason: 'TemplateNotFound' }],
    ['fails without a template', { template: undefined, now: noonMs + 5000 }, { kind: 'fail', code: 'TemplateNotFound' }],
    [
      'keeps running when its template is gone',
      { sandbox: connected, pod: aRunningPod(connected), template: undefined },
      { kind: 'running' },
    ],
    ['fails at its deadline', { pod: aRunningPod(starting), now: noonMs + 120_000 }, { kind: 'fail', code: 'StartDeadlineExceeded' }],
    [
      'names what kept it at its deadline',
      {
        now: noonMs + 120_000,
        pod: aPod(starting, { phase: 'Pending', conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }] }),
      },
      { kind: 'fail', code: 'Unschedulable' },
    ],
  ];
  it.each(cases)('%s', (_sentence, observed, expected) => {
    expect(decide(observed)).toMatchObject(expected);
  });
});

it('tells a volume that is not bound from a cluster without room', () => {
  const message = '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.';
  const pod = aPod(starting, {
    phase: 'Pending',
    conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }],
  });
  expect(decide({ pod })).toMatchObject({ kind: 'wait', reason: 'VolumeNotBound' });
});

describe('a sandbox that is not meant to run', () => {
  const notAdmitted = aSandbox({ status: { conditions: [condition('Admitted', 'False', 'WaitingForQuota')] } });
  const failed = aSandbox({ status: { conditions: [admitted, condition('Failed', 'True', 'CrashLoop')] } });
  const cases: [string, Partial<ObservedSandbox>, Partial<SandboxStep>][] = [
    ['creates nothing before it is admitted', { sandbox: notAdmitted, claim: undefined }, { kind: 'stopped' }],
    [
      'asks its agent to stop before the pod goes',
      { sandbox: paused, pod: aRunningPod(paused) },
      { kind: 'stop-agent', podIP: '127.70.0.1' },
    ],
    [
      'has nobody to ask while the pod is pending',
      { sandbox: paused, pod: aPod(paused, { phase: 'Pending' }) },
      { kind: 'stop-agent', podIP: undefined },
    ],
    ['waits for the pod to end', { sandbox: paused, pod: aPod(paused, {}, { deleting: true }) }, { kind: 'wait', reason: 'User' }],
    ['is stopped when its pod is gone', { sandbox: paused }, { kind: 'stopped' }],
    ['leaves a pod of somebody else alone', { sandbox: paused, pod: aPod(paused, {}, { foreign: true }) }, { kind: 'stopped' }],
    ['gives its pod up once it has failed', { sandbox: failed, pod: aRunningPod(failed) }, { kind: 'stop-agent' }],
    ['stays failed, whatever time it is', { sandbox: failed, now: Date.parse(later(1e9)) }, { kind: 'stopped' }],
  ];
  it.each(cases)('%s', (_sentence, observed, expected) => {
    expect(decide(observed)).toMatchObject(expected);
  });
});
