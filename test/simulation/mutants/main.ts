import { hunt } from './hunting.ts';
import type { Mutant } from './mutant.ts';
import { mutants } from './mutants.ts';

const isDone = await hunt({
  mutants: Object.entries<Mutant>(mutants).map(([name, { file, from, to, ...kill }]) => ({
    name,
    mutation: { file, from, to },
    kill,
  })),
  knownSeeds: new URL('known-seeds.json', import.meta.url),
  worker: new URL('mutant-worker.ts', import.meta.url),
});
process.exitCode = isDone ? 0 : 1;
