import {
  afterRun,
  goDuration,
  noBackOff,
  raised,
  recordsFromStatus,
  type ContainerRecord,
} from '../../src/kubelet/container-record.ts';
import { decide, isOver, type Plan } from '../../src/kubelet/decide.ts';
import type { Pod } from '../../../kube/src/core.ts';
import {
  aContainer,
  aPod,
  aRecord,
  exited,
  limits,
  records,
  running,
  waiting,
  waits,
} from './pods.ts';

const nowMs = 1_000_000;
const withInit = aPod({ initContainers: [aContainer('first'), aContainer('second')] });
interface Case {
  readonly sentence: string;
  readonly pod?: Pod;
  readonly records: readonly ContainerRecord[];
  readonly plan: Partial<Plan>;
}

const cases: readonly Case[] = [
  {
    sentence: 'starts a container that has never run',
    records: [aRecord('main', waiting())],
    plan: { start: ['main'] },
  },
  {
    sentence: 'leaves a running container alone',
    records: [aRecord('main', running())],
    plan: { start: [] },
  },
  {
    sentence: 'starts a crashed container again at once',
    records: [aRecord('main', exited(1, nowMs))],
    plan: { start: ['main'] },
  },
  {
    sentence: 'waits for the back-off of a container that keeps crashing',
    records: [aRecord('main', exited(1, nowMs - 4000), waits(10_000))],
    plan: { start: [], nextInMs: 6000 },
  },
  {
    sentence: 'starts it when the back-off is over',
    records: [aRecord('main', exited(1, nowMs - 10_000), waits(10_000))],
    plan: { start: ['main'] },
  },
  {
    sentence: 'restarts a container that has succeeded under Always',
    records: [aRecord('main', exited(0, nowMs))],
    plan: { start: ['main'] },
  },
  {
    sentence: 'does not restart a container that has succeeded under OnFailure',
    pod: aPod({ restartPolicy: 'OnFailure' }),
    records: [aRecord('main', exited(0))],
    plan: { start: [] },
  },
  {
    sentence: 'does not restart a container that has failed under Never',
    pod: aPod({ restartPolicy: 'Never' }),
    records: [aRecord('main', exited(1))],
    plan: { start: [] },
  },
  {
    sentence: 'tries again later what could not be started',
    records: [aRecord('main', waiting('ErrImagePull', nowMs + 3000))],
    plan: { start: [], nextInMs: 3000 },
  },
  {
    sentence: 'starts init containers one after the other',
    pod: withInit,
    records: [
      aRecord('first', waiting()),
      aRecord('second', waiting()),
      aRecord('main', waiting()),
    ],
    plan: { start: ['first'] },
  },
  {
    sentence: 'starts the next init container when the one before has succeeded',
    pod: withInit,
    records: [
      aRecord('first', exited(0)),
      aRecord('second', waiting()),
      aRecord('main', waiting()),
    ],
    plan: { start: ['second'] },
  },
  {
    sentence: 'starts the containers when all init containers have succeeded',
    pod: withInit,
    records: [
      aRecord('first', exited(0)),
      aRecord('second', exited(0)),
      aRecord('main', waiting()),
    ],
    plan: { start: ['main'] },
  },
  {
    sentence: 'restarts a failed init container before anything else',
    pod: withInit,
    records: [
      aRecord('first', exited(1, nowMs)),
      aRecord('second', waiting()),
      aRecord('main', waiting()),
    ],
    plan: { start: ['first'] },
  },
  {
    sentence: 'starts nothing more when an init container has failed under Never',
    pod: aPod({ initContainers: [aContainer('first')], restartPolicy: 'Never' }),
    records: [aRecord('first', exited(1)), aRecord('main', waiting())],
    plan: { start: [] },
  },
];

describe('what a node does next for a pod', () => {
  it.each(cases)('$sentence', ({ pod = aPod(), records: list, plan }) => {
    expect(decide(pod, records(...list), nowMs)).toMatchObject(plan);
  });

  it('says what a container in back-off waits for', () => {
    const { waiting: reasons } = decide(
      aPod(),
      records(aRecord('main', exited(1, nowMs), waits(80_000))),
      nowMs,
    );
    expect(reasons.get('main')).toEqual({
      reason: 'CrashLoopBackOff',
      message: 'back-off 1m20s restarting failed container=main pod=web_default(uid-1)',
    });
  });

  it.each([
    { sentence: 'a pod under Always is never over', policy: 'Always', code: 0, over: false },
    { sentence: 'a success under OnFailure is the end', policy: 'OnFailure', code: 0, over: true },
    { sentence: 'a failure under OnFailure is not', policy: 'OnFailure', code: 1, over: false },
    { sentence: 'any exit under Never is the end', policy: 'Never', code: 1, over: true },
  ])('$sentence', ({ policy, code, over }) => {
    expect(isOver(aPod({ restartPolicy: policy }), records(aRecord('main', exited(code))))).toBe(
      over,
    );
  });
});

describe('the restart back-off', () => {
  it('grows from 10 s to 5 min', () => {
    const delays = [noBackOff];
    for (let restart = 0; restart < 7; restart += 1)
      delays.push(raised(delays.at(-1) ?? noBackOff, limits));
    expect(delays.map((delayMs) => delayMs / 1000)).toEqual([0, 10, 20, 40, 80, 160, 300, 300]);
  });

  it('is forgotten after ten minutes of running', () => {
    expect(afterRun(40_000, 600_000, limits)).toEqual(noBackOff);
    expect(afterRun(40_000, 599_999, limits)).toEqual(40_000);
  });

  it.each([
    [500, '500ms'],
    [10_000, '10s'],
    [80_000, '1m20s'],
    [300_000, '5m0s'],
  ])('%d ms is written %s', (ms, text) => {
    expect(goDuration(ms)).toBe(text);
  });
});

describe('what a node makes of the status an earlier process has left', () => {
  const containerStatus = {
    name: 'main',
    image: 'program',
    imageID: '',
    ready: true,
    restartCount: 3,
    containerID: 'process://9',
  };
  const from = (status: NonNullable<Pod['status']>) =>
    recordsFromStatus(aPod({}, { status }), { iso: '2030-01-01T01:00:00Z', ms: 7 }).get('main');
  const last = { terminated: { exitCode: 1, reason: 'Error', containerID: 'process://8' } };

  it('nothing: the container has never run', () => {
    expect(from({})).toMatchObject({
      ran: false,
      restarts: 0,
      state: { kind: 'waiting', reason: 'ContainerCreating' },
    });
  });

  it('a running container has ended unseen', () => {
    expect(
      from({
        containerStatuses: [
          { ...containerStatus, state: { running: { startedAt: '2030-01-01T00:00:00Z' } } },
        ],
      }),
    ).toMatchObject({
      ran: true,
      restarts: 3,
      state: {
        kind: 'terminated',
        run: { containerID: 'process://9', exitCode: 137, startedAt: '2030-01-01T00:00:00Z' },
        finishedAtMs: 7,
      },
    });
  });

  it('a container in back-off has ended as its last state says', () => {
    const state = { waiting: { reason: 'CrashLoopBackOff' } };
    expect(
      from({ containerStatuses: [{ ...containerStatus, state, lastState: last }] }),
    ).toMatchObject({ ran: true, state: { kind: 'terminated', run: { exitCode: 1 } } });
  });

  it('a container that the node has stopped is started again, whatever its policy', () => {
    const state = { waiting: { reason: 'NodeStopped' } };
    expect(
      from({ containerStatuses: [{ ...containerStatus, state, lastState: last }] }),
    ).toMatchObject({ ran: true, state: { kind: 'waiting' }, last: { exitCode: 1 } });
  });
});
