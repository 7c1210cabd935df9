import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { firstSeed } from '../../first-seed.ts';
import type { ModelOutcome } from '../model.ts';
import { archiveMutants, type ArchiveMutant } from './archive-mutants.ts';

const defaultSeeds = 80;
const seedsOf = ({ seeds = defaultSeeds }: ArchiveMutant): number => seeds;

/** Searches for a seed that fails by one of the promises that the mutant breaks. */
async function hunt(name: string, mutant: ArchiveMutant, first: number): Promise<boolean> {
  const { file, from, to, rules } = mutant;
  const seeds = seedsOf(mutant);
  const worker = new Worker(new URL('worker.ts', import.meta.url), {
    workerData: { file, from, to },
  });
  const others = new Map<string, number>();
  let outcome = `SURVIVES ${seeds} seeds`;
  let isKilled = false;
  for (let seed = first; seed < first + seeds && !isKilled; seed++) {
    worker.postMessage(seed);
    const [failure] = (await once(worker, 'message')) as [ModelOutcome['failure']];
    if (failure === undefined) continue;
    isKilled = rules.some((rule) => rule === failure.rule);
    if (isKilled) outcome = `killed by seed ${seed}, ‘${failure.rule}’`;
    else others.set(failure.rule, (others.get(failure.rule) ?? 0) + 1);
  }
  const rest = [...others].map(([rule, times]) => `; ${times} fail ‘${rule}’`).join('');
  process.stdout.write(`${name}: ${outcome}${rest}\n`);
  await worker.terminate();
  return isKilled;
}

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: { only: { type: 'string', default: '' }, 'first-seed': { type: 'string' } },
  });
  const only = new RegExp(values.only);
  const first = firstSeed(values['first-seed']);
  process.stdout.write(`Mutants from seed ${first} on; FIRST_SEED=${first} repeats this run\n`);
  const chosen = Object.entries(archiveMutants).filter(([name]) => only.test(name));
  if (chosen.length === 0) throw new Error(`no mutant has a name that matches: ${values.only}`);
  // The hunts that may take longest are not the last ones.
  chosen.sort(([, one], [, other]) => seedsOf(other) - seedsOf(one));
  const waiting = chosen.values();
  let killed = 0;
  const lane = async () => {
    for (const [name, mutant] of waiting) if (await hunt(name, mutant, first)) killed++;
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
  process.stdout.write(`${killed} passed, ${chosen.length - killed} failed\n`);
  return killed === chosen.length;
}

process.exitCode = (await main()) ? 0 : 1;
