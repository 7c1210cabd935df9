import type { Sandbox } from '../../src/resources/sandbox.ts';
import type { SandboxPool } from '../../src/resources/sandbox-pool.ts';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

let up: Installation;
beforeAll(async () => {
  up = await Installation.start({ env: { WARM: '2' } });
});
afterAll(async () => {
  await up.stop();
});

const k = (args: string, input?: string) => kubectl(up.kubeconfig, args.split(' '), input);
const apply = (kind: string, name: string, spec: unknown) =>
  k(
    'apply -f -',
    JSON.stringify({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind,
      metadata: { name },
      spec,
    }),
  );
const pool = async (name = 'default'): Promise<SandboxPool> =>
  JSON.parse((await k(`get sandboxpool ${name} -o json`)).stdout) as SandboxPool;
const sandboxes = async (): Promise<readonly Sandbox[]> =>
  (JSON.parse((await k('get sandboxes -o json')).stdout) as { items: Sandbox[] }).items;
const warmSandboxes = async (poolName = 'default') =>
  (await sandboxes()).filter(
    ({ metadata, spec }) =>
      spec.owner === '' && spec.poolName === poolName && metadata.deletionTimestamp === undefined,
  );
const deleteConversations = async () => {
  await k('delete conversations --all');
  await eventually('no sandbox of an owner', async () =>
    (await sandboxes()).every(({ spec }) => spec.owner === ''),
  );
};
const reasonOf = ({ status }: SandboxPool) =>
  status?.conditions?.find(({ type }) => type === 'Ready')?.reason;
const reaches = (reason: string, name = 'default') =>
  eventually(`the pool ${name} to be ${reason}`, async () => {
    const found = await pool(name);
    return reasonOf(found) === reason && found;
  });

describe('a pool is refused, by the path of the field, that', () => {
  it.each<[string, unknown, string]>([
    [
      'has a negative number of warm sandboxes',
      { replicas: -1 },
      'spec.replicas: Invalid value: -1',
    ],
    ['has a fraction of a warm sandbox', { replicas: 1.5 }, 'spec.replicas: Invalid value'],
    ['has too many warm sandboxes', { replicas: 1_001 }, 'spec.replicas: Invalid value: 1001'],
    [
      'names an impossible template',
      { templateName: 'No Name' },
      'spec.templateName: Invalid value: "No Name"',
    ],
    [
      'creates no warm sandbox in a minute',
      { refill: { maxPerMinute: 0 } },
      'spec.refill.maxPerMinute: Invalid value: 0',
    ],
    [
      'waits for a time that is none',
      { refill: { delay: 'soon' } },
      'spec.refill.delay: Invalid value: "soon"',
    ],
    ['has a misspelt field', { replica: 1 }, 'unknown field "spec.replica"'],
    ['has no spec', undefined, 'spec: Required value'],
  ])('%s', async (_sentence, spec, message) => {
    const { code, stderr } = await apply('SandboxPool', 'bad', spec);
    expect(stderr).toContain(message);
    expect(code).toBe(1);
  });

  it('is scaled below 0', async () => {
    const { code, stderr } = await k('scale sandboxpool default --replicas=-1');
    expect(stderr).not.toBe('');
    expect(code).toBe(1);
  });
});

describe('a sandbox is refused that', () => {
  const spec = { templateName: 'default', replicas: 1 };
  it.each<[string, unknown, string]>([
    ['has neither owner nor pool', spec, 'owner is required, except for a warm sandbox of a pool'],
    ['has an impossible owner', { ...spec, owner: 'a b' }, 'spec.owner: Invalid value: "a b"'],
  ])('%s', async (_sentence, bad, message) => {
    const { code, stderr } = await apply('Sandbox', 'bad', bad);
    expect(stderr).toContain(message);
    expect(code).toBe(1);
  });
});

it('gives a start its warm sandbox, shows the pool, and makes another warm sandbox', async () => {
  await reaches('Full');
  const before = new Set((await warmSandboxes()).map(({ metadata }) => metadata.name));
  expect(before.size).toBe(2);
  const over = await up.over((await up.start('Say hello.')).id);
  expect(over.status).toBe('READY');
  expect([...before]).toContain(over.sandbox_id);
  await eventually('another warm sandbox', async () => (await warmSandboxes()).length === 2);
  const claimed = (await sandboxes()).find(({ metadata }) => metadata.name === over.sandbox_id);
  expect(claimed?.spec).toMatchObject({ owner: 'local', poolName: 'default' });
  expect(claimed?.metadata.ownerReferences).toMatchObject([
    { kind: 'Conversation', name: over.app_conversation_id },
  ]);
  await reaches('Full');
  expect((await k('get sandboxpools')).stdout).toMatch(
    /^NAME +TEMPLATE +WANTED +READY +REASON +AGE\ndefault +default +2 +2 +Full +\S+\n$/,
  );
  // The owner sees it like any other sandbox, and no warm sandbox.
  const { body } = await up.call('GET', '/api/v1/sandboxes/search');
  expect(body).toMatchObject({ items: [{ id: over.sandbox_id }] });
});

it('lets a claimed sandbox pause, resume and go as any other does', async () => {
  const over = await up.over((await up.start('Say hello again.')).id);
  const id = over.app_conversation_id ?? '';
  const sandbox = over.sandbox_id ?? '';
  await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
  await up.reaches(id, { sandbox_status: 'PAUSED' });
  await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`);
  await up.reaches(id, { sandbox_status: 'RUNNING' });
  await up.call('DELETE', `/api/v1/app-conversations/${id}`);
  await eventually('the sandbox to be gone', async () =>
    (await sandboxes()).every(({ metadata }) => metadata.name !== sandbox),
  );
});

it('replaces a warm sandbox whose pod is lost, and the warm sandboxes of an edited template', async () => {
  await reaches('Full');
  const [first] = await warmSandboxes();
  const podOf = async (name: string) =>
    (await k(`get pod ${name} -o jsonpath={.metadata.uid}`)).stdout;
  const pod = await podOf(first?.metadata.name ?? '');
  await k(`delete pod ${first?.metadata.name ?? ''} --grace-period=1`);
  await eventually('another pod', async () => {
    const now = await podOf(first?.metadata.name ?? '');
    return now !== '' && now !== pod;
  });
  await reaches('Full');
  const old = (await warmSandboxes()).map(({ metadata }) => metadata.name);
  await k('patch sandboxtemplate default --type merge -p {"spec":{"description":"edited"}}');
  await eventually('other warm sandboxes', async () =>
    (await warmSandboxes()).every(({ metadata }) => !old.includes(metadata.name)),
  );
  await reaches('Full');
});

it('scales up, down and to 0, and leaves claimed sandboxes alone', async () => {
  const owned = (await sandboxes()).filter(({ spec }) => spec.owner !== '').length;
  for (const replicas of [3, 1, 0]) {
    expect(await k(`scale sandboxpool default --replicas=${replicas}`)).toMatchObject({ code: 0 });
    await eventually(`${replicas} spares`, async () => (await warmSandboxes()).length === replicas);
    await reaches(replicas === 0 ? 'ScaledToZero' : 'Full');
  }
  expect((await sandboxes()).filter(({ spec }) => spec.owner !== '')).toHaveLength(owned);
});

it('says that its template does not exist, and is filled once it does', async () => {
  await apply('SandboxPool', 'later', { templateName: 'later', replicas: 1 });
  expect(await reaches('TemplateNotFound', 'later')).toMatchObject({
    status: { replicas: 0, readyReplicas: 0 },
  });
  const { spec } = JSON.parse((await k('get sandboxtemplate default -o json')).stdout) as {
    spec: unknown;
  };
  await apply('SandboxTemplate', 'later', spec);
  await reaches('Full', 'later');
  await k('delete sandboxpool later');
  await eventually(
    'its warm sandboxes to be gone',
    async () => (await warmSandboxes('later')).length === 0,
  );
});

it('tries warm sandboxes that never boot one at a time, and says so', async () => {
  const container = { name: 'agent', image: 'conversation-operator/reference-agent' };
  await apply('SandboxTemplate', 'broken', {
    podTemplate: { spec: { containers: [{ ...container, command: ['false'] }] } },
    startDeadline: '2s',
  });
  await apply('SandboxPool', 'broken', { templateName: 'broken', replicas: 3 });
  const found = await reaches('SpareFailed', 'broken');
  expect(found.status?.failures).toBeGreaterThan(0);
  // The next one waits for the back-off, of 10 s after the first failure.
  expect((await warmSandboxes('broken')).length).toBeLessThanOrEqual(1);
  const { stdout } = await k('get events --field-selector reason=SpareFailed -o name');
  expect(stdout).not.toBe('');
  await k('delete sandboxpool broken');
});

it('keeps two pools of one template, each with its own number', async () => {
  await apply('SandboxPool', 'one', { replicas: 1 });
  await apply('SandboxPool', 'two', { replicas: 2 });
  await reaches('Full', 'one');
  await reaches('Full', 'two');
  expect(
    [await warmSandboxes('one'), await warmSandboxes('two')].map(({ length }) => length),
  ).toEqual([1, 2]);
  await k('delete sandboxpools one two');
});

it('replaces a warm sandbox that is scaled to 0', async () => {
  await k('scale sandboxpool default --replicas=2');
  await reaches('Full');
  const [warmSandbox] = await warmSandboxes();
  const name = warmSandbox?.metadata.name ?? '';
  expect(await k(`scale sandbox ${name} --replicas=0`)).toMatchObject({ code: 0 });
  await eventually('another warm sandbox', async () => {
    const names = (await warmSandboxes()).map(({ metadata }) => metadata.name);
    return names.length > 0 && !names.includes(name);
  });
  await reaches('Full');
});

it('keeps warm sandboxes for a pool whose name is too long for a label', async () => {
  const name = 'p'.repeat(70);
  await apply('SandboxPool', name, { replicas: 1 });
  const { status } = await reaches('Full', name);
  const [warmSandbox] = await warmSandboxes(name);
  expect((await k(`get pods -o name -l ${status?.selector ?? ''}`)).stdout).toBe(
    `pod/${warmSandbox?.metadata.name ?? ''}\n`,
  );
  await k(`delete sandboxpool ${name}`);
  await eventually(
    'its warm sandboxes to be gone',
    async () => (await warmSandboxes(name)).length === 0,
  );
});

it('shares what maxSandboxes leaves between two pools, and gives it back', async () => {
  await deleteConversations();
  await k('scale sandboxpool default --replicas=2');
  await reaches('Full');
  await apply('ConversationQuota', 'cap', { scope: 'Namespace', limit: 20, maxSandboxes: 2 });
  await apply('SandboxPool', 'second', { replicas: 2 });
  await eventually('a warm sandbox of each', async () => {
    const kept = [await warmSandboxes(), await warmSandboxes('second')].map(({ length }) => length);
    expect((kept[0] ?? 0) + (kept[1] ?? 0)).toBeLessThanOrEqual(2);
    return kept[0] === 1 && kept[1] === 1;
  });
  await reaches('WaitingForRoom');
  await reaches('WaitingForRoom', 'second');
  await k('delete sandboxpool second');
  await reaches('Full');
  await k('delete conversationquota cap');
});

it('gives way to sandboxes of owners under a limit of the namespace', async () => {
  await deleteConversations();
  await apply('ConversationQuota', 'all', { scope: 'Namespace', limit: 2 });
  await k('scale sandboxpool default --replicas=2');
  await reaches('Full');
  // Not by a claim: such a sandbox needs a slot of its own.
  await up.call('POST', '/api/v1/sandboxes');
  await up.call('POST', '/api/v1/sandboxes');
  await eventually('both of the owner to run', async () => {
    const owned = (await sandboxes()).filter(({ spec }) => spec.owner !== '');
    return owned.length === 2 && owned.every(({ status }) => status?.phase === 'RUNNING');
  });
  await reaches('WaitingForRoom');
});
