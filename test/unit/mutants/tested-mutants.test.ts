import { existsSync } from 'node:fs';
import { parseSync } from '@swc/core';
import { testedMutants } from '../../mutants/tested-mutants.ts';
import { mutatedText } from '../../simulation/mutants/mutated-source.ts';

it('each mutant of other tests has a name of its own', () => {
  const names = testedMutants.map(([name]) => name);
  expect(names).toEqual([...new Set(names)]);
});

it.each(testedMutants)(
  'the product has the text once, and stays a program, of the mutant in which %s',
  (_name, mutant) => {
    const text = mutatedText(mutant);
    const syntax = { syntax: 'typescript', tsx: mutant.file.endsWith('.tsx') } as const;
    expect(() => parseSync(text, syntax)).not.toThrow();
    expect(mutant.to).not.toBe(mutant.from);
    expect(existsSync(mutant.test)).toBe(true);
  },
);
