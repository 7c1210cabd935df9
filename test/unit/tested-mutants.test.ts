import { existsSync } from 'node:fs';
import { testedMutants } from '../mutants/tested-mutants.ts';
import { mutatedText } from '../simulation/mutants/mutated-source.ts';

it.each(Object.entries(testedMutants))(
  'the product has the text once that the mutant changes in which %s',
  (_name, mutant) => {
    expect(mutatedText(mutant)).not.toBe('');
    expect(existsSync(mutant.test)).toBe(true);
  },
);
