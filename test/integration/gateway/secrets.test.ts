import { CloudClient } from '@openhands/typescript-client/clients';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { sealingUnder } from '../../../src/agent/sealing.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { ownerSettings, settingsNameOf } from '../../../src/resources/owner-settings.ts';
import { CookieBrowser } from '../../support/gateway/cookie-browser.ts';
import { namespace, TestGateway, type Answer } from '../../support/gateway/test-gateway.ts';

const path = '/api/v1/secrets';
const value = 'hunter2-hunter2';
const ready = { start: { status: 'READY' as const, transitions: [] }, sandboxName: 'sbx-one' };

describe('secrets of an owner', () => {
  let gateway: TestGateway;
  beforeEach(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(() => gateway.stop());

  const add = (name: string, more: object = {}, key = gateway.alice) =>
    gateway.post(path, { name, value, ...more }, { key });
  const names = async (key = gateway.alice) =>
    ((await gateway.get(`${path}/search`, { key })).json as { items: readonly object[] }).items;
  const stored = (owner = 'alice') =>
    gateway.client.get(ownerSettings, namespace, settingsNameOf(owner));
  const opened = async (name: string) => {
    const secret = (await stored()).spec.secrets?.find((each) => each.name === name);
    const place = { scope: 'secret', owner: 'alice', name } as const;
    return sealingUnder(gateway.keys).open(secret?.sealed ?? '', place);
  };
  const problem = ({ status, json }: Answer) => {
    const { code, errors = [] } = json as { code: string; errors?: { path: string }[] };
    return [status, code, ...errors.map((error) => error.path)];
  };

  it('are shown by name, without values, to their owner alone', async () => {
    expect(await add('TOKEN', { description: 'For CI' })).toMatchObject({
      status: 201,
      json: { name: 'TOKEN', description: 'For CI' },
    });
    await add('ALPHA');
    expect(await names()).toEqual([
      { name: 'ALPHA', description: null },
      { name: 'TOKEN', description: 'For CI' },
    ]);
    expect(await names(gateway.bob)).toEqual([]);
    expect(await opened('TOKEN')).toBe(value);
  });

  it('come in pages', async () => {
    for (const name of ['C', 'A', 'B']) await add(name);
    const first = (await gateway.get(`${path}/search?limit=2`)).json as {
      items: object[];
      next_page_id: string;
    };
    expect(first.items).toMatchObject([{ name: 'A' }, { name: 'B' }]);
    expect(await gateway.get(`${path}/search?limit=2&page_id=${first.next_page_id}`)).toMatchObject(
      { json: { items: [{ name: 'C' }], next_page_id: null } },
    );
  });

  it('serve the published client', async () => {
    const client = new CloudClient({ host: gateway.url, apiKey: gateway.alice });
    await client.createSecret('TOKEN', value, 'For CI');
    await client.updateSecret('TOKEN', 'RENAMED', 'For more');
    expect(await client.listSecrets()).toEqual([{ name: 'RENAMED', description: 'For more' }]);
    expect(await opened('RENAMED')).toBe(value);
    await client.deleteSecret('RENAMED');
    expect(await client.listSecrets()).toEqual([]);
    await expect(client.deleteSecret('RENAMED')).rejects.toMatchObject({ status: 404 });
  });

  it('get another value as the official web UI sends it', async () => {
    await add('TOKEN', { description: 'For CI' });
    await gateway.send('PUT', `${path}/TOKEN`, { body: { name: 'KEY', description: 'For CD' } });
    expect(await add('KEY', { value: 'other' })).toMatchObject({
      status: 200,
      json: { name: 'KEY', description: 'For CD' },
    });
    expect(await names()).toEqual([{ name: 'KEY', description: 'For CD' }]);
    expect(await opened('KEY')).toBe('other');
  });

  it('keep their value and description unless a change names these', async () => {
    await add('TOKEN', { description: 'For CI' });
    const change = (body: object) => gateway.send('PUT', `${path}/TOKEN`, { body });
    expect(await change({ name: 'TOKEN' })).toMatchObject({
      status: 200,
      json: { description: 'For CI' },
    });
    expect(await opened('TOKEN')).toBe(value);
    expect(await change({ name: 'TOKEN', description: null, value: 'other' })).toMatchObject({
      json: { name: 'TOKEN', description: null },
    });
    expect(await opened('TOKEN')).toBe('other');
  });

  it('refuse a name that is in use, and one that is unknown', async () => {
    await add('ONE');
    await add('TWO');
    expect(problem(await gateway.send('PUT', `${path}/ONE`, { body: { name: 'TWO' } }))).toEqual([
      409,
      'secret-exists',
    ]);
    expect(problem(await gateway.send('PUT', `${path}/NONE`, { body: { name: 'NONE' } }))).toEqual([
      404,
      'not-found',
    ]);
    expect(problem(await gateway.send('DELETE', `${path}/NONE`))).toEqual([404, 'not-found']);
    expect(problem(await gateway.send('DELETE', `${path}/ONE`, { key: gateway.bob }))).toEqual([
      404,
      'not-found',
    ]);
  });

  it.each<[string, object, string]>([
    ['a name that no environment variable has', { name: '1X', value }, 'body.name'],
    ['a name with a line break', { name: 'X\n', value }, 'body.name'],
    ['no value', { name: 'X' }, 'body.value'],
    ['an empty value', { name: 'X', value: '' }, 'body.value'],
    ['a value of another type', { name: 'X', value: [value] }, 'body.value'],
    ['a value that is too long', { name: 'X', value: `${value}${'é'.repeat(8192)}` }, 'body.value'],
    ['half a surrogate pair', { name: 'X', value: `${value}\ud800` }, 'body.value'],
    ['a NUL character', { name: 'X', value: `${value}\0` }, 'body.value'],
    [
      'a description that is too long',
      { name: 'X', value, description: 'x'.repeat(501) },
      'body.description',
    ],
  ])('refuse %s, and repeat no value', async (_sentence, body, field) => {
    const answer = await gateway.post(path, body);
    expect(problem(answer)).toEqual([422, 'invalid-request', field]);
    expect(answer.text).not.toContain(value);
    expect(await names()).toEqual([]);
  });

  it('are bounded in number and size', async () => {
    const long = 'x'.repeat(16_384);
    for (let index = 0; index < 11; index++) await add(`LONG_${index}`, { value: long });
    expect(problem(await add('LONG_11', { value: long }))).toEqual([
      422,
      'invalid-request',
      'body.value',
    ]);
    for (let index = 11; index < 64; index++) expect((await add(`N_${index}`)).status).toBe(201);
    expect(problem(await add('ONE_MORE'))).toEqual([422, 'invalid-request', 'body.name']);
  });

  it('of many writes at once are all stored', async () => {
    const other = await gateway.replica();
    const all = Array.from({ length: 4 }, (_, index) =>
      (index % 2 === 0 ? gateway : other).post(path, { name: `S${index}`, value }),
    );
    const statuses = (await Promise.all(all)).map(({ status }) => status);
    const kept = statuses.filter((status) => status === 201).length;
    expect((await stored()).spec.secrets).toHaveLength(kept);
    expect(statuses.filter((status) => status !== 201 && status !== 409)).toEqual([]);
    await other.stop();
  });

  it('of an object with another name, or another owner, count for nothing', async () => {
    const sealed = sealingUnder(gateway.keys).seal(value, {
      scope: 'secret',
      owner: 'alice',
      name: 'TOKEN',
    });
    const secrets = [{ name: 'TOKEN', sealed, updatedTime: '2026-01-01T00:00:00Z' }];
    for (const [name, owner] of [
      ['mine', 'alice'],
      [settingsNameOf('bob'), 'alice'],
    ] as const)
      await gateway.seen(
        gateway.caches.ownerSettings,
        await gateway.client.create(ownerSettings, {
          apiVersion,
          kind: 'OwnerSettings',
          metadata: { namespace, name },
          spec: { owner, secrets },
        }),
      );
    expect(await names()).toEqual([]);
    expect(await names(gateway.bob)).toEqual([]);
    expect(problem(await add('TOKEN', {}, gateway.bob))).toEqual([409, 'conflict']);
  });

  it('whose master key is gone can be described and replaced, and not be renamed', async () => {
    await add('TOKEN');
    gateway.keys.replace([Buffer.alloc(32, 9)]);
    const change = (body: object) => gateway.send('PUT', `${path}/TOKEN`, { body });
    expect(problem(await change({ name: 'OTHER' }))).toEqual([409, 'secret-unreadable']);
    expect((await change({ name: 'TOKEN', description: 'Lost' })).status).toBe(200);
    expect((await change({ name: 'OTHER', value })).status).toBe(200);
    expect(await opened('OTHER')).toBe(value);
  });

  describe('in a sandbox', () => {
    const secretsOf = (sandbox: string, name = '') =>
      `/api/v1/sandboxes/${sandbox}/settings/secrets${name}`;
    const read = async (sandbox: string, name: string, key = gateway.alice) => {
      const response = await gateway.open('GET', secretsOf(sandbox, `/${name}`), { key });
      const chunks: Buffer[] = [];
      for await (const chunk of response) chunks.push(chunk as Buffer);
      return {
        status: response.statusCode,
        headers: response.headers,
        text: Buffer.concat(chunks).toString(),
      };
    };

    it('are listed and read, with a line in the audit for each value', async () => {
      await gateway.addSandbox('sbx-one');
      await add('TOKEN', { description: 'For CI' });
      expect(await gateway.get(secretsOf('sbx-one'))).toMatchObject({
        json: { secrets: [{ name: 'TOKEN', description: 'For CI' }] },
      });
      expect(await read('sbx-one', 'TOKEN')).toMatchObject({
        status: 200,
        text: value,
        headers: { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store' },
      });
      expect((await read('sbx-one', 'NONE')).status).toBe(404);
      expect((await read('sbx-one', 'TOKEN', gateway.bob)).status).toBe(404);
      expect(
        gateway.log.filter(({ message }) => message === 'SecretRead').map(({ fields }) => fields),
      ).toEqual([expect.objectContaining({ owner: 'alice', sandbox: 'sbx-one', secret: 'TOKEN' })]);
      expect(JSON.stringify(gateway.log)).not.toContain(value);
    });

    it('have no value for a page, which has the cookie of a session alone', async () => {
      await gateway.addSandbox('sbx-one');
      await add('TOKEN');
      const browser = new CookieBrowser(gateway);
      await browser.submit('/login', { api_key: gateway.alice });
      const listed = await browser.fetch('GET', secretsOf('sbx-one'));
      expect(listed.json).toMatchObject({ secrets: [{ name: 'TOKEN' }] });
      const answer = await browser.fetch('GET', secretsOf('sbx-one', '/TOKEN'));
      expect(problem(answer)).toEqual([403, 'forbidden']);
      expect(answer.text).not.toContain(value);
    });

    it('include those of the starts in it, which take the place of those of the owner', async () => {
      const { metadata } = await gateway.addSandbox('sbx-one');
      await add('TOKEN', { description: 'For CI' });
      const answer = await gateway.post('/api/v1/app-conversations', {
        initial_message: null,
        secrets: { TOKEN: 'of the start', OTHER: { value: 'as an object' } },
      });
      expect(answer.status).toBe(200);
      const [conversation] = (await gateway.client.list(conversations, { namespace })).items;
      const name = conversation?.metadata.name ?? '';
      await gateway.setStatus(name, { ...ready, sandboxUID: metadata.uid });
      expect(await gateway.get(secretsOf('sbx-one'))).toMatchObject({
        json: {
          secrets: [
            { name: 'OTHER', description: null },
            { name: 'TOKEN', description: null },
          ],
        },
      });
      expect((await read('sbx-one', 'TOKEN')).text).toBe('of the start');
      expect((await read('sbx-one', 'OTHER')).text).toBe('as an object');
      gateway.keys.replace([Buffer.alloc(32, 9)]);
      expect(await read('sbx-one', 'TOKEN')).toMatchObject({ status: 409 });
    });
  });
});

describe('secrets of a start', () => {
  let gateway: TestGateway;
  beforeEach(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(() => gateway.stop());

  const start = (secrets: unknown, headers = {}) =>
    gateway.post('/api/v1/app-conversations', { initial_message: null, secrets }, { headers });
  const keyed = { 'idempotency-key': 'one' };
  const all = async () => (await gateway.client.list(conversations, { namespace })).items;

  it.each<[string, unknown, string]>([
    ['a name that no environment variable has', { 'A-B': value }, 'body.secrets.A-B'],
    ['a value of another type', { A: 1 }, 'body.secrets.A'],
    ['an empty value', { A: '' }, 'body.secrets.A'],
    ['an object without a value', { A: { text: value } }, 'body.secrets.A'],
    [
      'too many',
      Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`A${index}`, value])),
      'body.secrets',
    ],
    [
      'too much',
      Object.fromEntries(
        Array.from({ length: 13 }, (_, index) => [`A${index}`, 'x'.repeat(16_384)]),
      ),
      'body.secrets',
    ],
  ])('refuse %s', async (_sentence, secrets, field) => {
    const answer = await start(secrets);
    expect(answer).toMatchObject({ status: 422, json: { errors: [{ path: field }] } });
    expect(answer.text).not.toContain(value);
  });

  it('make a repetition another request, unless they are equal, also after a rotation', async () => {
    const first = await start({ A: value, B: 'b' }, keyed);
    expect(await start({ B: 'b', A: { value } }, keyed)).toMatchObject({ json: first.json });
    for (const other of [{ A: value, B: 'c' }, { A: value }, undefined])
      expect(await start(other, keyed)).toMatchObject({
        status: 422,
        json: { code: 'idempotency-key-reused' },
      });
    gateway.keys.replace([Buffer.alloc(32, 9), Buffer.alloc(32, 7)]);
    expect(await start({ A: value, B: 'b' }, keyed)).toMatchObject({ json: first.json });
    expect(await all()).toHaveLength(1);
  });

  it('leave no text from which a value can be guessed', async () => {
    await start({ PIN: '1234' });
    const [one] = await all();
    await start({ PIN: '1234' });
    const annotations = (await all()).map(({ metadata }) => metadata.annotations ?? {});
    const macs = annotations.map((each) => each['conversation-operator.dev/secrets-hmac-sha256']);
    expect(new Set(macs).size).toBe(2);
    expect(macs).not.toContain(undefined);
    expect(one?.spec.secrets).toEqual([
      { name: 'PIN', sealed: expect.stringMatching(/^v1\./) as string },
    ]);
    const [mac] = new SandboxKeys([Buffer.alloc(32, 8)]).startSecretsMacs(
      JSON.stringify([one?.metadata.name, [['PIN', '1234']]]),
    );
    expect(macs).not.toContain(mac);
  });

  it('are absent where the request has none', async () => {
    await start({});
    await start(null);
    for (const { spec, metadata } of await all()) {
      expect(spec.secrets).toBeUndefined();
      expect(Object.keys(metadata.annotations ?? {})).toEqual([
        'conversation-operator.dev/request-sha256',
      ]);
    }
  });
});
