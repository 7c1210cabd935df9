import { mustBeClean } from './expectations.ts';
import { Hunt } from './mutants/hunt.ts';
import { operatorMutants } from './mutants/operator-mutants.ts';
import { runSome } from './mutants/run-mutant.ts';
import type { SimulationOptions } from './stage.ts';

// `make test` runs this file alone of the simulation; `make test-simulation` runs the others, with
// many more seeds, and `make mutants` runs all mutants.
const timeoutMs = 600_000;

it.each<[string, Omit<SimulationOptions, 'seed'>, number]>([
  ['under all faults', {}, 6],
  ['while leaders are frozen past their lease', { faults: 'of leaders' }, 2],
  ['while users send messages', { messages: true }, 4],
  ['with deletions by retention', { messages: true, retention: true }, 3],
  ['in two shards', { messages: true, shards: 2 }, 3],
])(
  'the controllers keep their promises %s',
  async (_case, options, seeds) => {
    for (let seed = 1; seed <= seeds; seed++) await mustBeClean({ seed, ...options });
  },
  timeoutMs,
);

it(
  'a broken controller fails',
  async () => {
    const name = 'a start loses its first transition';
    const { file, from, to, ...kill } = operatorMutants[name];
    const mutation = { file, from, to };
    const hunt = new Hunt({ name, mutation, kill, firstSeed: 1, seeds: 80, kills: 1 });
    await runSome(hunt, new URL('mutants/mutant-worker.ts', import.meta.url));
    expect(hunt.report).toContain('killed by seed');
  },
  timeoutMs,
);
