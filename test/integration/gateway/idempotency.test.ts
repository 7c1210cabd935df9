import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { TransportError } from '@conversation-operator/kube/errors';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { conversationIdOfStartTask, isDerivedForm, uuidOf } from '../../../src/resources/ids.ts';
import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { startTaskSchema } from '../../../src/gateway/presenters/start-task.ts';
import { TestGateway, namespace, type Answer } from '../../support/gateway/test-gateway.ts';

const base = '/api/v1/app-conversations';
const withText = (text: string) => ({ initial_message: { content: [{ type: 'text', text }] } });
const hello = withText('Hello');
const hourMs = 60 * 60 * 1000;

describe('starts with an Idempotency-Key', () => {
  let aheadMs = 0;
  const clock: Clock = { ...systemClock, now: () => Date.now() + aheadMs };
  let gateway: TestGateway;
  beforeEach(async () => {
    aheadMs = 0;
    gateway = await TestGateway.start({ clock });
  });
  afterEach(() => gateway.stop());

  const start = (key: string, body: object = hello, at = gateway, owner = at.alice) =>
    at.post(base, body, { key: owner, headers: { 'Idempotency-Key': key } });
  const idOf = ({ json }: Answer) => (json as { id: string }).id;
  const started = async (key: string) => {
    const { id } = startTaskSchema.parse((await start(key)).json);
    return gateway.client.get(conversations, namespace, conversationIdOfStartTask(id));
  };
  const stored = async () => (await gateway.client.list(conversations, { namespace })).items;

  it('give the first answer again for the same body, however it is written', async () => {
    const first = await start('k1', { ...hello, title: 'T' });
    const again = await start('k1', {
      title: 'T',
      plugins: [],
      initial_message: { role: 'user', ...hello.initial_message, run: true },
    });
    expect(again).toMatchObject({ status: 200, json: first.json });
    expect((first.json as { request: object }).request).toMatchObject({ conversation_id: null });
    expect(await stored()).toHaveLength(1);
  });

  it('are refused with another body', async () => {
    await start('k1');
    const other = await start('k1', withText('Other'));
    expect(other).toMatchObject({ status: 422, json: { code: 'idempotency-key-reused' } });
    expect(await stored()).toHaveLength(1);
  });

  it('are one where the key came with a stream first', async () => {
    const first = await start('k1');
    const { text } = await gateway.post(
      `${base}/stream-start`,
      { conversation_id: null, ...withText('Other') },
      { headers: { 'Idempotency-Key': 'k1' } },
    );
    expect(JSON.parse(text)).toMatchObject({ code: 'idempotency-key-reused' });
    expect(idOf(first)).toBe(idOf(await start('k1')));
  });

  it.each<[string, () => Promise<Answer>]>([
    ['another key', () => start('k2')],
    ['another owner', () => start('k1', hello, gateway, gateway.bob)],
    ['no key', () => gateway.post(base, hello)],
    ['an id of its own', () => start('k1', { ...hello, conversation_id: newUuid(1) })],
  ])('say nothing about one with %s', async (_case, other) => {
    const first = await start('k1');
    const answer = await other();
    expect(answer.status).toBe(200);
    expect(idOf(answer)).not.toBe(idOf(first));
  });

  it('are one when they come ten times at once, to replicas that know nothing of each other', async () => {
    const second = await gateway.replica();
    await second.fallBehind();
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        start('k1', hello, index % 2 === 0 ? gateway : second),
      ),
    );
    expect(new Set(answers.map(idOf)).size).toBe(1);
    expect(await stored()).toHaveLength(1);
    const after = await second.replica();
    expect(idOf(await start('k1', hello, after))).toBe(answers.map(idOf)[0]);
    await after.stop();
    await second.stop();
  });

  it('are repeated under a quota that has no room any more', async () => {
    const first = await start('k1');
    const made = await gateway.client.create(conversationQuotas, {
      apiVersion,
      kind: conversationQuotas.kind,
      metadata: { namespace, name: 'one' },
      spec: {
        scope: 'Owner',
        limit: 1,
        onExceeded: 'Reject',
        minActiveSeconds: 0,
        autoResume: 'All',
      },
    });
    await gateway.seen(gateway.caches.quotas, made);
    expect((await start('k2')).status).toBe(429);
    expect(await start('k1')).toMatchObject({ status: 200, json: { id: idOf(first) } });
  });

  it('have a name that no client without a master key can foresee, and that no other start can take', async () => {
    const { name } = (await started('k1')).metadata;
    expect([uuidOf('idempotency/alice/0/k1'), newUuid(0)].map((id) => id === name)).toEqual([
      false,
      false,
    ]);
    expect(gateway.keys.derivedIds('idempotency/alice/0/k1')).toEqual([name]);
    // Bob has learned which id the next start gets.
    const [next = ''] = gateway.keys.derivedIds('idempotency/alice/0/k2');
    expect(isDerivedForm(next)).toBe(true);
    expect(
      await gateway.post(base, { ...hello, conversation_id: next }, { key: gateway.bob }),
    ).toMatchObject({ status: 409, json: { code: 'conversation-id-taken' } });
    expect((await started('k2')).metadata.name).toBe(next);
  });

  it('can be repeated by the id of the conversation, too', async () => {
    const { name } = (await started('k1')).metadata;
    expect(await gateway.post(base, { ...hello, conversation_id: name })).toMatchObject({
      status: 200,
    });
    expect(await stored()).toHaveLength(1);
  });

  it('are one over a rotation of the master key, on every replica', async () => {
    const first = await start('k1');
    const [oldKey, newKey] = [Buffer.alloc(32, 7), Buffer.alloc(32, 8)];
    const rotated = await gateway.replica({ keys: new SandboxKeys([newKey, oldKey]) });
    const behind = await gateway.replica({ keys: new SandboxKeys([newKey, oldKey]) });
    await behind.fallBehind();
    expect(idOf(await start('k1', hello, rotated))).toBe(idOf(first));
    const second = await start('k2', hello, rotated);
    for (const replica of [
      behind,
      await gateway.replica({ keys: new SandboxKeys([oldKey, newKey]) }),
    ]) {
      expect(idOf(await start('k2', hello, replica))).toBe(idOf(second));
      await replica.stop();
    }
    expect(await stored()).toHaveLength(2);
    await rotated.stop();
  });

  it('are one when the answer to the create was lost', async () => {
    const create = gateway.client.create.bind(gateway.client);
    Object.assign(gateway.client, {
      create: async (...parameters: Parameters<typeof create>) => {
        Object.assign(gateway.client, { create });
        await create(...parameters);
        throw new TransportError('socket hang up');
      },
    });
    const first = await start('k1');
    expect(first.status).toBe(200);
    expect(idOf(await start('k1'))).toBe(idOf(first));
    expect(await stored()).toHaveLength(1);
  });

  it('mean another start after 24 hours, which is one again, whatever becomes of the first', async () => {
    const first = await start('k1');
    aheadMs = 23.9 * hourMs;
    expect(idOf(await start('k1'))).toBe(idOf(first));
    aheadMs = 24.1 * hourMs;
    const second = await start('k1', withText('Other'));
    expect(second.status).toBe(200);
    expect(idOf(second)).not.toBe(idOf(first));
    // The fake API server stamps with the real time: the second is as old as the first.
    aheadMs = 1 * hourMs;
    expect(
      (await gateway.send('DELETE', `${base}/${(await stored())[0]?.metadata.name ?? ''}`)).status,
    ).toBe(200);
    expect(await start('k1', withText('Other'))).toMatchObject({
      status: 200,
      json: { id: idOf(second) },
    });
  });

  it.each([
    ['', 422],
    ['x'.repeat(255), 200],
    ['x'.repeat(256), 422],
    ['a key with spaces', 200],
    ['\u00e9', 422],
  ])('%.20j is answered with %i', async (key, status) => {
    expect(await start(key)).toMatchObject({ status });
  });
});
