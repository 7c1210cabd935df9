import { parentPort, workerData } from 'node:worker_threads';
import type { SimulationOptions } from '../stage.ts';
import { mutateSource, type SourceMutation } from './mutated-source.ts';

export interface MutantJob extends Pick<
  SimulationOptions,
  'faults' | 'messages' | 'world' | 'retention' | 'pools' | 'shards'
> {
  readonly mutation: SourceMutation;
  readonly firstSeed: number;
  readonly seeds: number;
}

/** The first seed whose simulation fails with the mistake; undefined: none does. */
export interface ExpectedKill {
  readonly seed: number;
  readonly rule: string;
  readonly message: string;
}

const { mutation, firstSeed, seeds, ...options } = workerData as MutantJob;
mutateSource(mutation);
const { simulate } = await import('../simulation.ts');
let kill: ExpectedKill | undefined;
for (let seed = firstSeed; seed < firstSeed + seeds && kill === undefined; seed++) {
  const { failure } = await simulate({ seed, ...options });
  if (failure !== undefined) kill = { seed, ...failure };
}
parentPort?.postMessage(kill);
