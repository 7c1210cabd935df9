import { Readable } from 'node:stream';
import fc from 'fast-check';
import type { EventQuery } from '../../../src/agent/events.ts';
import { maxEventBytes, splitPage } from '../../../src/archive/agent-event.ts';
import { agentSource } from '../../../src/archive/agent-source.ts';
import { eventJson } from '../../support/archive/agent-log.ts';

const endpoint = { baseUrl: 'http://127.0.0.1:1', sessionKey: 'key' };
const options = { descending: false, signal: new AbortController().signal };

/** An agent with these events, which records what it is asked. */
function agentWith(items: readonly string[], secrets: readonly string[] = []) {
  const asked: EventQuery[] = [];
  const idOf = (item: string) => (JSON.parse(item) as { id?: string }).id;
  const events = {
    search: (_endpoint: unknown, _id: string, query: EventQuery) => {
      asked.push(query);
      const start = Math.max(
        items.findIndex((item) => idOf(item) === (query['page_id'] ?? 'none')),
        0,
      );
      const end = start + Number(query['limit']);
      const next = items[end] === undefined ? null : idOf(items[end]);
      const text = `{"items":[${items.slice(start, end).join(',')}],"next_page_id":${JSON.stringify(next)}}`;
      const pieces = Buffer.from(text);
      const chunks = Array.from({ length: Math.ceil(pieces.length / 65_536) }, (_, index) =>
        pieces.subarray(index * 65_536, (index + 1) * 65_536),
      );
      return Promise.resolve(Readable.from(chunks));
    },
  };
  return { asked, source: agentSource({ events, endpoint, id: 'c', secrets }) };
}

describe('splitPage', () => {
  it('returns the items of every page, each as it was written', () => {
    fc.assert(
      fc.property(
        fc.array(fc.jsonValue()),
        fc.option(fc.string()),
        fc.constantFrom(undefined, 1, '\t'),
        (items, next, space) => {
          const text = JSON.stringify(
            { items, total: [1, { a: '],}' }], next_page_id: next },
            null,
            space,
          );
          const page = splitPage(Buffer.from(text));
          expect(page?.items.map((item) => JSON.parse(item.toString()) as unknown)).toEqual(
            JSON.parse(JSON.stringify(items)),
          );
          expect(page?.next).toBe(next === null || next === '' ? undefined : next);
        },
      ),
    );
  });

  it('keeps numbers that JavaScript does not represent', () => {
    const item = '{"id":"a","n":12345678901234567890,"f":1.0}';
    const page = splitPage(Buffer.from(`{"items":[${item}],"next_page_id":null}`));
    expect(page?.items.map(String)).toEqual([item]);
  });

  it.each([
    ['no JSON', 'Internal Server Error'],
    ['a list', '[]'],
    ['no items', '{"next_page_id":null}'],
    ['items that are no list', '{"items":{},"next_page_id":null}'],
    ['a string without an end', '{"items":["a],"next_page_id":null}'],
    ['brackets without an end', '{"items":[[1],"next_page_id":null}'],
    ['too many brackets', '{"items":[1]],"next_page_id":null}'],
    ['an empty text', ''],
  ])('refuses %s', (_name, text) => {
    expect(splitPage(Buffer.from(text))).toBeUndefined();
  });

  it('returns for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...Array.from('{}[]",:\\ai ')) }), (text) => {
        expect(splitPage(Buffer.from(`{"items":[${text}]}`))?.next).toBeUndefined();
      }),
    );
  });
});

describe('agentSource', () => {
  it('asks for a page of 100 and reads the next one by its id', async () => {
    const items = Array.from({ length: 150 }, (_, index) => eventJson(`e${index}`));
    const { asked, source } = agentWith(items);
    const first = await source.page(undefined, options);
    expect(first).toMatchObject({ next: 'e100', invalid: 0 });
    expect(first.events.map(({ json }) => json.toString())).toEqual(items.slice(0, 100));
    expect((await source.page('e100', { ...options, descending: true })).events).toHaveLength(50);
    expect(asked).toEqual([
      { limit: 100, sort_order: 'TIMESTAMP' },
      { limit: 100, sort_order: 'TIMESTAMP_DESC', page_id: 'e100' },
    ]);
  });

  it('reads large events in smaller pages, and keeps no event above the maximum', async () => {
    const large = eventJson('large', { text: 'x'.repeat(10 * 1024 * 1024) });
    const huge = eventJson('huge', { text: 'x'.repeat(20 * 1024 * 1024) });
    const { asked, source } = agentWith([eventJson('a'), large, huge, eventJson('b')]);
    expect((await source.page(undefined, options)).events.map(({ id }) => id)).toEqual(['a']);
    expect(asked.map(({ limit }) => limit)).toEqual([100, 10, 1]);
    const second = await source.page('large', options);
    expect(second.next).toBe('huge');
    expect(JSON.parse(String(second.events[0]?.json))).toEqual({
      id: 'large',
      kind: 'MessageEvent',
      timestamp: '2026-01-01T00:00:00',
      source: 'agent',
      archive_omitted_bytes: large.length,
    });
    expect(large.length).toBeGreaterThan(maxEventBytes);
    const third = await source.page('huge', options);
    expect(third).toMatchObject({ next: 'b', events: [{ id: 'huge', kind: 'unknown' }] });
  });

  it('leaves out what is no event, and hides secrets', async () => {
    const secrets = ['sk-12345678', 'a "quoted\\" one', 'short'];
    const text = `key ${secrets.join(', ')}!`;
    const items = [JSON.stringify({ id: 'a', text }), '{}', '3', '{"id":""}', '{"id":"b"}'];
    const { source } = agentWith(items, secrets);
    const page = await source.page(undefined, options);
    expect(page.invalid).toBe(3);
    expect(page.events.map(({ json }) => json.toString())).toEqual([
      '{"id":"a","text":"key <secret-hidden>, <secret-hidden>, short!"}',
      '{"id":"b"}',
    ]);
  });

  it('hides each line of a secret of several lines', async () => {
    const key = '-----BEGIN KEY-----\r\n  MIIEvQIBADANBg\nshort\n-----END KEY-----\n';
    const text = `${key}     2\tMIIEvQIBADANBg\n> -----END KEY-----\nshort`;
    const { source } = agentWith([JSON.stringify({ id: 'a', text })], [key]);
    const page = await source.page(undefined, options);
    expect(JSON.parse(String(page.events[0]?.json))).toEqual({
      id: 'a',
      text: '<secret-hidden>     2\t<secret-hidden>\n> <secret-hidden>\nshort',
    });
  });

  it('replaces what is no UTF-8', async () => {
    const text = Buffer.concat([
      Buffer.from('{"items":[{"id":"a","text":"'),
      Buffer.from([0xff]),
      Buffer.from('"}],"next_page_id":null}'),
    ]);
    const events = { search: () => Promise.resolve(Readable.from([text])) };
    const source = agentSource({ events, endpoint, id: 'c', secrets: [] });
    const page = await source.page(undefined, options);
    expect(page.events.map(({ json }) => json.toString())).toEqual(['{"id":"a","text":"\ufffd"}']);
  });

  it('refuses what is no page', async () => {
    const events = { search: () => Promise.resolve(Readable.from([Buffer.from('nothing')])) };
    const source = agentSource({ events, endpoint, id: 'c', secrets: [] });
    await expect(source.page(undefined, options)).rejects.toMatchObject({ code: 'malformed' });
  });
});
