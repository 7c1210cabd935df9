import {
  conversationQuotas,
  type ConversationQuotaSpec,
} from '../../../src/resources/conversation-quota.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { storedBytesOf } from '../../../src/resources/cached-conversation.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';

const base = '/api/v1/app-conversations';
const saying = (text: string) => ({ initial_message: { content: [{ type: 'text', text }] } });
const hello = saying('Hello');
const codeOf = ({ status, json }: Answer) =>
  status === 200 ? '200' : `${status} ${(json as { code: string }).code}`;

let gateway: TestGateway;
beforeEach(async () => {
  gateway = await TestGateway.start();
});
afterEach(() => gateway.stop());

async function addQuota(spec: Partial<ConversationQuotaSpec>, name = 'default'): Promise<void> {
  const created = await gateway.client.create(conversationQuotas, {
    apiVersion,
    kind: conversationQuotas.kind,
    metadata: { namespace, name },
    spec: {
      scope: 'Owner',
      limit: 100,
      onExceeded: 'PauseOldest',
      minActiveSeconds: 0,
      autoResume: 'All',
      ...spec,
    },
  });
  await gateway.seen(gateway.caches.quotas, created);
}

async function setLimits(spec: Partial<ConversationQuotaSpec>): Promise<void> {
  await gateway.seen(
    gateway.caches.quotas,
    await gateway.client.mergePatch(conversationQuotas, namespace, 'default', { spec }),
  );
}

const stored = async () => (await gateway.client.list(conversations, { namespace })).items;
const bytesStored = () =>
  gateway.caches.conversations.store.list().reduce((total, each) => total + each.storedBytes, 0);
const start = (body: object = hello, key = gateway.alice) => gateway.post(base, body, { key });

describe('a limit on conversations', () => {
  it('refuses the start beyond it by every way in, with limit and usage, and nothing to wait for', async () => {
    await addQuota({ maxConversations: 1 });
    expect(await start()).toMatchObject({ status: 200 });
    const refused = {
      status: 429,
      json: { code: 'conversation-limit-exceeded', limit: 1, current: 1 },
    };
    for (const answer of [
      await start(),
      await gateway.post(`${base}/stream-start`, hello),
      await gateway.post('/api/conversations', { initial_user_msg: 'Hello' }),
    ]) {
      expect(answer).toMatchObject(refused);
      expect(answer.headers['retry-after']).toBeUndefined();
    }
    expect(await start(hello, gateway.bob)).toMatchObject({ status: 200 });
    expect(await stored()).toHaveLength(2);
  });

  it('is kept by starts that come together, through one replica', async () => {
    await addQuota({ maxConversations: 10 });
    const answers = await Promise.all(Array.from({ length: 40 }, () => start()));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(await stored()).toHaveLength(10);
  });

  it('is exceeded by no more than what is under way elsewhere, through two', async () => {
    await addQuota({ maxConversations: 10 });
    const other = await gateway.replica();
    try {
      const answers = await Promise.all(
        [gateway, other].flatMap((replica) =>
          Array.from({ length: 20 }, () => replica.post(base, hello)),
        ),
      );
      const accepted = answers.filter(({ status }) => status === 200).length;
      expect(accepted).toBeGreaterThanOrEqual(10);
      expect(accepted).toBeLessThanOrEqual(20);
      expect(codeOf(await start())).toBe('429 conversation-limit-exceeded');
    } finally {
      await other.stop();
    }
  });

  it('keeps no room for a start that failed', async () => {
    await addQuota({ maxConversations: 1 });
    gateway.client.fault = ({ verb }) => (verb === 'create' ? new Error('broken') : undefined);
    expect(await start()).toMatchObject({ status: 500 });
    gateway.client.fault = () => undefined;
    expect(await start()).toMatchObject({ status: 200 });
  });

  it('refuses no repetition of a start that is stored', async () => {
    await addQuota({ maxConversations: 1 });
    const options = { headers: { 'idempotency-key': 'once' } };
    const first = await gateway.post(base, hello, options);
    expect(await gateway.post(base, hello, options)).toMatchObject({
      status: 200,
      json: { id: (first.json as { id: string }).id },
    });
  });

  it('that is lowered loses nothing and refuses newcomers until enough is deleted, which makes room at once', async () => {
    await addQuota({ maxConversations: 3 });
    const ids = [newUuid(Date.now()), newUuid(Date.now()), newUuid(Date.now())];
    for (const id of ids) expect((await start({ ...hello, conversation_id: id })).status).toBe(200);
    await setLimits({ maxConversations: 2 });
    expect(await start()).toMatchObject({ status: 429, json: { limit: 2, current: 3 } });
    expect(await gateway.get(`${base}/count`)).toMatchObject({ json: 3 });
    expect(
      await gateway.send('PATCH', `${base}/${ids[0] ?? ''}`, { body: { title: 'Another title' } }),
    ).toMatchObject({ status: 200 });
    for (const id of ids.slice(0, 2))
      expect(await gateway.send('DELETE', `${base}/${id}`)).toMatchObject({ status: 200 });
    expect(await start()).toMatchObject({ status: 200 });
  });

  it('holds for all owners together where it is for the namespace, beside that of the owner', async () => {
    await addQuota({ scope: 'Namespace', maxConversations: 2 }, 'all');
    await addQuota({ maxConversations: 1 });
    expect(await start()).toMatchObject({ status: 200 });
    expect(await start(hello, gateway.bob)).toMatchObject({ status: 200 });
    expect(await start()).toMatchObject({ status: 429, json: { limit: 1, current: 1 } });
    expect(await start(hello, await gateway.issueKey('carol'))).toMatchObject({
      status: 429,
      json: { limit: 2, current: 2 },
    });
  });
});

describe('a limit on sandboxes', () => {
  it('counts those of starts under way, paused and failed ones, and refuses what would make another one', async () => {
    await addQuota({ maxSandboxes: 3 });
    await gateway.addSandbox('paused', { replicas: 0 });
    await gateway.addSandbox('failed', {
      status: {
        conditions: [
          {
            type: 'Failed',
            status: 'True',
            reason: 'CrashLoop',
            message: '',
            lastTransitionTime: '2026-01-01T00:00:00Z',
          },
        ],
      },
    });
    expect(await start()).toMatchObject({ status: 200 });
    const refused = { status: 429, json: { code: 'sandbox-limit-exceeded', limit: 3, current: 3 } };
    expect(await start()).toMatchObject(refused);
    expect(await gateway.post('/api/v1/sandboxes')).toMatchObject(refused);
    // One that joins needs none of its own.
    expect(await start({ ...hello, sandbox_id: 'paused' })).toMatchObject({ status: 200 });
    expect(await gateway.post('/api/v1/sandboxes', undefined, { key: gateway.bob })).toMatchObject({
      status: 200,
    });
  });

  it('counts the sandbox of a start once, when the operator has made it', async () => {
    await addQuota({ maxSandboxes: 2 });
    const id = newUuid(Date.now());
    expect(await start({ ...hello, conversation_id: id })).toMatchObject({ status: 200 });
    const [madeFor] = await stored();
    if (madeFor === undefined) throw new Error('nothing is stored');
    await gateway.addSandbox(`sbx-${id}`, { madeFor });
    expect((await gateway.get('/api/v1/quota')).json).toMatchObject({ stored: { sandboxes: 1 } });
    expect(await start()).toMatchObject({ status: 200 });
    expect(await start()).toMatchObject({ status: 429 });
  });

  it('is kept by requests that come together', async () => {
    await addQuota({ maxSandboxes: 5 });
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => gateway.post('/api/v1/sandboxes')),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5);
    expect((await gateway.client.list(sandboxes, { namespace })).items).toHaveLength(5);
  });
});

describe('a limit on stored bytes', () => {
  it('refuses the start that would exceed it, and accepts a smaller one', async () => {
    await addQuota({ maxStoredBytes: 20_000 });
    expect(await start(saying('x'.repeat(15_000)))).toMatchObject({ status: 200 });
    const refused = await start(saying('x'.repeat(10_000)));
    expect(refused).toMatchObject({
      status: 429,
      json: { code: 'stored-bytes-limit-exceeded', limit: 20_000, current: bytesStored() },
    });
    expect(await start(saying('x'))).toMatchObject({ status: 200 });
  });

  it('refuses the message that would exceed it, not one that is stored already, nor a smaller one', async () => {
    const id = newUuid(Date.now());
    await gateway.addConversation(id);
    await addQuota({ maxStoredBytes: bytesStored() + 5_000 });
    const send = (text: string, idempotencyKey: string) =>
      gateway.post(
        `${base}/${id}/send-message`,
        { content: [{ type: 'text', text }] },
        { headers: { 'idempotency-key': idempotencyKey } },
      );
    expect(await send('x'.repeat(4_000), 'first')).toMatchObject({ status: 202 });
    expect(codeOf(await send('x'.repeat(4_000), 'second'))).toBe('429 stored-bytes-limit-exceeded');
    expect(await send('x'.repeat(4_000), 'first')).toMatchObject({ status: 202 });
    expect(await send('x', 'third')).toMatchObject({ status: 202 });
    expect((await stored())[0]?.spec.messages).toHaveLength(2);
  });

  it('refuses the update that would exceed it, and takes one that makes the conversation smaller', async () => {
    const id = newUuid(Date.now());
    await gateway.addConversation(id, { spec: { tags: { a: 'x'.repeat(200) } } });
    await addQuota({ maxStoredBytes: 10 });
    const update = async (change: object) =>
      codeOf(await gateway.send('PATCH', `${base}/${id}`, { body: change }));
    expect(await update({ tags: { a: 'x'.repeat(201) } })).toBe('429 stored-bytes-limit-exceeded');
    expect(await update({ title: 'A title' })).toBe('429 stored-bytes-limit-exceeded');
    expect(await update({ tags: {} })).toBe('200');
  });

  it('bounds the tags of one conversation besides', async () => {
    const id = newUuid(Date.now());
    await gateway.addConversation(id);
    const tags = (count: number) => ({
      tags: Object.fromEntries(Array.from({ length: count }, (_, index) => [`tag-${index}`, 'x'])),
    });
    expect(codeOf(await gateway.send('PATCH', `${base}/${id}`, { body: tags(65) }))).toBe(
      '422 invalid-request',
    );
    expect(codeOf(await gateway.send('PATCH', `${base}/${id}`, { body: tags(64) }))).toBe('200');
  });
});

it('a quota shows its limits on what is stored, and what is', async () => {
  await addQuota({ maxConversations: 5, maxStoredBytes: 1_000_000 });
  await addQuota({ scope: 'Namespace', maxSandboxes: 9 }, 'all');
  await start();
  await start(hello, gateway.bob);
  const [mine] = (await stored()).filter(({ spec }) => spec.owner === 'alice');
  const own = mine === undefined ? 0 : storedBytesOf(mine);
  expect((await gateway.get('/api/v1/quota')).json).toMatchObject({
    stored: { conversations: 1, stored_bytes: own, sandboxes: 1 },
    caps: [
      { quota: 'default', scope: 'Owner', of: 'conversations', limit: 5, current: 1 },
      { quota: 'default', scope: 'Owner', of: 'stored_bytes', limit: 1_000_000, current: own },
      { quota: 'all', scope: 'Namespace', of: 'sandboxes', limit: 9, current: 2 },
    ],
  });
});
