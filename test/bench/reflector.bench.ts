import { createCaches } from '../../src/controllers/caches.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { Controller } from '../../src/kube/controller.ts';
import { HttpKubeClient } from '../../src/kube/http-client.ts';
import type { Transport } from '../../src/kube/transport.ts';
import { silentLogger } from '../../src/observability/logger.ts';
import { heapBytes, percentile, report } from './figure.ts';
import { sandboxText } from './sandbox-text.ts';

/** Everything above the socket: lines, JSON, schema, store with the operator's indexes, a handler that fills a queue. */
const objects = 100_000;
const eventsPerRound = 100_000;
const rounds = 5;
const chunkBytes = 65_536;
const pageSize = 500;

let version = objects;
const feed: { chunks: readonly Uint8Array[]; wake: () => void } = { chunks: [], wake: () => undefined };

/** The server's part, as the transport hands it on. */
const transport: Pick<Transport, 'call' | 'stream'> = {
  call: ({ path }) => {
    const query = new URL(path, 'http://localhost').searchParams;
    const from = Number(query.get('continue') ?? 0);
    const to = Math.min(from + pageSize, objects);
    const items = Array.from({ length: to - from }, (_, index) => sandboxText(from + index, from + index + 1)).join(',');
    const next = to < objects ? `,"continue":"${to}"` : '';
    return Promise.resolve(JSON.parse(`{"metadata":{"resourceVersion":"${objects}"${next}},"items":[${items}]}`) as unknown);
  },
  stream: ({ signal }) => Promise.resolve(chunksUntil(signal)),
};

async function* chunksUntil(signal: AbortSignal): AsyncGenerator<Uint8Array, void, undefined> {
  while (!signal.aborted) {
    const { chunks } = feed;
    feed.chunks = [];
    yield* chunks;
    if (feed.chunks.length > 0 || signal.aborted) continue;
    await new Promise<void>((resolve) => {
      feed.wake = resolve;
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }
}

/** What a round sends, in pieces as they come from a socket. Made before the time is taken. */
function chunksOf(count: number): readonly Uint8Array[] {
  const text = Array.from({ length: count }, (_, index) => {
    version++;
    return `{"type":"MODIFIED","object":${sandboxText((index * 7919) % objects, version)}}\n`;
  });
  const bytes = Buffer.from(text.join(''));
  return Array.from({ length: Math.ceil(bytes.byteLength / chunkBytes) }, (_, index) =>
    bytes.subarray(index * chunkBytes, (index + 1) * chunkBytes),
  );
}

/** What no reader of JSON can do without, on the same machine in the same minute. */
function parseRate(chunks: readonly Uint8Array[]): number {
  const texts = Buffer.concat(chunks).toString().trimEnd().split('\n');
  heapBytes();
  const began = performance.now();
  for (const text of texts) JSON.parse(text);
  return texts.length / ((performance.now() - began) / 1000);
}

const empty = heapBytes();
const caches = createCaches({
  client: new HttpKubeClient({ transport }),
  namespace: 'agents',
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
});
const { sandboxes } = caches;
sandboxes.start();
await sandboxes.synced();
report({
  what: `heap for each of ${objects.toLocaleString('en')} Sandboxes`,
  value: (heapBytes() - empty) / objects / 1024,
  unit: 'KiB',
  target: { atMost: 6 },
});

const controller = new Controller({
  name: 'bench',
  reconcile: () => Promise.resolve(undefined),
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
});
let heard = 0;
let wanted = Infinity;
let done: () => void = () => undefined;
sandboxes.addHandler({
  updated: ({ metadata: { namespace, name } }) => {
    controller.enqueue({ namespace, name });
    if (++heard === wanted) done();
  },
});
const rates: number[] = [];
const parseRates: number[] = [];
for (let round = 0; round < rounds; round++) {
  const chunks = chunksOf(eventsPerRound);
  parseRates.push(parseRate(chunks));
  heapBytes();
  const all = new Promise<void>((resolve) => (done = resolve));
  wanted = heard + eventsPerRound;
  const began = performance.now();
  feed.chunks = chunks;
  feed.wake();
  await all;
  rates.push(eventsPerRound / ((performance.now() - began) / 1000));
}
report({
  what: 'watch events ingested, from bytes to the handlers',
  value: percentile(rates, 0.5),
  unit: '/s',
  target: { atLeast: 100_000 },
});
report({ what: 'JSON.parse alone of the same events', value: percentile(parseRates, 0.5), unit: '/s' });
report({ what: 'bytes of one event', value: sandboxText(1, 1).length, unit: 'B' });
await sandboxes.stop();
