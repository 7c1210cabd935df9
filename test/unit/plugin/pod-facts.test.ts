import { claimLine, podLines } from '../../../src/plugin/pod-facts.ts';
import { aClaim, aContainer, aPod, aRunningPod, aSandbox } from '../../support/builders.ts';

const sandbox = aSandbox();

it.each<readonly [string, ReturnType<typeof aPod>, readonly string[]]>([
  ['runs', aRunningPod(sandbox), ['sbx-1: Running.', 'Container agent is ready.']],
  ...([true, false] as const).map(
    (started) =>
      [
        started ? 'fails its probes' : 'was just started',
        aPod(sandbox, {
          phase: 'Running',
          containerStatuses: [aContainer({ state: { running: {} }, started })],
        }),
        [
          'sbx-1: Running.',
          started
            ? 'Container agent runs, but is not ready.'
            : 'Container agent runs, and no probe of it has succeeded yet.',
        ],
      ] as const,
  ),
  [
    'finds no node',
    aPod(sandbox, {
      phase: 'Pending',
      conditions: [
        {
          type: 'PodScheduled',
          status: 'False',
          reason: 'Unschedulable',
          message: '0/3 nodes are available: 3 Insufficient memory.',
        },
      ],
    }),
    [
      'sbx-1: Pending.',
      'No node takes it: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.',
    ],
  ],
  [
    'can not pull its image',
    aPod(sandbox, {
      phase: 'Pending',
      containerStatuses: [
        aContainer({ state: { waiting: { reason: 'ImagePullBackOff', message: 'not found' } } }),
      ],
    }),
    ['sbx-1: Pending.', 'Container agent waits (ImagePullBackOff: not found).'],
  ],
  [
    'crashes',
    aPod(sandbox, {
      phase: 'Running',
      containerStatuses: [
        aContainer({
          restartCount: 4,
          state: { waiting: { reason: 'CrashLoopBackOff' } },
          lastState: { terminated: { exitCode: 137, reason: 'OOMKilled' } },
        }),
      ],
    }),
    [
      'sbx-1: Running.',
      'Container agent waits (CrashLoopBackOff); before, it ended with exit code 137 (OOMKilled); restarts: 4.',
    ],
  ],
  [
    'has ended and goes',
    aPod(
      sandbox,
      {
        phase: 'Failed',
        reason: 'Evicted',
        message: 'The node was low on memory.',
        containerStatuses: [aContainer({ state: { terminated: { exitCode: 1 } } })],
      },
      { deleting: true },
    ),
    [
      'sbx-1: Failed (Evicted: The node was low on memory.).',
      'Its deletion was requested at 2026-03-01T12:00:00.000Z.',
      'Container agent has ended; ended with exit code 1.',
    ],
  ],
] as const)('a pod that %s says so', (_name, pod, lines) => {
  expect(podLines(pod)).toEqual(lines);
});

it('a claim has its phase, size and class', () => {
  const claim = aClaim(sandbox);
  expect(claimLine(claim)).toBe('sbx-1: Unknown');
  const spec = { storageClassName: 'fast', resources: { requests: { storage: '1Gi' } } };
  expect(claimLine({ ...claim, spec, status: { phase: 'Pending' } })).toBe(
    'sbx-1: Pending, 1Gi, class fast',
  );
});
