import { AgentError } from '../../../../../src/agent/errors.ts';
import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import { conversations } from '../../../../../src/resources/conversation.ts';
import { sandboxes } from '../../../../../src/resources/sandbox.ts';
import {
  aConversation,
  aSandbox,
  admitted,
  condition,
  noon,
} from '../../../../support/builders.ts';
import { ConversationScene } from '../../../../support/conversation-scene.ts';

const name = '019aa6a65c4d7b1e8f1f2f7f4f3a2b10';
const client = new OpenHandsClient();
afterAll(() => client.close());

/** A start in a sandbox that runs, whose agent answers every call with `answer`. */
function answering(answer: () => Error) {
  const agent = new Proxy(client, { get: () => () => Promise.reject(answer()) });
  const scene = new ConversationScene({ agent });
  const sandbox = aSandbox({
    status: { conditions: [admitted, condition('Ready', 'True', 'Ready')], podIP: '192.0.2.1' },
  });
  scene.client.put(sandboxes, sandbox);
  const status = 'WAITING_FOR_SANDBOX' as const;
  scene.client.put(
    conversations,
    aConversation({
      name,
      spec: { sandboxName: 'sbx-1' },
      status: {
        start: { status, transitions: [{ status, time: noon }] },
        sandboxName: 'sbx-1',
        sandboxUID: sandbox.metadata.uid,
      },
    }),
  );
  return scene;
}
const startOf = async (scene: ConversationScene) => (await scene.conversation(name)).status?.start;

describe('a start whose agent answers', () => {
  it('what nobody can read waits with this reason, says it once, and goes on without it', async () => {
    let error = new AgentError('malformed', 'The agent answered with something unexpected.');
    const scene = answering(() => error);
    for (let attempt = 0; attempt < 3; attempt++) {
      expect(await scene.reconcile(name)).toBeLessThanOrEqual(20_000);
      expect(await startOf(scene)).toMatchObject({
        status: 'PREPARING_REPOSITORY',
        errorCode: 'AgentAnswerInvalid',
        error:
          'The agent is asked again, because its answer can not be used: The agent answered with something unexpected.',
      });
    }
    expect(scene.events.map(({ reason }) => reason)).toEqual(['AgentAnswerInvalid']);
    error = new AgentError('unreachable', 'No connection was made.');
    await scene.reconcile(name);
    expect((await startOf(scene))?.errorCode).toBeUndefined();
  });
});
