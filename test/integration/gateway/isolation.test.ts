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

  const hello = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };
  const same = ({ status, json, headers }: Answer) => ({
    status,
    json:
      typeof json === 'object' && json !== null && 'request_id' in json
        ? { ...json, request_id: '' }
        : json,
    headers: Object.keys(headers).sort(),
  });

  it.each<[string, string, (id: string) => string, ((id: string) => unknown) | undefined]>([
    ['read of a conversation', 'GET', (id) => `/api/v1/app-conversations?ids=${id}`, undefined],
    [
      'read of a start task',
      'GET',
      (id) => `/api/v1/app-conversations/start-tasks?ids=${startTaskIdOf(id)}`,
      undefined,
    ],
    [
      'search for a start task',
      'GET',
      (id) => `/api/v1/app-conversations/start-tasks/search?conversation_id__eq=${id}`,
      undefined,
    ],
    [
      'search by sandbox',
      'GET',
      (id) => `/api/v1/app-conversations/search?sandbox_id__eq=sbx-${id}`,
      undefined,
    ],
    [
      'change of a conversation',
      'PATCH',
      (id) => `/api/v1/app-conversations/${id}`,
      () => ({ title: 'Mine now' }),
    ],
    ['deletion of a conversation', 'DELETE', (id) => `/api/v1/app-conversations/${id}`, undefined],
    [
      'message',
      'POST',
      (id) => `/api/v1/app-conversations/${id}/send-message`,
      () => hello.initial_message,
    ],
    ['search for events', 'GET', (id) => `/api/v1/conversation/${id}/events/search`, undefined],
    ['read of an event', 'GET', (id) => `/api/v1/conversation/${id}/events?id=1`, undefined],
    ['count of events', 'GET', (id) => `/api/v1/conversation/${id}/events/count`, undefined],
    [
      'list of files',
      'GET',
      (id) => `/api/v1/app-conversations/${id}/files?path=/workspace`,
      undefined,
    ],
    [
      'read of a file',
      'GET',
      (id) => `/api/v1/app-conversations/${id}/file?file_path=/workspace/a`,
      undefined,
    ],
    [
      'download of a file',
      'GET',
      (id) => `/api/v1/app-conversations/${id}/file/content?file_path=/workspace/a`,
      undefined,
    ],
    [
      'list of changes',
      'GET',
      (id) => `/api/v1/app-conversations/${id}/git/changes?path=/workspace`,
      undefined,
    ],
    [
      'diff of a file',
      'GET',
      (id) => `/api/v1/app-conversations/${id}/git/diff?path=/workspace/a`,
      undefined,
    ],
    ['read of a sandbox', 'GET', (id) => `/api/v1/sandboxes?id=sbx-${id}`, undefined],
    ['pause of a sandbox', 'POST', (id) => `/api/v1/sandboxes/sbx-${id}/pause`, undefined],
    ['resume of a sandbox', 'POST', (id) => `/api/v1/sandboxes/sbx-${id}/resume`, undefined],
    [
      'resume of a run',
      'POST',
      (id) => `/api/v1/sandboxes/sbx-${id}/resume`,
      () => ({ run: true }),
    ],
    ['deletion of a sandbox', 'DELETE', (id) => `/api/v1/sandboxes/sbx-${id}`, undefined],
    [
      'start that joins a sandbox',
      'POST',
      () => '/api/v1/app-conversations',
      (id) => ({ ...hello, sandbox_id: `sbx-${id}` }),
    ],
    [
      'start below a parent',
      'POST',
      () => '/api/v1/app-conversations',
      (id) => ({ ...hello, parent_conversation_id: id }),
    ],
    [
      'skills of a conversation',
      'GET',
      (id) => `/api/v1/app-conversations/${id}/skills`,
      undefined,
    ],
    ['revocation of a key', 'DELETE', (id) => `/api/keys/key-${id}`, undefined],
    ['legacy read', 'GET', (id) => `/api/conversations/${id}`, undefined],
  ])('%s', async (_case, method, path, body) => {
    const calls: string[] = [];
    gateway.client.fault = ({ verb, plural }) => {
      calls.push(`${verb} ${plural}`);
      return undefined;
    };
    const send = (id: string) =>
      gateway.send(method, path(id), body === undefined ? {} : { body: body(id) });
    const foreign = same(await send(bobs));
    // The same work is done for both, so the time it takes shows nothing either.
    const callsForForeign = calls.splice(0);
    expect(foreign).toEqual(same(await send(nobodys)));
    expect(callsForForeign).toEqual(calls);
    expect(JSON.stringify(foreign)).not.toContain('bob');
  });

  it('and lists and counts show nothing of them', async () => {
    for (const path of [
      'app-conversations/search',
      'app-conversations/start-tasks/search',
      'sandboxes/search',
    ]) {
      expect((await gateway.get(`/api/v1/${path}`)).json).toMatchObject({ items: [] });
      expect((await gateway.get(`/api/v1/${path}`, { key: gateway.bob })).json).toMatchObject({
        items: [{}],
      });
    }
    expect((await gateway.get('/api/v1/app-conversations/count')).json).toBe(0);
  });

  it('while their owner still has them', async () => {
    expect(
      (await gateway.get(`/api/v1/app-conversations?ids=${bobs}`, { key: gateway.bob })).json,
    ).toMatchObject([{ id: bobs, title: 'Say hello.' }]);
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
