import * as fc from 'fast-check';
import { linesOf, wholeLines } from '../src/watch-stream.ts';

async function* chunksOf(bytes: Uint8Array, splits: readonly number[]): AsyncGenerator<Uint8Array> {
  const places = [0, ...splits.map((split) => split % (bytes.length + 1)), bytes.length].sort(
    (one, other) => one - other,
  );
  for (const [index, end] of places.entries()) {
    const start = places[index - 1];
    if (start !== undefined) yield await Promise.resolve(bytes.subarray(start, end));
  }
}

async function lines(
  bytes: Uint8Array,
  splits: readonly number[],
  maxLineBytes = 10_000,
): Promise<readonly string[]> {
  const parts = await Array.fromAsync(wholeLines(chunksOf(bytes, splits), maxLineBytes));
  return parts.flatMap((part) => [...linesOf(part.toString('utf8'))]);
}

describe('lines', () => {
  it('are those of a text wherever its bytes are split', async () => {
    const text = fc.array(
      fc.string({ unit: 'grapheme', minLength: 1 }).map((line) => line.replaceAll('\n', ' ')),
    );
    await fc.assert(
      fc.asyncProperty(text, fc.array(fc.nat()), async (expected, splits) => {
        const bytes = Buffer.from(expected.map((line) => `${line}\n`).join(''));
        expect(await lines(bytes, splits)).toEqual(expected);
      }),
    );
  });

  it('are the same for bytes that are no UTF-8, wherever those are split', async () => {
    // Bytes with a meaning at the edge of a line: its end, a letter, and beginnings and
    // ends of characters.
    const byte = fc.constantFrom(0x0a, 0x61, 0x80, 0xbf, 0xc3, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0xff);
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ maxLength: 40 }),
        fc.array(byte, { maxLength: 40 }),
        fc.array(fc.nat()),
        async (any, some, splits) => {
          const bytes = Buffer.from([...any, ...some]);
          const expected = bytes.toString('utf8').split('\n');
          expect(await lines(bytes, splits)).toEqual(expected.filter((line) => line !== ''));
        },
      ),
    );
  });

  it('come in one text for each chunk, and one more for the line that began in the chunk before', async () => {
    const texts = await Array.fromAsync(
      wholeLines(chunksOf(Buffer.from('a\nb\nc\nd\ne'), [5]), 100),
    );
    expect(texts.map(String)).toEqual(['a\nb\n', 'c\n', 'd\n', 'e']);
  });

  it('may end without a newline, at the very end', async () => {
    expect(await lines(Buffer.from('a\n\nb'), [])).toEqual(['a', 'b']);
  });

  it('are refused when one does not end, after those before it', async () => {
    const texts = wholeLines(chunksOf(Buffer.from('a\nbbbbbbbbbb'), [4, 6, 8]), 5);
    expect(await texts.next()).toEqual({ done: false, value: Buffer.from('a\n') });
    await expect(texts.next()).rejects.toThrow('the server sent a line longer than 5 bytes');
  });
});
