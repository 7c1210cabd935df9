import { conversations } from '../../../src/resources/conversation.ts';
import { conversationIdOfStartTask, ownSandboxName } from '../../../src/resources/ids.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const base = '/api/v1/app-conversations';
const running = {
  conditions: ['Admitted', 'Ready'].map((type) => ({
    type,
    status: 'True' as const,
    reason: type,
    message: '',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  })),
};

describe('what was written through one replica', () => {
  let one: TestGateway;
  let other: TestGateway;
  beforeEach(async () => {
    one = await TestGateway.start();
    other = await one.replica();
    await other.fallBehind();
  });
  afterEach(async () => {
    await other.stop();
    await one.stop();
  });

  const start = async () => {
    const { json } = await one.post(base, {
      initial_message: { content: [{ type: 'text', text: 'Hello' }] },
    });
    const { id } = json as { id: string };
    return { taskId: id, conversationId: conversationIdOfStartTask(id) };
  };

  it('is read through another whose caches are behind', async () => {
    const { taskId, conversationId } = await start();
    expect((await other.get(`${base}/start-tasks?ids=${taskId}`)).json).toMatchObject([
      { id: taskId, status: 'WORKING' },
    ]);
    expect((await other.get(`${base}?ids=${conversationId}`)).json).toMatchObject([
      { id: conversationId, sandbox_status: 'STARTING' },
    ]);
    expect((await other.get(`${base}?ids=${conversationId}`, { key: other.bob })).json).toEqual([]);
    expect(
      await other.send('PATCH', `${base}/${conversationId}`, { body: { title: 'New' } }),
    ).toMatchObject({ json: { title: 'New' } });
    const sandbox = (await one.post('/api/v1/sandboxes')).json as { id: string };
    expect((await other.get(`/api/v1/sandboxes?id=${sandbox.id}`)).json).toMatchObject([
      { id: sandbox.id },
    ]);
    expect((await other.post(`/api/v1/sandboxes/${sandbox.id}/pause`)).status).toBe(200);
  });

  it('has its sandbox there too: MISSING is said only of one that is gone', async () => {
    const { taskId, conversationId } = await start();
    const name = ownSandboxName(conversationId);
    await one.addSandbox(name, { status: running });
    const time = '2026-01-01T00:00:00Z';
    await one.setStatus(conversationId, {
      start: { status: 'READY', transitions: [{ status: 'READY', time }] },
      sandboxName: name,
      sandboxStatus: 'RUNNING',
    });
    expect((await other.get(`${base}/start-tasks?ids=${taskId}`)).json).toMatchObject([
      { status: 'READY' },
    ]);
    expect((await other.get(`${base}?ids=${conversationId}`)).json).toMatchObject([
      { sandbox_status: 'RUNNING' },
    ]);
    await one.send('DELETE', `/api/v1/sandboxes/${name}`);
    expect((await other.get(`${base}?ids=${conversationId}`)).json).toMatchObject([
      { sandbox_status: 'MISSING' },
    ]);
  });

  it('is changed by both: tags given replace those that are stored, also those that a cache does not show', async () => {
    const { conversationId } = await start();
    await other.get(`${base}?ids=${conversationId}`);
    await one.send('PATCH', `${base}/${conversationId}`, { body: { tags: { first: '1' } } });
    await Promise.all([
      other.send('PATCH', `${base}/${conversationId}`, { body: { tags: { second: '2' } } }),
      one.send('PATCH', `${base}/${conversationId}`, { body: { title: 'Both' } }),
    ]);
    expect(await one.client.get(conversations, namespace, conversationId)).toMatchObject({
      spec: { title: 'Both' },
    });
    expect((await one.client.get(conversations, namespace, conversationId)).spec.tags).toEqual({
      second: '2',
    });
  });
});
