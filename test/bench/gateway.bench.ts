import { startTaskIdOf } from '../../src/resources/ids.ts';
import { startApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';
import { startGateway } from './gateway-process.ts';
import { load, type Load } from './http-load.ts';
import { addConversations, addTemplate, newKey } from './population.ts';

/** The built gateway on an API server in memory, with 10,000 conversations of one owner, each in a sandbox that runs. */
const count = Number(process.env['OBJECTS'] ?? 10_000);
const connections = 50;
const durationMs = 6000;
const warmUpMs = 2000;

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
await addTemplate(server.client);
const key = await newKey(server.client);
const ids = await addConversations(server.client, count);
const bare = startChild('proxy-agent.ts');
stack.defer(() => bare.close());
const barePort = Number(await bare.line());
const gateway = await startGateway(server);
stack.defer(() => gateway.close());

const head = (line: string) => `${line} HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer ${key}\r\nAccept: application/json\r\n`;
const get = (path: string) => `${head(`GET ${path}`)}\r\n`;
const idAt = (turn: number) => ids[(turn * 7919) % ids.length] ?? '';
const base = '/api/v1/app-conversations';

interface Part {
  readonly what: string;
  readonly request: (turn: number) => string;
  readonly atLeast: number;
  readonly p99AtMostMs?: number;
}

async function measure({ what, request, atLeast, p99AtMostMs }: Part, bareRate: number): Promise<void> {
  await load({ port: gateway.port, request, connections, durationMs: warmUpMs });
  const processorBefore = gateway.processorSeconds();
  const began = performance.now();
  const result = await load({ port: gateway.port, request, connections, durationMs });
  const share = ((gateway.processorSeconds() - processorBefore) * 100_000) / (performance.now() - began);
  tell(what, result, { atLeast });
  report({
    what: `${what}, p99`,
    value: percentile(result.latencies, 0.99),
    unit: 'ms',
    ...(p99AtMostMs === undefined ? {} : { target: { atMost: p99AtMostMs } }),
  });
  report({ what: `${what}, of what a bare server does`, value: (result.requestsPerSecond * 100) / bareRate, unit: '%' });
  report({ what: `${what}, processor of the gateway`, value: share, unit: '% of one' });
  report({ what: `${what}, processor of the load tool`, value: result.ownShare * 100, unit: '% of one' });
}

const tell = (what: string, { requestsPerSecond }: Load, target?: { readonly atLeast: number }) =>
  report({ what, value: requestsPerSecond, unit: 'req/s', ...(target === undefined ? {} : { target }) });

const start = JSON.stringify({ initial_message: { content: [{ type: 'text', text: 'Say hello.' }] }, title: 'A greeting' });
const post = `${head(`POST ${base}`)}Content-Type: application/json\r\nContent-Length: ${start.length}\r\n\r\n${start}`;
const parts: readonly Part[] = [
  { what: 'GET by id', request: (turn) => get(`${base}?ids=${idAt(turn)}`), atLeast: 6000, p99AtMostMs: 20 },
  {
    what: 'GET start task by id',
    request: (turn) => get(`${base}/start-tasks?ids=${startTaskIdOf(idAt(turn))}`),
    atLeast: 6000,
    p99AtMostMs: 20,
  },
  { what: 'search page of 100', request: () => get(`${base}/search?limit=100`), atLeast: 800 },
  { what: 'POST start', request: () => post, atLeast: 500 },
];
await load({ port: barePort, request: get('/'), connections, durationMs: warmUpMs });
const bareRate = await load({ port: barePort, request: get('/'), connections, durationMs });
tell('a bare server, as the measure of this machine now', bareRate);
for (const part of parts) if ((process.env['PART'] ?? part.what) === part.what) await measure(part, bareRate.requestsPerSecond);
