import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { AgentWebhook } from '../../../src/agent/agent.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { AgentVolume, call, eventually, script } from './agent-process.ts';

interface Hook {
  readonly path: string;
  readonly key: string | undefined;
  readonly extra: string | undefined;
  readonly body: unknown;
}
interface Reported {
  readonly kind: string;
  readonly key?: string;
  readonly value?: unknown;
}

/** Takes webhooks; refuses them as long as `refusing`. */
async function receiver() {
  const hooks: Hook[] = [];
  const state = { refusing: false, refused: 0 };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      if (state.refusing) state.refused++;
      else {
        const headers = request.headers as Record<string, string | undefined>;
        const body = JSON.parse(Buffer.concat(chunks).toString()) as unknown;
        hooks.push({
          path: request.url ?? '',
          key: headers['x-session-api-key'],
          extra: headers['x-extra'],
          body,
        });
      }
      response.writeHead(state.refusing ? 500 : 204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    hooks,
    state,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/webhooks/box`,
    events: () =>
      hooks
        .filter(({ path }) => path.includes('/events/'))
        .flatMap(({ body }) => body as Reported[]),
    infos: () =>
      hooks
        .filter(({ path }) => path.endsWith('/conversations'))
        .map(({ body }) => (body as Reported & { execution_status: string }).execution_status),
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const statuses = (events: readonly Reported[]) =>
  events.filter(({ key }) => key === 'execution_status').map(({ value }) => value);

/** An agent with a webhook, and a conversation that runs the blocks. */
async function aConversation(
  volume: AgentVolume,
  webhook: AgentWebhook,
  ...blocks: readonly string[]
) {
  const agent = await volume.start();
  await volume.client.initialise(agent.endpoint, { ...volume.init, webhooks: [webhook] });
  const id = newUuid(Date.now());
  const { workingDir } = volume;
  const message = script(...blocks);
  await volume.client.createConversation(agent.endpoint, { id, workingDir, message });
  return { ...agent, id };
}

describe("the reference agent's webhooks", () => {
  it('report a conversation when it is created, stopped, changed and deleted, with the session key', async () => {
    await using volume = await AgentVolume.create();
    await using target = await receiver();
    const { endpoint, id } = await aConversation(
      volume,
      { baseUrl: target.url, headers: { 'X-Extra': 'more' }, flushDelaySeconds: 0.05 },
      'sleep 60',
    );
    await volume.until(endpoint, id, 'running');
    await volume.client.interrupt(endpoint, id);
    await call(endpoint, `PATCH /api/conversations/${id}`, { title: 'another' });
    await call(endpoint, `DELETE /api/conversations/${id}`);
    await eventually(() => (target.infos().length === 4 ? true : undefined));
    expect(target.infos()).toEqual(['running', 'paused', 'paused', 'deleting']);
    expect(target.hooks.every(({ key, extra }) => key === 'session' && extra === 'more')).toBe(
      true,
    );
    expect(new Set(target.hooks.map(({ path }) => path))).toEqual(
      new Set(['/webhooks/box/conversations', `/webhooks/box/events/${id}`]),
    );
  });

  it('report every event in order, soon after it', async () => {
    await using volume = await AgentVolume.create();
    await using target = await receiver();
    await aConversation(
      volume,
      { baseUrl: target.url, eventBufferSize: 100, flushDelaySeconds: 0.05 },
      'echo one',
      'echo two',
    );
    const events = await eventually(() =>
      statuses(target.events()).includes('finished') ? target.events() : undefined,
    );
    expect(events[0]).toMatchObject({ kind: 'ConversationStateUpdateEvent', key: 'full_state' });
    expect(
      events.map(({ kind }) => kind).filter((kind) => kind === 'ObservationEvent'),
    ).toHaveLength(2);
    expect(statuses(events)).toEqual(['finished']);
  });

  it('are sent again when they were not taken, and none is lost or comes twice', async () => {
    await using volume = await AgentVolume.create();
    await using target = await receiver();
    target.state.refusing = true;
    const { endpoint, id } = await aConversation(
      volume,
      { baseUrl: target.url, flushDelaySeconds: 0.05, retries: 1, retryDelaySeconds: 0 },
      'echo one',
    );
    await volume.until(endpoint, id, 'finished');
    await eventually(() => (target.state.refused > 3 ? true : undefined));
    target.state.refusing = false;
    const events = await eventually(() =>
      statuses(target.events()).length > 0 ? target.events() : undefined,
    );
    expect(statuses(events)).toEqual(['finished']);
    expect(events.filter(({ kind }) => kind === 'ObservationEvent')).toHaveLength(1);
  });

  it('report the last events when the agent is asked to end, and delay that by no more than a second', async () => {
    await using volume = await AgentVolume.create();
    await using target = await receiver();
    const { endpoint, stop, id } = await aConversation(
      volume,
      { baseUrl: target.url, eventBufferSize: 100, flushDelaySeconds: 600 },
      'sleep 60',
    );
    await volume.until(endpoint, id, 'running');
    expect(await stop('SIGTERM')).toBe(0);
    expect(statuses(target.events())).toEqual(['paused']);
  });

  it('delay nothing where no server receives them', async () => {
    await using volume = await AgentVolume.create();
    const silent = createServer(() => undefined);
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { endpoint, stop, id } = await aConversation(
      volume,
      {
        baseUrl: `http://127.0.0.1:${(silent.address() as AddressInfo).port}`,
        flushDelaySeconds: 0.01,
      },
      'echo one',
    );
    await volume.until(endpoint, id, 'finished');
    expect(await stop('SIGTERM')).toBe(0);
    silent.close();
    silent.closeAllConnections();
  });

  it('must be ones that can be sent', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.start();
    await expect(
      volume.client.initialise(endpoint, {
        ...volume.init,
        webhooks: [{ baseUrl: 'file:///etc' }],
      }),
    ).rejects.toMatchObject({ code: 'refused' });
  });
});
