import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { startApiServer } from './api-server.ts';
import { addArchive, openBucket, openFolder, type BenchStore } from './archived-log.ts';
import { eventId, eventText } from './event-log.ts';
import { percentile, report } from './figure.ts';
import { startGateway } from './gateway-process.ts';
import { addPausedConversations, addTemplate, newKey } from './population.ts';

/**
 * How long a client of the built gateway takes to search all histories of an owner, page by page,
 * from a folder and from a bucket of a real S3 server, and what other requests notice of it.
 * Gateway, S3 server and client share the cores.
 */
const conversations = Number(process.env['CONVERSATIONS'] ?? 1000);
const events = Number(process.env['EVENTS'] ?? 1000);
const repeats = 3;
/** A word of one event, in the conversation in the middle. */
const needle = 'Zanzibarnik';

await using stack = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), 'bench-'));
stack.defer(() => rmSync(folder, { recursive: true, force: true }));
const server = await startApiServer('memory');
stack.defer(() => server.close());
const { client } = server;
await addTemplate(client);
const key = await newKey(client);
const ids = await addPausedConversations(client, conversations);
const headers = { authorization: `Bearer ${key}` };

interface Page {
  readonly items: readonly unknown[];
  readonly next_page_id: string | null;
  readonly searched: { readonly conversations: number };
}

async function fill({ store }: BenchStore): Promise<void> {
  for (const [number, id] of ids.entries())
    await addArchive(client, store, {
      id,
      events,
      text: (index) => {
        const text = eventText(number * events + index).replace(
          eventId(number * events + index),
          eventId(index),
        );
        const isPlace = number === Math.floor(conversations / 2) && index === 321;
        return isPlace ? text.replace('"text":"', `"text":"a ${needle} `) : text;
      },
    });
}

/** Texts, the number of places that are found at least, and the maximum milliseconds of all pages. */
const searches: readonly (readonly [string, string, number, number | undefined])[] = [
  ['a word of one event', needle.toLowerCase(), 1, 1000],
  ['words that are nowhere', 'the zebra of the operator', 0, 1000],
  ['a text without words, which is nowhere: all is read', '@@@@', 0, undefined],
];

/** The same archives in another store. */
async function copy(from: BenchStore, to: BenchStore): Promise<void> {
  for (let after: string | undefined = ''; after !== undefined;) {
    const page = await from.store.list({ prefix: '', after });
    for (const { key: name } of page.names) {
      const body = await from.store.get(name);
      if (body !== undefined) await to.store.put(name, body);
    }
    after = page.next;
  }
}

async function measure(place: string, bench: BenchStore, isTarget: boolean): Promise<void> {
  const gateway = await startGateway(server, bench.env);
  const base = `http://127.0.0.1:${gateway.port}`;
  const pageOf = async (query: string): Promise<Page> => {
    const answer = await fetch(`${base}/api/v1/search?${query}`, { headers });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text);
    return JSON.parse(text) as Page;
  };
  try {
    for (const [what, q, atLeast, atMost] of searches) {
      const times: number[] = [];
      const processor = gateway.processorSeconds();
      const others: number[] = [];
      for (let repeat = 0; repeat < (atMost === undefined ? 1 : repeats); repeat++) {
        const over = new AbortController();
        const asking = (async () => {
          while (!over.signal.aborted) {
            const began = performance.now();
            await (await fetch(`${base}/api/v1/quota`, { headers })).arrayBuffer();
            others.push(performance.now() - began);
            await delay(20);
          }
        })();
        const began = performance.now();
        let found = 0;
        for (let pageId: string | null = ''; pageId !== null;) {
          const more = pageId === '' ? '' : `&page_id=${pageId}`;
          const page = await pageOf(`q=${encodeURIComponent(q)}${more}`);
          found += page.items.length;
          pageId = page.next_page_id;
        }
        times.push(performance.now() - began);
        over.abort();
        await asking;
        if (found < atLeast) throw new Error(`${found} places of '${q}'`);
      }
      report({
        what: `${place}: ${conversations} x ${events} events, ${what}, best of ${times.length}`,
        value: Math.min(...times),
        unit: 'ms',
        ...(isTarget && atMost !== undefined ? { target: { atMost } } : {}),
      });
      report({
        what: `${place}: the same, processor of the gateway`,
        value: ((gateway.processorSeconds() - processor) * 1000) / times.length,
        unit: 'ms',
      });
      report({
        what: `${place}: the same, another request meanwhile, p99`,
        value: percentile(others, 0.99),
        unit: 'ms',
      });
    }
    const times: number[] = [];
    for (let repeat = 0; repeat < 20; repeat++) {
      const began = performance.now();
      const { items } = await pageOf('q=retry&limit=50');
      times.push(performance.now() - began);
      if (items.length === 0) throw new Error('an empty page');
    }
    report({
      what: `${place}: first page of a frequent word, p50`,
      value: percentile(times, 0.5),
      unit: 'ms',
    });
    report({ what: `${place}: memory of the gateway`, value: gateway.maxMemoryMiB(), unit: 'MiB' });
  } finally {
    await gateway.close();
  }
}

const archives = openFolder(join(folder, 'archive'));
await fill(archives);
await measure('folder', archives, true);
const bucket = await openBucket(stack, join(folder, 'credentials'));
await copy(archives, bucket);
await measure('S3', bucket, false);
