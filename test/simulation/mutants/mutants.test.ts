import type { Mutant } from './mutant.ts';
import { mutants } from './mutants.ts';
import { runMutant } from './run-mutant.ts';

const timeoutMs = 120_000;

describe('the simulation kills the mutant in which', () => {
  it.each(Object.entries<Mutant>(mutants))(
    '%s',
    async (_name, { file, from, to, seed, rule, ...options }) => {
      const kill = await runMutant({
        ...options,
        mutation: { file, from, to },
        firstSeed: seed,
        seeds: 1,
      });
      expect(kill).toMatchObject({
        seed,
        rule: typeof rule === 'string' ? rule : (expect.stringMatching(rule) as string),
      });
    },
    timeoutMs,
  );
});
