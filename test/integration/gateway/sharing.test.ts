import { dashedUuid, newUuid } from '@conversation-operator/base/uuid';
import { directly } from '@conversation-operator/outward/outward';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { TransportError } from '@conversation-operator/kube/errors';
import { kubeEvents } from '@conversation-operator/kube/core';
import { generateKey, hashKey, issueKey } from '../../../src/gateway/auth/key.ts';
import { apiKeys } from '../../../src/resources/api-key.ts';
import type { ConversationStatus } from '../../../src/resources/conversation-status.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { shareNameOf, shares, type Share, type ShareSpec } from '../../../src/resources/share.ts';
import type { IssuerSettings } from '../../../src/gateway/sign-in/identity.ts';
import { fakeAgent, type FakeAgent } from '../../unit/agent/fake-agent.ts';
import { eventually } from '../../support/eventually.ts';
import { FakeHistory } from '../../support/gateway/fake-history.ts';
import { sessionCookie } from '../../support/gateway/session.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';

const time = '2026-01-01T00:00:00Z';
const folder = '/workspace/project';
const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: 'Paused for the conversation 0123456789abcdef0123456789abcdef.',
  lastTransitionTime: time,
});
const company = {
  name: 'company',
  issuer: 'https://login.example.com',
  clientId: 'x',
  scopes: ['openid'],
  nameClaim: ['name'],
  rules: [
    { claim: ['groups'], value: 'developers', role: 'user' },
    { claim: ['groups'], value: 'developers-of-tools', role: 'user' },
  ],
  recheckSeconds: 900,
} satisfies IssuerSettings;
const signIn = { issuers: [company], outward: directly, requireActivePerson: false };

interface Created {
  readonly id: string;
  readonly url: string;
}

/** A clock whose wall and monotonic time a test moves. */
function movable() {
  let aheadMs = 0;
  const clock: Clock = {
    ...systemClock,
    now: () => systemClock.now() + aheadMs,
    monotonic: () => systemClock.monotonic() + aheadMs,
  };
  return { clock, pass: (ms: number) => (aheadMs += ms) };
}

describe('a shared conversation', () => {
  const history = new FakeHistory();
  let gateway: TestGateway;
  let time: ReturnType<typeof movable>;
  let id: string;

  beforeEach(async () => {
    time = movable();
    gateway = await TestGateway.start({ history, signIn, clock: time.clock });
    id = newUuid(Date.now());
    await gateway.addConversation(id, { status: started });
  });
  afterEach(() => gateway.stop());

  const started: ConversationStatus = {
    start: { status: 'READY', transitions: [{ status: 'READY', time: '2026-01-01T00:00:00Z' }] },
    workingDir: folder,
    sandboxName: 'sbx',
  };
  const path = (what = '') => `/api/v1/app-conversations/${id}/shares${what}`;
  const share = async (subject: object = { kind: 'link' }, more: object = {}) => {
    const answer = await gateway.post(path(), { subject, ...more });
    expect(answer.status).toBe(201);
    const created = answer.json as Created;
    return { ...created, token: created.url.slice(created.url.lastIndexOf('/') + 1) };
  };
  const read = (token: string, what = 'conversation', headers = {}, at = gateway) =>
    at.get(`/api/v1/shared/${token}/${what}`, { key: null, headers });
  const open = async (token: string, headers = {}, at = gateway) =>
    (await read(token, 'conversation', headers, at)).status;
  const audit = (message: string) => gateway.log.filter((line) => line.message === message);

  it('is read by the link that its owner makes, without a key', async () => {
    const { url, token } = await share();
    expect(url).toBe(`${gateway.url}/shared/${token}`);
    const answer = await read(token);
    expect(answer).toMatchObject({
      status: 200,
      json: { id, title: 'Say hello.', shared: { with: 'link', expires_at: null } },
      headers: { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' },
    });
  });

  it('lists its shares without their links', async () => {
    const { id: first, token } = await share();
    gateway.client.now = () => Date.now() + 1_000;
    await share({ kind: 'user', name: 'bob' }, { expires_at: '2999-01-01T00:00:00Z' });
    const { text, json } = await gateway.get(path());
    expect(json).toMatchObject([
      { id: first, subject: { kind: 'link', name: null }, expires_at: null },
      { subject: { kind: 'user', name: 'bob' }, expires_at: '2999-01-01T00:00:00.000000Z' },
    ]);
    expect(text).not.toContain(token);
    const [stored] = (await gateway.client.list(shares)).items;
    expect(JSON.stringify(stored)).not.toContain(token);
  });

  describe('is refused, as an unknown link is', () => {
    it.each<[string, () => Promise<string>]>([
      ['of an unknown token', () => Promise.resolve(generateKey(undefined, 'cs_'))],
      ['of a token with a wrong checksum', async () => `${(await share()).token.slice(0, -1)}_`],
      ['of an API key', () => Promise.resolve(gateway.alice)],
      [
        'after its revocation',
        async () => {
          const { id: shareId, token } = await share();
          expect(await open(token)).toBe(200);
          expect((await gateway.send('DELETE', path(`/${shareId}`))).status).toBe(204);
          time.pass(2_000);
          return token;
        },
      ],
      [
        'after its end',
        async () => {
          const expires_at = new Date(time.clock.now() + 60_000).toISOString();
          const { token } = await share({ kind: 'link' }, { expires_at });
          expect(await open(token)).toBe(200);
          time.pass(60_001);
          return token;
        },
      ],
      [
        'after the deletion of the conversation',
        async () => {
          const { token } = await share();
          await gateway.send('DELETE', `/api/v1/app-conversations/${id}`);
          return token;
        },
      ],
      [
        'of a conversation that was deleted and made again under its name',
        async () => {
          const { token } = await share();
          await gateway.send('DELETE', `/api/v1/app-conversations/${id}`);
          await gateway.addConversation(id, { status: started });
          return token;
        },
      ],
      [
        'of a conversation that another owner has now',
        async () => {
          const { token } = await share();
          const stored = await gateway.client.get(conversations, namespace, id);
          const moved = gateway.client.put(conversations, {
            ...stored,
            spec: { ...stored.spec, owner: 'bob' },
          });
          await gateway.seen(gateway.caches.conversations, moved);
          return token;
        },
      ],
      [
        'once the API key that made it is disabled',
        async () => {
          const { token } = await share();
          const name = gateway.caches.apiKeys.store
            .list()
            .find(({ spec }) => spec.owner === 'alice')?.metadata.name;
          await gateway.seen(
            gateway.caches.apiKeys,
            await gateway.client.mergePatch(apiKeys, namespace, name ?? '', {
              spec: { disabled: true },
            }),
          );
          return token;
        },
      ],
      ['where a person was named', async () => (await share({ kind: 'user', name: 'bob' })).token],
      [
        'where a group was named',
        async () => (await share({ kind: 'group', name: 'company:developers' })).token,
      ],
      [
        'of an object under another name than the token gives',
        async () => {
          const token = generateKey(undefined, 'cs_');
          await store({ sha256: hashKey(token) }, 'share-of-mine');
          return token;
        },
      ],
      [
        'of an object under the name of another token',
        async () => {
          const token = generateKey(undefined, 'cs_');
          await store({ sha256: 'f'.repeat(64) }, shareNameOf(hashKey(token)));
          return token;
        },
      ],
      [
        "of an object that names another owner's conversation",
        async () => {
          const token = generateKey(undefined, 'cs_');
          await store({ sha256: hashKey(token), owner: 'bob' }, shareNameOf(hashKey(token)));
          return token;
        },
      ],
    ])('%s', async (_case, tokenOf) => {
      const unknown = await read('none');
      const token = await tokenOf();
      for (const what of reads) {
        const answer = await read(token, what);
        expect({ what, status: answer.status }).toEqual({ what, status: 404 });
        expect({ ...(answer.json as object), request_id: '' }).toEqual({
          ...(unknown.json as object),
          request_id: '',
        });
      }
    });

    /** A Share that a user of kubectl creates. */
    const store = async (spec: Partial<ShareSpec>, name: string): Promise<Share> => {
      const { uid } = (await gateway.client.get(conversations, namespace, id)).metadata;
      return gateway.client.create(shares, {
        apiVersion,
        kind: 'Share',
        metadata: { namespace, name },
        spec: {
          owner: 'alice',
          conversation: { name: id, uid },
          subject: { kind: 'Link' },
          sha256: '',
          createdBy: 'kubectl',
          ...spec,
        },
      });
    };
    const reads = [
      'conversation',
      'events/search',
      'events/count',
      `files?path=${folder}`,
      `file?file_path=${folder}/a`,
      `git/changes?path=${folder}`,
      `git/diff?path=${folder}/a`,
      'timeline',
    ];
  });

  describe('that is for a person or a group', () => {
    it('opens for this person alone, by a key or a session', async () => {
      const { token } = await share({ kind: 'user', name: 'bob' });
      const carol = await gateway.issueKey('carol');
      const cookie = await sessionCookie(gateway.url, gateway.bob);
      const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
      expect(await open(token, bearer(gateway.bob))).toBe(200);
      expect(await open(token, { cookie })).toBe(200);
      expect(await open(token, bearer(gateway.alice))).toBe(200);
      expect(await open(token, bearer(carol))).toBe(404);
      expect(await open(token, { cookie, 'sec-fetch-site': 'cross-site' })).toBe(404);
    });

    it('opens for no key without the scope read', async () => {
      const { token } = await share({ kind: 'user', name: 'bob' });
      const { json } = await gateway.post(
        '/api/keys',
        { name: 'starts', scopes: ['start'] },
        { key: gateway.bob },
      );
      const { key } = json as { readonly key: string };
      expect(await open(token, { authorization: `Bearer ${key}` })).toBe(404);
    });

    it.each<[string, string[], number]>([
      ['in the group', ['company:developers'], 200],
      ['in a group whose name begins as the group', ['company:developers-of-tools'], 404],
      ['in the same group of another provider', ['partner:developers'], 404],
      ['in no group', [], 404],
    ])('opens for a person %s: %s', async (_case, groups, status) => {
      const { token } = await share({ kind: 'group', name: 'company:developers' });
      const person = { issuer: 'company', subject: 'carol', name: 'Carol', recheckSeconds: 900 };
      const { key, resource } = await issueKey({
        client: gateway.client,
        namespace,
        owner: 'carol',
        person: groups.length === 0 ? person : { ...person, groups },
      });
      await gateway.seen(gateway.caches.apiKeys, resource);
      expect(await open(token, { authorization: `Bearer ${key}` })).toBe(status);
    });

    it('names the groups that there are where a group is unknown', async () => {
      const { status, json } = await gateway.post(path(), {
        subject: { kind: 'group', name: 'company:dev' },
      });
      expect({ status, errors: (json as { readonly errors: unknown }).errors }).toEqual({
        status: 422,
        errors: [
          {
            path: 'body.subject.name',
            message: 'must be one of the groups company:developers, company:developers-of-tools',
          },
        ],
      });
    });
  });

  it.each<[string, object, string]>([
    ['no subject', {}, 'body.subject'],
    ['another kind', { subject: { kind: 'all' } }, 'body.subject.kind'],
    ['a link with a name', { subject: { kind: 'link', name: 'bob' } }, 'body.subject.name'],
    ['a person without a name', { subject: { kind: 'user' } }, 'body.subject.name'],
    ['a name that no owner has', { subject: { kind: 'user', name: ' ' } }, 'body.subject.name'],
    [
      'an end in the past',
      { subject: { kind: 'link' }, expires_at: '2020-01-01' },
      'body.expires_at',
    ],
    ['a field that is misspelt', { subject: { kind: 'link' }, expire_at: 'x' }, 'body.expire_at'],
  ])('is not shared with %s', async (_case, body, field) => {
    const { status, json } = await gateway.post(path(), body);
    expect(status).toBe(422);
    expect((json as { readonly errors: readonly { path: string }[] }).errors[0]?.path).toBe(field);
  });

  it('is shared and revoked with the scope manage alone, and only by its owner', async () => {
    const { id: shareId } = await share();
    const { json } = await gateway.post('/api/keys', { name: 'r', scopes: ['read', 'start'] });
    const { key } = json as { readonly key: string };
    const body = { subject: { kind: 'link' } };
    expect((await gateway.post(path(), body, { key })).status).toBe(403);
    expect((await gateway.send('DELETE', path(`/${shareId}`), { key })).status).toBe(403);
    expect((await gateway.get(path(), { key })).status).toBe(200);
    const { bob } = gateway;
    expect((await gateway.post(path(), body, { key: bob })).status).toBe(404);
    expect((await gateway.get(path(), { key: bob })).status).toBe(404);
    expect((await gateway.send('DELETE', path(`/${shareId}`), { key: bob })).status).toBe(404);
  });

  it('has several links, each of which ends by itself', async () => {
    const [one, other] = [await share(), await share()];
    await gateway.send('DELETE', path(`/${one.id}`));
    time.pass(2_000);
    expect([await open(one.token), await open(other.token)]).toEqual([404, 200]);
  });

  it('stays shared after the sign-out of the session that shared it, as long as its key is valid', async () => {
    const cookie = await sessionCookie(gateway.url, gateway.alice);
    const headers = { cookie, origin: gateway.url, 'sec-fetch-site': 'same-origin' };
    const body = { subject: { kind: 'link' } };
    const { json } = await gateway.post(path(), body, { key: null, headers });
    const { url } = json as Created;
    const token = url.slice(url.lastIndexOf('/') + 1);
    await gateway.send('POST', '/logout', { key: null, headers });
    expect((await gateway.get(path(), { key: null, headers: { cookie } })).status).toBe(401);
    expect(await open(token)).toBe(200);
    const [key] = gateway.caches.apiKeys.store
      .list()
      .filter(({ spec }) => spec.owner === 'alice' && spec.signIn === undefined);
    await gateway.client.delete(apiKeys, namespace, key?.metadata.name ?? '');
    await eventually('the end', async () => (await open(token)) === 404, 5_000);
  });

  it('is revoked with its own conversation alone', async () => {
    const { id: shareId, token } = await share();
    const other = newUuid(Date.now());
    await gateway.addConversation(other, { spec: { owner: 'bob' }, status: started });
    const ofBob = `/api/v1/app-conversations/${other}/shares/${shareId}`;
    expect((await gateway.send('DELETE', ofBob, { key: gateway.bob })).status).toBe(404);
    const mine = newUuid(Date.now());
    await gateway.addConversation(mine, { status: started });
    const ofOther = `/api/v1/app-conversations/${mine}/shares/${shareId}`;
    expect((await gateway.send('DELETE', ofOther)).status).toBe(404);
    time.pass(2_000);
    expect(await open(token)).toBe(200);
  });

  it('has at most 20 shares, and says so', async () => {
    for (let index = 0; index < 20; index++) await share();
    expect(await gateway.post(path(), { subject: { kind: 'link' } })).toMatchObject({
      status: 409,
      json: { code: 'too-many-shares', limit: 20, current: 20 },
    });
  });

  it('opens no other conversation, and nothing else', async () => {
    const other = newUuid(Date.now());
    await gateway.addConversation(other, { spec: { parent: id }, status: started });
    const { token } = await share();
    const { text } = await read(token);
    expect(text).not.toContain(other);
    const key = token;
    for (const [method, target] of [
      ['GET', `/api/v1/app-conversations?ids=${id}`],
      ['GET', `/api/v1/app-conversations/${id}/timeline`],
      ['GET', `/api/v1/app-conversations/${other}/timeline`],
      ['GET', `/api/v1/conversation/${id}/events/search`],
      ['GET', path()],
      ['POST', path()],
      ['POST', `/api/v1/app-conversations/${id}/send-message`],
      ['POST', '/api/v1/app-conversations'],
      ['PATCH', `/api/v1/app-conversations/${id}`],
      ['DELETE', `/api/v1/app-conversations/${id}`],
      ['GET', '/api/v1/users/me'],
      ['GET', '/api/v1/secrets/search'],
      ['GET', '/api/v1/stream'],
    ] as const)
      for (const headers of [{ authorization: `Bearer ${key}` }, { 'x-session-api-key': key }])
        expect({
          target,
          status: (await gateway.send(method, target, { key: null, headers, body: {} })).status,
        }).toEqual({ target, status: 401 });
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      expect(
        (await gateway.send(method, `/api/v1/shared/${token}/conversation`, { key: null })).status,
      ).toBe(405);
  });

  it('writes who opened it to the audit log, at once and then once a minute, and never the token', async () => {
    const { id: name, token } = await share({ kind: 'user', name: 'bob' });
    await open(token, { authorization: `Bearer ${gateway.bob}` });
    await open(token, { authorization: `Bearer ${gateway.bob}` });
    await read(token);
    expect(audit('ShareCreated')).toMatchObject([
      {
        fields: {
          share: name,
          conversation: id,
          owner: 'alice',
          with: { kind: 'User', name: 'bob' },
        },
      },
    ]);
    expect(audit('ShareOpened')).toMatchObject([
      {
        fields: {
          share: name,
          conversation: id,
          sharedBy: 'alice',
          owner: 'bob',
          key: expect.any(String) as string,
          client: '127.0.0.1',
        },
      },
    ]);
    await gateway.send('DELETE', path(`/${name}`));
    expect(audit('ShareRevoked')).toMatchObject([{ fields: { share: name, owner: 'alice' } }]);
    await gateway.gateway.close();
    expect(audit('ShareOpened')).toMatchObject([{}, { fields: { repeats: 1 } }]);
    expect(JSON.stringify(gateway.log)).not.toContain(token);
  });

  it('writes that nobody knows who opened a link, and from where', async () => {
    const { id: name, token } = await share();
    await read(token);
    expect(audit('ShareOpened').map(({ fields }) => fields)).toEqual([
      {
        component: 'audit',
        requestId: expect.any(String) as string,
        client: '127.0.0.1',
        share: name,
        conversation: id,
        sharedBy: 'alice',
      },
    ]);
  });

  describe('on two replicas', () => {
    let other: TestGateway;
    beforeEach(async () => {
      other = await gateway.replica({ history, signIn });
    });
    afterEach(() => other.stop());

    it('is refused within 5 seconds of its revocation on each, also where a watch is silent', async () => {
      const { id: shareId, token } = await share();
      expect(await open(token, {}, other)).toBe(200);
      await other.fallBehind();
      await gateway.send('DELETE', path(`/${shareId}`));
      const revokedMs = performance.now();
      await eventually('the refusal', async () => (await open(token, {}, other)) === 404, 5_000);
      expect(performance.now() - revokedMs).toBeLessThan(5_000);
    });

    it('opens nowhere while the API server does not answer', async () => {
      const { token } = await share();
      expect(await open(token)).toBe(200);
      gateway.client.fault = ({ plural }) =>
        plural === 'shares' ? new TransportError('refused', { sent: false }) : undefined;
      time.pass(2_000);
      expect(await open(token)).toBe(503);
      expect(await open(token, {}, other)).toBe(503);
      gateway.client.fault = () => undefined;
      expect(await open(token)).toBe(200);
    });
  });

  it('is limited by link and by address, and takes nothing of the rate of its owner', async () => {
    const { token } = await share();
    const answers: Answer[] = [];
    for (let index = 0; index < 130; index++) answers.push(await read(token));
    const refused = answers.find(({ status }) => status === 429);
    expect(refused).toMatchObject({
      json: { code: 'rate-limited' },
      headers: { 'retry-after': '1' },
    });
    expect((await gateway.get(path())).status).toBe(200);
  });

  it('asks the API server for few of the tokens that one address guesses', async () => {
    let asked = 0;
    gateway.client.fault = ({ verb, plural }) => {
      if (verb === 'get' && plural === 'shares') asked += 1;
      return undefined;
    };
    for (let index = 0; index < 60; index++) await read(generateKey(undefined, 'cs_'));
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThanOrEqual(25);
  });

  describe('in a sandbox', () => {
    let agent: FakeAgent;
    const bash = 'POST /api/bash/execute_bash_command';
    const events = () => `GET /api/conversations/${dashedUuid(id)}`;
    const setUp = async (replicas: 0 | 1, answers: Parameters<typeof fakeAgent>[0] = {}) => {
      agent = await fakeAgent(answers);
      await gateway.addSandbox('sbx', {
        replicas,
        status: {
          podIP: '127.0.0.1',
          agentPort: Number(new URL(agent.endpoint.baseUrl).port),
          conditions: [is('Admitted'), is('Ready')],
        },
      });
    };
    afterEach(() => agent[Symbol.asyncDispose]());

    const listed = (...names: readonly string[]) => ({
      body: {
        exit_code: 0,
        stdout: Buffer.from(`\0\0${names.map((name) => `${name}\0`).join('')}`).toString('base64'),
      },
    });
    const visible = { body: { exit_code: 0, stdout: 'visible\n' } };
    const hidden = { body: { exit_code: 0, stdout: '' } };

    it('that runs is shown without what opens its agent, and without settings in its events', async () => {
      const items = [
        { id: '1', kind: 'MessageEvent', source: 'user', llm_message: { content: [] } },
        { id: '2', kind: 'SystemPromptEvent', source: 'agent', system_prompt: { text: 'PROMPT' } },
        {
          id: '3',
          kind: 'ConversationStateUpdateEvent',
          key: 'full_state',
          value: { agent: { llm: { api_key: 'SECRET' } } },
        },
        {
          id: '4',
          kind: 'ConversationStateUpdateEvent',
          key: 'acp_secrets_skipped',
          value: ['TOKEN_NAME'],
        },
        { id: '5', kind: 'ConversationStateUpdateEvent', key: 'plan', value: [] },
        { id: '6', kind: 'NewEvent', value: 'UNKNOWN' },
      ];
      await setUp(1, {
        [`${events()}/events/search`]: { body: { items, next_page_id: 'next' } },
        [`${events()}/events/count`]: { body: 6 },
      });
      const { token } = await share();
      const record = await read(token);
      expect(record).toMatchObject({ status: 200, json: { sandbox_status: 'RUNNING' } });
      expect(Object.keys(record.json as object).toSorted()).toEqual(
        [
          ...['id', 'created_by_user_id', 'sandbox_status', 'sandbox_status_reason', 'title'],
          ...['execution_status', 'last_result', 'selected_repository', 'selected_branch'],
          ...['git_provider', 'pr_number', 'pull_requests', 'agent_kind', 'agent_name'],
          ...['workspace', 'created_at', 'updated_at', 'shared'],
        ].toSorted(),
      );
      const page = await read(token, 'events/search');
      expect(page.json).toEqual({
        items: [
          items[0],
          { id: '2', kind: 'SystemPromptEvent', source: 'agent', withheld: true },
          { id: '3', kind: 'ConversationStateUpdateEvent', withheld: true },
          { id: '4', kind: 'ConversationStateUpdateEvent', withheld: true },
          items[4],
          { id: '6', kind: 'NewEvent', withheld: true },
        ],
        next_page_id: 'next',
      });
      expect((await read(token, 'events/count')).json).toBe(6);
    });

    it('shows nothing that an agent answers after the share has ended', async () => {
      let end = () => Promise.resolve<unknown>(undefined);
      const items = [{ id: '1', kind: 'MessageEvent', source: 'user' }];
      let ended: Promise<unknown> | undefined;
      await setUp(1, {
        [`${events()}/events/search`]: () => {
          ended = end();
          time.pass(2_000);
          return { body: { items, next_page_id: null }, afterMs: 200 };
        },
      });
      const revoked = await share();
      const of = ({ token }: { readonly token: string }) => read(token, 'events/search');
      expect(await of(revoked)).toMatchObject({ status: 200, json: { items } });
      end = () => gateway.send('DELETE', path(`/${revoked.id}`));
      expect((await of(revoked)).status).toBe(404);
      expect(await ended).toMatchObject({ status: 204 });
      const expired = await share(undefined, {
        expires_at: new Date(time.clock.now() + 1_000).toISOString(),
      });
      end = () => Promise.resolve(undefined);
      expect((await of(expired)).status).toBe(404);
    });

    it('shows the life without other conversations, quotas and nodes', async () => {
      await setUp(1);
      const { uid } = (await gateway.client.get(conversations, namespace, id)).metadata;
      await gateway.client.create(kubeEvents, {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { namespace, name: 'one' },
        involvedObject: { kind: 'Conversation', namespace, name: id, uid },
        reason: 'Paused',
        message: 'Paused for the conversation of-another.',
        type: 'Normal',
        firstTimestamp: '2026-01-01T00:00:00Z',
      });
      const { token } = await share();
      const { json, text } = await read(token, 'timeline');
      expect(json).toEqual(
        expect.arrayContaining([
          expect.objectContaining({ reason: 'Paused', message: 'The owner sees the details.' }),
          expect.objectContaining({
            reason: 'READY',
            message: 'The agent has accepted the conversation.',
          }),
        ]),
      );
      expect(text).not.toMatch(/of-another|0123456789abcdef/);
    });

    it('shows files of its working folder', async () => {
      let command = '';
      await setUp(1, {
        [bash]: ({ body }) => {
          ({ command } = body as { readonly command: string });
          return command.includes('visible') ? visible : listed('a.txt');
        },
        'GET /api/file/download': { text: 'content' },
        'GET /api/git/changes': { body: [{ status: 'ADDED', path: 'a.txt' }] },
        'GET /api/git/diff': { body: { modified: 'new', original: '' } },
      });
      const { token } = await share();
      expect((await read(token, `files?path=${folder}`)).json).toEqual(['a.txt']);
      expect((await read(token, `file?file_path=${folder}/a.txt`)).json).toBe('content');
      expect((await read(token, `git/changes?path=${folder}`)).json).toHaveLength(1);
      expect((await read(token, `git/diff?path=${folder}/a.txt`)).json).toMatchObject({
        modified: 'new',
      });
      expect(command).toContain(folder);
    });

    it.each([
      '/proc/self/environ',
      '/workspace',
      `${folder}-2/a`,
      `${folder}/../../proc/self/environ`,
      `${folder}/.git/config`,
      `${folder}/sub/.git`,
    ])('does not show %s, and does not ask the agent', async (name) => {
      await setUp(1);
      const { token } = await share();
      const encoded = encodeURIComponent(name);
      for (const what of [
        `files?path=${encoded}`,
        `file?file_path=${encoded}`,
        `git/changes?path=${encoded}`,
        `git/diff?path=${encoded}`,
      ])
        expect((await read(token, what)).status).toBe(422);
      expect(agent.requests).toEqual([]);
    });

    it('does not show a file that a link leads out to, or that git ignores, as the sandbox says', async () => {
      await setUp(1, { [bash]: hidden });
      const { token } = await share();
      expect((await read(token, `file?file_path=${folder}/environ`)).status).toBe(422);
      expect(agent.requests.map(({ route }) => route)).toEqual([bash]);
    });

    it('that is paused stays paused: its archive is read, and nothing is written', async () => {
      await setUp(0);
      const stored = [
        { id: 'e1', kind: 'MessageEvent', timestamp: '2026-01-01T00:00:00' },
        { id: 'e2', kind: 'SystemPromptEvent', timestamp: '2026-01-01T00:00:01' },
      ];
      await gateway.setStatus(id, { ...started, archive: history.archived(stored) });
      const { token } = await share();
      const before = [
        await gateway.client.get(sandboxes, namespace, 'sbx'),
        await gateway.client.get(conversations, namespace, id),
      ];
      const writes: string[] = [];
      gateway.client.fault = ({ verb, plural }) => {
        if (!['get', 'list', 'watch'].includes(verb)) writes.push(`${verb} ${plural}`);
        return undefined;
      };
      const answers = [
        await read(token),
        await read(token, 'events/search'),
        await read(token, 'events/count'),
        await read(token, 'timeline'),
      ];
      expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
      expect(answers[0]?.json).toMatchObject({ sandbox_status: 'PAUSED' });
      expect(answers[1]?.json).toMatchObject({
        items: [{ id: 'e1' }, { id: 'e2', withheld: true }],
      });
      expect((await read(token, `files?path=${folder}`)).status).toBe(409);
      expect(writes).toEqual([]);
      expect([
        await gateway.client.get(sandboxes, namespace, 'sbx'),
        await gateway.client.get(conversations, namespace, id),
      ]).toEqual(before);
      expect(agent.requests).toEqual([]);
    });
  });
});
