import { startTaskIdOf } from '../../src/resources/ids.ts';
import { startApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { measureBare, measurePart, type Part } from './gateway-load.ts';
import { startGateway } from './gateway-process.ts';
import { addConversations, addTemplate, newKey } from './population.ts';

/**
 * The built gateway on an API server in memory, with 10,000 conversations of one owner, each in a
 * sandbox that runs.
 */
const count = Number(process.env['OBJECTS'] ?? 10_000);

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
await addTemplate(server.client);
const key = await newKey(server.client);
const ids = await addConversations(server.client, count);
const bare = startChild('bare-server.ts');
stack.defer(() => bare.close());
const barePort = Number(await bare.line());
const gateway = await startGateway(server);
stack.defer(() => gateway.close());

const head = (line: string) =>
  `${line} HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer ${key}\r\nAccept: application/json\r\n`;
const get = (path: string) => `${head(`GET ${path}`)}\r\n`;
const idAt = (turn: number) => ids[(turn * 7919) % ids.length] ?? '';
const base = '/api/v1/app-conversations';

const start = JSON.stringify({
  initial_message: { content: [{ type: 'text', text: 'Say hello.' }] },
  title: 'A greeting',
});
const post = `${head(`POST ${base}`)}Content-Type: application/json\r\nContent-Length: ${start.length}\r\n\r\n${start}`;
const parts: readonly Part[] = [
  {
    what: 'GET by id',
    request: (turn) => get(`${base}?ids=${idAt(turn)}`),
    atLeast: 6000,
    p99AtMostMs: 20,
  },
  {
    what: 'GET start task by id',
    request: (turn) => get(`${base}/start-tasks?ids=${startTaskIdOf(idAt(turn))}`),
    atLeast: 6000,
    p99AtMostMs: 20,
  },
  { what: 'search page of 100', request: get(`${base}/search?limit=100`), atLeast: 800 },
  { what: 'POST start', request: post, atLeast: 500 },
];
const bareRate = await measureBare('a bare server, 50 connections', barePort, get('/'));
for (const part of parts)
  if ((process.env['PART'] ?? part.what) === part.what) await measurePart(gateway, part, bareRate);
