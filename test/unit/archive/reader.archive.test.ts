import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { createCodec, type Codec } from '../../../src/archive/codec.ts';
import { extendArchive, type ExtendOptions } from '../../../src/archive/extend.ts';
import type { EventSource } from '../../../src/archive/agent-event.ts';
import type { HistoryFilter } from '../../../src/archive/history.ts';
import { createHistoryReader } from '../../../src/archive/reader.ts';
import { agentLog, eventJson, eventOf } from '../../support/archive/agent-log.ts';
import { memoryStore } from '../../support/archive/memory-store.ts';

const address = { namespace: 'agents', uid: 'c0ffee' };
const { signal } = new AbortController();
const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
const codecs: readonly [string, Codec][] = [
  ['plain', createCodec({ keys, encrypt: false })],
  ['sealed', createCodec({ keys, encrypt: true })],
];

function archiveWith(codec: Codec, changes: Partial<ExtendOptions> = {}) {
  const memory = memoryStore();
  const log = agentLog();
  const objects = { store: memory.store, codec };
  const extend = (head: string | undefined) =>
    extendArchive(address, head, {
      ...objects,
      source: log.source,
      signal,
      maxBytes: Infinity,
      maxEvents: Infinity,
      installation: 'here',
      ...changes,
    });
  return { ...memory, log, extend, reader: createHistoryReader(objects) };
}

/** Reads a conversation as a client does: page by page. */
async function pagesOf(
  { reader }: ReturnType<typeof archiveWith>,
  head: string,
  query: HistoryFilter & { readonly descending: boolean; readonly limit: number },
): Promise<readonly string[]> {
  const read: string[] = [];
  let pageId: string | undefined;
  do {
    const page = await reader.search({ ...address, head }, { ...query, pageId });
    read.push(...page.events.map(({ json }) => json.toString()));
    pageId = page.nextPageId ?? undefined;
  } while (pageId !== undefined);
  return read;
}

const kinds = ['MessageEvent', 'ActionEvent', 'ObservationEvent'];
const arbitraryEvents = fc.array(
  fc.record({
    kind: fc.constantFrom(...kinds),
    seconds: fc.nat(59),
    length: fc.oneof(fc.nat(2_000), fc.constantFrom(90_000, 300_000)),
  }),
  { maxLength: 260 },
);

describe.each(codecs)('an archive of %s parts', (_name, codec) => {
  it('contains what the agent has, in its order, whatever the steps in which it grew', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(arbitraryEvents, { minLength: 1, maxLength: 4 }),
        fc.record({
          kind: fc.option(fc.constantFrom(...kinds, 'NoEvent'), { nil: undefined }),
          from: fc.option(fc.nat(59), { nil: undefined }),
          before: fc.option(fc.nat(59), { nil: undefined }),
        }),
        fc.integer({ min: 1, max: 100 }),
        fc.boolean(),
        async (steps, { kind, from, before }, limit, descending) => {
          const archive = archiveWith(codec);
          const { log, extend, reader } = archive;
          let head: string | undefined;
          for (const step of steps) {
            for (const { seconds, length, ...event } of step) {
              const timestamp = timeOf(seconds);
              const text = 'x'.repeat(length);
              const json = eventJson(`e${log.events.length}`, { ...event, timestamp, text });
              log.events.push(eventOf(json));
            }
            const extension = await extend(head);
            expect(extension.stoppedBy).toBe('end');
            expect(extension.events).toBe(log.events.length);
            head = extension.head ?? head;
          }
          if (head === undefined) return;
          const filter = { kind, from: timeOf(from), before: timeOf(before) };
          const wanted = log.events
            .filter(
              (event) =>
                (kind === undefined || event.kind === kind) &&
                (from === undefined || (event.timestamp ?? '') >= timeOf(from)) &&
                (before === undefined || (event.timestamp ?? '') < timeOf(before)),
            )
            .map(({ json }) => json.toString());
          expect(await reader.count({ ...address, head }, filter)).toBe(wanted.length);
          expect(await pagesOf(archive, head, { ...filter, descending, limit })).toEqual(
            descending ? wanted.toReversed() : wanted,
          );
          const all: string[] = [];
          for await (const part of reader.all({ ...address, head }))
            all.push(...part.map(({ json }) => json.toString()));
          expect(all).toEqual(log.events.map(({ json }) => json.toString()));
          const chosen = log.events.filter((_event, index) => index % 3 === 0);
          const found: string[] = [];
          const ids = ['none', ...chosen.flatMap(({ id }) => [id, id])];
          for await (const { json } of reader.byIds({ ...address, head }, ids))
            found.push(json.toString());
          expect(found.toSorted()).toEqual(chosen.map(({ json }) => json.toString()).toSorted());
        },
      ),
      { numRuns: 40 },
    );
  });

  it('begins a page with the event that a plain id names', async () => {
    const { log, extend, reader } = archiveWith(codec);
    for (let index = 0; index < 950; index++)
      log.events.push(eventOf(eventJson(`e${index}`, { text: 'x'.repeat(3_000) })));
    const { head = '' } = await extend(undefined);
    for (const position of [0, 1, 99, 100, 421, 949]) {
      for (const descending of [true, false]) {
        const query = { descending, limit: 1, pageId: `e${position}` };
        const { events } = await reader.search({ ...address, head }, query);
        expect(events).toMatchObject([{ id: `e${position}`, position }]);
      }
    }
  });

  it('reads events that are larger than a page, which earlier versions have archived', async () => {
    const archive = archiveWith(codec);
    const large = (id: string) => Buffer.from(JSON.stringify({ id, text: 'x'.repeat(9_000_000) }));
    for (const id of ['a', 'b']) {
      const known = eventOf(eventJson(id));
      archive.log.events.push({ ...known, json: large(id) });
    }
    const { head = '' } = await archive.extend(undefined);
    const pages: string[] = [];
    for (let pageId: string | null | undefined; pageId !== null && pages.length < 3;) {
      const page = await archive.reader.search(
        { ...address, head },
        { descending: false, limit: 100, pageId },
      );
      pages.push(page.events.map(({ id }) => id).join());
      pageId = page.nextPageId;
    }
    expect(pages).toEqual(['a', 'b']);
  });

  it.each(['not-archived-yet', 'not-archived-yet@7', 'e2@7'])(
    'ends a list, and begins one with the newest event, for the page %s behind the archive',
    async (pageId) => {
      const { log, extend, reader } = archiveWith(codec);
      log.events.push(...['e0', 'e1'].map((id) => eventOf(eventJson(id))));
      const { head = '' } = await extend(undefined);
      const search = (descending: boolean) =>
        reader.search({ ...address, head }, { descending, limit: 5, pageId });
      expect(await search(false)).toEqual({ events: [], nextPageId: null });
      expect((await search(true)).events.map(({ id }) => id)).toEqual(['e1', 'e0']);
    },
  );
});

function timeOf(seconds: number): string;
function timeOf(seconds: number | undefined): string | undefined;
function timeOf(seconds: number | undefined) {
  return seconds === undefined ? undefined : `2026-01-01T00:00:${String(seconds).padStart(2, '0')}`;
}

describe('a repeated or a strange extension', () => {
  const [[, codec]] = codecs as [[string, Codec]];
  const grown = (number: number, prefix = 'e') =>
    Array.from({ length: number }, (_, index) => eventOf(eventJson(`${prefix}${index}`)));

  it('writes the same objects again', async () => {
    const { log, extend, objects, calls } = archiveWith(codec);
    log.events.push(...grown(500));
    const first = await extend(undefined);
    const stored = [...objects.keys()];
    expect(await extend(undefined)).toEqual(first);
    expect([...objects.keys()]).toEqual(stored);
    const puts = calls.put;
    expect(await extend(first.head)).toMatchObject({ head: undefined, added: 0, stoppedBy: 'end' });
    expect(calls.put).toBe(puts);
  });

  it('adds nothing twice where the agent repeats ids', async () => {
    const { log, extend } = archiveWith(codec);
    log.events.push(...grown(3), ...grown(3), eventOf(eventJson('new')));
    expect(await extend(undefined)).toMatchObject({ events: 4, added: 4 });
  });

  it('joins a log that lacks archived events, and one that begins anew', async () => {
    const { log, extend, reader } = archiveWith(codec);
    log.events.push(...grown(400));
    const { head = '' } = await extend(undefined);
    log.events.splice(300, 100, ...grown(250, 'later'));
    const joined = await extend(head);
    expect(joined).toMatchObject({ events: 650, added: 250 });
    log.events.splice(0, Infinity, ...grown(30, 'anew'));
    const anew = await extend(joined.head);
    expect(anew).toMatchObject({ events: 680, added: 30 });
    const ids: string[] = [];
    for await (const part of reader.all({ ...address, head: anew.head ?? '' }))
      ids.push(...part.map(({ id }) => id));
    expect(ids).toEqual(
      [grown(400), grown(250, 'later'), grown(30, 'anew')].flat().map(({ id }) => id),
    );
    log.events.splice(0);
    expect(await extend(anew.head)).toMatchObject({ added: 0, stoppedBy: 'end' });
  });

  it('takes no page of a volume that is replaced meanwhile for the next one', async () => {
    const log = agentLog(grown(250));
    const replaced: EventSource = {
      page: (from, options) => {
        if (from === 'e100') log.events.splice(0, Infinity, ...grown(120, 'other'));
        return log.source.page(from, options);
      },
    };
    const { extend } = archiveWith(codec, { source: replaced });
    const first = await extend(undefined);
    expect(first).toMatchObject({ events: 100, added: 100, stoppedBy: 'more' });
    expect(await extend(first.head)).toMatchObject({ events: 220, added: 120, stoppedBy: 'end' });
  });

  it('ends at its limits, and continues behind them', async () => {
    const { log, extend, reader } = archiveWith(codec, { maxEvents: 150 });
    log.events.push(...grown(420));
    let head: string | undefined;
    const ends: string[] = [];
    for (let call = 0; call < 4; call++) {
      const { stoppedBy, ...extension } = await extend(head);
      head = extension.head ?? head;
      ends.push(`${stoppedBy} ${extension.events}`);
    }
    expect(ends).toEqual(['more 200', 'more 399', 'end 420', 'end 420']);
    expect(await reader.count({ ...address, head: head ?? '' }, {})).toBe(420);
    const small = archiveWith(codec, { maxBytes: 2_000 });
    small.log.events.push(...grown(5_000));
    const limited = await small.extend(undefined);
    expect(limited.stoppedBy).toBe('limit');
    expect(limited.events).toBeLessThan(1_000);
    expect(await small.extend(limited.head)).toMatchObject({ added: 0, stoppedBy: 'limit' });
  });

  it('counts the words of its texts for the limit', async () => {
    const maxBytes = 100_000;
    const { log, extend, objects } = archiveWith(codec, { maxBytes });
    // Words that no text repeats are stored twice: in their event, and in the list of words.
    const textOf = (index: number) =>
      Array.from({ length: 6 }, (_, part) =>
        createHash('sha256').update(`${index} ${part}`).digest('hex'),
      ).join(' ');
    log.events.push(
      ...Array.from({ length: 2_000 }, (_, index) =>
        eventOf(
          JSON.stringify({
            id: `e${index}`,
            kind: 'MessageEvent',
            source: 'agent',
            llm_message: { content: [{ type: 'text', text: textOf(index) }] },
          }),
        ),
      ),
    );
    const { head = '', stoppedBy } = await extend(undefined);
    expect(stoppedBy).toBe('limit');
    const bytes = objects.get(`agents/c0ffee/h/${head}`)?.length ?? 0;
    // The last page and its words exceed it.
    expect(bytes).toBeLessThan(maxBytes + 2 * 100 * 6 * 65);
    expect(bytes).toBeGreaterThan(maxBytes);
  });

  it('notices damage, and what belongs to another archive', async () => {
    const { log, extend, objects, reader } = archiveWith(codec);
    log.events.push(...grown(1_000));
    const { head = '' } = await extend(undefined);
    const key = `agents/c0ffee/h/${head}`;
    const body = objects.get(key) ?? Buffer.alloc(0);
    const elsewhere = { namespace: 'agents', uid: 'another', head };
    objects.set(`agents/another/h/${head}`, body);
    await expect(reader.count(elsewhere, {})).rejects.toMatchObject({ code: 'damaged' });
    await expect(
      reader.count({ ...address, head: `0000000001-${'f'.repeat(24)}` }, {}),
    ).rejects.toMatchObject({ code: 'gone' });
    for (const place of [20, body.length - 30, body.length - 2]) {
      const damaged = Buffer.from(body);
      damaged.writeUInt8(damaged.readUInt8(place) ^ 0x55, place);
      objects.set(key, damaged);
      const fresh = createHistoryReader({ store: memoryStore(objects).store, codec });
      const read = async () => {
        for await (const part of fresh.all({ ...address, head })) expect(part).not.toHaveLength(0);
      };
      await expect(read()).rejects.toMatchObject({ code: 'damaged' });
    }
  });
});
