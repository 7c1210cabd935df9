import type { AgentConversation, AgentQuestion } from '../../../../../src/agent/agent.ts';
import { OpenHandsClient } from '../../../../../src/agent/openhands-client.ts';
import { sealingUnder } from '../../../../../src/agent/sealing.ts';
import { conversations } from '../../../../../src/resources/conversation.ts';
import { apiVersion } from '../../../../../src/resources/group.ts';
import { ownerSettings, settingsNameOf } from '../../../../../src/resources/owner-settings.ts';
import { sandboxes } from '../../../../../src/resources/sandbox.ts';
import {
  aConversation,
  admitted,
  aSandbox,
  condition,
  noon,
} from '../../../../support/builders.ts';
import { ConversationScene } from '../../../../support/conversation-scene.ts';
import { sceneKeys } from '../../../../support/sandbox-scene.ts';

const sealing = sealingUnder(sceneKeys);
const owner = 'alice';

/** An agent that asks before one command. */
class AskingAgent extends OpenHandsClient {
  readonly #command: string;

  constructor(command: string) {
    super();
    this.#command = command;
  }

  override conversation(_endpoint: unknown, id: string): Promise<AgentConversation> {
    return Promise.resolve({
      id,
      executionStatus: 'waiting_for_confirmation',
      reportedStatus: '',
      title: undefined,
      updatedAt: noon,
      lastUserMessageId: undefined,
      metrics: undefined,
    });
  }

  override question(): Promise<AgentQuestion> {
    const input = { command: this.#command };
    return Promise.resolve({
      id: 'a.1',
      kind: 'execute',
      options: [],
      callHash: '1',
      isWhole: true,
      calls: [{ tool: 'terminal', kind: 'execute', input, words: undefined }],
    });
  }
}

/** The summary of the question about a command. The owner has secrets and an MCP server. */
async function summaryOf(command: string): Promise<string | undefined> {
  const agent = new AskingAgent(command);
  const scene = new ConversationScene({ agent });
  const { metadata } = scene.client.put(
    sandboxes,
    aSandbox({
      owner,
      status: {
        podIP: '127.0.0.1',
        agentPort: 1,
        agentEpoch: 1,
        observedGeneration: 1,
        conditions: [admitted, condition('Ready', 'True'), condition('AgentReady', 'True')],
      },
    }),
  );
  const secret = (name: string, value: string) => ({
    name,
    updatedTime: noon,
    sealed: sealing.seal(value, { scope: 'secret', owner, name }),
  });
  scene.client.put(ownerSettings, {
    apiVersion,
    kind: 'OwnerSettings',
    metadata: {
      namespace: 'default',
      name: settingsNameOf(owner),
      uid: 'settings',
      resourceVersion: '1',
      generation: 1,
      creationTimestamp: noon,
    },
    spec: {
      owner,
      secrets: [
        secret('TOKEN', 'of-the-owner'),
        secret('LONGER', 'of-the-owner-and-longer'),
        { ...secret('LOST', 'x'), sealed: 'v1.0.lost' },
      ],
      mcpServers: [
        {
          name: 'docs',
          url: 'https://docs.example/mcp',
          sealed: sealing.seal('{"authorization":"Bearer of-the-server"}', {
            scope: 'mcp',
            owner,
            name: 'docs',
          }),
        },
      ],
    },
  });
  const made = aConversation({
    spec: { owner },
    status: {
      start: { status: 'READY', transitions: [{ status: 'READY', time: noon }] },
      observedGeneration: 1,
      sandboxName: metadata.name,
      sandboxUID: metadata.uid,
    },
  });
  const { name } = made.metadata;
  const sealed = sealing.seal('of-the-start', {
    scope: 'start',
    owner,
    conversation: name,
    name: 'PIN',
  });
  scene.client.put(conversations, {
    ...made,
    spec: { ...made.spec, secrets: [{ name: 'PIN', sealed }] },
  });
  // The poll waits a moment for others of the same agent.
  const reconciled = scene.reconcile(name);
  await scene.clock.advance(1_000);
  await reconciled;
  await agent.close();
  return (await scene.conversation(name)).status?.approval?.summary;
}

it.each([
  ['a secret of the owner', 'of-the-owner', 'TOKEN'],
  ['a secret that contains another one', 'of-the-owner-and-longer', 'LONGER'],
  ['a secret of the start', 'of-the-start', 'PIN'],
  [
    'a header of an MCP server, without its scheme',
    'of-the-server',
    'authorization of docs, token',
  ],
])('A question shows the name of %s', async (_what, value, name) => {
  expect(await summaryOf(`curl -u me:${value} https://example.com`)).toBe(
    `Call 1 of 1: terminal\ncommand: curl -u me:⟨secret ${name}⟩ https://example.com`,
  );
});

it('A question without secrets is shown as it is', async () => {
  expect(await summaryOf('echo owner')).toBe('Call 1 of 1: terminal\ncommand: echo owner');
});
