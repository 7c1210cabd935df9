import { existsSync } from 'node:fs';
import { testedMutants } from '../mutants/tested-mutants.ts';
import { mutatedText } from '../simulation/mutants/mutated-source.ts';

it('each mutant of other tests has a name of its own', () => {
  const names = testedMutants.map(([name]) => name);
  expect(names).toEqual([...new Set(names)]);
});

it.each(testedMutants)(
  'the product has the text once that the mutant changes in which %s',
  (_name, mutant) => {
    expect(mutatedText(mutant)).not.toBe('');
    expect(mutant.to).not.toBe(mutant.from);
    expect(existsSync(mutant.test)).toBe(true);
  },
);
