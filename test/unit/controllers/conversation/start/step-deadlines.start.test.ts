import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import { conversations } from '../../../../../src/resources/conversation.ts';
import {
  resumeRequestedAnnotation,
  sandboxes,
  type SandboxState,
} from '../../../../../src/resources/sandbox.ts';
import {
  aConversation,
  aSandbox,
  admitted,
  condition,
  later,
  noon,
} from '../../../../support/builders.ts';
import { ConversationScene } from '../../../../support/conversation-scene.ts';

const name = '019aa6a65c4d7b1e8f1f2f7f4f3a2b10';
const agent = new OpenHandsClient();
afterAll(() => agent.close());

/** A start that has joined a sandbox in this state. */
function joined(status: SandboxState) {
  const scene = new ConversationScene({ agent });
  const sandbox = aSandbox({ status });
  scene.client.put(sandboxes, sandbox);
  const start = {
    status: 'WAITING_FOR_SANDBOX' as const,
    transitions: [{ status: 'WAITING_FOR_SANDBOX' as const, time: noon }],
  };
  const named = { sandboxName: 'sbx-1', sandboxUID: sandbox.metadata.uid };
  scene.client.put(
    conversations,
    aConversation({ name, spec: { sandboxName: 'sbx-1' }, status: { start, ...named } }),
  );
  return scene;
}
const startOf = async (scene: ConversationScene) => (await scene.conversation(name)).status?.start;

describe('the deadline of a step', () => {
  const silent: SandboxState = {
    conditions: [admitted, condition('Ready', 'False', 'AgentSilent')],
    lastContainerID: 'process://1',
  };

  it.each<[string, number]>([
    ['the clock of the leader jumps ahead', 3_600_000],
    ['the clock of the leader jumps back', -3_600_000],
  ])('comes when its time has passed, also when %s', async (_sentence, jumpMs) => {
    const scene = joined(silent);
    await scene.reconcile(name);
    expect((await startOf(scene))?.deadline).toBe(later(120_000));
    await scene.clock.advance(60_000);
    scene.clock.jumpWallClock(jumpMs);
    expect(await scene.reconcile(name)).toBe(60_001);
    expect((await startOf(scene))?.status).toBe('WAITING_FOR_SANDBOX');
    await scene.clock.advance(60_001);
    await scene.reconcile(name);
    expect(await startOf(scene)).toMatchObject({
      status: 'ERROR',
      errorCode: 'StepDeadlineExceeded',
    });
  });
});

it('comes also for an agent that never answers in a new container of a sandbox that has run', async () => {
  const unanswered: SandboxState = {
    conditions: [admitted, condition('Ready', 'False', 'WaitingForAgent')],
    lastContainerID: 'process://1',
  };
  const scene = joined(unanswered);
  const leftMs = (await scene.reconcile(name)) ?? 0;
  expect(leftMs).toBeGreaterThanOrEqual(120_000);
  await scene.clock.advance(leftMs);
  await scene.reconcile(name);
  expect(await startOf(scene)).toMatchObject({
    status: 'ERROR',
    errorCode: 'StepDeadlineExceeded',
  });
});

it('leaves a first start of a sandbox to the deadline of the sandbox', async () => {
  const scene = joined({ conditions: [admitted, condition('Ready', 'False', 'WaitingForAgent')] });
  await scene.reconcile(name);
  expect((await startOf(scene))?.deadline).toBeUndefined();
});

it('does not end with a failure that its sandbox has come back from, and the cache still shows', async () => {
  const failed = { ...condition('Failed', 'True', 'CrashLoop'), observedGeneration: 1 };
  const scene = joined({ conditions: [admitted, failed], lastContainerID: 'process://1' });
  await scene.refresh();
  await scene.client.mergePatch(sandboxes, 'default', 'sbx-1', {
    metadata: { annotations: { [resumeRequestedAnnotation]: later(1) } },
  });
  await scene.reconcileBehind(name);
  expect((await startOf(scene))?.status).toBe('WAITING_FOR_SANDBOX');
});
