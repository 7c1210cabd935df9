import { hunt } from '../../mutants/hunting.ts';
import { archiveMutants } from './archive-mutants.ts';

const isDone = await hunt({
  mutants: Object.entries(archiveMutants).map(([name, { file, from, to, rules, seeds }]) => ({
    name,
    mutation: { file, from, to },
    kill: {
      rule: { test: (rule: string) => rules.some((one) => one === rule) },
      ...(seeds === undefined ? {} : { seeds }),
    },
  })),
  knownSeeds: new URL('known-seeds.json', import.meta.url),
  worker: new URL('worker.ts', import.meta.url),
});
process.exitCode = isDone ? 0 : 1;
