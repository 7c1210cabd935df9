import {
  runningProgress,
  sandboxStatus,
  type SandboxProgress,
} from '../../../../src/controllers/sandbox/status.ts';
import type { SandboxState } from '../../../../src/resources/sandbox.ts';
import { aSandbox, later, noon } from '../../../support/builders.ts';

const inContainer = (containerID: string): SandboxProgress => ({ ...runningProgress, containerID });
const paused: SandboxProgress = {
  ready: false,
  reason: 'User',
  message: 'Paused by its owner.',
  wanted: false,
};
const waiting: SandboxProgress = {
  ready: false,
  reason: 'WaitingForPod',
  message: 'Waiting for its pod.',
  wanted: true,
};
const ran: SandboxState = { observedGeneration: 1, lastContainerID: 'a', agentEpoch: 1 };

const statusOf = (
  status: SandboxState,
  progress: SandboxProgress,
  {
    replicas = 1,
    generation = 1,
  }: { readonly replicas?: 0 | 1; readonly generation?: number } = {},
) => {
  const sandbox = aSandbox({ replicas, status });
  return sandboxStatus(
    { ...sandbox, metadata: { ...sandbox.metadata, generation } },
    progress,
    noon,
  );
};

describe("the runs of a sandbox's agent", () => {
  it.each<[string, SandboxState, SandboxProgress, number | undefined]>([
    ['are not counted before one has its keys', {}, waiting, undefined],
    ['begin with the first container that has its keys', {}, inContainer('a'), 1],
    ['stay the same in the same container', ran, inContainer('a'), 1],
    ['stay the same while its pod is gone', ran, waiting, 1],
    ['become one more in another container', ran, inContainer('b'), 2],
    [
      'become one more when a pause ends before its container did',
      { ...ran, pauseTime: later(-1000) },
      inContainer('a'),
      2,
    ],
  ])('%s', (_sentence, before, progress, expected) => {
    expect(statusOf(before, progress).agentEpoch).toBe(expected);
  });
});

describe('the name that an agent gives itself', () => {
  const named = { ...ran, agentTitle: 'Reference agent' };
  const saying = (title?: string): SandboxProgress => ({
    ...inContainer('b'),
    introduction: { title },
  });
  it.each<[string, SandboxState, SandboxProgress, string | undefined]>([
    ['is stored when it gets its keys', ran, saying('Reference agent'), 'Reference agent'],
    [
      'stays in another container that has its keys already',
      named,
      inContainer('b'),
      'Reference agent',
    ],
    ['stays while it is paused', named, paused, 'Reference agent'],
    ['goes where the next agent gives none', named, saying(), undefined],
  ])('%s', (_sentence, before, progress, expected) => {
    expect(statusOf(before, progress).agentTitle).toBe(expected);
  });
});

describe('the last pause by its owner', () => {
  it('is in the run that it was paused in', () => {
    expect(statusOf(ran, paused, { replicas: 0, generation: 2 })).toMatchObject({
      lastUserPauseEpoch: 1,
      lastInterruption: { reason: 'User', agentEpoch: 1 },
    });
  });

  it('is known from the generation where no reconcile happened until it was over', () => {
    expect(statusOf(ran, waiting, { generation: 3 }).lastUserPauseEpoch).toBe(1);
    expect(statusOf(ran, inContainer('a'), { generation: 3 })).toMatchObject({
      lastUserPauseEpoch: 1,
      agentEpoch: 2,
    });
  });

  it('is a stop like any other before the sandbox is RUNNING again', () => {
    const stopping: SandboxProgress = {
      ...inContainer('a'),
      ready: false,
      reason: 'WaitingForAgent',
      wanted: false,
    };
    expect(
      statusOf({ ...ran, interruptedConversationIDs: ['c1'] }, stopping, { generation: 3 }),
    ).toMatchObject({
      lastUserPauseEpoch: 1,
      lastInterruption: { reason: 'User', agentEpoch: 1 },
      pauseTime: noon,
      agentEpoch: 1,
      observedGeneration: 3,
    });
    expect(
      statusOf({ ...ran, interruptedConversationIDs: ['c1'] }, stopping, { generation: 3 })
        .interruptedConversationIDs,
    ).toBeUndefined();
  });

  it('is none where the sandbox was resumed only, or is new', () => {
    expect(statusOf(ran, waiting, { generation: 2 }).lastUserPauseEpoch).toBeUndefined();
    expect(statusOf({}, waiting, { generation: 3 }).lastUserPauseEpoch).toBeUndefined();
  });
});

describe('a stop before the agent has ever answered', () => {
  const never: SandboxState = { observedGeneration: 1 };

  it.each<[string, SandboxProgress, { replicas?: 0 | 1; generation?: number }]>([
    ['by its owner', paused, { replicas: 0, generation: 2 }],
    ['that was over before a controller saw it', waiting, { generation: 3 }],
    ['by the quota', { ...paused, reason: 'Quota' }, {}],
    ['while it waits for room', { ...paused, reason: 'WaitingForQuota' }, {}],
  ])('%s is no reason for a run that is lost later', (_sentence, progress, wish) => {
    const status = statusOf(never, progress, wish);
    expect(status).not.toHaveProperty('lastInterruption');
    expect(status).not.toHaveProperty('lastUserPauseEpoch');
  });
});

it('remembers in which of its runs the agent was last lost with its pod', () => {
  const lost = { ...waiting, reason: 'PodEvicted', isDisrupted: true };
  expect(statusOf(ran, lost).lastDisruptionEpoch).toBe(1);
  expect(
    statusOf({ ...ran, agentEpoch: 3, lastDisruptionEpoch: 1 }, waiting).lastDisruptionEpoch,
  ).toBe(1);
  expect(statusOf(ran, waiting)).not.toHaveProperty('lastDisruptionEpoch');
});

describe('the runs that a stop has interrupted', () => {
  it('are known until the next stop', () => {
    const interrupted: SandboxState = {
      ...ran,
      interruptedConversationIDs: ['c1'],
      pauseTime: noon,
    };
    expect(statusOf(interrupted, inContainer('b')).interruptedConversationIDs).toEqual(['c1']);
    expect(statusOf(interrupted, paused, { replicas: 0 }).interruptedConversationIDs).toEqual([
      'c1',
    ]);
    const { pauseTime: _pausedAt, ...resumed } = interrupted;
    expect(statusOf(resumed, paused, { replicas: 0 }).interruptedConversationIDs).toBeUndefined();
  });

  it('stay known over another stop before the agent has run again', () => {
    const { pauseTime: _pausedAt, ...resumed } = statusOf(
      {
        ...ran,
        interruptedConversationIDs: ['c1'],
        pauseTime: noon,
        lastInterruption: { reason: 'User', agentEpoch: 1 },
      },
      paused,
      { replicas: 0 },
    );
    expect(statusOf(resumed, paused, { replicas: 0 }).interruptedConversationIDs).toEqual(['c1']);
    expect(
      statusOf({ ...resumed, agentEpoch: 2 }, paused, { replicas: 0 }).interruptedConversationIDs,
    ).toBeUndefined();
  });

  it('are those that are given', () => {
    expect(
      statusOf({ ...ran, pauseTime: noon }, { ...paused, interrupted: ['c2'] }, { replicas: 0 })
        .interruptedConversationIDs,
    ).toEqual(['c2']);
  });
});

describe('the time since when a sandbox is active', () => {
  const active: SandboxState = { ...ran, activeSinceTime: later(-60_000) };

  it.each<[string, SandboxProgress, number, string | undefined]>([
    ['stays while its pod is replaced', waiting, 1, later(-60_000)],
    ['stays in another container', inContainer('b'), 1, later(-60_000)],
    [
      'ends with a pause that no controller has seen, also where its pod had been lost before',
      waiting,
      3,
      undefined,
    ],
    ['begins anew after such a pause', inContainer('b'), 3, noon],
  ])('%s', (_sentence, progress, generation, expected) => {
    expect(statusOf(active, progress, { generation }).activeSinceTime).toBe(expected);
  });

  it('is paused since its owner took back a resume that waited for room', () => {
    const waiting: SandboxState = {
      ...ran,
      phase: 'STARTING',
      pauseTime: later(-60_000),
      replicas: 0,
    };
    expect(statusOf(waiting, paused, { replicas: 0 }).pauseTime).toBe(noon);
    // The bound of a stop that is under way counts from its begin.
    expect(statusOf({ ...waiting, replicas: 1 }, paused, { replicas: 0 }).pauseTime).toBe(
      later(-60_000),
    );
    expect(statusOf({ ...waiting, phase: 'PAUSED' }, paused, { replicas: 0 }).pauseTime).toBe(
      later(-60_000),
    );
  });
});
