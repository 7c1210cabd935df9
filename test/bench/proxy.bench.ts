import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { startApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { report } from './figure.ts';
import { measureBare, measurePart } from './gateway-load.ts';
import { startGateway } from './gateway-process.ts';
import { addSandbox, addTemplate, newKey, sessionKeyIn } from './population.ts';

/**
 * The built gateway between a client and an agent, each in a process of its own on the same cores.
 */
const open = 2000;
const atOnce = 50;
const settleMs = 5000;

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
const agent = startChild('bare-server.ts');
stack.defer(() => agent.close());
const agentPort = Number(await agent.line());
const bare = startChild('bare-proxy.ts', [String(agentPort)]);
stack.defer(() => bare.close());
await addTemplate(server.client);
const apiKey = await newKey(server.client);
const sandbox = await addSandbox(server.client, 'sbx-1', '127.0.0.1', agentPort);
const sessionKey = await sessionKeyIn(server.client, sandbox, apiKey);
const base = '/sandboxes/sbx-1/AGENT_SERVER';

const request = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${sessionKey}\r\nAccept: application/json\r\n\r\n`;
await measureBare('the agent without a proxy, 50 connections', agentPort, request('/'));
const bareRate = await measureBare(
  'through a bare proxy',
  Number(await bare.line()),
  request('/api/conversations/1'),
);
const first = await startGateway(server);
try {
  await measurePart(
    first,
    {
      what: 'GET through the proxy',
      request: request(`${base}/api/conversations/1`),
      atLeast: 5000,
    },
    bareRate,
  );
} finally {
  await first.close();
}

// Another one, so that its memory is that of what is open.
const gateway = await startGateway(server);
stack.defer(() => gateway.close());
const sockets: Socket[] = [];
stack.defer(() => {
  for (const socket of sockets) socket.destroy();
});

/** Opens a connection, sends, and waits until the answer has what it should. */
async function hold(text: string, expected: string): Promise<void> {
  const socket = connect(gateway.port, '127.0.0.1');
  sockets.push(socket);
  socket.write(text);
  let answer = '';
  while (!answer.includes(expected)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    answer += chunk.toString('latin1');
    if (!answer.startsWith('HTTP/1.1 200') && !answer.startsWith('HTTP/1.1 101'))
      throw new Error(answer);
  }
  socket.resume();
}

async function holdMany(text: string, expected: string): Promise<void> {
  for (let count = 0; count < open; count += atOnce)
    await Promise.all(Array.from({ length: atOnce }, () => hold(text, expected)));
}

report({ what: 'memory with nothing open', value: gateway.memoryMiB(), unit: 'MiB' });
await holdMany(
  `GET ${base}/sockets/events/1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
    `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Session-API-Key: ${sessionKey}\r\n\r\n`,
  '\r\n\r\n',
);
await delay(settleMs);
report({ what: 'memory with 2,000 WebSockets', value: gateway.memoryMiB(), unit: 'MiB' });
const body = JSON.stringify({ initial_message: { content: [{ type: 'text', text: 'Hello.' }] } });
await holdMany(
  `POST /api/v1/app-conversations/stream-start HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${apiKey}\r\nContent-Type: application/json\r\n` +
    `Content-Length: ${body.length}\r\n\r\n${body}`,
  'WORKING',
);
await delay(settleMs);
report({
  what: 'memory with 2,000 WebSockets and 2,000 stream-starts',
  value: gateway.memoryMiB(),
  unit: 'MiB',
  target: { atMost: 300 },
});
