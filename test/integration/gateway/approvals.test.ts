import { setTimeout as sleep } from 'node:timers/promises';
import { newUuid } from '@conversation-operator/base/uuid';
import type { Approval, ApprovalAnswer, ClosedApproval } from '../../../src/resources/approval.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { fakeAgent, type FakeAgent } from '../../unit/agent/fake-agent.ts';
import { namespace, TestGateway } from '../../support/gateway/test-gateway.ts';

const time = '2026-01-01T00:00:00Z';
const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: '',
  lastTransitionTime: time,
});

const approval: Approval = {
  id: 'a1',
  title: 'rm -rf build',
  kind: 'execute',
  tool: 'terminal',
  summary: 'rm -rf build',
  text: '',
  complete: true,
  options: [
    { id: 'always', name: 'Always', kind: 'allow_always' },
    { id: 'yes', name: 'Yes', kind: 'allow_once' },
    { id: 'no', name: 'No', kind: 'reject_once' },
  ],
  requestedTime: time,
  callHash: 'f'.repeat(64),
  agentEpoch: 1,
  kept: true,
};

interface World {
  readonly approval?: Approval | undefined;
  readonly closed?: readonly ClosedApproval[];
  readonly answers?: readonly ApprovalAnswer[];
  readonly lostAnswer?: string;
  readonly replicas?: 0 | 1;
}

describe('approvals', () => {
  let gateway: TestGateway;
  let agent: FakeAgent;
  beforeEach(async () => {
    gateway = await TestGateway.start();
    agent = await fakeAgent({});
  });
  afterEach(async () => {
    await agent[Symbol.asyncDispose]();
    await gateway.stop();
  });

  const id = newUuid(Date.now());
  const path = `/api/v1/app-conversations/${id}/approvals`;

  const setUp = async (world: World = {}, name = id) => {
    await gateway.addSandbox(`sbx-${name.slice(-6)}`, {
      replicas: world.replicas ?? 1,
      status: {
        podIP: '127.0.0.1',
        agentPort: Number(new URL(agent.endpoint.baseUrl).port),
        conditions: [is('Admitted'), is('Ready')],
      },
    });
    await gateway.addConversation(name, {
      ...(world.answers === undefined ? {} : { spec: { approvals: [...world.answers] } }),
      status: {
        start: { status: 'READY', transitions: [{ status: 'READY', time }] },
        sandboxName: `sbx-${name.slice(-6)}`,
        executionStatus: 'waiting_for_confirmation',
        ...('approval' in world ? {} : { approval }),
        ...(world.approval === undefined ? {} : { approval: world.approval }),
        closedApprovals: [...(world.closed ?? [])],
        ...(world.lostAnswer === undefined ? {} : { lostAnswer: world.lostAnswer }),
      },
    });
  };
  const stored = async () =>
    (await gateway.client.get(conversations, namespace, id)).spec.approvals ?? [];

  const record = {
    id: 'a1',
    conversation_id: id,
    title: 'rm -rf build',
    kind: 'execute',
    tool: 'terminal',
    summary: 'rm -rf build',
    complete: true,
    options: approval.options,
    decided_by: 'Owner',
    requested_at: '2026-01-01T00:00:00.000000Z',
    sandbox_status: 'RUNNING',
    notice: null,
  };

  it('are shown with their conversation, alone, and in the inbox', async () => {
    await setUp();
    expect(await gateway.get(path)).toMatchObject({ status: 200, json: [record] });
    expect(await gateway.get('/api/v1/approvals')).toMatchObject({
      status: 200,
      json: { items: [record], next_page_id: null },
    });
    expect(await gateway.get(`/api/v1/app-conversations?ids=${id}`)).toMatchObject({
      json: [{ pending_approval: record, execution_status: 'waiting_for_confirmation' }],
    });
  });

  it('are shown of a paused sandbox too', async () => {
    await setUp({ replicas: 0 });
    expect(await gateway.get(path)).toMatchObject({
      json: [{ ...record, sandbox_status: 'PAUSED' }],
    });
    expect(await gateway.get(`/api/v1/app-conversations?ids=${id}`)).toMatchObject({
      json: [{ execution_status: 'waiting_for_confirmation', sandbox_status: 'PAUSED' }],
    });
  });

  it.each<[string, World]>([
    ['the agent asks nothing', { approval: undefined }],
    ['the answer is stored', { answers: [{ id: 'a1', decision: 'reject' }] }],
  ])('are none where %s', async (_case, world) => {
    await setUp(world);
    expect(await gateway.get(path)).toMatchObject({ status: 200, json: [] });
    expect(await gateway.get('/api/v1/approvals')).toMatchObject({ json: { items: [] } });
  });

  it('come page by page, oldest first', async () => {
    const other = newUuid(Date.now() + 1000);
    await setUp({ approval: { ...approval, requestedTime: '2026-01-02T00:00:00Z' } });
    await setUp({ approval: { ...approval, id: 'b1' } }, other);
    const first = await gateway.get('/api/v1/approvals?limit=1');
    expect(first).toMatchObject({ json: { items: [{ id: 'b1' }] } });
    const { next_page_id: next } = first.json as { next_page_id: string };
    expect(await gateway.get(`/api/v1/approvals?limit=1&page_id=${next}`)).toMatchObject({
      json: { items: [{ id: 'a1' }], next_page_id: null },
    });
    expect(await gateway.get('/api/v1/approvals?limit=0')).toMatchObject({ status: 422 });
  });

  it.each<[object, object]>([
    [{ decision: 'approve' }, { decision: 'approve' }],
    [{ option_id: 'yes' }, { option: 'yes' }],
    [
      { decision: 'reject', reason: 'Not on a Friday.' },
      { decision: 'reject', reason: 'Not on a Friday.' },
    ],
    [{ option_id: 'no' }, { option: 'no' }],
  ])('are answered by %j', async (body, answer) => {
    await setUp({ replicas: 0 });
    expect(await gateway.post(`${path}/a1`, body)).toMatchObject({
      status: 200,
      json: { success: true, state: 'recorded' },
    });
    expect(await stored()).toEqual([{ id: 'a1', by: 'alice', ...answer }]);
    const given = Object.values(answer as Record<string, string>)[0];
    expect(
      gateway.log.findLast(({ message }) => message === 'ApprovalAnswered')?.fields,
    ).toMatchObject({ owner: 'alice', client: '127.0.0.1', approval: 'a1', answer: given });
    // A client that has had no answer asks again.
    expect(await gateway.post(`${path}/a1`, body)).toMatchObject({ status: 200 });
    expect(await stored()).toHaveLength(1);
  });

  it('are delivered once the agent has the answer', async () => {
    await setUp();
    const answering = gateway.post(`${path}/a1`, { decision: 'approve' });
    while ((await stored()).length === 0) await sleep(10);
    await gateway.setStatus(id, { closedApprovals: [{ id: 'a1', outcome: 'Approved', time }] });
    expect(await answering).toMatchObject({ status: 200, json: { state: 'delivered' } });
  });

  const lost = 'The answer “approve” to “make” had no effect: the agent was stopped.';
  const closedAnswer = { id: 'a1', outcome: 'Withdrawn', time, message: lost } as const;

  it('are not delivered where the agent withdraws its question meanwhile', async () => {
    await setUp();
    const answering = gateway.post(`${path}/a1`, { decision: 'approve' });
    while ((await stored()).length === 0) await sleep(10);
    await gateway.setStatus(id, { closedApprovals: [closedAnswer], lostAnswer: 'a1' });
    expect(await answering).toMatchObject({
      status: 410,
      json: { code: 'approval-withdrawn', detail: lost },
    });
  });

  it('that were lost are in the record, until the next run', async () => {
    await setUp({ approval: undefined, closed: [closedAnswer], lostAnswer: 'a1' });
    const read = () => gateway.get(`/api/v1/app-conversations?ids=${id}`);
    expect(await read()).toMatchObject({
      json: [{ lost_answer: { approval_id: 'a1', message: lost } }],
    });
    expect(await gateway.post(`${path}/a1`, { decision: 'approve' })).toMatchObject({
      status: 410,
      json: { detail: lost },
    });
  });

  it.each([
    ['forgets', { kept: undefined }, expect.stringContaining('has to ask again') as string],
    ['keeps', {}, null],
  ])('of a paused agent that %s its question say what they do', async (_how, fields, notice) => {
    await setUp({ replicas: 0, approval: { ...approval, ...fields } });
    expect(await gateway.get(path)).toMatchObject({ json: [{ notice }] });
    expect(await gateway.post(`${path}/a1`, { decision: 'approve' })).toMatchObject({
      json: { state: 'recorded', notice },
    });
  });

  it('keep the first answer', async () => {
    await setUp({ replicas: 0 });
    const answers = await Promise.all(
      ['approve', 'reject'].map((decision) => gateway.post(`${path}/a1`, { decision })),
    );
    const [first] = await stored();
    expect(await stored()).toHaveLength(1);
    const accepted = answers.filter(({ status }) => status === 200);
    expect(accepted.length).toBeGreaterThan(0);
    const other = first?.decision === 'approve' ? 'reject' : 'approve';
    expect(await gateway.post(`${path}/a1`, { decision: other })).toMatchObject({
      status: 409,
      json: { code: 'approval-answered' },
    });
  });

  it('resume a paused sandbox for the answer, and no run of another conversation', async () => {
    await setUp({ replicas: 0 });
    expect(await gateway.post(`${path}/a1`, { decision: 'approve' })).toMatchObject({
      status: 200,
      json: { state: 'recorded' },
    });
    const sandbox = await gateway.client.get(sandboxes, namespace, `sbx-${id.slice(-6)}`);
    expect(sandbox.spec.replicas).toBe(1);
    expect(Object.keys(sandbox.metadata.annotations ?? {})).toEqual([
      'conversation-operator.dev/resume-requested-at',
    ]);
  });

  const closed = (outcome: ClosedApproval['outcome'], option?: string): World => ({
    approval: undefined,
    closed: [{ id: 'a1', outcome, time, ...(option === undefined ? {} : { option }) }],
  });
  it.each<[string, World, object, number, string | undefined]>([
    ['approved', closed('Approved', 'yes'), { decision: 'approve' }, 200, undefined],
    ['approved', closed('Approved', 'yes'), { option_id: 'yes' }, 200, undefined],
    ['approved', closed('Approved', 'yes'), { option_id: 'always' }, 409, 'approval-answered'],
    ['approved', closed('Approved', 'yes'), { decision: 'reject' }, 409, 'approval-answered'],
    ['rejected', closed('Rejected'), { decision: 'reject' }, 200, undefined],
    ['rejected', closed('Rejected'), { decision: 'approve' }, 409, 'approval-answered'],
    ['withdrawn', closed('Withdrawn'), { decision: 'approve' }, 410, 'approval-withdrawn'],
  ])('that were %s (%j) take %j with %i', async (_was, world, body, status, code) => {
    await setUp(world);
    expect(await gateway.post(`${path}/a1`, body)).toMatchObject({
      status,
      json: code === undefined ? { state: 'delivered' } : { code },
    });
    expect(await stored()).toEqual([]);
  });

  it.each<[object, string]>([
    [{}, 'body'],
    [{ option_id: 'certainly' }, 'always, yes, no'],
    [{ decision: 'maybe' }, 'body'],
    [{ decision: 'approve', option_id: 'yes' }, 'body'],
    [{ decision: 'reject', reason: 'x'.repeat(1025) }, 'body'],
  ])('refuse %j', async (body, words) => {
    await setUp();
    const answer = await gateway.post(`${path}/a1`, body);
    expect(answer).toMatchObject({ status: 422 });
    expect(JSON.stringify(answer.json)).toContain(words);
    expect(await stored()).toEqual([]);
  });

  it('refuse to approve where the agent offers only to approve for ever', async () => {
    const options = approval.options.filter(({ kind }) => kind === 'allow_always');
    await setUp({ replicas: 0, approval: { ...approval, options } });
    expect(await gateway.post(`${path}/a1`, { decision: 'approve' })).toMatchObject({
      status: 422,
    });
    // The turn of the agent is cancelled.
    expect(await gateway.post(`${path}/a1`, { decision: 'reject' })).toMatchObject({ status: 200 });
  });

  const long = { summary: 'a … b', text: `a${'x'.repeat(9_000)}b` };
  it('that are shown in part have their whole text alone', async () => {
    await setUp({ approval: { ...approval, ...long } });
    expect(await gateway.get(path)).toMatchObject({
      json: [{ summary: 'a … b', complete: false }],
    });
    expect(await gateway.get(`${path}/a1`)).toMatchObject({
      status: 200,
      json: { ...record, ...long, complete: false, call_hash: approval.callHash },
    });
    expect(await gateway.get(`${path}/other`)).toMatchObject({ status: 404 });
  });

  it.each<[string, Partial<Approval>, object, number]>([
    ['in part', long, { decision: 'approve' }, 409],
    ['in part', long, { option_id: 'always' }, 409],
    ['in part', long, { decision: 'approve', call_hash: 'e'.repeat(64) }, 409],
    ['in part', long, { decision: 'approve', call_hash: 'f'.repeat(64) }, 200],
    ['in part', long, { decision: 'reject' }, 200],
    ['whole', {}, { decision: 'approve', call_hash: 'f'.repeat(64) }, 200],
    ['whole', {}, { decision: 'approve', call_hash: 'e'.repeat(64) }, 409],
    ['never whole', { complete: false }, { decision: 'approve' }, 409],
    ['never whole', { complete: false }, { option_id: 'yes', call_hash: 'f'.repeat(64) }, 409],
    ['never whole', { complete: undefined }, { option_id: 'yes' }, 409],
    ['never whole', { complete: false }, { decision: 'reject' }, 200],
  ])('that are shown %s (%j) take %j with %i', async (_shown, fields, body, status) => {
    await setUp({ replicas: 0, approval: { ...approval, ...fields } });
    const answer = await gateway.post(`${path}/a1`, body);
    expect(answer).toMatchObject({
      status,
      json: status === 200 ? { state: 'recorded' } : { code: 'approval-incomplete' },
    });
    expect(JSON.stringify(answer.json).includes(`/approvals/a1`)).toBe(status === 409);
    expect(await stored()).toHaveLength(status === 200 ? 1 : 0);
  });

  it('have no hash for calls that are never whole', async () => {
    await setUp({ approval: { ...approval, complete: false } });
    expect(await gateway.get(`${path}/a1`)).toMatchObject({ json: { call_hash: null } });
  });

  it('replace an answer of kubectl that names no option', async () => {
    await setUp({ replicas: 0, answers: [{ id: 'a1', option: 'certainly' }] });
    expect(await gateway.get(path)).toMatchObject({ json: [{ id: 'a1' }] });
    expect(await gateway.post(`${path}/a1`, { decision: 'reject' })).toMatchObject({ status: 200 });
    expect(await stored()).toEqual([{ id: 'a1', decision: 'reject', by: 'alice' }]);
  });

  it('know no other question', async () => {
    await setUp();
    expect(await gateway.post(`${path}/other`, { decision: 'approve' })).toMatchObject({
      status: 404,
    });
  });
});
