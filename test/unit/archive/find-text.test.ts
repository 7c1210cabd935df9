import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { createCodec, type Codec } from '../../../src/archive/codec.ts';
import { extendArchive } from '../../../src/archive/extend.ts';
import { packHead, unpackHead, type Manifest } from '../../../src/archive/manifest.ts';
import { createHistoryReader } from '../../../src/archive/reader.ts';
import { folded, inOneLine, snippetOf, textQueryOf } from '../../../src/archive/text-fold.ts';
import { visibleTexts } from '../../../src/archive/agent-event.ts';
import type { AgentEvent } from '../../../src/agent/event-kinds.ts';
import { entriesOf } from '../../../src/sentences/entries.ts';
import { agentLog, eventJson, eventOf } from '../../support/archive/agent-log.ts';
import { memoryStore } from '../../support/archive/memory-store.ts';

const address = { namespace: 'agents', uid: 'c0ffee' };
const { signal } = new AbortController();
const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
const plain = createCodec({ keys, encrypt: false });
const codecs: readonly [string, Codec][] = [
  ['plain', plain],
  ['sealed', createCodec({ keys, encrypt: true })],
];

function archiveOf(codec: Codec) {
  const memory = memoryStore();
  const log = agentLog();
  const objects = { store: memory.store, codec };
  let head: string | undefined;
  return {
    ...memory,
    headName: () => head ?? '',
    setHead: (name: string) => (head = name),
    /** Archives texts, one each event. */
    add: async (texts: readonly string[]) => {
      for (const text of texts)
        log.events.push(eventOf(eventJson(`e${log.events.length}`, { text })));
      const extension = await extendArchive(address, head, {
        ...objects,
        source: log.source,
        signal,
        installation: 'here',
        maxBytes: Infinity,
        maxEvents: Infinity,
      });
      head = extension.head ?? head;
    },
    /** The positions of what is found, the newest first. */
    find: async (wanted: string, before = Infinity) => {
      const found: number[] = [];
      let from = before;
      const state = { ...address, head: head ?? '' };
      for await (const part of createHistoryReader(objects).find(
        state,
        textQueryOf(wanted),
        before,
      )) {
        expect(part.from).toBeLessThan(from);
        from = part.from;
        found.push(...part.found.map(({ position }) => position));
      }
      expect(from).toBe(0);
      return found;
    },
  };
}

/** Events that fill more than two segments. */
const long = (count: number, text = '') =>
  Array.from({ length: count }, (_, index) => `${text} ${'lorem ipsum '.repeat(300)} n${index}n`);

describe.each(codecs)('a search of an archive of %s parts', (_name, codec) => {
  it('finds what is in the texts, whatever the steps in which the archive grew', async () => {
    const piece = fc.constantFrom(
      ...['retry', 'Retry', 're', 'try', ' ', '\n', '\t', '"', '\\', '.*', '(', 'é', 'É', 'Σ', 'ς'],
      ...['İ', 'K', 'k', 'ſ', 'ß', '重試', '😀', '\u0000', '\u001b[31m', '\u2028', '_', '0', '<&>'],
    );
    const text = fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join(''));
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(text, { maxLength: 12 }), { minLength: 1, maxLength: 3 }),
        fc.array(piece, { minLength: 1, maxLength: 3 }).map((pieces) => pieces.join('')),
        fc.option(fc.nat(30), { nil: Infinity }),
        async (steps, wanted, before) => {
          const archive = archiveOf(codec);
          for (const step of steps) await archive.add(step);
          const all = steps.flat();
          if (all.length === 0 || before === 0) return;
          const query = textQueryOf(wanted).text;
          const positions = all.flatMap((each, position) =>
            position < before && folded(inOneLine(each)).includes(query) && each !== ''
              ? [position]
              : [],
          );
          expect(await archive.find(wanted, before)).toEqual(positions.toReversed());
        },
      ),
      { numRuns: 300 },
    );
  });

  it('reads no events of segments that do not have its words', async () => {
    const archive = archiveOf(codec);
    await archive.add([...long(300), 'The Needle is here.', ...long(700)]);
    const { calls } = archive;
    const before = calls.get;
    expect(await archive.find('needles')).toEqual([]);
    const reads = calls.get - before;
    expect(await archive.find('needle IS')).toEqual([300]);
    // The head, the words of each segment, and then the events of one of them.
    expect(calls.get - before - reads).toBe(reads + 1);
    expect(reads).toBe([...archive.objects.keys()].filter((key) => key.includes('/s/')).length + 1);
  });
});

describe('an archive without words', () => {
  it.each<[string, (archive: ReturnType<typeof archiveOf>) => void]>([
    ['of a release that did not keep them', withoutWords],
    [
      'whose words are damaged',
      ({ objects }) => {
        for (const [key, body] of objects)
          if (key.includes('/s/')) objects.set(key, Buffer.from(body).fill(0, body.length - 20));
      },
    ],
  ])('%s is searched as a whole, and grows on', async (_case, change) => {
    const archive = archiveOf(plain);
    await archive.add([...long(300), 'needle', ...long(300)]);
    change(archive);
    expect(await archive.find('needle')).toEqual([300]);
    await archive.add(['a needle', ...long(500)]);
    expect(await archive.find('needle')).toEqual([601, 300]);
  });

  it('is one whose segments have too many words', async () => {
    const archive = archiveOf(plain);
    const words = Array.from({ length: 60_000 }, (_, index) => (index * 7919).toString(36));
    await archive.add([words.join(' '), ...long(400)]);
    expect(await archive.find(words.at(-1) ?? '')).toEqual([0]);
  });
});

/** Makes a head of what an earlier release would have written. */
function withoutWords(archive: ReturnType<typeof archiveOf>): void {
  const name = archive.headName();
  const body = archive.objects.get(`agents/c0ffee/h/${name}`) ?? Buffer.alloc(0);
  const { manifest, tail } = unpackHead(plain, address, name, body);
  const segments = manifest.segments.map(({ words: _words, wordBytes: _bytes, ...rest }) => rest);
  const old: Manifest = { ...manifest, segments };
  const head = packHead(plain, address, old, tail);
  archive.objects.set(`agents/c0ffee/h/${head.name}`, head.body);
  archive.setHead(head.name);
}

describe('a snippet', () => {
  const around = 'x'.repeat(300);
  it.each<[string, string, string, string | undefined]>([
    ['is all of a short text', 'Try again.', 'try', 'Try again.'],
    ['is in one line', 'one\n\n two\tthree', 'ONE two', 'one two three'],
    ['has no control characters', 'a\u0000b\u001b[31mred', 'a b', 'a b [31mred'],
    ['is truncated before', `${around}needle`, 'needle', `…${'x'.repeat(60)}needle`],
    ['is truncated behind', `needle${around}`, 'needle', `needle${'x'.repeat(194)}…`],
    ['has no half of a pair', `😀${'x'.repeat(59)}ab`, 'ab', `😀${'x'.repeat(59)}ab`],
    ['has no half of a pair at its end', `ab${'x'.repeat(197)}😀`, 'ab', `ab${'x'.repeat(197)}…`],
    ['takes a pattern as a text', 'all of it', '.*', undefined],
    ['knows the case of all letters', 'ΟΔΟΣ', 'οδός'.replace('ό', 'ο'), 'ΟΔΟΣ'],
    ['counts as the text does where small letters are longer', 'İİİ Retry', 'retry', 'İİİ Retry'],
    ['is none of another text', 'nothing', 'retry', undefined],
  ])('%s', (_case, text, wanted, snippet) => {
    expect(snippetOf(text, textQueryOf(wanted))).toBe(snippet);
  });
});

describe('the texts of an event', () => {
  const folder = join(import.meta.dirname, '../../fixtures/histories');
  const histories = readdirSync(folder).map((file) => ({
    agent: file.replace('.json', ''),
    runs: JSON.parse(readFileSync(join(folder, file), 'utf8')) as AgentEvent[][],
  }));

  it.each(histories)('of $agent have each message and command that the page shows', ({ runs }) => {
    for (const events of runs) {
      const texts = events.flatMap((event) => visibleTexts(event)).map(inOneLine);
      for (const entry of entriesOf(events)) {
        const shown =
          entry.kind === 'message' ? [entry.text] : entry.kind === 'tool' ? [entry.summary] : [];
        for (const text of shown)
          for (const line of text.split('\n').filter((each) => each !== ''))
            expect(texts.join('\n')).toContain(inOneLine(line));
      }
    }
  });

  it.each(histories)('of $agent have no ids, kinds or times', ({ runs }) => {
    for (const event of runs.flat())
      for (const name of ['id', 'kind', 'timestamp', 'tool_call_id', 'parent_id', 'source'])
        expect(visibleTexts(event)).not.toContain(event[name]);
  });

  it('have neither images nor the prompt of the system', () => {
    const image = { type: 'image', data: 'aGVsbG8=', mimeType: 'image/png' };
    const prompt = { kind: 'SystemPromptEvent', system_prompt: { type: 'text', text: 'You are' } };
    expect(visibleTexts({ kind: 'ACPToolCallEvent', content: [{ content: image }] })).toEqual([]);
    expect(visibleTexts({ content: [{ image_urls: ['data:image/png;base64,aa'] }] })).toEqual([]);
    expect(visibleTexts(prompt)).toEqual([]);
  });
});
