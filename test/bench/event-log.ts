import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Logs of agents whose events have the sizes of real ones: 1,744 bytes in the mean, 8.5 kB at p99.
 * An event follows from its index alone, so that a log of any length takes no memory.
 */
const bodies = 4001;
/** Parameters of a log-normal distribution with that mean and p99. */
const [mu, sigma] = [7.123, 0.8];
/** Bytes of an event beside its text. */
const frameBytes = 230;
const maxTextBytes = 60_000;
const kinds = ['ActionEvent', 'ObservationEvent', 'MessageEvent'] as const;
/** The kind of one event in a thousand. */
export const rareKind = 'CondensationEvent';
const rareEvery = 1000;

/** A generator of numbers from 0 to 1 that repeats itself (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Text such as agents read and write: the sources and the documents of this project. */
function projectText(): string {
  const root = join(import.meta.dirname, '../..');
  return ['docs', 'src']
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .filter((path) => /\.(md|ts)$/.test(path))
        .sort()
        .map((path) => readFileSync(join(root, folder, path), 'utf8')),
    )
    .join('');
}

/** The fields of each event that do not depend on its index, as JSON. */
function createBodies(): readonly string[] {
  const random = randomFrom(1);
  const text = projectText();
  return Array.from({ length: bodies }, () => {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const bytes = Math.min(Math.max(Math.exp(mu + sigma * normal) - frameBytes, 1), maxTextBytes);
    const start = Math.floor(random() * (text.length - bytes));
    return JSON.stringify(text.slice(start, start + bytes));
  });
}
let known: readonly string[] | undefined;

export const eventId = (index: number): string =>
  `5f0c2d4e-0000-4000-8000-${index.toString(16).padStart(12, '0')}`;

/** The index of an event from its id; 0 for another text. */
export const indexOf = (id: string): number =>
  Number.parseInt(/^5f0c2d4e-0000-4000-8000-([0-9a-f]{12})$/.exec(id)?.[1] ?? '0', 16);

const firstMs = Date.parse('2026-01-01T00:00:00Z');

export function eventText(index: number): string {
  known ??= createBodies();
  const kind = index % rareEvery === 0 ? rareKind : (kinds[index % kinds.length] ?? '');
  const time = new Date(firstMs + index * 200).toISOString().slice(0, -1);
  return `{"id":"${eventId(index)}","timestamp":"${time}","source":"agent","kind":"${kind}","tool_call_id":"call_${(index * 2654435761).toString(36)}","content":[{"type":"text","text":${known[index % bodies] ?? '""'}}]}`;
}

/** A page as an agent server sends it, of a log with that many events. */
export function pageText(count: number, query: URLSearchParams): string {
  const isDescending = query.get('sort_order') === 'TIMESTAMP_DESC';
  const step = isDescending ? -1 : 1;
  const asked = indexOf(query.get('page_id') ?? '');
  const start = query.has('page_id') && asked < count ? asked : isDescending ? count - 1 : 0;
  const left = isDescending ? start + 1 : count - start;
  const length = Math.min(Number(query.get('limit') ?? 100), left);
  const items = Array.from({ length }, (_, index) => eventText(start + step * index));
  const next = left > length ? `"${eventId(start + step * length)}"` : 'null';
  return `{"items":[${items.join(',')}],"next_page_id":${next}}`;
}
