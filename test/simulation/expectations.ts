import type { ComponentMutant } from './component-mutants/component-mutant.ts';
import { replayCommand, simulate } from './simulation.ts';
import type { SimulationOptions } from './stage.ts';

/** Throws with the end of the trace, and how to see all of it, when the seed fails. */
export async function mustBeClean(options: SimulationOptions): Promise<void> {
  const { failure } = await simulate(options);
  if (failure === undefined) return;
  const { lines } = await simulate({ ...options, keepLines: 60 });
  const tail = lines.map((line) => line.slice(0, 400)).join('\n');
  throw new Error(
    `seed ${options.seed}: ${failure.message}\n${tail}\n\nAgain, with all of it: ${replayCommand(options)}`,
  );
}

/** The seeds and options of the search for a mutant, and the rule that it has to break. */
export interface ExpectedKill extends Pick<
  SimulationOptions,
  'faults' | 'messages' | 'world' | 'retention'
> {
  readonly rule: string | RegExp;
  /** Default 1. */
  readonly firstSeed?: number;
}

const maxSeeds = 80;

/** Throws unless the first of `maxSeeds` seeds that fails with the mutant breaks the rule. */
export async function mustBeKilled(
  mutant: ComponentMutant,
  {
    rule,
    firstSeed = 1,
    faults = 'all',
    messages = false,
    world = 'single-owner',
    retention = false,
  }: ExpectedKill,
): Promise<void> {
  const end = firstSeed + maxSeeds;
  for (let seed = firstSeed; seed < end; seed++) {
    const { failure } = await simulate({ seed, mutant, faults, messages, world, retention });
    if (failure === undefined) continue;
    if (typeof rule === 'string' ? failure.rule === rule : rule.test(failure.rule)) return;
    throw new Error(`seed ${seed} has found something else: ${failure.message}`);
  }
  throw new Error(`no seed of ${firstSeed} to ${end - 1} has noticed`);
}
