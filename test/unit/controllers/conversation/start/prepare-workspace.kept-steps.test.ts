import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import { conversations } from '../../../../../src/resources/conversation.ts';
import type { StartStep } from '../../../../../src/resources/conversation-status.ts';
import { sandboxes } from '../../../../../src/resources/sandbox.ts';
import { aConversation, aSandbox, noon } from '../../../../support/builders.ts';
import { ConversationScene } from '../../../../support/conversation-scene.ts';

const agent = new OpenHandsClient();
afterAll(() => agent.close());

it.each([
  ['READY', {}],
  ['ERROR', { errorCode: 'SetupFailed', error: 'The setup failed.' }],
] as const)(
  'keeps the output of the steps of a start that is %s, which its cache does not have',
  async (status, failure) => {
    const step: StartStep = {
      name: 'clone',
      state: 'done',
      startedAt: noon,
      updatedAt: noon,
      endedAt: noon,
      exitCode: 0,
      output: 'Cloning',
    };
    const start = { status, transitions: [{ status, time: noon }], steps: [step], ...failure };
    const scene = new ConversationScene({ agent });
    const { metadata } = scene.client.put(sandboxes, aSandbox({ replicas: 0 }));
    const { name, uid } = metadata;
    const made = aConversation({
      status: { start, sandboxName: name, sandboxUID: uid, sandboxStatus: 'RUNNING' },
    });
    scene.client.put(conversations, made);
    await scene.reconcile(made.metadata.name);
    const stored = (await scene.conversation(made.metadata.name)).status;
    expect(stored?.sandboxStatus).not.toBe('RUNNING');
    expect(stored?.start).toEqual(start);
  },
);
