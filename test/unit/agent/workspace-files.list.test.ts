import { cpuMsOf } from '../../support/cpu-time.ts';
import fc from 'fast-check';
import { fileListOf, listCommand } from '../../../src/agent/workspace-files.ts';

const outputOf = (gone: readonly string[], names: readonly string[], rest = '') => {
  const part = (some: readonly string[]) => some.map((name) => `${name}\0`).join('');
  return Buffer.from(`${part(gone)}\0\0${part(names)}${rest}`).toString('base64');
};

describe('the list of files in the output of the program', () => {
  it.each<[string, string, readonly string[], boolean]>([
    ['is empty for no output', '', [], false],
    ['is empty for other output', 'bash: not found', [], false],
    ['is empty where there is no file', outputOf([], []), [], false],
    ['is sorted and has no name twice', outputOf([], ['b', 'a', 'b']), ['a', 'b'], false],
    ['has no file that is gone', outputOf(['a'], ['a', 'b']), ['b'], false],
    ['has names below the folder', outputOf([], ['./a', './b/c']), ['a', 'b/c'], false],
    ['has no folder', outputOf([], ['shop/', 'shop', 'shop/a', 'x/']), ['shop/a'], false],
    ['has no part of a name', outputOf([], ['a'], 'b'), ['a'], true],
    ['has a part of the gone files', outputOf(['a', 'b'], ['a', 'b', 'c']), ['c'], false],
  ])('%s', (_case, output, names, isTruncated) => {
    expect(fileListOf(output)).toEqual({ names, isTruncated });
  });

  it('ends at the maximum', () => {
    const names = Array.from({ length: 12 }, (_, index) => `f${index}`).toSorted();
    expect(fileListOf(outputOf([], names), 12)).toEqual({ names, isTruncated: false });
    expect(fileListOf(outputOf([], names), 11)).toEqual({
      names: names.slice(0, 11),
      isTruncated: true,
    });
  });

  it('replaces bytes that are no UTF-8', () => {
    const output = Buffer.from([0, 0, 0x61, 0xff, 0]).toString('base64');
    expect(fileListOf(output).names).toEqual(['a\ufffd']);
  });

  it('has every name, wrapped into lines as base64 is', () => {
    const name = fc
      .string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
      .filter((text) => !/[/\0]/.test(text) && text.isWellFormed() && !/^\.+$/.test(text));
    fc.assert(
      fc.property(fc.uniqueArray(name), (names) => {
        const output = outputOf([], names).replaceAll(/.{76}/g, '$&\n');
        expect(fileListOf(output).names).toEqual(names.toSorted());
      }),
    );
  });

  it('has no folder among names that begin alike', () => {
    const names = ['a', 'a-b', 'a/c', 'a.d', 'b/c/d', 'b', 'b/c'];
    expect(fileListOf(outputOf([], names)).names).toEqual(['a-b', 'a.d', 'a/c', 'b/c/d']);
  });

  it('says that it has not all where a path is too long', () => {
    const output = outputOf([], ['a', 'b/'.repeat(2_048), 'c'.repeat(4_097)]);
    expect(fileListOf(output)).toEqual({ names: ['a'], isTruncated: true });
  });

  it('is read at once also where an agent names very deep folders', async () => {
    const deep = Array.from({ length: 60 }, (_, index) => `${index}${'/a'.repeat(8_000)}`);
    const long = Array.from({ length: 250 }, (_, index) => `${index}${'/a'.repeat(2_040)}`);
    const output = outputOf([], [...deep, ...long]);
    // The least of five: the first one compiles, and one may meet a garbage collection.
    const costs = [];
    for (let repeats = 0; repeats < 5; repeats++)
      costs.push(await cpuMsOf(() => expect(fileListOf(output).names).toHaveLength(250)));
    expect(Math.min(...costs)).toBeLessThan(200);
  });

  it('is bounded work for any output', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(5), (output, max) => {
        expect(fileListOf(output, max).names.length).toBeLessThanOrEqual(max);
      }),
    );
  });
});

it('the command quotes the folder', () => {
  expect(listCommand("/it's $(here)", 7)).toMatch(/^set -- '\/it'\\''s \$\(here\)' '7'\n/);
});
