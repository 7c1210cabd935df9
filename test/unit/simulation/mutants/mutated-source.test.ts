import { archiveMutants } from '../../../simulation/archive/mutants/archive-mutants.ts';
import { mutatedText } from '../../../simulation/mutants/mutated-source.ts';
import { mutants } from '../../../simulation/mutants/mutants.ts';

const all = Object.entries({ ...mutants, ...archiveMutants });

it.each(all)('the product has the text once of the mutant in which %s', (_name, mutant) => {
  expect(() => mutatedText(mutant)).not.toThrow();
});
