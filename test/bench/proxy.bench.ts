import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';
import { load } from './http-load.ts';

/** The proxy between a client and an agent, each in a process of its own on the same cores. */
const connections = 50;
const durationMs = 8000;
const open = 2000;
const atOnce = 50;
const settleSeconds = 5;

const agent = startChild('proxy-agent.ts');
const agentPort = await agent.line();
const gateway = startChild('proxy-gateway.ts', [agentPort]);
const { port, apiKey, sessionKey } = JSON.parse(await gateway.line()) as { port: number; apiKey: string; sessionKey: string };
const base = '/sandboxes/sbx-1/AGENT_SERVER';
const sockets: Socket[] = [];

/** Opens a connection, sends, and waits until the answer has what it should. */
async function hold(text: string, expected: string): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  sockets.push(socket);
  socket.write(text);
  let answer = '';
  while (!answer.includes(expected)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    answer += chunk.toString('latin1');
    if (!answer.startsWith('HTTP/1.1 200') && !answer.startsWith('HTTP/1.1 101')) throw new Error(answer);
  }
  socket.resume();
}

async function holdMany(text: string, expected: string): Promise<void> {
  for (let count = 0; count < open; count += atOnce) await Promise.all(Array.from({ length: atOnce }, () => hold(text, expected)));
}

const request = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\nX-Session-API-Key: ${sessionKey}\r\nAccept: application/json\r\n\r\n`;
const proxied = request(`${base}/api/conversations/1`);
try {
  await load({ port, request: proxied, connections, durationMs: 2000 });
  const direct = await load({ port: Number(agentPort), request: request('/api/conversations/1'), connections, durationMs: 3000 });
  report({ what: 'the agent without the proxy, 50 connections', value: direct.requestsPerSecond, unit: 'req/s' });
  const through = await load({ port, request: proxied, connections, durationMs });
  report({ what: 'GET through the proxy, 50 connections', value: through.requestsPerSecond, unit: 'req/s', target: { atLeast: 5000 } });
  report({ what: 'GET through the proxy, p50', value: percentile(through.latencies, 0.5), unit: 'ms' });
  report({ what: 'GET through the proxy, p99', value: percentile(through.latencies, 0.99), unit: 'ms' });

  await holdMany(
    `GET ${base}/sockets/events/1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n` +
      `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Session-API-Key: ${sessionKey}\r\n\r\n`,
    '\r\n\r\n',
  );
  const body = JSON.stringify({ initial_message: { content: [{ type: 'text', text: 'Hello.' }] } });
  await holdMany(
    `POST /api/v1/app-conversations/stream-start HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${apiKey}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
    'WORKING',
  );
  // What it has printed in the meantime is old.
  const until = performance.now() + settleSeconds * 1000;
  let bytes = 0;
  while (performance.now() < until) bytes = Number(await gateway.line());
  report({ what: '2,000 WebSockets and 2,000 stream-starts open, memory', value: bytes / 1024 ** 2, unit: 'MiB', target: { atMost: 300 } });
} finally {
  for (const socket of sockets) socket.destroy();
  await gateway.close();
  await agent.close();
}
