import { archiveMutants } from '../archive/mutants/archive-mutants.ts';
import { mutatedText } from './mutated-source.ts';
import { mutants } from './mutants.ts';

const all = Object.entries({ ...mutants, ...archiveMutants }).flatMap(([name, mutant]) =>
  'from' in mutant ? [[name, mutant] as const] : [],
);

it.each(all)('the product has the text once of the mutant in which %s', (_name, mutant) => {
  expect(() => mutatedText(mutant)).not.toThrow();
});
