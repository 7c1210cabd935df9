import { OpenHandsClient } from '../../../src/agent/openhands-client.ts';
import { findCondition } from '../../../src/resources/conditions.ts';
import { conversations, type Conversation } from '../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../src/resources/conversation-status.ts';
import { withProjection } from '../../../src/status/conversation-projection.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { viewOfSandbox, withView } from '../../../src/status/sandbox-phase.ts';
import { aConversation, aSandbox, condition, later, noon } from '../../support/builders.ts';
import { ConversationScene } from '../../support/conversation-scene.ts';

const agent = new OpenHandsClient();
afterAll(() => agent.close());

/** A conversation of another operator version: its run is over, its sandbox was paused. */
async function sceneOf(more: (status: ConversationStatus) => ConversationStatus) {
  const scene = new ConversationScene({ agent });
  const { metadata } = scene.client.put(sandboxes, aSandbox({ replicas: 0 }));
  const status: ConversationStatus = {
    start: { status: 'READY', transitions: [{ status: 'READY', time: noon }] },
    observedGeneration: 1,
    sandboxName: metadata.name,
    sandboxUID: metadata.uid,
    sandboxStatus: 'PAUSED',
    sandboxStatusReason: 'User',
    executionStatus: 'finished',
  };
  const made = aConversation({ status: more(status) });
  scene.client.put(conversations, made);
  const stored = () => scene.conversation(made.metadata.name);
  const before = (await stored()).metadata.resourceVersion;
  await scene.reconcile(made.metadata.name);
  return { scene, stored, wrote: async () => (await stored()).metadata.resourceVersion !== before };
}

const typesOf = ({ status }: Conversation): readonly string[] =>
  (status?.conditions ?? []).map(({ type }) => type);
const conversation = aConversation();

describe('a conversation in which nothing has changed', () => {
  it('is not written for the conditions that an earlier version did not have', async () => {
    const finished = condition('Finished', 'True', 'Finished');
    const { wrote, stored } = await sceneOf((status) => ({ ...status, conditions: [finished] }));
    expect(await wrote()).toBe(false);
    expect(typesOf(await stored())).toEqual(['Finished']);
  });

  it('is not written when it has them', async () => {
    const { wrote } = await sceneOf((status) => withProjection(conversation, status, 1, noon));
    expect(await wrote()).toBe(false);
  });

  it('is written once when it is over without the condition Finished, from which its retention counts', async () => {
    const { wrote, stored, scene } = await sceneOf((status) => status);
    expect(await wrote()).toBe(true);
    const { metadata, status } = await stored();
    expect(typesOf(await stored())).toEqual(['Ready', 'Finished', 'Paused']);
    expect(status?.shortTitle).toBe('Say hello.');
    await scene.reconcile(metadata.name);
    expect((await stored()).metadata.resourceVersion).toBe(metadata.resourceVersion);
  });
});

it('a conversation of an earlier version gets all conditions with its next write', async () => {
  const { stored } = await sceneOf((status) => ({
    ...status,
    sandboxStatus: 'RUNNING',
    sandboxStatusReason: 'Running',
    conditions: [condition('Finished', 'True', 'Finished', later(-60_000))],
  }));
  const { status } = await stored();
  expect(status?.sandboxStatus).toBe('PAUSED');
  expect(findCondition(status?.conditions, 'Finished')).toMatchObject({
    status: 'True',
    lastTransitionTime: later(-60_000),
  });
  expect(findCondition(status?.conditions, 'Ready')).toMatchObject({
    status: 'False',
    reason: 'SandboxPaused',
    observedGeneration: 1,
  });
  expect(findCondition(status?.conditions, 'Paused')).toMatchObject({
    status: 'True',
    reason: 'User',
    lastTransitionTime: noon,
  });
});

describe('the condition Paused of a sandbox', () => {
  const admitted = condition('Admitted', 'True', 'Admitted');
  const pausedOf = (before: Parameters<typeof aSandbox>[0], conditions = [admitted]) => {
    const sandbox = aSandbox(before);
    return findCondition(withView(sandbox, { conditions }, later(1000)).conditions, 'Paused');
  };

  it.each(['Quota', 'QuotaExceeded', 'Idle', 'MaxActiveTime'])(
    'is True with the reason %s of its admission',
    (reason) => {
      expect(pausedOf({}, [condition('Admitted', 'False', reason)])).toMatchObject({
        status: 'True',
        reason,
        observedGeneration: 1,
      });
    },
  );

  it('is True with the reason User when its owner has paused it, whatever its admission says', () => {
    for (const status of ['True', 'False'] as const)
      expect(pausedOf({ replicas: 0 }, [condition('Admitted', status, 'Idle')])).toMatchObject({
        status: 'True',
        reason: 'User',
      });
  });

  it.each([
    ['is admitted', [admitted]],
    ['waits for a slot', [condition('Admitted', 'False', 'WaitingForQuota')]],
    ['runs', [admitted, condition('Ready', 'True', 'Running')]],
    [
      'has failed',
      [condition('Admitted', 'False', 'Quota'), condition('Failed', 'True', 'CrashLoop')],
    ],
  ])('is False when it %s', (_name, conditions) => {
    expect(pausedOf({}, conditions)).toMatchObject({ status: 'False', reason: 'NotPaused' });
  });

  it('is True exactly in the phase PAUSED, in every combination of conditions', () => {
    const statuses = ['True', 'False'] as const;
    for (const replicas of [0, 1] as const)
      for (const ofAdmission of statuses)
        for (const reason of [
          'User',
          'Quota',
          'QuotaExceeded',
          'Idle',
          'MaxActiveTime',
          'WaitingForQuota',
          'WaitingForAdmission',
        ])
          for (const ready of statuses)
            for (const failed of [...statuses, undefined]) {
              const conditions = [
                ...[condition('Admitted', ofAdmission, reason), condition('Ready', ready)],
                ...(failed === undefined ? [] : [condition('Failed', failed)]),
              ];
              const { phase } = viewOfSandbox(aSandbox({ replicas, status: { conditions } }));
              expect(pausedOf({ replicas }, conditions)?.status === 'True').toBe(
                phase === 'PAUSED',
              );
            }
  });

  it('is added to a sandbox of an earlier version with the next change of its phase only', () => {
    expect(pausedOf({ status: { phase: 'STARTING' } })).toBeUndefined();
    expect(pausedOf({ status: { phase: 'PAUSED' } })).toMatchObject({ status: 'False' });
  });

  it('keeps its time from one reason to another', () => {
    const before = condition('Paused', 'True', 'Quota');
    expect(pausedOf({ replicas: 0, status: { phase: 'PAUSED' } }, [before])).toMatchObject({
      reason: 'User',
      lastTransitionTime: noon,
    });
    expect(pausedOf({ status: { phase: 'PAUSED' } }, [before])).toMatchObject({
      status: 'False',
      lastTransitionTime: later(1000),
    });
  });
});
