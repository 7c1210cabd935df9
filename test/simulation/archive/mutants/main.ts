import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { partOf } from '../../../support/part.ts';
import { firstSeed } from '../../first-seed.ts';
import { seedsInOrder } from '../../mutants/hunt.ts';
import { KnownSeeds } from '../../mutants/known-seeds.ts';
import type { ModelOutcome } from '../model.ts';
import { archiveMutants, type ArchiveMutant } from './archive-mutants.ts';

const defaultSeeds = 80;
const knownSeedsFile = new URL('known-seeds.json', import.meta.url);
const seedsOf = ({ seeds = defaultSeeds }: ArchiveMutant): number => seeds;

interface Search {
  readonly name: string;
  readonly mutant: ArchiveMutant;
  readonly seeds: readonly number[];
}

/**
 * Searches for a seed that fails by one of the promises that the mutant breaks, and returns the
 * seed.
 */
async function hunt({ name, mutant, seeds }: Search): Promise<number | undefined> {
  const { file, from, to, rules } = mutant;
  const worker = new Worker(new URL('worker.ts', import.meta.url), {
    workerData: { file, from, to },
  });
  const others = new Map<string, number>();
  let outcome = `SURVIVES ${seeds.length} seeds`;
  let killer: number | undefined;
  for (const seed of seeds) {
    worker.postMessage(seed);
    let failure: ModelOutcome['failure'];
    try {
      [failure] = (await once(worker, 'message')) as [ModelOutcome['failure']];
    } catch (error) {
      outcome = `ends the thread of seed ${seed}: ${String(error)}`;
      break;
    }
    if (failure === undefined) continue;
    if (rules.some((rule) => rule === failure.rule)) {
      outcome = `killed by seed ${seed}, ‘${failure.rule}’`;
      killer = seed;
      break;
    }
    others.set(failure.rule, (others.get(failure.rule) ?? 0) + 1);
  }
  const rest = [...others].map(([rule, times]) => `; ${times} fail ‘${rule}’`).join('');
  process.stdout.write(`${name}: ${outcome}${rest}\n`);
  await worker.terminate();
  return killer;
}

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', default: '' },
      'first-seed': { type: 'string' },
      'known-seeds': { type: 'string', default: process.env['KNOWN_SEEDS'] ?? '' },
    },
  });
  const only = new RegExp(values.only);
  const first = firstSeed(values['first-seed']);
  const knownSeeds = KnownSeeds.of(values['known-seeds'], knownSeedsFile);
  process.stdout.write(`Mutants from seed ${first} on; FIRST_SEED=${first} repeats this run\n`);
  // The hunts that may take longest are not the last ones.
  const chosen = partOf(
    Object.entries(archiveMutants).filter(([name]) => only.test(name)),
  ).toSorted(([, one], [, other]) => seedsOf(other) - seedsOf(one));
  if (chosen.length === 0) throw new Error(`no mutant has a name that matches: ${values.only}`);
  const waiting = chosen.values();
  const killers = new Map<string, number | undefined>();
  const lane = async () => {
    for (const [name, mutant] of waiting)
      killers.set(
        name,
        await hunt({
          name,
          mutant,
          seeds: seedsInOrder({
            firstSeed: first,
            seeds: seedsOf(mutant),
            knownSeed: knownSeeds?.seedOf(name),
          }),
        }),
      );
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
  knownSeeds?.write(Object.keys(archiveMutants), killers);
  const killed = [...killers.values()].filter((killer) => killer !== undefined).length;
  process.stdout.write(`${killed} passed, ${chosen.length - killed} failed\n`);
  return killed === chosen.length;
}

process.exitCode = (await main()) ? 0 : 1;
