import { setTimeout as wait } from 'node:timers/promises';
import type { IncomingMessage } from 'node:http';
import { z } from 'zod';
import { issueKey } from '../../../src/gateway/auth/key.ts';
import { apiKeys } from '../../../src/resources/api-key.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import type { StartStatus } from '../../../src/resources/conversation-status.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { startTaskSchema, type StartTask } from '../../../src/gateway/presenters/start-task.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

const path = '/api/v1/app-conversations/stream-start';

class Reader {
  readonly response: IncomingMessage;
  text = '';
  ended = false;
  #wake = Promise.withResolvers<undefined>();

  constructor(response: IncomingMessage) {
    this.response = response.setEncoding('utf8');
    response.on('data', (chunk: string) => {
      this.text += chunk;
      this.#notify();
    });
    response.on('close', () => {
      this.ended = true;
      this.#notify();
    });
    response.on('error', () => undefined);
  }

  async until(holds: (reader: Reader) => boolean): Promise<void> {
    while (!holds(this)) {
      if (this.ended) throw new Error(`the stream ended with: ${this.text}`);
      await this.#wake.promise;
    }
  }

  async end(): Promise<StartTask[]> {
    await this.until(({ ended }) => ended);
    return startTaskSchema.array().parse(JSON.parse(this.text));
  }

  get elements(): number {
    return this.text.split('"status":').length - 1;
  }

  #notify(): void {
    this.#wake.resolve(undefined);
    this.#wake = Promise.withResolvers();
  }
}

describe('starting a conversation with a stream', () => {
  let gateway: TestGateway;
  /** If set, the delay of the next timers of white space. */
  let whiteSpaceMs: number | undefined;
  const clock: Clock = {
    ...systemClock,
    after: (delayMs, callback) =>
      systemClock.after(delayMs === 15_000 ? (whiteSpaceMs ?? delayMs) : delayMs, callback),
  };

  beforeEach(async () => {
    whiteSpaceMs = undefined;
    gateway = await TestGateway.start({ clock });
  });
  afterEach(() => gateway.stop());

  const open = async (fields: object = {}, key = gateway.alice) => {
    const id = newUuid(Date.now());
    const body = {
      conversation_id: id,
      initial_message: { content: [{ type: 'text', text: 'Hello' }] },
      ...fields,
    };
    const reader = new Reader(await gateway.open('POST', path, { body, key }));
    await reader.until(({ elements }) => elements >= 1);
    return { id, reader };
  };
  const at = (second: number) => `2026-03-01T12:00:0${second}.000Z`;
  const transitions = (...statuses: StartStatus[]) =>
    statuses.map((status, index) => ({ status, time: at(index) }));
  const moveTo = (id: string, ...statuses: StartStatus[]) =>
    gateway.setStatus(id, {
      sandboxName: 'sbx-1',
      start: { status: statuses.at(-1) ?? 'WORKING', transitions: transitions(...statuses) },
    });
  const statuses = (tasks: readonly StartTask[]) => tasks.map(({ status }) => status);

  it('sends WORKING as soon as the conversation is stored, then each transition as it happens', async () => {
    const { id, reader } = await open();
    expect(reader.response.headers['content-type']).toBe('application/json');
    expect(reader.text.startsWith('[')).toBe(true);
    await moveTo(id, 'WORKING', 'WAITING_FOR_SANDBOX');
    await reader.until(({ elements }) => elements === 2);
    await moveTo(id, 'WORKING', 'WAITING_FOR_SANDBOX', 'PREPARING_REPOSITORY');
    await reader.until(({ elements }) => elements === 3);
    await moveTo(
      id,
      'WORKING',
      'WAITING_FOR_SANDBOX',
      'PREPARING_REPOSITORY',
      'SETTING_UP_SKILLS',
      'READY',
    );
    const tasks = await reader.end();
    expect(statuses(tasks)).toEqual([
      'WORKING',
      'WAITING_FOR_SANDBOX',
      'PREPARING_REPOSITORY',
      'SETTING_UP_SKILLS',
      'READY',
    ]);
    expect(tasks.map(({ app_conversation_id }) => app_conversation_id)).toEqual([
      null,
      null,
      null,
      null,
      id,
    ]);
    expect(tasks.map(({ sandbox_id }) => sandbox_id)).toEqual([
      null,
      'sbx-1',
      'sbx-1',
      'sbx-1',
      'sbx-1',
    ]);
    expect(new Set(tasks.map((task) => task.id)).size).toBe(1);
  });

  it('skips none when all come at once, and none twice', async () => {
    const { id, reader } = await open();
    await moveTo(
      id,
      'WORKING',
      'WAITING_FOR_SANDBOX',
      'PREPARING_REPOSITORY',
      'SETTING_UP_SKILLS',
      'READY',
    );
    expect(statuses(await reader.end())).toEqual([
      'WORKING',
      'WAITING_FOR_SANDBOX',
      'PREPARING_REPOSITORY',
      'SETTING_UP_SKILLS',
      'READY',
    ]);
  });

  it('is not disturbed by changes that are no transition', async () => {
    const { id, reader } = await open();
    await moveTo(id, 'WORKING', 'WAITING_FOR_SANDBOX');
    await gateway.setStatus(id, { lastActivityTime: at(8) });
    await gateway.setStatus(id, { title: 'Better' });
    await moveTo(id, 'WORKING', 'WAITING_FOR_SANDBOX', 'READY');
    expect(statuses(await reader.end())).toEqual(['WORKING', 'WAITING_FOR_SANDBOX', 'READY']);
  });

  it('ends with ERROR and its reason', async () => {
    const { id, reader } = await open();
    await gateway.setStatus(id, {
      start: {
        status: 'ERROR',
        transitions: transitions('WORKING', 'ERROR'),
        error: 'The image is not there.',
      },
    });
    expect((await reader.end()).at(-1)).toMatchObject({
      status: 'ERROR',
      error: 'The image is not there.',
      detail: 'The image is not there.',
    });
  });

  it('ends with ERROR when the conversation is deleted', async () => {
    const { id, reader } = await open();
    await gateway.client.delete(conversations, namespace, id);
    expect((await reader.end()).at(-1)).toMatchObject({
      status: 'ERROR',
      app_conversation_id: null,
    });
  });

  it('shows the whole story of a start that is over already', async () => {
    const { id, reader } = await open();
    await moveTo(id, 'WORKING', 'WAITING_FOR_SANDBOX', 'READY');
    await reader.end();
    const again = await open({ conversation_id: id });
    expect(statuses(await again.reader.end())).toEqual(['WORKING', 'WAITING_FOR_SANDBOX', 'READY']);
  });

  it('sends white space while nothing happens', async () => {
    whiteSpaceMs = 5;
    const { id, reader } = await open();
    await reader.until(({ text }) => /\n{3}/.test(text));
    await moveTo(id, 'WORKING', 'READY');
    expect(statuses(await reader.end())).toEqual(['WORKING', 'READY']);
  });

  it('lets the start continue when the client leaves', async () => {
    const { id, reader } = await open();
    reader.response.destroy();
    await reader.until(({ ended }) => ended);
    await moveTo(id, 'WORKING', 'WAITING_FOR_SANDBOX', 'READY');
    const { json } = await gateway.get(`/api/v1/app-conversations?ids=${id}`);
    expect(json).toMatchObject([{ id, sandbox_id: 'sbx-1' }]);
    while (!gateway.log.some(({ fields }) => fields['action'] === 'streamStartConversation'))
      await wait(5);
  });

  it('closes the array properly when the gateway shuts down', async () => {
    const { id, reader } = await open();
    await moveTo(id, 'WORKING', 'WAITING_FOR_SANDBOX');
    await reader.until(({ elements }) => elements === 2);
    await gateway.gateway.close();
    expect(statuses(await reader.end())).toEqual(['WORKING', 'WAITING_FOR_SANDBOX']);
  });

  it.each<[string, (name: string) => Promise<unknown>]>([
    ['is revoked', (name) => gateway.send('DELETE', `/api/keys/${name}`)],
    [
      'is disabled',
      (name) => gateway.client.mergePatch(apiKeys, namespace, name, { spec: { disabled: true } }),
    ],
    [
      'expires',
      (name) =>
        gateway.client.mergePatch(apiKeys, namespace, name, {
          spec: { expirationTime: new Date(Date.now() + 500).toISOString() },
        }),
    ],
  ])(
    'closes the array when its API key %s, and when the key that made it does, and no other',
    async (_case, endKey) => {
      const { key: issuer, resource } = await issueKey({
        client: gateway.client,
        namespace,
        owner: 'alice',
      });
      await gateway.seen(gateway.caches.apiKeys, resource);
      const { key: child } = z
        .object({ key: z.string() })
        .parse((await gateway.post('/api/keys', { name: 'c' }, { key: issuer })).json);
      const [own, ofIssuer, ofChild] = [
        await open(),
        await open({}, issuer),
        await open({}, child),
      ];
      await endKey(resource.metadata.name);
      expect(statuses(await ofIssuer.reader.end())).toEqual(['WORKING']);
      expect(statuses(await ofChild.reader.end())).toEqual(['WORKING']);
      await moveTo(own.id, 'WORKING', 'READY');
      expect(statuses(await own.reader.end())).toEqual(['WORKING', 'READY']);
    },
  );

  it('answers a bad request as any other endpoint does', async () => {
    expect(await gateway.post(path, {})).toMatchObject({
      status: 422,
      json: { code: 'invalid-request' },
    });
  });

  it('serves many at once', async () => {
    const streams = await Promise.all(Array.from({ length: 50 }, () => open()));
    await Promise.all(
      streams.map(({ id }) => moveTo(id, 'WORKING', 'WAITING_FOR_SANDBOX', 'READY')),
    );
    for (const { reader } of streams)
      expect(statuses(await reader.end())).toEqual(['WORKING', 'WAITING_FOR_SANDBOX', 'READY']);
  });

  it('is refused to an owner with too many streams, before anything is started, and to no other owner', async () => {
    const own = await TestGateway.start({ pools: { startStreams: { perOwner: 2 } } });
    try {
      const body = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };
      const second = await own.issueKey('alice');
      const open = [
        await own.open('POST', path, { body }),
        await own.open('POST', path, { body, key: second }),
      ];
      expect(await own.post(path, body)).toMatchObject({
        status: 429,
        json: { code: 'share-exceeded' },
        headers: { 'retry-after': '1' },
      });
      expect(await own.get('/api/v1/app-conversations/count')).toMatchObject({ json: 2 });
      open.push(await own.open('POST', path, { body, key: own.bob }));
      expect(open.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200]);
      open[0]?.destroy();
      await eventually('there is room again', async () => {
        const again = await own.open('POST', path, { body });
        again.destroy();
        return again.statusCode === 200;
      });
      for (const stream of open) stream.destroy();
    } finally {
      await own.stop();
    }
  });
});
