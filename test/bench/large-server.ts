import { namespace } from './api-server.ts';
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { apiVersion } from '../../src/resources/group.ts';

/**
 * Lists conversations that have a message of this size each, page by page; no other kind has
 * objects, and no watch an event. Prints its port.
 */
const [count, messageBytes] = process.argv.slice(2).map(Number) as [number, number];
/**
 * Not Latin-1, so that a process needs two bytes for each character of a page; with line ends, so
 * that the parser has to copy.
 */
const line = 'The page shows “no entries” though there are some, since the filter is set.\n';
const text = JSON.stringify(line.repeat(Math.floor(messageBytes / Buffer.byteLength(line)))).slice(
  1,
  -1,
);
const time = '2026-03-01T12:00:00Z';
const [head = '', tail = ''] = JSON.stringify({
  spec: {
    owner: 'alice',
    templateName: 'default',
    initialMessage: { role: 'user', run: true, content: [{ type: 'text', text: '%' }] },
  },
  status: {
    observedGeneration: 1,
    start: { status: 'READY', transitions: [{ status: 'READY', time }] },
    sandboxStatus: 'MISSING',
  },
}).split('%');
const message = Buffer.from(text);
const end = Buffer.from(tail);

function* page(from: number, to: number): Generator<Buffer, void, undefined> {
  const next = to > 0 && to < count ? { continue: String(to) } : {};
  yield Buffer.from(
    `{"kind":"List","apiVersion":"v1","metadata":${JSON.stringify({ resourceVersion: String(count), ...next })},"items":[`,
  );
  for (let index = from; index < to; index++) {
    const name = randomUUID().replaceAll('-', '');
    const metadata = {
      name,
      namespace,
      uid: randomUUID(),
      resourceVersion: String(index + 1),
      generation: 1,
      creationTimestamp: time,
    };
    const object = JSON.stringify({ apiVersion, kind: 'Conversation', metadata }).slice(0, -1);
    yield Buffer.from(`${index === from ? '' : ','}${object},${head.slice(1)}`);
    yield message;
    yield end;
  }
  yield Buffer.from(']}');
}

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  const url = new URL(request.url ?? '/', 'http://localhost');
  response.writeHead(200, { 'content-type': 'application/json' });
  if (url.searchParams.has('watch')) {
    response.flushHeaders();
    return;
  }
  const objects = url.pathname.endsWith('/conversations') ? count : 0;
  const from = Number(url.searchParams.get('continue') ?? 0);
  const to = Math.min(objects, from + Number(url.searchParams.get('limit') ?? objects));
  response.end(Buffer.concat([...page(from, to)]));
});
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`),
);
