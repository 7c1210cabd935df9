import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { KnownSeeds } from '../simulation/mutants/known-seeds.ts';

describe('the seeds that showed mistakes last', () => {
  let folder: string;
  let file: string;
  const read = () => KnownSeeds.read(pathToFileURL(file));

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'known-seeds-'));
    file = join(folder, 'known-seeds.json');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('are unknown without a file', () => {
    expect(read().of('a')).toBeUndefined();
  });

  it('are stored in the order of the mutants', () => {
    read().write(
      ['b', 'a'],
      new Map([
        ['a', 1],
        ['b', 2],
      ]),
    );
    expect(readFileSync(file, 'utf8')).toBe('{\n  "b": 2,\n  "a": 1\n}\n');
    expect(read().of('a')).toBe(1);
  });

  it.each([
    ['stays where a run has left the mutant out', ['a'], [], 7],
    ['stays where the mutant has survived', ['a'], [['a', undefined]], 7],
    ['is the one of the last run', ['a'], [['a', 9]], 9],
    ['goes with its mutant', [], [], undefined],
  ] as const)('a seed %s', (_case, names, killers, expected) => {
    writeFileSync(file, '{"a": 7}');
    read().write(names, new Map<string, number | undefined>(killers));
    expect(read().of('a')).toBe(expected);
  });
});
