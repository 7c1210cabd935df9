import { SandboxKeys } from '../../../src/agent/keys.ts';
import { SandboxCondition, sandboxes } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';

const base = '/api/v1/app-conversations';
const id = '0190c0de000070008000000000000001';
const child = '0190c0de000070008000000000000002';
const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});
const running = {
  podIP: '127.0.0.1',
  podUID: 'pod-1',
  conditions: [is(SandboxCondition.admitted), is(SandboxCondition.ready)],
};

/**
 * Records are remembered as JSON: what they are made of has to show in them all the same, in each
 * answer that has them.
 */
describe('a record that was read before', () => {
  let gateway: TestGateway;
  let keys: SandboxKeys;
  beforeEach(async () => {
    keys = new SandboxKeys([Buffer.alloc(32, 1)]);
    gateway = await TestGateway.start({ keys });
    await gateway.addSandbox('sbx-1', { status: running });
    await gateway.addConversation(id, {
      status: {
        sandboxName: 'sbx-1',
        sandboxStatus: 'RUNNING',
        executionStatus: 'idle',
        start: { status: 'READY', transitions: [] },
      },
    });
  });
  afterEach(() => gateway.stop());

  const first = (answer: Answer) =>
    (answer.json as { items?: readonly object[] }).items?.[0] ??
    (answer.json as readonly object[])[0];
  /** As each kind of answer has it. */
  const seen = async () => {
    const answers = await Promise.all(
      [`${base}?ids=${id}`, `${base}/search?sort_order=CREATED_AT`].map((path) =>
        gateway.get(path),
      ),
    );
    const [record, inPage] = answers.map(first);
    expect(record).toEqual(inPage);
    return record;
  };
  const task = async () =>
    first(await gateway.get(`${base}/start-tasks/search?sort_order=CREATED_AT`));

  it.each<[string, () => Promise<unknown>, object]>([
    [
      'its sandbox is paused',
      () => gateway.client.mergePatch(sandboxes, namespace, 'sbx-1', { spec: { replicas: 0 } }),
      { sandbox_status: 'PAUSED', session_api_key: null },
    ],
    [
      'its sandbox is gone',
      () => gateway.client.delete(sandboxes, namespace, 'sbx-1'),
      { sandbox_status: 'MISSING', conversation_url: null },
    ],
    [
      'it says something',
      () => gateway.setStatus(id, { executionStatus: 'running', title: 'Another' }),
      { execution_status: 'running', title: 'Another' },
    ],
    [
      'another is started from it',
      () => gateway.addConversation(child, { spec: { parent: id } }),
      { sub_conversation_ids: [child] },
    ],
  ])('shows that %s', async (_case, happen, expected) => {
    const before = await seen();
    expect(before).toMatchObject({
      sandbox_status: 'RUNNING',
      execution_status: 'idle',
      sub_conversation_ids: [],
    });
    expect(await seen()).toEqual(before);
    await happen();
    await eventually('the change shows', async () => {
      expect(await seen()).toMatchObject(expected);
      return true;
    });
  });

  it('has the key of its sandbox under the master keys of now', async () => {
    expect(await seen()).toMatchObject({ session_api_key: expect.any(String) as string });
    keys.replace([Buffer.alloc(32, 2)]);
    const sandbox = await gateway.client.get(sandboxes, namespace, 'sbx-1');
    expect(await seen()).toMatchObject({
      session_api_key: gateway.sessionKeyOf(sandbox, {
        keys: new SandboxKeys([Buffer.alloc(32, 2)]),
      }),
    });
  });

  it('of a start has the address of its agent only while that runs', async () => {
    expect(await task()).toMatchObject({
      status: 'READY',
      agent_server_url: expect.stringContaining('/sandboxes/sbx-1/') as string,
    });
    const paused = await gateway.client.mergePatch(sandboxes, namespace, 'sbx-1', {
      spec: { replicas: 0 },
    });
    await gateway.seen(gateway.caches.sandboxes, paused);
    expect(await task()).toMatchObject({ status: 'READY', agent_server_url: null });
  });
});
