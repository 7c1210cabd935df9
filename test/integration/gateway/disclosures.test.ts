import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';

const hourMs = 60 * 60 * 1000;
let aheadMs = 0;
const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() + aheadMs };

let agent: StubAgent;
let gateway: TestGateway;
beforeEach(async () => {
  aheadMs = 0;
  agent = await StubAgent.start();
  gateway = await TestGateway.start({ clock, trustedProxies: ['loopback'] });
});
afterEach(async () => {
  await gateway.stop();
  await agent.stop();
});

const aSandbox = (name: string) => gateway.addSandbox(name, { status: agent.status });
const lines = () =>
  gateway.log.filter(({ message }) => message === 'SessionKeyRead').map(({ fields }) => fields);
/** The lines that a request has left. */
const linesOf = async (path: string, id: string, key = gateway.alice, method = 'GET') => {
  const before = lines().length;
  await gateway.send(method, path, {
    key,
    headers: { 'x-request-id': id, 'x-forwarded-for': '198.51.100.7' },
  });
  await eventually('the request is over', () =>
    gateway.log.some(({ message, fields }) => message === 'Request' && fields['requestId'] === id),
  );
  return lines().slice(before);
};

describe('a read that shows session keys', () => {
  it('leaves one line with who, what, from where and the sandboxes, and no key', async () => {
    await aSandbox('sbx-1');
    await aSandbox('sbx-2');
    await gateway.addConversation('0'.repeat(32), { status: { sandboxName: 'sbx-2' } });
    expect(await linesOf('/api/v1/sandboxes/search', 'one')).toMatchObject([
      {
        requestId: 'one',
        action: 'searchSandboxes',
        owner: 'alice',
        key: expect.stringMatching(/^key-/) as string,
        client: '198.51.100.7',
        sandboxes: expect.arrayContaining(['sbx-1', 'sbx-2']) as string[],
        status: 200,
      },
    ]);
    const { text } = await gateway.get('/api/v1/sandboxes?id=sbx-1');
    const [key = 'none'] = /[A-Za-z0-9_-]{59}/.exec(text) ?? [];
    expect(text).toContain(key);
    expect(JSON.stringify(gateway.log)).not.toContain(key);
  });

  it('is recorded once an hour for each key and sandbox', async () => {
    await aSandbox('sbx-1');
    expect(await linesOf('/api/v1/sandboxes/search', 'a')).toHaveLength(1);
    for (const id of ['b', 'c'])
      expect(await linesOf('/api/v1/sandboxes?id=sbx-1', id)).toEqual([]);
    await aSandbox('sbx-2');
    expect(await linesOf('/api/v1/sandboxes/search', 'd')).toMatchObject([
      { sandboxes: ['sbx-2'] },
    ]);
    const other = await gateway.issueKey('alice');
    await eventually(
      'the other key works',
      async () => (await gateway.get('/api/v1/users/me', { key: other })).status === 200,
    );
    expect(await linesOf('/api/v1/sandboxes?id=sbx-1', 'e', other)).toMatchObject([
      { sandboxes: ['sbx-1'], action: 'getSandboxes' },
    ]);
    aheadMs = hourMs;
    expect(await linesOf('/api/v1/sandboxes?id=sbx-1', 'f')).toHaveLength(1);
  });

  it('is one of conversations, too; what shows no key is none', async () => {
    const id = '0123456789abcdef0123456789abcdef';
    await aSandbox('sbx-1');
    await gateway.addConversation(id, {
      status: {
        sandboxName: 'sbx-1',
        start: {
          status: 'READY',
          transitions: [{ status: 'READY', time: '2026-01-01T00:00:00Z' }],
        },
      },
    });
    for (const path of [
      `/api/v1/app-conversations/start-tasks/search`,
      '/api/v1/app-conversations/count',
      '/api/conversations',
      `/api/conversations/${id}`,
      '/api/keys',
    ])
      expect(await linesOf(path, path.replaceAll('/', '.'))).toEqual([]);
    expect(await linesOf('/api/v1/app-conversations/search', 'search', gateway.bob)).toEqual([]);
    expect(await linesOf(`/api/v1/app-conversations?ids=${id}`, 'ids')).toMatchObject([
      { action: 'getConversations', sandboxes: ['sbx-1'] },
    ]);
    await gateway.seen(
      gateway.caches.sandboxes,
      await gateway.client.mergePatch(sandboxes, namespace, 'sbx-1', { spec: { replicas: 0 } }),
    );
    aheadMs = 2 * hourMs;
    expect(await linesOf(`/api/v1/app-conversations?ids=${id}`, 'paused')).toEqual([]);
  });

  it('is recorded again after a rotation, which makes another key', async () => {
    await aSandbox('sbx-1');
    expect(await linesOf('/api/v1/sandboxes?id=sbx-1', 'before')).toHaveLength(1);
    expect(await gateway.post('/api/v1/sandboxes/sbx-1/rotate-key')).toMatchObject({ status: 200 });
    expect(await linesOf('/api/v1/sandboxes?id=sbx-1', 'after')).toMatchObject([
      { sandboxes: ['sbx-1'] },
    ]);
    expect(await linesOf('/api/v1/sandboxes?id=sbx-1', 'again')).toEqual([]);
  });

  it('is never left out, however many sandboxes a key goes through', async () => {
    for (let index = 0; index < 150; index++) await aSandbox(`sbx-${index}`);
    for (let index = 0; index < 150; index++) {
      expect(await linesOf(`/api/v1/sandboxes?id=sbx-${index}`, `read-${index}`)).toMatchObject([
        { sandboxes: [`sbx-${index}`] },
      ]);
    }
    expect(await linesOf('/api/v1/sandboxes/search?limit=100', 'rest')).toEqual([]);
  });
});
