import { newUuid } from '@conversation-operator/base/uuid';
import { startTaskIdOf } from '../../../src/resources/ids.ts';
import { TestGateway, type Answer } from '../../support/gateway/test-gateway.ts';

const bobs = newUuid(Date.now());
const nobodys = newUuid(Date.now());

describe("another owner's ids behave exactly like unknown ones", () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
    await gateway.addConversation(bobs, {
      spec: { owner: 'bob' },
      status: { sandboxName: `sbx-${bobs}` },
    });
    await gateway.addSandbox(`sbx-${bobs}`, { owner: 'bob' });
    await gateway.addKey(`key-${bobs}`, 'bob');
  });
  afterAll(() => gateway.stop());

  const message = { content: [{ type: 'text', text: 'Hello' }] };
  const same = ({ status, json, headers }: Answer) => ({
    status,
    json:
      typeof json === 'object' && json !== null && 'request_id' in json
        ? { ...json, request_id: '' }
        : json,
    headers: Object.keys(headers).sort(),
  });

  // ID is the id of a conversation, TASK that of its start task.
  it.each<[string, string, ...object[]]>([
    ['GET', '/api/v1/app-conversations?ids=ID'],
    ['GET', '/api/v1/app-conversations/start-tasks?ids=TASK'],
    ['GET', '/api/v1/app-conversations/start-tasks/search?conversation_id__eq=ID'],
    ['GET', '/api/v1/app-conversations/search?sandbox_id__eq=sbx-ID'],
    ['PATCH', '/api/v1/app-conversations/ID', { title: 'Mine now' }],
    ['DELETE', '/api/v1/app-conversations/ID'],
    ['POST', '/api/v1/app-conversations/ID/send-message', message],
    ['GET', '/api/v1/conversation/ID/events/search'],
    ['GET', '/api/v1/conversation/ID/events?id=1'],
    ['GET', '/api/v1/conversation/ID/events/count'],
    ['GET', '/api/v1/app-conversations/ID/files?path=/workspace'],
    ['GET', '/api/v1/app-conversations/ID/file?file_path=/workspace/a'],
    ['GET', '/api/v1/app-conversations/ID/file/content?file_path=/workspace/a'],
    ['GET', '/api/v1/app-conversations/ID/git/changes?path=/workspace'],
    ['GET', '/api/v1/app-conversations/ID/git/diff?path=/workspace/a'],
    ['GET', '/api/v1/sandboxes?id=sbx-ID'],
    ['POST', '/api/v1/sandboxes/sbx-ID/pause'],
    ['POST', '/api/v1/sandboxes/sbx-ID/resume'],
    ['POST', '/api/v1/sandboxes/sbx-ID/resume', { run: true }],
    ['DELETE', '/api/v1/sandboxes/sbx-ID'],
    ['POST', '/api/v1/app-conversations', { initial_message: message, sandbox_id: 'sbx-ID' }],
    [
      'POST',
      '/api/v1/app-conversations',
      { initial_message: message, parent_conversation_id: 'ID' },
    ],
    ['GET', '/api/v1/app-conversations/ID/skills'],
    ['DELETE', '/api/keys/key-ID'],
    ['GET', '/api/conversations/ID'],
  ])('%s %s', async (method, target, ...[body]) => {
    const calls: string[] = [];
    gateway.client.fault = ({ verb, plural }) => {
      calls.push(`${verb} ${plural}`);
      return undefined;
    };
    const send = (id: string) => {
      const path = target.replace('ID', id).replace('TASK', startTaskIdOf(id));
      if (body === undefined) return gateway.send(method, path);
      const text = JSON.stringify(body).replace('ID', id);
      return gateway.send(method, path, { body: JSON.parse(text) as unknown });
    };
    const foreign = same(await send(bobs));
    // The same work is done for both, so the time it takes shows nothing either.
    const callsForForeign = calls.splice(0);
    expect(foreign).toEqual(same(await send(nobodys)));
    expect(callsForForeign).toEqual(calls);
    expect(JSON.stringify(foreign)).not.toContain('bob');
  });

  it('nor does the parent of a conversation that kubectl has created show whether it exists', async () => {
    await gateway.addConversation('nightly-of-bob', { spec: { owner: 'bob' } });
    const parents = await Promise.all(
      ['nightly-of-bob', 'nightly-of-no-one'].map(async (parent) => {
        const name = newUuid(Date.now());
        await gateway.addConversation(name, { spec: { parent } });
        const { json } = await gateway.get(`/api/v1/app-conversations?ids=${name}`);
        return (json as readonly { readonly parent_conversation_id: string }[])[0]
          ?.parent_conversation_id;
      }),
    );
    expect(parents).toEqual(['nightly-of-bob', 'nightly-of-no-one']);
  });

  it('nor is another sandbox of the same name that of a conversation whose sandbox is gone', async () => {
    const name = newUuid(Date.now());
    await gateway.addSandbox('shared-name');
    await gateway.addConversation(name, {
      status: {
        start: { status: 'READY', transitions: [] },
        sandboxName: 'shared-name',
        sandboxUID: 'uid-of-the-deleted-one',
      },
    });
    expect((await gateway.get(`/api/v1/app-conversations?ids=${name}`)).json).toMatchObject([
      { sandbox_status: 'MISSING', agent_kind: 'openhands', session_api_key: null },
    ]);
  });
});
