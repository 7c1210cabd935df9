import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startApiServer } from './api-server.ts';
import { addArchive, openBucket, openFolder, type BenchStore } from './archived-log.ts';
import { eventId, rareKind } from './event-log.ts';
import { percentile, report } from './figure.ts';
import { startGateway } from './gateway-process.ts';
import { addPausedConversations, addTemplate, newKey } from './population.ts';

/**
 * How long a page of an archive takes a client of the built gateway, from a folder and from a
 * bucket of a real S3 server. Gateway, S3 server and client share the cores.
 */
const events = Number(process.env['EVENTS'] ?? 50_000);
const pages = 300;
const repeats = 3;
const limit = 100;

await using stack = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), 'bench-'));
stack.defer(() => rmSync(folder, { recursive: true, force: true }));
const server = await startApiServer('memory');
stack.defer(() => server.close());
const { client } = server;
await addTemplate(client);
const key = await newKey(client);

interface Page {
  readonly items: readonly { readonly id: string; readonly kind: string }[];
  readonly next_page_id: string | null;
}

/** Requests pages one after the other; returns how long each of them takes, in milliseconds. */
type Visit = (get: (query: string) => Promise<Page>) => Promise<void>;

/** Follows `next_page_id`, and begins again at the end. */
const follow =
  (query: string, kind?: string): Visit =>
  async (get) => {
    for (let read = 0, page = ''; read < pages; read++) {
      const { items, next_page_id } = await get(`${query}${page}`);
      if (items.length === 0) throw new Error('an empty page');
      if (kind !== undefined && items.some((item) => item.kind !== kind))
        throw new Error('an event of another kind');
      page = next_page_id === null ? '' : `&page_id=${encodeURIComponent(next_page_id)}`;
    }
  };

const visits: Readonly<Record<string, Visit>> = {
  'newest first': follow('sort_order=TIMESTAMP_DESC'),
  'oldest first': follow('sort_order=TIMESTAMP'),
  'from any id': async (get) => {
    for (let read = 0; read < pages; read++) {
      const id = eventId((read * 7919 + 13) % events);
      const { items } = await get(`sort_order=TIMESTAMP&page_id=${id}`);
      if (items[0]?.id !== id) throw new Error('a page from another event');
    }
  },
  'of a kind, a third of all': follow(
    'sort_order=TIMESTAMP_DESC&kind__eq=MessageEvent',
    'MessageEvent',
  ),
  'of a kind, one in 1,000': follow(`sort_order=TIMESTAMP_DESC&kind__eq=${rareKind}`, rareKind),
};

async function measure(place: string, { store, env }: BenchStore, atMost: number): Promise<void> {
  const [id = ''] = await addPausedConversations(client, 1);
  await addArchive(client, store, { id, events });
  const gateway = await startGateway(server, env);
  try {
    const url = `http://127.0.0.1:${gateway.port}/api/v1/conversation/${id}/events/search?limit=${limit}&`;
    for (const [what, visit] of Object.entries(visits)) {
      const p99s: number[] = [];
      for (let repeat = 0; repeat < repeats; repeat++) {
        const times: number[] = [];
        await visit(async (query) => {
          const began = performance.now();
          const answer = await fetch(url + query, { headers: { authorization: `Bearer ${key}` } });
          const text = await answer.text();
          times.push(performance.now() - began);
          if (!answer.ok) throw new Error(text);
          return JSON.parse(text) as Page;
        });
        p99s.push(percentile(times, 0.99));
      }
      report({
        what: `${place}: page of ${limit} of ${events}, ${what}, p99, best of ${repeats}`,
        value: Math.min(...p99s),
        unit: 'ms',
        target: { atMost },
      });
    }
  } finally {
    await gateway.close();
  }
}

await measure('folder', openFolder(join(folder, 'archive')), 100);
await measure('S3', await openBucket(stack), 300);
