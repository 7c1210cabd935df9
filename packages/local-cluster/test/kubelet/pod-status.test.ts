import type { ContainerRecord } from '../../src/kubelet/container-record.ts';
import {
  phaseOf,
  podStatusOf,
  type Observed,
  type PodStatus,
} from '../../src/kubelet/pod-status.ts';
import type { Pod } from '../../../kube/src/core.ts';
import { aContainer, aPod, aRecord, exited, records, running, started, waiting } from './pods.ts';

const now = '2030-01-01T02:00:00Z';
const observed = (
  pod: Pod,
  list: readonly ContainerRecord[],
  more: Partial<Observed> = {},
): Observed => ({
  pod,
  records: records(...list),
  waiting: new Map(),
  podIP: '127.70.1.2',
  hostIP: '127.0.0.1',
  startTime: started,
  previous: undefined,
  suspended: false,
  now,
  ...more,
});
const conditionOf = (status: PodStatus, type: string) =>
  status.conditions?.find((condition) => condition.type === type);
const last = {
  containerID: 'process://0',
  exitCode: 1,
  reason: 'Error',
  startedAt: started,
  finishedAt: started,
};
const never = aPod({ restartPolicy: 'Never' });
const two = aPod({ containers: [aContainer('main'), aContainer('other')] });

describe('the phase of a pod', () => {
  it.each<{
    sentence: string;
    pod?: Pod;
    list: readonly ContainerRecord[];
    phase: string;
    before?: string;
    suspended?: boolean;
  }>([
    {
      sentence: 'Pending until every container has run',
      pod: two,
      list: [aRecord('main', running()), aRecord('other', waiting())],
      phase: 'Pending',
    },
    {
      sentence: 'Running while one runs',
      pod: two,
      list: [aRecord('main', running()), aRecord('other', exited(1))],
      phase: 'Running',
    },
    { sentence: 'Running in a crash loop', list: [aRecord('main', exited(1))], phase: 'Running' },
    {
      sentence: 'Running while it waits to be started again',
      list: [aRecord('main', waiting(), { ran: true, last })],
      phase: 'Running',
    },
    {
      sentence: 'Succeeded when all have succeeded',
      pod: never,
      list: [aRecord('main', exited(0))],
      phase: 'Succeeded',
    },
    {
      sentence: 'Failed when one has failed for good',
      pod: never,
      list: [aRecord('main', exited(2))],
      phase: 'Failed',
    },
    {
      sentence: 'Failed when an init container has failed for good',
      pod: aPod({ restartPolicy: 'Never', initContainers: [aContainer('first')] }),
      list: [aRecord('first', exited(1)), aRecord('main', waiting())],
      phase: 'Failed',
    },
    {
      sentence: 'Failed for ever',
      pod: never,
      list: [aRecord('main', running())],
      before: 'Failed',
      phase: 'Failed',
    },
    {
      sentence: 'what it was when the node stops',
      pod: never,
      list: [aRecord('main', waiting(), { ran: true, last })],
      before: 'Running',
      suspended: true,
      phase: 'Running',
    },
    {
      sentence: 'Failed when it is deleted and its processes were killed',
      pod: aPod({}, { metadata: { deletionTimestamp: now } }),
      list: [aRecord('main', exited(143))],
      phase: 'Failed',
    },
  ])('is $sentence', ({ pod = aPod(), list, phase, before, suspended = false }) => {
    const previous = before === undefined ? undefined : { phase: before };
    expect(phaseOf(observed(pod, list, { previous, suspended }))).toBe(phase);
  });
});

describe('the status of a pod', () => {
  it('is that of a kubelet for a ready pod', () => {
    const status = podStatusOf(
      observed(aPod(), [aRecord('main', running(), { restarts: 2, last })]),
    );
    expect(status).toMatchObject({
      phase: 'Running',
      podIP: '127.70.1.2',
      podIPs: [{ ip: '127.70.1.2' }],
      hostIP: '127.0.0.1',
      startTime: started,
    });
    expect(status.containerStatuses).toEqual([
      {
        name: 'main',
        image: 'program',
        imageID: 'process://program',
        containerID: 'process://1',
        ready: true,
        started: true,
        restartCount: 2,
        state: { running: { startedAt: started } },
        lastState: { terminated: { ...last } },
      },
    ]);
    for (const type of ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'])
      expect(conditionOf(status, type)?.status).toBe('True');
  });

  it('names the containers that are not ready', () => {
    const status = podStatusOf(
      observed(two, [aRecord('main', running()), aRecord('other', running({ ready: false }))]),
    );
    expect(conditionOf(status, 'Ready')).toMatchObject({
      status: 'False',
      reason: 'ContainersNotReady',
      message: 'containers with unready status: [other]',
    });
  });

  it('shows a crash loop as waiting, with the end of the last run', () => {
    const reason = { reason: 'CrashLoopBackOff', message: 'back-off' };
    const status = podStatusOf(
      observed(aPod(), [aRecord('main', exited(7))], { waiting: new Map([['main', reason]]) }),
    );
    expect(status.containerStatuses?.[0]).toMatchObject({
      state: { waiting: reason },
      lastState: { terminated: { exitCode: 7 } },
      ready: false,
    });
  });

  it('moves the time of a condition only with its status, and keeps the conditions of others', () => {
    const other = { type: 'example.com/other', status: 'False' };
    const pod = aPod({}, { status: { conditions: [other] } });
    const before = podStatusOf(
      observed(pod, [aRecord('main', running({ ready: false }))], { now: started }),
    );
    const status = podStatusOf(observed(pod, [aRecord('main', running())], { previous: before }));
    expect(conditionOf(status, 'PodScheduled')?.lastTransitionTime).toBe(started);
    expect(conditionOf(status, 'ContainersReady')).toMatchObject({
      status: 'True',
      lastTransitionTime: now,
    });
    expect(conditionOf(status, other.type)).toEqual(other);
  });

  it('is the same for the same observations', () => {
    const first = podStatusOf(observed(aPod(), [aRecord('main', running())], { now: started }));
    expect(
      podStatusOf(observed(aPod(), [aRecord('main', running())], { previous: first })),
    ).toEqual(first);
  });
});
