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
