import fc from 'fast-check';
import {
  directoryRecord,
  endOfDirectory,
  zipArchive,
  type ZipFile,
} from '../../../src/archive/zip.ts';
import { unzip } from '../../support/unzip.ts';

const time = Date.parse('2026-01-02T03:04:06Z');

async function* given<T>(...items: readonly T[]): AsyncGenerator<T, void, undefined> {
  await Promise.resolve();
  yield* items;
}
const bytesOf = async (parts: AsyncIterable<readonly ZipFile[]>): Promise<Buffer> =>
  Buffer.concat(await Array.fromAsync(zipArchive(parts, time)));
const file = (name: string, text: string): ZipFile => ({ name, content: Buffer.from(text) });

describe('a ZIP archive', () => {
  it('has its files in order, whatever is in them', async () => {
    const name = fc.stringMatching(/^[A-Za-z0-9_.é-]{1,40}$/);
    const text = fc
      .string({ unit: 'grapheme', maxLength: 400 })
      .map((value) => value.toWellFormed());
    const files = fc.array(
      fc.uniqueArray(fc.tuple(name, text), { selector: ([key]) => key, maxLength: 5 }),
      { maxLength: 4 },
    );
    await fc.assert(
      fc.asyncProperty(files, async (parts) => {
        const named = parts.map((part, index) =>
          part.map(([key, value]) => file(`${index}/${key}`, value)),
        );
        const archive = await bytesOf(given(...named));
        expect(await unzip(archive)).toEqual(
          parts.flatMap((part, index) => part.map(([key, value]) => [`${index}/${key}`, value])),
        );
      }),
      { numRuns: 20 },
    );
  });

  it('may have more files than the plain format counts', async () => {
    const count = 65_600;
    const parts = Array.from({ length: count / 100 }, (_, part) =>
      Array.from({ length: 100 }, (_file, index) => file(`${part * 100 + index}`, 'x')),
    );
    const names = (await unzip(await bytesOf(given(...parts)), 'names')).map(([name]) => name);
    expect(names).toEqual(Array.from({ length: count }, (_, index) => `${index}`));
  });

  it('ends without its directory after a failure', async () => {
    const failing = async function* () {
      yield* given([file('a', 'x')]);
      throw new Error('lost');
    };
    const seen: Buffer[] = [];
    await expect(async () => {
      for await (const chunk of zipArchive(failing(), time)) seen.push(chunk);
    }).rejects.toThrow('lost');
    await expect(unzip(Buffer.concat(seen))).rejects.toThrow(/BadZipFile/);
  });

  it('holds one part at a time: the next one is read when the chunk before is taken', async () => {
    let read = 0;
    const endless = async function* () {
      for (;;) {
        read += 1;
        yield await Promise.resolve([file(`${read}`, 'x')]);
      }
    };
    const chunks = zipArchive(endless(), time);
    await chunks.next();
    await chunks.next();
    expect(read).toBe(2);
    await chunks.return();
  });
});

describe('numbers beyond 32 bits', () => {
  const packed = { name: Buffer.from('a'), data: Buffer.from('x'), crc: 1, bytes: 1 };
  const gibibyte = 1024 ** 3;

  it.each([
    ['before 4 GiB, an offset is in the record', 4 * gibibyte - 2, 4 * gibibyte - 2, undefined],
    ['from there on, it is in the extra field', 4 * gibibyte - 1, 0xff_ff_ff_ff, 4 * gibibyte - 1],
    ['as far as it gets', 9000 * gibibyte, 0xff_ff_ff_ff, 9000 * gibibyte],
  ])('%s', (_case, offset, plain, large) => {
    const record = directoryRecord(packed, 0, offset);
    expect(record.readUInt32LE(42)).toBe(plain);
    const extraBytes = record.readUInt16LE(30);
    expect(record).toHaveLength(46 + 1 + extraBytes);
    expect(extraBytes === 0 ? undefined : Number(record.readBigUInt64LE(51))).toBe(large);
  });

  it.each([
    ['few files', { files: 3, bytes: 100, offset: 200 }, false],
    ['65,535 files', { files: 65_535, bytes: 100, offset: 200 }, true],
    ['a directory behind 4 GiB', { files: 3, bytes: 100, offset: 5 * gibibyte }, true],
  ])('the end of an archive with %s', (_case, directory, isLarge) => {
    const end = endOfDirectory(directory);
    expect(end).toHaveLength(isLarge ? 98 : 22);
    if (!isLarge) return;
    const { files, bytes, offset } = directory;
    expect([32, 40, 48].map((at) => Number(end.readBigUInt64LE(at)))).toEqual([
      files,
      bytes,
      offset,
    ]);
    expect(Number(end.readBigUInt64LE(56 + 8))).toBe(offset + bytes);
  });
});
