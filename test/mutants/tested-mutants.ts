import type { TestedMutant } from './tested-mutant.ts';

/** Every mistake that a test other than the simulation has to notice. */
export const testedMutants: Readonly<Record<string, TestedMutant>> = {
  'a first seed may be negative': {
    file: 'test/simulation/first-seed.ts',
    from: 'seed < 0',
    to: 'seed < -5',
    test: 'test/unit/first-seed.test.ts',
    name: 'is refused',
  },
};
