import fc from 'fast-check';
import type { CachedConversation } from '../../../src/resources/cached-conversation.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import type {
  ConversationStatus,
  StartStatus,
} from '../../../src/resources/conversation-status.ts';
import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import {
  resumeRequestedAnnotation,
  sandboxes,
  type SandboxState,
} from '../../../src/resources/sandbox.ts';
import { TransportError } from '@conversation-operator/kube/errors';
import { queueMessage } from '../../../src/gateway/conversations/message-queue.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const base = '/api/v1/app-conversations';
const time = '2026-01-01T00:00:00Z';
const is = (type: string, status: 'True' | 'False', reason: string) => ({
  type,
  status,
  reason,
  message: '',
  lastTransitionTime: time,
});
const running: SandboxState = {
  conditions: [is('Admitted', 'True', 'Admitted'), is('Ready', 'True', 'Running')],
};
const starting: SandboxState = { conditions: [is('Admitted', 'True', 'Admitted')] };
const pausedByQuota: SandboxState = { conditions: [is('Admitted', 'False', 'Quota')] };
const failed: SandboxState = { conditions: [is('Failed', 'True', 'CrashLoop')] };
const lived: SandboxState = { ...failed, lastContainerID: 'process://1' };

describe('sending a message', () => {
  let gateway: TestGateway;
  beforeEach(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(() => gateway.stop());

  const statusOf = (start: StartStatus, sandboxName: string): ConversationStatus => ({
    start: { status: start, transitions: [{ status: start, time }] },
    sandboxName,
    executionStatus: 'finished',
  });
  const add = async (
    sandbox: { readonly replicas?: 0 | 1; readonly status?: SandboxState } = { status: running },
    start: StartStatus = 'READY',
  ) => {
    const id = newUuid(Date.now());
    await gateway.addSandbox(`sbx-${id}`, sandbox);
    await gateway.addConversation(id, { status: statusOf(start, `sbx-${id}`) });
    return id;
  };
  const message = (text: string, more: object = {}) => ({
    content: [{ type: 'text', text }],
    ...more,
  });
  const send = (id: string, body: unknown, headers = {}, at = gateway) =>
    at.post(`${base}/${id}/send-message`, body, { headers });
  const stored = (id: string) => gateway.client.get(conversations, namespace, id);
  const queue = async (id: string) =>
    ((await stored(id)).spec.messages ?? []).map(
      ({ number, content }) => `${number} ${content[0]?.text ?? ''}`,
    );
  /** Plays the operator, which delivers the messages of one conversation to its agent. */
  const deliverAll = (id: string) =>
    gateway.caches.conversations.addHandler({
      updated: ({ metadata, spec, status }: CachedConversation) => {
        const last = Math.max(0, ...(spec.messages ?? []).map(({ number }) => number));
        if (metadata.name === id && last > (status?.messages?.lastDelivered ?? 0))
          void gateway.setStatus(id, { messages: { lastDelivered: last } });
      },
    });

  it('is done when the agent has received it, where it runs', async () => {
    const id = await add();
    const stop = deliverAll(id);
    expect(await send(id, message('Continue'))).toMatchObject({
      status: 200,
      json: { success: true, sandbox_status: 'RUNNING', queued: false },
    });
    stop();
    expect((await stored(id)).spec.messages).toMatchObject([
      { number: 1, role: 'user', run: true, content: [{ type: 'text', text: 'Continue' }] },
    ]);
  });

  it('is accepted where the agent has no time for it, and shows that there is work to do', async () => {
    const id = await add();
    const answer = await send(id, message('Continue'));
    expect(answer).toMatchObject({
      status: 202,
      json: { success: true, sandbox_status: 'RUNNING', queued: true },
    });
    expect((await gateway.get(`${base}?ids=${id}`)).json).toMatchObject([
      { execution_status: 'running' },
    ]);
  });

  it.each<[string, Parameters<typeof add>[0], StartStatus, object]>([
    [
      'that its owner has paused',
      { replicas: 0, status: running },
      'READY',
      { status: 202, json: { sandbox_status: 'STARTING', queued: true } },
    ],
    [
      'that the quota has paused',
      { status: pausedByQuota },
      'READY',
      { status: 202, json: { sandbox_status: 'STARTING', queued: true } },
    ],
    [
      'that is starting',
      { status: starting },
      'WAITING_FOR_SANDBOX',
      { status: 202, json: { sandbox_status: 'STARTING', queued: true } },
    ],
    [
      'that has failed in its first start',
      { status: failed },
      'READY',
      { status: 409, json: { code: 'wrong-state' } },
    ],
    [
      'that has failed after it had run',
      { status: lived },
      'READY',
      { status: 202, json: { sandbox_status: 'STARTING', queued: true } },
    ],
    [
      'that has failed, as has the start',
      { status: lived },
      'ERROR',
      { status: 409, json: { code: 'wrong-state' } },
    ],
    [
      'whose start has failed',
      { status: running },
      'ERROR',
      { status: 409, json: { code: 'wrong-state' } },
    ],
  ])('to a sandbox %s', async (_case, sandbox, start, expected) => {
    const id = await add(sandbox, start);
    const before = (await stored(id)).metadata.resourceVersion;
    expect(await send(id, message('Continue'))).toMatchObject(expected);
    const isWoken =
      sandbox?.replicas === 0 ||
      sandbox?.status === pausedByQuota ||
      (sandbox?.status === lived && start === 'READY');
    const { spec, metadata } = await gateway.client.get(sandboxes, namespace, `sbx-${id}`);
    expect(metadata.annotations?.[resumeRequestedAnnotation] !== undefined).toBe(isWoken);
    if (isWoken) expect(spec.replicas).toBe(1);
    if ((expected as { status: number }).status === 409)
      expect((await stored(id)).metadata.resourceVersion).toBe(before);
    else expect(await queue(id)).toEqual(['1 Continue']);
  });

  it('finds a sandbox paused that its own cache still shows running', async () => {
    const id = await add();
    const behind = await gateway.replica();
    await behind.fallBehind();
    await gateway.post(`/api/v1/sandboxes/sbx-${id}/pause`);
    expect(await send(id, message('Continue'), {}, behind)).toMatchObject({
      status: 202,
      json: { sandbox_status: 'STARTING' },
    });
    expect((await gateway.client.get(sandboxes, namespace, `sbx-${id}`)).spec.replicas).toBe(1);
    await behind.stop();
  });

  it('is refused where its sandbox is gone, and to conversations that are not there', async () => {
    const id = await add();
    await gateway.send('DELETE', `/api/v1/sandboxes/sbx-${id}`);
    expect(await send(id, message('Continue'))).toMatchObject({ status: 409 });
    expect(await send(newUuid(1), message('Continue'))).toMatchObject({ status: 404 });
    expect(await send('nonsense', message('Continue'))).toMatchObject({ status: 422 });
    expect(
      await gateway.post(`${base}/${id}/send-message`, message('x'), { key: gateway.bob }),
    ).toMatchObject({ status: 404 });
  });

  it('is refused before anything is stored, where the quota has no room for the sandbox', async () => {
    const id = await add({ replicas: 0, status: running });
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
    await gateway.addSandbox('sbx-other', { status: running });
    expect(await send(id, message('Continue'))).toMatchObject({
      status: 429,
      json: { code: 'quota-exceeded' },
    });
    expect(await queue(id)).toEqual([]);
  });

  it('keeps the order of the answers, and every message, when many come at once to two replicas', async () => {
    const id = await add({ status: starting }, 'WAITING_FOR_SANDBOX');
    const other = await gateway.replica();
    for (const text of ['a', 'b']) await send(id, message(text));
    const together = await Promise.all(
      ['c', 'd', 'e', 'f'].map((text, index) =>
        send(id, message(text), {}, index % 2 === 0 ? gateway : other),
      ),
    );
    expect(together.map(({ status }) => status)).toEqual([202, 202, 202, 202]);
    await send(id, message('g'), {}, other);
    const texts = (await queue(id)).map((line) => line.split(' ')[1]);
    expect(texts.toSorted()).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g']);
    expect([texts[0], texts[1], texts[6]]).toEqual(['a', 'b', 'g']);
    await other.stop();
  });

  it('is repeatable with an Idempotency-Key', async () => {
    const id = await add({ status: starting });
    const key = { 'Idempotency-Key': 'm1' };
    await send(id, message('a'), key);
    expect(await send(id, message('a', { role: 'user' }), key)).toMatchObject({ status: 202 });
    expect(await send(id, message('b'), key)).toMatchObject({
      status: 422,
      json: { code: 'idempotency-key-reused' },
    });
    await gateway.setStatus(id, { messages: { lastDelivered: 1 } });
    expect(await send(id, message('a'), key)).toMatchObject({ status: 200 });
    expect(await queue(id)).toEqual(['1 a']);
  });

  it('has room for 32 that wait, and forgets those that were delivered long ago', async () => {
    const id = await add({ status: starting });
    for (let index = 1; index <= 32; index++)
      expect((await send(id, message(`m${index}`))).status).toBe(202);
    const full = await send(id, message('one too many'));
    expect(full).toMatchObject({ status: 429, json: { code: 'message-queue-full' } });
    expect(full.headers['retry-after']).toBe('10');
    await gateway.setStatus(id, { messages: { lastDelivered: 20 } });
    expect((await send(id, message('next'))).status).toBe(202);
    const lines = await queue(id);
    expect([lines[0], lines.at(-1), lines.length]).toEqual(['13 m13', '33 next', 21]);
  });

  it('has room for 384 KiB', async () => {
    const id = await add({ status: starting });
    const text = 'x'.repeat(200 * 1024);
    expect((await send(id, message(text))).status).toBe(202);
    expect(await send(id, message(text))).toMatchObject({ status: 429 });
    expect((await send(id, message('short'))).status).toBe(202);
    await gateway.setStatus(id, { messages: { lastDelivered: 2 } });
    expect((await send(id, message(text))).status).toBe(202);
    expect((await queue(id)).map((line) => line.slice(0, 9))).toEqual(['2 short', '3 xxxxxxx']);
  });

  it('continues to count when everything that was delivered has been forgotten', async () => {
    const id = await add({ status: starting });
    await gateway.setStatus(id, { messages: { lastDelivered: 41 } });
    await send(id, message('a'));
    expect(await queue(id)).toEqual(['42 a']);
  });

  it.each<[string, unknown, number]>([
    ['without content', {}, 422],
    ['with empty content', { content: [] }, 422],
    ['with an empty text', message(''), 422],
    ['with too much text', message('x'.repeat(256 * 1024 + 1)), 422],
    [
      'with pictures that are too large',
      { content: [{ type: 'image', image_urls: ['x'.repeat(250_000), 'y'.repeat(250_000)] }] },
      422,
    ],
    ['from another role', message('x', { role: 'system' }), 422],
    ['with what is not known', message('x', { extra: 1 }), 422],
    ['with null for what is optional', message('x', { role: null, run: null }), 202],
    ['with a picture', { content: [{ type: 'image', image_urls: ['data:x'] }], run: false }, 202],
  ])('%s', async (_case, body, status) => {
    const id = await add({ status: starting });
    expect(await send(id, body)).toMatchObject({ status });
  });

  it('leaves no text in the log', async () => {
    const id = await add({ status: starting });
    await send(id, message('an unmistakable text'));
    expect(gateway.log.findLast(({ message: line }) => line === 'Write')?.fields).toMatchObject({
      action: 'sendMessage',
      target: `conversation/${id}`,
    });
    expect(JSON.stringify(gateway.log)).not.toContain('unmistakable');
  });

  it('is stored once, whatever becomes of the answers of the API server', async () => {
    const id = await add({ status: starting });
    const conversation = await stored(id);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom('fine', 'lost before', 'lost after', 'conflict'), {
          maxLength: 8,
        }),
        fc.uuid(),
        async (fates, message_id) => {
          const patch = gateway.client.mergePatch.bind(gateway.client);
          const left = [...fates];
          Object.assign(gateway.client, {
            mergePatch: async (...parameters: Parameters<typeof patch>) => {
              const fate = left.shift() ?? 'fine';
              if (fate === 'lost before') throw new TransportError('interrupted');
              if (fate === 'conflict')
                await patch(conversations, namespace, id, {
                  metadata: { annotations: { n: String(Math.random()) } },
                });
              const result = await patch(...parameters);
              if (fate === 'lost after') throw new TransportError('interrupted');
              return result;
            },
          });
          const number = await queueMessage(gateway.client, conversation, message_id, {
            role: 'user',
            content: [{ type: 'text', text: message_id }],
            run: true,
          });
          Object.assign(gateway.client, { mergePatch: patch });
          const found = ((await stored(id)).spec.messages ?? []).filter(
            (one) => one.id === message_id,
          );
          expect(found).toMatchObject([{ number }]);
          await gateway.setStatus(id, { messages: { lastDelivered: number } });
        },
      ),
      { numRuns: 30 },
    );
  });
});
