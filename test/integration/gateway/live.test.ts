import { dashedUuid, newUuid } from '@conversation-operator/base/uuid';
import type { SandboxState } from '../../../src/resources/sandbox.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';
import { fakeAgent, type FakeAgent } from '../../unit/agent/fake-agent.ts';

const time = '2026-01-01T00:00:00Z';
const is = (type: string, reason: string) => ({
  type,
  status: 'True' as const,
  reason,
  message: '',
  lastTransitionTime: time,
});
const item = {
  id: 'tail-1',
  kind: 'output',
  tool_call_id: 'call-1',
  elapsed_ms: 1200,
  from: 0,
  end: 6,
  text: 'apple\n',
};
const answer = { items: [item], cursor: 'tail-1:6', last_event_id: 'e1', run_ms: 1500 };

describe('the live activity of a conversation', () => {
  let gateway: TestGateway;
  let agent: FakeAgent;
  const id = newUuid(Date.now());
  const path = `/api/v1/app-conversations/${id}/live`;

  beforeEach(async () => {
    gateway = await TestGateway.start({ eventsFirstByteMs: 500 });
  });
  afterEach(async () => {
    await gateway.stop();
    await agent[Symbol.asyncDispose]();
  });

  const setUp = async (
    script: Parameters<typeof fakeAgent>[0][string] | undefined,
    replicas: 0 | 1 = 1,
  ) => {
    const route = `GET /api/conversations/${dashedUuid(id)}/live`;
    agent = await fakeAgent(script === undefined ? {} : { [route]: script });
    const status: SandboxState = {
      podIP: '127.0.0.1',
      agentPort: Number(new URL(agent.endpoint.baseUrl).port),
      conditions: [is('Admitted', 'Admitted'), is('Ready', 'Running')],
    };
    await gateway.addSandbox('sbx', { replicas, status });
    await gateway.addConversation(id, {
      status: {
        start: { status: 'READY', transitions: [{ status: 'READY', time }] },
        sandboxName: 'sbx',
      },
    });
  };

  it('is that of the agent since a cursor, without what the agent adds', async () => {
    await setUp({ body: { ...answer, items: [{ ...item, secret: 'x' }], more: 1 } });
    const read = await gateway.get(`${path}?after=tail-1:3`);
    expect(read).toMatchObject({ status: 200 });
    expect(read.json).toEqual(answer);
    expect(agent.requests).toMatchObject([{ query: { after: 'tail-1:3' } }]);
    expect(agent.requests[0]?.headers['authorization']).toBeUndefined();
  });

  it('is empty for an agent that reports nothing but its events', async () => {
    await setUp(undefined);
    const read = await gateway.get(path);
    expect(read).toMatchObject({ status: 200 });
    expect(read.json).toEqual({ items: [], cursor: null, last_event_id: null, run_ms: null });
  });

  it('is not read of a sandbox that does not run', async () => {
    await setUp({ body: answer }, 0);
    expect(await gateway.get(path)).toMatchObject({ status: 409, json: { code: 'wrong-state' } });
    expect(agent.requests).toEqual([]);
  });

  it('is not read by another owner', async () => {
    await setUp({ body: answer });
    expect(await gateway.get(path, { key: gateway.bob })).toMatchObject({ status: 404 });
    expect(agent.requests).toEqual([]);
  });

  it.each(['%2F', 'a%20b', 'x'.repeat(513)])('is not read after %.10s', async (after) => {
    await setUp({ body: answer });
    expect(await gateway.get(`${path}?after=${after}`)).toMatchObject({ status: 422 });
    expect(agent.requests).toEqual([]);
  });

  it.each<[string, Parameters<typeof setUp>[0], number]>([
    ['no JSON', { text: '<html>' }, 503],
    ['another shape', { body: { ...answer, items: {} } }, 503],
    ['a cursor that is another parameter', { body: { ...answer, cursor: 'a&after=b' } }, 503],
    ['a negative place', { body: { ...answer, items: [{ ...item, from: -1 }] } }, 503],
    ['items without end', { body: { ...answer, items: Array(1000).fill(item) } }, 503],
    [
      'a text without end',
      { body: { ...answer, items: [{ ...item, text: 'x'.repeat(3 << 20) }] } },
      503,
    ],
    ['silence', 'hang', 504],
    ['a failure', { status: 500, body: {} }, 503],
  ])('is a problem where the agent answers with %s', async (_case, script, status) => {
    await setUp(script);
    expect(await gateway.get(path)).toMatchObject({ status });
    expect(await gateway.get('/alive', { key: null })).toMatchObject({ status: 200 });
  });
});
