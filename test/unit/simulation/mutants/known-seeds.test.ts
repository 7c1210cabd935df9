import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { KnownSeeds } from '../../../simulation/mutants/known-seeds.ts';

describe('the known seeds of mutants', () => {
  let folder: string;
  let file: string;
  const known = (use: string) => KnownSeeds.of(use, pathToFileURL(file));

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'known-seeds-'));
    file = join(folder, 'known-seeds.json');
    writeFileSync(file, '{"a": 7}');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('are not used unless a run names their use', () => {
    expect(known('')).toBeUndefined();
    expect(() => known('1')).toThrow('KNOWN_SEEDS is read or write; not 1');
  });

  it('are stored in the order of the mutants', () => {
    known('write')?.write(
      ['b', 'a'],
      new Map([...['a', 'b'].entries()].map(([at, of]) => [of, at])),
    );
    expect(readFileSync(file, 'utf8')).toBe('{\n  "b": 1,\n  "a": 0\n}\n');
  });

  it('stay as they are in a run that only reads them', () => {
    known('read')?.write(['a'], new Map([['a', 9]]));
    expect(known('read')?.seedOf('a')).toBe(7);
  });

  it.each([
    ['stays where a run has left the mutant out', ['a'], [], 7],
    ['stays where the mutant has survived', ['a'], [['a', undefined]], 7],
    ['is that of the last run', ['a'], [['a', 9]], 9],
    ['goes with its mutant', [], [], undefined],
  ] as const)('a seed %s', (_case, names, killers, expected) => {
    known('write')?.write(names, new Map<string, number | undefined>(killers));
    expect(known('read')?.seedOf('a')).toBe(expected);
  });
});
