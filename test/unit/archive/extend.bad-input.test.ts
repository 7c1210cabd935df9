import { Readable } from 'node:stream';
import { AgentError } from '../../../src/agent/errors.ts';
import { crc32 } from 'node:zlib';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { agentEventOf, type EventSource, splitPage } from '../../../src/archive/agent-event.ts';
import { agentSource } from '../../../src/archive/agent-source.ts';
import { createCodec } from '../../../src/archive/codec.ts';
import { extendArchive, type Extension } from '../../../src/archive/extend.ts';
import { createHistoryReader } from '../../../src/archive/reader.ts';
import { eventJson, eventOf } from '../../support/archive/agent-log.ts';
import { memoryStore } from '../../support/archive/memory-store.ts';

const address = { namespace: 'agents', uid: 'c0ffee' };
const { signal } = new AbortController();
const codec = createCodec({ keys: new SandboxKeys([Buffer.alloc(32, 7)]), encrypt: false });
const mebibyte = 1024 * 1024;
const pageSize = 100;
const maxEvents = 2_000;

function archiveOf(source: EventSource, maxBytes = Infinity) {
  const memory = memoryStore();
  const objects = { store: memory.store, codec };
  const extend = (head?: string) =>
    extendArchive(address, head, {
      ...objects,
      source,
      maxBytes,
      maxEvents,
      installation: 'here',
      signal,
    });
  /** Extends it step by step, as the operator does, until there is no more to add. */
  const extendAll = async (): Promise<{ readonly steps: number; readonly last: Extension }> => {
    let head: string | undefined;
    for (let steps = 1; ; steps++) {
      const last = await extend(head);
      head = last.head ?? head;
      if (last.stoppedBy !== 'more') return { steps, last: { ...last, head } };
    }
  };
  return { ...memory, extend, extendAll, reader: createHistoryReader(objects) };
}

/** The log of an agent whose answers are these texts, by the id that is asked for. */
function agentOf(answer: (from: string | undefined, limit: number) => Iterable<string>) {
  const asked: (string | undefined)[] = [];
  const events = {
    search: (_endpoint: unknown, _id: string, query: Readonly<Record<string, string | number>>) => {
      const from = query['page_id'] as string | undefined;
      asked.push(from);
      const chunks = answer(from, Number(query['limit']));
      return Promise.resolve(
        Readable.from(
          (function* () {
            for (const chunk of chunks) yield Buffer.from(chunk);
          })(),
          { objectMode: false },
        ),
      );
    },
  };
  const endpoint = { baseUrl: 'http://127.0.0.1:1', sessionKey: 'key' };
  return { asked, source: agentSource({ events, endpoint, id: 'c', secrets: [] }) };
}

/** A log whose events are made when they are asked for. */
function logOf(count: number, textOf: (index: number) => string) {
  let pages = 0;
  const source: EventSource = {
    page: (from) => {
      pages++;
      const start = from === undefined ? 0 : Number(from.slice(1));
      const end = Math.min(start + pageSize, count);
      const events = Array.from({ length: end - start }, (_, index) =>
        eventOf(eventJson(`e${start + index}`, { text: textOf(start + index) })),
      );
      return Promise.resolve({ events, invalid: 0, next: end < count ? `e${end}` : undefined });
    },
  };
  return { source, pages: () => pages };
}

/** Two texts of 8 characters with one CRC-32, also within longer texts. */
const collision = (() => {
  const seen = new Map<number, string>();
  for (let index = 0; ; index++) {
    const text = Math.imul(index, 2_654_435_761).toString(36).padStart(8, '0').slice(-8);
    const other = seen.get(crc32(text));
    if (other !== undefined && other !== text) return [other, text] as const;
    seen.set(crc32(text), text);
  }
})();

describe('an agent with bad events', () => {
  it('of ten million events: its archive ends at its limit, in steps of a bounded size', async () => {
    const { source, pages } = logOf(10_000_000, (index) => `${index} `.repeat(200));
    const maxBytes = mebibyte;
    const archive = archiveOf(source, maxBytes);
    let head: string | undefined;
    let outcome: Extension['stoppedBy'] = 'more';
    let bytes = 0;
    while (outcome === 'more') {
      const before = pages();
      const step = await archive.extend(head);
      expect(step.added).toBeLessThan(maxEvents + pageSize);
      expect(pages() - before).toBeLessThanOrEqual(maxEvents / pageSize + 1);
      [outcome, head, bytes] = [step.stoppedBy, step.head, step.bytes];
    }
    expect(outcome).toBe('limit');
    expect(bytes).toBeLessThan(maxBytes + mebibyte);
    // Further steps read nothing of the agent.
    const before = pages();
    expect(await archive.extend(head)).toMatchObject({ stoppedBy: 'limit', added: 0 });
    expect(pages()).toBe(before);
  });

  it('of 10 MB each: the archive has their ids and sizes, and no more', async () => {
    const ids = ['a', 'b', 'c'];
    const { source } = agentOf((from, limit) => {
      const start = Math.max(ids.indexOf(from ?? 'a'), 0);
      const items = ids.slice(start, start + limit);
      const next = ids[start + limit];
      return (function* () {
        yield '{"items":[';
        for (const [index, id] of items.entries()) {
          yield `${index > 0 ? ',' : ''}{"id":"${id}","kind":"MessageEvent","text":"`;
          for (let chunk = 0; chunk < 160; chunk++) yield 'x'.repeat(65_536);
          yield '"}';
        }
        yield `],"next_page_id":${next === undefined ? 'null' : `"${next}"`}}`;
      })();
    });
    const archive = archiveOf(source);
    const { last } = await archive.extendAll();
    expect(last).toMatchObject({ stoppedBy: 'end', events: 3 });
    const page = await archive.reader.search(
      { ...address, head: last.head ?? '' },
      { descending: false, limit: 100 },
    );
    const kept = page.events.map(({ json }) => JSON.parse(json.toString()) as object);
    expect(kept).toMatchObject(ids.map((id) => ({ id, kind: 'MessageEvent' })));
    for (const event of kept) expect(event).toHaveProperty('archive_omitted_bytes');
    expect(last.bytes).toBeLessThan(10_000);
  });

  it('that is short in its layout and long without its line breaks: the archive omits it as well', () => {
    const numbers = Array.from({ length: 600_000 }, () => '1e20').join();
    const text = Buffer.from(`{"id":"a","kind":"MessageEvent",\n"numbers":[${numbers}]}`);
    const event = agentEventOf(text);
    expect(JSON.parse(event?.json.toString() ?? '')).toEqual({
      id: 'a',
      kind: 'MessageEvent',
      archive_omitted_bytes: text.length,
    });
  });

  it('at times of 1970, of 2100 and of no calendar: the order is that of the log', async () => {
    const times = ['2100-01-01T00:00:00', '1970-01-01T00:00:00', 'soon', '2026-01-01T00:00:00'];
    const texts = times.map((timestamp, index) => eventJson(`e${index}`, { timestamp }));
    const { source } = agentOf(() => [`{"items":[${texts.join(',')}],"next_page_id":null}`]);
    const archive = archiveOf(source);
    const { last } = await archive.extendAll();
    const state = { ...address, head: last.head ?? '' };
    const idsOf = async (query: object) => {
      const found = await archive.reader.search(state, { descending: false, limit: 100, ...query });
      return found.events.map(({ id }) => id);
    };
    expect(await idsOf({})).toEqual(['e0', 'e1', 'e2', 'e3']);
    expect(await idsOf({ from: '2026-01-01T00:00:00', before: '2099' })).toEqual(['e3']);
    expect(await archive.reader.count(state, { before: '1971' })).toBe(1);
  });

  it.each<[string, (from: string | undefined) => string]>([
    ['always the first page, and a next one', () => '{"items":[{"id":"a"}],"next_page_id":"b"}'],
    ['pages of nothing without an end', () => '{"items":[],"next_page_id":"a"}'],
    [
      'the ids of the page before',
      (from) => `{"items":[{"id":"a"},{"id":"b"}],"next_page_id":"${from ?? ''}x"}`,
    ],
  ])('that sends %s: the step ends', async (_name, answer) => {
    const { asked, source } = agentOf((from) => [answer(from)]);
    const archive = archiveOf(source);
    // An agent that answers with another page than the named one can not be read.
    const end = await archive.extendAll().then(
      ({ last }) => last.stoppedBy,
      (error: unknown) => (error instanceof AgentError ? error.code : error),
    );
    expect(['end', 'malformed']).toContain(end);
    expect(archive.calls.put).toBeLessThanOrEqual(2);
    expect(asked.length).toBeLessThan(20);
  });

  it('that sends new pages of nothing without an end: the step ends with the events before', async () => {
    let pages = 0;
    const { source } = agentOf(() => [
      `{"items":${++pages === 1 ? '[{"id":"a"}]' : '[]'},"next_page_id":"p${pages}"}`,
    ]);
    expect(await archiveOf(source).extend()).toMatchObject({ stoppedBy: 'end', events: 1 });
    expect(pages).toBeLessThan(20);
  });

  it('that sends a page without an end: the read ends with an error', async () => {
    let sent = 0;
    const { source } = agentOf(() =>
      (function* () {
        yield '{"items":[{"id":"a","text":"';
        for (;;) {
          sent += 65_536;
          yield 'x'.repeat(65_536);
        }
      })(),
    );
    await expect(archiveOf(source).extend()).rejects.toMatchObject({ code: 'malformed' });
    expect(sent).toBeLessThan(300 * mebibyte);
  });

  it.each([
    ['no JSON', 'Internal Server Error'],
    ['half a page', '{"items":[{"id":"a"},'],
    ['a page of another shape', '{"events":[]}'],
  ])('that sends %s: an error of the agent', async (_name, text) => {
    const { source } = agentOf(() => [text]);
    await expect(archiveOf(source).extend()).rejects.toMatchObject({
      name: 'AgentError',
      code: 'malformed',
    });
  });

  it('that sends items of any shape: only events with an id are archived', async () => {
    const items = ['1', 'null', '[]', '{}', '{"id":7}', '{"id":""}', '{"id":"a"', '{"id":"b"}'];
    const { source } = agentOf(() => [`{"items":[${items.join(',')}],"next_page_id":null}`]);
    const outcome = await archiveOf(source)
      .extend()
      .catch((error: unknown) => error);
    // One item without an end makes the whole page none.
    expect(outcome).toMatchObject({ code: 'malformed' });
    const whole = items.filter((item) => item !== '{"id":"a"');
    const other = agentOf(() => [`{"items":[${whole.join(',')}],"next_page_id":null}`]);
    expect(await archiveOf(other.source).extend()).toMatchObject({ events: 1, added: 1 });
  });

  it.each([300, 200_000])(
    'that nests %i levels: the event has a place without its content, and stalls nothing',
    async (depth) => {
      const deep = (id: string) =>
        `{"id":"${id}","kind":"k",\n"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
      const ids = Array.from({ length: 150 }, (_, index) => `e${index}`);
      // One of them begins a page, and one ends the log.
      const isDeep = (id: string) => ['e0', 'e100', 'e149'].includes(id);
      const { source } = agentOf((from = 'e0', limit) => {
        const start = ids.indexOf(from);
        const items = ids.slice(start, start + limit);
        const next = JSON.stringify(ids[start + limit] ?? null);
        const texts = items.map((id) => (isDeep(id) ? deep(id) : eventJson(id)));
        return [`{"items":[${texts.join(',')}],"next_page_id":${next}}`];
      });
      const { extendAll, extend, reader } = archiveOf(source);
      const { last } = await extendAll();
      expect(last).toMatchObject({ events: 150, stoppedBy: 'end' });
      expect(await extend(last.head)).toMatchObject({ events: 150, added: 0 });
      const state = { ...address, head: last.head ?? '' };
      const page = await reader.search(state, { descending: true, limit: 1 });
      expect(JSON.parse(String(page.events[0]?.json))).toEqual({
        id: 'e149',
        kind: 'k',
        archive_omitted_bytes: deep('e149').length,
      });
    },
  );

  it.each([
    ['nested deeply', '['.repeat(6_000_000) + ']'.repeat(6_000_000)],
    ['of many small values', `[${'{},'.repeat(4_000_000)}1]`],
  ])(
    'with an event %s: its text is never parsed as a whole, which takes seconds',
    (_case, value) => {
      const { parse } = JSON;
      const lengths: number[] = [];
      JSON.parse = (json: string) => {
        lengths.push(json.length);
        return parse(json) as unknown;
      };
      const text = Buffer.from(`{"source":"agent","v":${value},"id":"e1","kind":"k"}`);
      const event = agentEventOf(text);
      JSON.parse = parse;
      expect(Math.max(...lengths)).toBeLessThan(100);
      expect(JSON.parse(String(event?.json))).toEqual({
        id: 'e1',
        kind: 'k',
        source: 'agent',
        archive_omitted_bytes: text.length,
      });
    },
  );

  it.each([
    ['items', `{"items":[${'1,'.repeat(2_000)}1],"next_page_id":null}`],
    ['members', `{"items":[],${'"a":1,'.repeat(2_000)}"next_page_id":null}`],
  ])('with more %s than a page has: no page is split', (_case, text) => {
    expect(splitPage(Buffer.from(text))).toBeUndefined();
  });

  it('whose ids have one checksum: no event is lost, and frames are not unpacked for each', async () => {
    // 2^11 ids with one CRC-32.
    const ids = Array.from({ length: maxEvents }, (_, index) =>
      Array.from({ length: 11 }, (_bit, bit) => collision[(index >> bit) & 1]).join(''),
    );
    expect(new Set(ids.map((id) => crc32(id))).size).toBe(1);
    let unpacked = 0;
    const counting = {
      variant: codec.variant,
      pack: (...parts: Parameters<typeof codec.pack>) => codec.pack(...parts),
      unpack: (...parts: Parameters<typeof codec.unpack>) => {
        unpacked++;
        return codec.unpack(...parts);
      },
    };
    const source: EventSource = {
      page: (from) => {
        const start = Math.max(ids.indexOf(from ?? ''), 0);
        const end = start + pageSize;
        const events = ids.slice(start, end).map((id) => eventOf(eventJson(id)));
        return Promise.resolve({ events, invalid: 0, next: ids[end] });
      },
    };
    const { store } = memoryStore();
    const extension = await extendArchive(address, undefined, {
      store,
      codec: counting,
      source,
      signal,
      maxEvents: Infinity,
      maxBytes: Infinity,
      installation: 'here',
    });
    expect(extension.events).toBe(ids.length);
    expect(unpacked).toBeLessThan(100);
  });
});
