import { operatorMutants } from './component-mutants/operator-mutants.ts';
import { mustBeKilled, mustBeClean } from './expectations.ts';
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
  () =>
    mustBeKilled(
      operatorMutants['a start loses its first transition'],
      'transitions of a start are only appended',
    ),
  timeoutMs,
);
