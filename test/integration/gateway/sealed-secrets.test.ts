import { CloudClient } from '@openhands/typescript-client/clients';
import { systemClock } from '@conversation-operator/base/clock';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { sealingUnder } from '../../../src/agent/sealing.ts';
import {
  createCallbackServer,
  type CallbackServer,
} from '../../../src/gateway/callback-server/callback-server.ts';
import { SecretReads } from '../../../src/gateway/auth/secret-reads.ts';
import { secretsHandler } from '../../../src/gateway/callback-server/secrets.ts';
import { SecretReader } from '../../../src/gateway/lookup/secret-reader.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { ownerSettings, settingsNameOf } from '../../../src/resources/owner-settings.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { leaksIn } from '../../support/leaks.ts';
import { namespace, ready, TwoOwners } from '../../support/gateway/two-owners.ts';

const oldKey = Buffer.from('a master key that no user may see');
const newKey = Buffer.from('another master key that is newer!');
const values = {
  'secret of the owner': 'canary-of-the-owner-1f6e',
  'secret that a start replaces': 'canary-that-is-replaced-77aa',
  'secret of the start': 'canary-of-the-start-90b2',
  header: 'canary-of-a-header-c41d',
  variable: 'canary-of-a-variable-5e08',
};
const running = '11'.repeat(16);
const other = '22'.repeat(16);
const ofBob = '33'.repeat(16);

describe('secrets in the cluster', () => {
  const audit: { message: string; fields: object }[] = [];
  const answers: string[] = [];
  let world: TwoOwners;
  let client: CloudClient;
  let side: CallbackServer;
  let sidePort = 0;
  let reads: SecretReads;
  const handlerLog = () => JSON.stringify(audit);

  beforeAll(async () => {
    world = await TwoOwners.start({ resealDelayMs: 10 });
    client = new CloudClient({ host: `http://127.0.0.1:${world.port}`, apiKey: world.keys.alice });
    const { caches, sandboxKeys: keys } = world;
    reads = new SecretReads({
      clock: systemClock,
      audit: (message, fields) => void audit.push({ message, fields }),
    });
    side = createCallbackServer({
      handlers: [
        secretsHandler({
          keys,
          clock: systemClock,
          lagMs: 50,
          reads,
          secrets: new SecretReader({
            client: world.client,
            sealing: sealingUnder(keys),
            ...caches,
          }),
        }),
      ],
      sandboxes: caches.sandboxes,
      namespace,
      host: '127.0.0.1',
      port: 0,
      clock: systemClock,
      logger: world.log.logger,
      metrics: world.metrics,
    });
    ({ port: sidePort } = await side.listen());
    await world.addSandbox('alice', `sbx-${running}`);
    await world.addPair('alice', other);
    await world.addPair('bob', ofBob);
  });
  afterAll(async () => {
    await side.close();
    reads.close();
    await world.stop();
  });

  /** A request of the owner, whose answer is searched later. */
  const call = async (method: string, target: string, json?: object, key = world.keys.alice) => {
    const body = json === undefined ? undefined : Buffer.from(JSON.stringify(json));
    const got = await world.send({
      method,
      target,
      body,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(body.length) }),
      },
    });
    const text = got?.body.toString() ?? '';
    answers.push(JSON.stringify(got?.headers), text);
    return { status: got?.status, text };
  };
  /** A request of a process in a sandbox. */
  const ask = async (
    path: string,
    { token = tokenOf(path.split('/')[0] ?? ''), method = 'GET' } = {},
  ) => {
    const answer = await fetch(`http://127.0.0.1:${sidePort}/secrets/${path}`, {
      method,
      headers: token === '' ? {} : { authorization: `Bearer ${token}` },
    });
    const text = await answer.text();
    return { status: answer.status, text, headers: answer.headers };
  };
  const tokenOf = (sandbox: string) => {
    const uid = world.caches.sandboxes.store.get(namespace, sandbox)?.metadata.uid;
    return uid === undefined ? '' : world.sandboxKeys.secretsToken(uid);
  };
  const settings = () => world.client.get(ownerSettings, namespace, settingsNameOf('alice'));
  const readAll = async () => [
    await ask(`sbx-${running}/${running}/TOKEN`),
    await ask(`sbx-${running}/${running}/REPLACED`),
    await ask(`sbx-${running}/${other}/TOKEN`),
  ];

  it('are stored by the published client and a start', async () => {
    await client.createSecret('TOKEN', values['secret of the owner'], 'For CI');
    await client.createSecret('REPLACED', values['secret that a start replaces']);
    await client.saveSettings({
      agent_settings_diff: {
        llm: { model: 'openai/small' },
        mcp_config: {
          docs: { url: 'https://docs.example', headers: { Authorization: values.header } },
          tool: { command: 'npx', env: { TOKEN: values.variable } },
        },
      },
      app_preferences: { git_user_name: 'Alice', git_user_email: 'alice@example.com' },
    });
    const read = await client.getSettingsWithDerivedFields();
    answers.push(JSON.stringify(read), JSON.stringify(await client.listSecrets()));
    expect(read).toMatchObject({
      llm_model: 'openai/small',
      git_user_name: 'Alice',
      agent_settings: { llm: { model: 'openai/small' }, mcp_config: { docs: {}, tool: {} } },
    });
    const started = await call('POST', '/api/v1/app-conversations', {
      conversation_id: running,
      initial_message: null,
      secrets: { REPLACED: values['secret of the start'] },
    });
    expect(started.status).toBe(200);
    const { uid } = (await world.client.get(sandboxes, namespace, `sbx-${running}`)).metadata;
    const status = { ...ready, sandboxName: `sbx-${running}`, sandboxUID: uid };
    const stored = await world.client.mergePatch(
      ...([conversations, namespace, running, { status }, { subresource: 'status' }] as const),
    );
    await world.seen(world.caches.conversations, stored);
    expect(stored.spec.agent?.model).toBe('openai/small');
  });

  it('reach the agents of their conversations', async () => {
    const [owned, replaced] = await readAll();
    expect(owned).toMatchObject({ status: 200, text: values['secret of the owner'] });
    expect(owned?.headers.get('cache-control')).toBe('no-store');
    expect(owned?.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(replaced).toMatchObject({ status: 200, text: values['secret of the start'] });
    expect(await ask(`sbx-${other}/${other}/REPLACED`)).toMatchObject({
      text: values['secret that a start replaces'],
    });
    expect(audit.at(-1)).toMatchObject({
      message: 'SecretRead',
      fields: { owner: 'alice', sandbox: `sbx-${other}`, conversation: other, secret: 'REPLACED' },
    });
  });

  it.each<[string, () => ReturnType<typeof ask>, number, string]>([
    ['an unknown name', () => ask(`sbx-${running}/${running}/NONE`), 404, 'no such secret'],
    [
      'no token',
      () => ask(`sbx-${running}/${running}/TOKEN`, { token: '' }),
      403,
      'secrets token of the sandbox is needed',
    ],
    [
      'the token of another sandbox',
      () => ask(`sbx-${running}/${running}/TOKEN`, { token: tokenOf(`sbx-${other}`) }),
      403,
      'secrets token of the sandbox is needed',
    ],
    [
      'an unknown sandbox',
      () => ask(`sbx-none/${running}/TOKEN`, { token: tokenOf(`sbx-${other}`) }),
      403,
      'secrets token of the sandbox is needed',
    ],
    [
      'a conversation of the owner in another sandbox',
      () => ask(`sbx-${other}/${running}/REPLACED`),
      403,
      'The conversation is not in this sandbox',
    ],
    [
      'a conversation of another owner',
      () => ask(`sbx-${other}/${ofBob}/TOKEN`),
      403,
      'The conversation is not in this sandbox',
    ],
    ['a secret of another owner', () => ask(`sbx-${ofBob}/${ofBob}/TOKEN`), 404, 'no such secret'],
    [
      'another method',
      () => ask(`sbx-${running}/${running}/TOKEN`, { method: 'DELETE' }),
      405,
      'Secrets are read',
    ],
    ['a longer path', () => ask(`sbx-${running}/${running}/TOKEN/x`), 404, 'no such endpoint'],
  ])('are refused for %s', async (_sentence, request, status, words) => {
    const answer = await request();
    answers.push(answer.text);
    expect([answer.status, answer.text]).toEqual([status, expect.stringContaining(words)]);
  });

  it('are refused in a paused sandbox', async () => {
    const paused = '44'.repeat(16);
    await world.addPair('alice', paused, world.running, 0);
    const answer = await ask(`sbx-${paused}/${paused}/TOKEN`);
    expect([answer.status, answer.text]).toEqual([
      403,
      expect.stringContaining('The sandbox is paused'),
    ]);
  });

  it('are refused in a sandbox that is being deleted', async () => {
    const ending = '55'.repeat(16);
    await world.addPair('alice', ending);
    const name = `sbx-${ending}`;
    const token = tokenOf(name);
    const metadata = { finalizers: ['example.com/wait'] };
    await world.client.mergePatch(sandboxes, namespace, name, { metadata });
    await world.client.delete(sandboxes, namespace, name);
    await eventually('the cache shows the deletion', () => {
      const seen = world.caches.sandboxes.store.get(namespace, name);
      return seen?.metadata.deletionTimestamp !== undefined;
    });
    const answer = await ask(`${name}/${ending}/TOKEN`, { token });
    expect([answer.status, answer.text]).toEqual([
      403,
      expect.stringContaining('The sandbox is being deleted'),
    ]);
  });

  const expectSealed = async () => {
    for (const target of [
      '/api/v1/secrets/search',
      '/api/v1/settings',
      '/api/settings',
      `/api/v1/app-conversations?ids=${running}`,
      `/api/v1/app-conversations/start-tasks?ids=${running}`,
      '/api/v1/app-conversations/search',
      '/api/v1/sandboxes/search',
      `/api/v1/sandboxes/sbx-${running}/settings/secrets`,
      '/api/v1/overview',
    ])
      await call('GET', target);
    await call('POST', '/api/v1/secrets', { name: 'TOKEN', value: values['secret of the owner'] });
    await call('POST', '/api/v1/secrets', { name: 'A B', value: values['secret of the owner'] });
    await call('POST', '/api/v1/app-conversations', {
      conversation_id: running,
      initial_message: null,
      secrets: { REPLACED: values['secret of the start'], 'A B': values.header },
    });
    const objects = JSON.stringify(await world.cluster());
    expect(objects).toContain('"sealed":"v1.');
    expect(leaksIn(objects, values)).toEqual([]);
    expect(leaksIn(JSON.stringify(world.log.lines) + handlerLog(), values)).toEqual([]);
    expect(leaksIn(answers.join('\n'), values)).toEqual([]);
    expect(leaksIn(await world.metrics.registry.metrics(), values)).toEqual([]);
  };

  it('appear in no object, answer or log line', expectSealed);

  it('are read at a rate, and repetitions leave no line of their own', async () => {
    audit.length = 0;
    const statuses = new Map<number, number>();
    // More at once than a sandbox may read at once, and far more than in the time that this takes.
    for (let round = 0; round < 100; round++)
      for (const { status } of await Promise.all(
        Array.from({ length: 4 }, () => ask(`sbx-${other}/${other}/TOKEN`)),
      ))
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
    expect([...statuses.keys()].sort()).toEqual([200, 429]);
    expect(audit).toHaveLength(1);
  });

  it('are sealed under a new master key, and then need the old one no more', async () => {
    const oldId = new SandboxKeys([oldKey]).currentKeyId;
    const newId = new SandboxKeys([newKey]).currentKeyId;
    world.sandboxKeys.replace([newKey, oldKey]);
    await eventually('the settings are sealed under the new key', async () => {
      const text = JSON.stringify(await settings());
      return !text.includes(`v1.${oldId}.`) && text.split(`v1.${newId}.`).length === 5;
    });
    await world.seen(world.caches.ownerSettings, await settings());
    expect((await readAll()).map(({ status }) => status)).toEqual([200, 200, 403]);
    await expectSealed();

    world.sandboxKeys.replace([newKey]);
    const [owned, ofStart] = await readAll();
    expect(owned).toMatchObject({ status: 200, text: values['secret of the owner'] });
    // Secrets of starts are never sealed anew.
    expect(ofStart).toMatchObject({ status: 409 });
    expect(ofStart?.text).toContain('secret-unreadable');
    await expectSealed();
  });
});
