import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { z } from 'zod';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { splitPage } from '../../src/archive/agent-event.ts';
import { gitChangeSchema } from '../../src/agent/workspace-files.ts';
import type { Installation } from './installation.ts';
import { unzip } from './unzip.ts';

const eventSchema = z.looseObject({ id: z.string(), kind: z.string(), timestamp: z.string() });
export type StoredEvent = z.output<typeof eventSchema>;

export const eventOf = (text: string): StoredEvent => eventSchema.parse(JSON.parse(text));

const fetchOk = async ({ url, key }: Installation, path: string): Promise<Response> => {
  const response = await fetch(`${url}${path}`, { headers: { Authorization: `Bearer ${key}` } });
  if (!response.ok) throw new Error(`${path}: ${response.status}: ${await response.text()}`);
  return response;
};

/** A page of events as it was sent. */
export interface EventPageText {
  readonly text: string;
  readonly items: readonly string[];
  readonly next: string | undefined;
}

export async function eventPage(
  up: Installation,
  id: string,
  query: string,
  from?: string,
): Promise<EventPageText> {
  const place = from === undefined ? '' : `&page_id=${encodeURIComponent(from)}`;
  const path = `/api/v1/conversation/${id}/events/search?${query}${place}`;
  const text = await (await fetchOk(up, path)).text();
  const page = splitPage(Buffer.from(text));
  if (page === undefined) throw new Error(`no page: ${text}`);
  return { text, items: page.items.map(String), next: page.next };
}

/** All pages. */
export async function eventPages(
  up: Installation,
  id: string,
  query: string,
): Promise<readonly EventPageText[]> {
  const pages = [await eventPage(up, id, query)];
  for (let next = pages[0]?.next; next !== undefined; next = pages.at(-1)?.next)
    pages.push(await eventPage(up, id, query, next));
  return pages;
}

/** The JSON of all events, oldest first, as it was sent. */
export const eventTexts = async (up: Installation, id: string): Promise<readonly string[]> =>
  (await eventPages(up, id, 'limit=100')).flatMap(({ items }) => items);

/** Queries of all filters and both orders, with times of the events as the limits. */
function queriesFor(events: readonly StoredEvent[]): readonly string[] {
  const at = (part: number) => events[Math.floor(events.length * part)]?.timestamp ?? '';
  const [early, late] = [at(1 / 3), at(2 / 3)];
  const filters = [
    '',
    ...new Set(events.map(({ kind }) => `kind=${kind}`)),
    'kind__eq=NoEvent',
    `timestamp__gte=${early}`,
    `timestamp__lt=${late}Z`,
    `timestamp__gte=${early}%2B00:00&timestamp__lt=${late}&kind=ActionEvent`,
  ];
  return filters.flatMap((filter) => [filter, `${filter}&sort_order=TIMESTAMP_DESC`]);
}

/**
 * The answers to queries of all filters and orders by query: the pages as they were sent, without
 * the positions in ids of pages that only the archive writes, and the count.
 */
export async function eventAnswers(
  up: Installation,
  id: string,
  events: readonly StoredEvent[],
): Promise<Readonly<Record<string, readonly string[]>>> {
  const answers: Record<string, readonly string[]> = {};
  for (const query of queriesFor(events)) {
    const pages = await eventPages(up, id, `limit=7&${query}`);
    const filters = query.replace(/&?sort_order=\w+/, '');
    const count = await fetchOk(up, `/api/v1/conversation/${id}/events/count?${filters}`);
    answers[query] = [
      await count.text(),
      ...pages.map(({ text }) => text.replace(/@\d+"\}$/, '"}')),
    ];
  }
  return answers;
}

/**
 * Lists, changes, differences and contents of changed files below a folder; the contents without
 * the ends of their last lines, which an agent leaves out of differences.
 */
export async function fileAnswers(up: Installation, id: string, folder: string) {
  const base = `/api/v1/app-conversations/${id}`;
  const read = async (path: string): Promise<unknown> => (await fetchOk(up, base + path)).json();
  const at = encodeURIComponent(folder);
  const changes = z.array(gitChangeSchema).parse(await read(`/git/changes?path=${at}`));
  const changed = await Promise.all(
    changes.map(async ({ path }) => {
      const file = encodeURIComponent(`${folder}/${path}`);
      const diff = await read(`/git/diff?path=${file}`);
      const content = z.string().parse(await read(`/file?file_path=${file}`));
      return { path, diff, content: content.trimEnd() };
    }),
  );
  return { files: await read(`/files?path=${at}`), changes, changed };
}

/** Names and JSON of the files of a download, in its order. */
export async function downloaded(up: Installation, id: string) {
  const response = await fetchOk(up, `/api/v1/app-conversations/${id}/download`);
  const files = await unzip(Buffer.from(await response.arrayBuffer()));
  return files.map(([name, text]): readonly [string, unknown] => [name, JSON.parse(text)]);
}

/** Keys that the agent of a sandbox has; the commands of a model may print them. */
export function agentKeys(up: Installation, uid: string): readonly string[] {
  const master = readFileSync(join(up.dataDir, 'master-key'), 'utf8').trim();
  const keys = new SandboxKeys([Buffer.from(master, 'hex')]);
  return [keys.sessionKey(uid), keys.gitToken(uid), keys.toolsToken(uid), keys.secretsToken(uid)];
}

export const archiveFolder = (up: Installation, { namespace, uid }: ArchiveOwner): string =>
  join(up.dataDir, 'archive', namespace, uid);

interface ArchiveOwner {
  readonly namespace: string;
  readonly uid: string;
}

/** Expects that the second log begins with the first one. Returns the rest. */
export function grown(before: readonly string[], after: readonly string[]): readonly string[] {
  const lost = before.findIndex((text, index) => text !== after[index]);
  const [wanted, found] = [before[lost], after[lost]].map((text) => text?.slice(0, 500));
  if (lost !== -1) throw new Error(`event ${lost} was ${wanted}, and is ${found}`);
  const ids = after.map((text) => eventOf(text).id);
  if (new Set(ids).size < ids.length) throw new Error(`ids repeat: ${ids.join(' ')}`);
  return after.slice(before.length);
}

const frameMark = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** All texts in the files of a folder, by path: the compressed ones, and the files themselves. */
export function storedTexts(folder: string): ReadonlyMap<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  return new Map(
    files
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(parentPath, name))
      .map((path) => {
        const bytes = readFileSync(path);
        return [path, [bytes.toString('latin1'), ...framesIn(bytes)].join('\n')];
      }),
  );
}

function framesIn(bytes: Buffer): readonly string[] {
  const frames: string[] = [];
  for (let at = bytes.indexOf(frameMark); at !== -1; at = bytes.indexOf(frameMark, at + 1))
    frames.push(zstdDecompressSync(bytes.subarray(at)).toString());
  return frames;
}
