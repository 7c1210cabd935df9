import { dashedUuid, newUuid } from '@conversation-operator/kube/uuid';
import { fakeAgent, type FakeAgent, type FakeAnswer } from '../../unit/agent/fake-agent.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const time = '2026-01-01T00:00:00Z';
const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: '',
  lastTransitionTime: time,
});
const command = (id: string, text: string, response = 'r1') => ({
  id,
  kind: 'ActionEvent',
  tool_name: 'terminal',
  llm_response_id: response,
  action: { kind: 'TerminalAction', command: text },
});

describe('approvals', () => {
  let gateway: TestGateway;
  let agent: FakeAgent;
  beforeEach(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(async () => {
    await agent[Symbol.asyncDispose]();
    await gateway.stop();
  });

  const id = newUuid(Date.now());
  const path = `/api/v1/app-conversations/${id}/approvals`;
  const own = `/api/conversations/${dashedUuid(id)}`;
  const respond = `POST ${own}/events/respond_to_confirmation`;

  interface World {
    readonly status?: string;
    /** Newest first. */
    readonly actions?: readonly object[];
    readonly rejected?: readonly string[];
    readonly respond?: FakeAnswer;
    readonly replicas?: 0 | 1;
    /** Whether something happens between every two reads. */
    readonly isRestless?: boolean;
  }
  const setUp = async (world: World = {}) => {
    const { status = 'waiting_for_confirmation', actions = [command('a1', 'rm -rf build')] } =
      world;
    let reads = 0;
    agent = await fakeAgent({
      [`GET ${own}`]: () => ({
        body: {
          id: dashedUuid(id),
          execution_status: status,
          updated_at: world.isRestless === true ? `2026-01-01T00:00:0${reads++ % 10}Z` : time,
        },
      }),
      [`GET ${own}/events/search`]: ({ query }) => ({
        body: {
          items:
            query['kind'] === 'ActionEvent'
              ? actions
              : (world.rejected ?? []).map((action_id) => ({ action_id })),
          next_page_id: null,
        },
      }),
      [`POST ${own}/interrupt`]: { body: { success: true } },
      [respond]: world.respond ?? { body: { success: true } },
    });
    await gateway.addSandbox('sbx', {
      replicas: world.replicas ?? 1,
      status: {
        podIP: '127.0.0.1',
        agentPort: Number(new URL(agent.endpoint.baseUrl).port),
        conditions: [is('Admitted'), is('Ready')],
      },
    });
    await gateway.addConversation(id, {
      status: {
        start: { status: 'READY', transitions: [{ status: 'READY', time }] },
        sandboxName: 'sbx',
      },
    });
  };
  const answers = () => agent.requests.filter(({ route }) => route === respond);

  it('show what the agent asks', async () => {
    await setUp();
    expect(await gateway.get(path)).toMatchObject({
      status: 200,
      json: [
        {
          id: 'a1',
          conversation_id: id,
          title: 'rm -rf build',
          kind: 'execute',
          tool: 'terminal',
          summary: 'rm -rf build',
          options: [
            { id: 'approve', kind: 'allow_once' },
            { id: 'reject', kind: 'reject_once' },
          ],
          requested_at: '2026-01-01T00:00:00.000000Z',
          sandbox_status: 'RUNNING',
        },
      ],
    });
  });

  it.each<[string, World]>([
    ['asks nothing', { status: 'running' }],
    ['is paused', { replicas: 0 }],
    ['has no action', { actions: [] }],
  ])('are none while the agent %s', async (_case, world) => {
    await setUp(world);
    expect(await gateway.get(path)).toMatchObject({ status: 200, json: [] });
  });

  it.each([
    [{ decision: 'approve' }, { accept: true }],
    [{ option_id: 'approve' }, { accept: true }],
    [
      { decision: 'reject', reason: 'Not on a Friday.' },
      { accept: false, reason: 'Not on a Friday.' },
    ],
    [{ option_id: 'reject' }, { accept: false, reason: 'The user has rejected this action.' }],
  ])('are answered by %j', async (body, sent) => {
    await setUp();
    expect(await gateway.post(`${path}/a1`, body)).toMatchObject({
      status: 200,
      json: { success: true, state: 'delivered' },
    });
    expect(answers().map((request) => request.body)).toEqual([sent]);
  });

  it('are not answered for actions that were not shown', async () => {
    await setUp({
      actions: [command('a2', 'deploy'), command('a1', 'rm -rf build')],
    });
    expect(await gateway.get(path)).toMatchObject({
      json: [{ id: 'a2', summary: 'rm -rf build\n\ndeploy' }],
    });
    expect(await gateway.post(`${path}/a1`, { decision: 'reject' })).toMatchObject({
      status: 409,
      json: { code: 'approval-answered' },
    });
    expect(answers()).toEqual([]);
  });

  it.each<[string, string, string[], number]>([
    ['approve', 'approved', [], 200],
    ['reject', 'approved', [], 409],
    ['reject', 'rejected', ['a1'], 200],
    ['approve', 'rejected', ['a1'], 409],
  ])('take %s of what was %s already once', async (decision, _was, rejected, status) => {
    await setUp({ status: 'running', rejected });
    expect(await gateway.post(`${path}/a1`, { decision })).toMatchObject({ status });
    expect(answers()).toEqual([]);
  });

  it.each([
    [{}, 422],
    [{ option_id: 'always' }, 422],
    [{ decision: 'maybe' }, 422],
    [{ decision: 'approve', option_id: 'approve' }, 422],
    [{ decision: 'reject', reason: 'x'.repeat(1025) }, 422],
  ])('refuse %j', async (body, status) => {
    await setUp();
    expect(await gateway.post(`${path}/a1`, body)).toMatchObject({ status });
    expect(agent.requests).toEqual([]);
  });

  it('know no other question', async () => {
    await setUp();
    expect(await gateway.post(`${path}/other`, { decision: 'approve' })).toMatchObject({
      status: 404,
    });
    expect(answers()).toEqual([]);
  });

  it('approve nothing while the conversation changes', async () => {
    await setUp({ isRestless: true });
    const answer = await gateway.post(`${path}/a1`, { decision: 'approve' });
    expect(answer).toMatchObject({ status: 503 });
    expect(answers()).toEqual([]);
  });

  it('do not keep the run from being stopped', async () => {
    await setUp({ status: 'running' });
    expect(await gateway.post(`/api/v1/app-conversations/${id}/interrupt`, {})).toMatchObject({
      status: 200,
      json: { success: true },
    });
    expect(agent.requests.map(({ route }) => route)).toEqual([`POST ${own}/interrupt`]);
  });

  it('approve nothing in a paused sandbox', async () => {
    await setUp({ replicas: 0 });
    expect(await gateway.post(`${path}/a1`, { decision: 'approve' })).toMatchObject({
      status: 409,
      json: { code: 'wrong-state' },
    });
    expect(agent.requests).toEqual([]);
  });
});
