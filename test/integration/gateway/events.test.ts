import { request as httpRequest } from 'node:http';
import { eventually } from '../../support/eventually.ts';
import { fakeAgent, type FakeAgent, type FakeAnswer } from '../../unit/agent/fake-agent.ts';
import { dashedUuid, newUuid } from '@conversation-operator/base/uuid';
import type { StartStatus } from '../../../src/resources/conversation-status.ts';
import { sandboxes, type SandboxState } from '../../../src/resources/sandbox.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const time = '2026-01-01T00:00:00Z';
const is = (type: string, status: 'True' | 'False', reason: string) => ({
  type,
  status,
  reason,
  message: '',
  lastTransitionTime: time,
});
const page = {
  items: [
    {
      id: 'e1',
      kind: 'MessageEvent',
      source: 'user',
      timestamp: '2026-01-01T00:00:00.000001',
      extra: [1],
    },
  ],
  next_page_id: null,
};

describe('events', () => {
  let gateway: TestGateway;
  let agent: FakeAgent;
  beforeEach(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(async () => {
    await gateway.stop();
  });

  const id = newUuid(Date.now());
  const path = `/api/v1/conversation/${id}/events`;
  const route = (what: string) => `GET /api/conversations/${dashedUuid(id)}/events/${what}`;
  const running = (podIP = '127.0.0.1'): SandboxState => ({
    podIP,
    agentPort: Number(new URL(agent.endpoint.baseUrl).port),
    conditions: [is('Admitted', 'True', 'Admitted'), is('Ready', 'True', 'Running')],
  });
  const setUp = async (
    answers: Parameters<typeof fakeAgent>[0] = {},
    {
      sandbox,
      replicas = 1,
      start = 'READY',
    }: { sandbox?: SandboxState; replicas?: 0 | 1; start?: StartStatus } = {},
  ) => {
    agent = await fakeAgent({
      [route('search')]: { body: page },
      [route('count')]: { body: 7 },
      ...answers,
    });
    await gateway.addSandbox('sbx', { replicas, status: sandbox ?? running() });
    await gateway.addConversation(id, {
      status: {
        start: { status: start, transitions: [{ status: start, time }] },
        sandboxName: 'sbx',
      },
    });
    return { [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() };
  };

  it('are those of the agent, asked with the key of its sandbox', async () => {
    await using _agent = await setUp();
    expect(await gateway.get(`${path}/search`)).toMatchObject({ status: 200, json: page });
    expect(await gateway.get(`${path}/count`)).toMatchObject({ status: 200, json: 7 });
    const key = gateway.keys.sessionKey(
      gateway.caches.sandboxes.store.list()[0]?.metadata.uid ?? '',
    );
    for (const { headers } of agent.requests) {
      expect(headers['x-session-api-key']).toBe(key);
      expect(headers['authorization']).toBeUndefined();
    }
    expect((await gateway.get(`${path}/search`)).headers['content-type']).toBe('application/json');
  });

  it('are found by what is asked for, and nothing else goes to the agent', async () => {
    await using _agent = await setUp();
    const asked =
      'limit=50&sort_order=TIMESTAMP_DESC&kind__eq=MessageEvent&source=user&timestamp__gte=2026-01-01T00:00:00.000001&timestamp__lt=2027-01-01T00:00:00%2B02:00&page_id=abc';
    await gateway.get(`${path}/search?${asked}`);
    await gateway.get(`${path}/count?kind=MessageEvent`);
    expect(await gateway.get(`${path}/search?host=evil`)).toMatchObject({ status: 422 });
    expect(agent.requests.map(({ query }) => query)).toEqual([
      {
        limit: '50',
        sort_order: 'TIMESTAMP_DESC',
        kind: 'MessageEvent',
        source: 'user',
        timestamp__gte: '2026-01-01T00:00:00.000001',
        timestamp__lt: '2027-01-01T00:00:00+02:00',
        page_id: 'abc',
      },
      { kind: 'MessageEvent' },
    ]);
  });

  it.each([
    'limit=0',
    'limit=101',
    'limit=x',
    'sort_order=SIZE',
    'kind=a%26b',
    'source=another',
    'timestamp__gte=yesterday',
    'timestamp__lt=',
    'page_id=',
    `page_id=${'x'.repeat(257)}`,
  ])('are not asked for with %.30s', async (query) => {
    await using _agent = await setUp();
    expect(await gateway.get(`${path}/search?${query}`)).toMatchObject({ status: 422 });
    expect(agent.requests).toEqual([]);
  });

  it.each<[string, { sandbox?: SandboxState; replicas?: 0 | 1; start?: StartStatus }, number]>([
    ['is paused', { replicas: 0 }, 409],
    [
      'is paused by the quota',
      { sandbox: { conditions: [is('Admitted', 'False', 'Quota')] } },
      409,
    ],
    ['has failed', { sandbox: { conditions: [is('Failed', 'True', 'CrashLoop')] } }, 409],
    ['is starting', { sandbox: { conditions: [is('Admitted', 'True', 'Admitted')] } }, 409],
    ['runs, and the conversation is not there yet', { start: 'PREPARING_REPOSITORY' }, 200],
    [
      'runs, and has no address',
      {
        sandbox: {
          conditions: [is('Admitted', 'True', 'Admitted'), is('Ready', 'True', 'Running')],
        },
      },
      503,
    ],
  ])('are not there while the sandbox %s', async (_case, wish, status) => {
    await using _agent = await setUp({}, wish);
    const answer = await gateway.get(`${path}/search`);
    expect(answer).toMatchObject({ status });
    if (status === 200) expect(answer.json).toEqual({ items: [], next_page_id: null });
    if (status === 409) expect(answer.json).toMatchObject({ code: 'archive-disabled' });
    if (status === 503) expect(answer.headers['retry-after']).toBeDefined();
    expect(await gateway.get(`${path}/count`)).toMatchObject({ status });
    expect(agent.requests).toEqual([]);
  });

  it('are asked for at no name, only at an address', async () => {
    await using _agent = await setUp();
    const status = running('localhost');
    const updated = await gateway.client.mergePatch(
      sandboxes,
      namespace,
      'sbx',
      { status },
      { subresource: 'status' },
    );
    await gateway.seen(gateway.caches.sandboxes, updated);
    expect(await gateway.get(`${path}/search`)).toMatchObject({ status: 503 });
    expect(agent.requests).toEqual([]);
  });

  it.each<[string, FakeAnswer | 'reset', number]>([
    [
      'does not know the conversation',
      { status: 404, body: { detail: 'Conversation not found: x' } },
      409,
    ],
    ['refuses the query', { status: 422, body: { detail: [{ loc: ['query'], msg: 'no' }] } }, 422],
    [
      'fails',
      { status: 500, body: { detail: 'Internal Server Error', exception: 'at 10.1.2.3' } },
      503,
    ],
    ['does not accept the key', { status: 401, body: { detail: 'Unauthorized' } }, 503],
    ['leads elsewhere', { status: 302, headers: { location: 'http://169.254.169.254/' } }, 503],
    [
      'answers with a page of its own',
      { text: '<script>', headers: { 'content-type': 'text/html' } },
      503,
    ],
    ['hangs up', 'reset', 503],
  ])('are not there when the agent %s', async (_case, answer, status) => {
    await using _agent = await setUp({ [route('search')]: answer });
    const got = await gateway.get(`${path}/search`);
    expect(got).toMatchObject({ status });
    expect(got.text).not.toMatch(/10\.1\.2\.3|127\.0\.0\.1/);
  });

  it('are closed where a page has no end', async () => {
    await using _agent = await setUp({
      [route('search')]: { text: `"${'x'.repeat(33 * 1024 * 1024)}"` },
    });
    const response = await gateway.open('GET', `${path}/search`);
    const read = () => response.resume().toArray();
    await expect(read()).rejects.toThrow();
  });

  it('leave no line in the log but for debugging where the client leaves before their answer', async () => {
    await using _agent = await setUp({ [route('search')]: 'hang', [route('count')]: 'hang' });
    // More of them than one agent is asked at once, so that some wait for their turn.
    const reads = Array.from({ length: 12 }, (_, index) =>
      httpRequest({
        host: '127.0.0.1',
        port: gateway.port,
        path: `${path}/${index % 2 === 0 ? 'search' : 'count'}`,
        headers: { authorization: `Bearer ${gateway.alice}` },
        agent: false,
      }).on('error', () => undefined),
    );
    for (const read of reads) read.end();
    await eventually('some are at the agent', () => agent.requests.length === 4);
    for (const read of reads) read.destroy();
    const lines = () =>
      gateway.log.filter(({ message }) => message === 'Request failed').map(({ level }) => level);
    await eventually('all are over', () => lines().length === reads.length);
    expect(new Set(lines())).toEqual(new Set(['debug']));
  });

  it('are of owners alone, and of conversations that are there', async () => {
    await using _agent = await setUp();
    for (const what of ['search', 'count']) {
      expect(await gateway.get(`${path}/${what}`, { key: gateway.bob })).toMatchObject({
        status: 404,
      });
      expect(await gateway.get(`/api/v1/conversation/${newUuid(1)}/events/${what}`)).toMatchObject({
        status: 404,
      });
      expect(await gateway.get(`/api/v1/conversation/x/events/${what}`)).toMatchObject({
        status: 422,
      });
    }
  });
});
