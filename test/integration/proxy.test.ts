import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';

/** The built program with the reference agent, reached as clients outside do. */
let dataDir: string;
let up: Installation;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'conversation-operator-proxy-'));
  up = await Installation.start({ dataDir });
});
afterAll(async () => {
  await up.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

const status = async (url: string, key?: string): Promise<number> => {
  const response = await fetch(
    url,
    key === undefined ? {} : { headers: { 'X-Session-API-Key': key } },
  );
  await response.arrayBuffer();
  return response.status;
};

it('an agent is reached at an origin of its own, the same over pause, resume and restart', async () => {
  const { id: task } = await up.start('Say hello:\n```sh\necho hello\n```');
  const { app_conversation_id: id, sandbox_id: sandbox } = await up.over(task);
  const record = await up.reaches(id ?? '', {
    sandbox_status: 'RUNNING',
    execution_status: 'finished',
  });
  const [url, key] = [record.conversation_url ?? '', record.session_api_key ?? ''];
  const { origin, hostname, port } = new URL(url);
  expect(url).toBe(`${origin}/api/conversations/${id ?? ''}`);
  expect(hostname).toMatch(/^127\./);
  expect(hostname).not.toBe('127.0.0.1');
  expect(port).toBe(new URL(up.url).port);

  expect(await status(`${origin}/alive`)).toBe(200);
  expect(await status(url)).toBe(401);
  expect(await status(url, up.key)).toBe(401);
  expect(await status(url, key)).toBe(200);
  expect(
    await status(
      `${up.url}/sandboxes/${sandbox ?? ''}/AGENT_SERVER/api/conversations/${id ?? ''}`,
      key,
    ),
  ).toBe(200);
  expect(await status(`${up.url}/api/v1/sandboxes/${sandbox ?? ''}/settings/secrets`, key)).toBe(
    200,
  );

  const socket = new WebSocket(
    `${origin.replace('http', 'ws')}/sockets/events/${id ?? ''}?resend_mode=all`,
  );
  const kinds: string[] = [];
  socket.on('message', (data: Buffer) =>
    kinds.push((JSON.parse(data.toString()) as { kind: string }).kind),
  );
  await once(socket, 'open');
  socket.send(JSON.stringify({ type: 'auth', session_api_key: key }));
  await eventually(
    'the events',
    () => kinds.includes('MessageEvent') && kinds.includes('ConversationStateUpdateEvent'),
  );

  const closed = once(socket, 'close');
  await up.call('POST', `/api/v1/sandboxes/${sandbox ?? ''}/pause`);
  expect([1001, 1012]).toContain(((await closed) as [number])[0]);
  await up.reaches(id ?? '', {
    sandbox_status: 'PAUSED',
    conversation_url: null,
    session_api_key: null,
  });
  expect(await status(url, key)).toBe(503);
  await up.call('POST', `/api/v1/sandboxes/${sandbox ?? ''}/resume`);
  await up.reaches(id ?? '', {
    sandbox_status: 'RUNNING',
    conversation_url: url,
    session_api_key: key,
  });
  expect(await status(url, key)).toBe(200);

  await up.stop();
  up = await Installation.start({ dataDir, env: { PORT: port } });
  await up.reaches(id ?? '', {
    sandbox_status: 'RUNNING',
    conversation_url: url,
    session_api_key: key,
  });
  await eventually('the agent answers', async () => (await status(url, key)) === 200);
  await up.call('DELETE', `/api/v1/sandboxes/${sandbox ?? ''}`);
  await eventually('its origin is gone', async () => {
    // A connection that is kept open is still the sandbox's, never the service's; its key opens no
    // more than any other then.
    const now = await status(url, key).catch(() => 401);
    return now === 401;
  });
});
