import * as fc from 'fast-check';
import { lines } from '../../../src/kube/lines.ts';

async function* chunksOf(bytes: Uint8Array, cuts: readonly number[]): AsyncGenerator<Uint8Array> {
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((one, other) => one - other);
  for (const [index, end] of places.entries()) {
    const start = places[index - 1];
    if (start !== undefined) yield await Promise.resolve(bytes.subarray(start, end));
  }
}

describe('lines', () => {
  it('gives the lines of a text wherever its bytes are cut', async () => {
    const text = fc.array(fc.string({ unit: 'grapheme' }).map((line) => line.replaceAll('\n', '')));
    await fc.assert(
      fc.asyncProperty(text, fc.array(fc.nat()), async (expected, cuts) => {
        const bytes = Buffer.from(expected.map((line) => `${line}\n`).join(''));
        expect(await Array.fromAsync(lines(chunksOf(bytes, cuts), 10_000))).toEqual(expected);
      }),
    );
  });

  it('gives what stands behind the last newline', async () => {
    expect(await Array.fromAsync(lines(chunksOf(Buffer.from('a\nb'), []), 100))).toEqual(['a', 'b']);
  });
});
