import { randomUUID } from 'node:crypto';
import { apiKeys, type ApiKey } from '../../../src/resources/api-key.ts';
import { conversations, type Conversation } from '../../../src/resources/conversation.ts';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import { openApproval } from '../../support/gateway/open-approval.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const id = '01'.repeat(16);
const sandboxName = 'sbx-1';
const start = { status: 'READY' as const, transitions: [] };
const hello = { content: [{ type: 'text', text: 'Hello' }] };
const conversation = `/api/v1/app-conversations/${id}`;
const sandbox = `/api/v1/sandboxes/${sandboxName}`;

/** Alice's conversation, sandbox and key; the next request finds bob's ones of the same names. */
async function aGateway(replicas: 0 | 1): Promise<TestGateway> {
  const gateway = await TestGateway.start();
  const { client } = gateway;
  const { metadata } = await gateway.addSandbox(sandboxName, { replicas });
  const status = { start, approval: openApproval, sandboxName, sandboxUID: metadata.uid };
  await gateway.addConversation(id, { status });
  await gateway.addKey('key-1', 'alice');
  const [oldConversation, oldSandbox, oldKey] = await stored(gateway);
  client.fault = () => {
    client.fault = () => undefined;
    const sandboxUID = client.put(sandboxes, recreated(oldSandbox)).metadata.uid;
    const conversationOfBob = recreated(oldConversation);
    client.put(conversations, { ...conversationOfBob, status: { ...status, sandboxUID } });
    client.put(apiKeys, recreated(oldKey));
    return undefined;
  };
  return gateway;
}

const recreated = <T extends Conversation | Sandbox | ApiKey>(object: T): T => ({
  ...object,
  metadata: { ...object.metadata, uid: randomUUID() },
  spec: { ...object.spec, owner: 'bob' },
});

const stored = ({ client }: TestGateway) =>
  Promise.all([
    client.get(conversations, namespace, id),
    client.get(sandboxes, namespace, sandboxName),
    client.get(apiKeys, namespace, 'key-1'),
  ]);

describe('an object of another owner under the name of one that the cache shows', () => {
  it.each<[request: string, method: string, path: string, body?: object]>([
    ['a title', 'PATCH', conversation, { title: 'Mine' }],
    ['tags', 'PATCH', conversation, { tags: { mine: 'yes' } }],
    ['a message', 'POST', `${conversation}/send-message`, hello],
    ['an answer', 'POST', `${conversation}/approvals/${openApproval.id}`, { decision: 'approve' }],
    ['the deletion of the conversation', 'DELETE', conversation],
    ['a pause', 'POST', `${sandbox}/pause`],
    ['a resume', 'POST', `${sandbox}/resume`, {}],
    ['a resume of the run', 'POST', `${sandbox}/resume`, { run: true }],
    ['a new session key', 'POST', `${sandbox}/rotate-key`],
    ['the deletion of the sandbox', 'DELETE', sandbox],
    ['a deletion of the key', 'DELETE', '/api/keys/key-1'],
    [
      'a start in the sandbox',
      'POST',
      '/api/v1/app-conversations',
      { initial_message: hello, sandbox_id: sandboxName },
    ],
  ])('is not changed by %s', async (_request, method, path, ...[body]) => {
    for (const replicas of [0, 1] as const) {
      const gateway = await aGateway(replicas);
      const { status } = await gateway.send(method, path, body === undefined ? {} : { body });
      // Never an error that blames the request of the client.
      expect([200, 201, 404, 409]).toContain(status);
      for (const object of await stored(gateway))
        expect(object).toMatchObject({ metadata: { generation: 1 }, spec: { owner: 'bob' } });
      const [, sandboxAfter] = await stored(gateway);
      expect(sandboxAfter.metadata).not.toHaveProperty('annotations');
      await gateway.stop();
    }
  });
});
