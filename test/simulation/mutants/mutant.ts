import type { SimulationOptions } from '../stage.ts';
import type { SourceMutation } from './mutated-source.ts';

/** A plausible mistake in one line of the product, and where the simulation finds it. */
export interface Mutant
  extends
    SourceMutation,
    Pick<SimulationOptions, 'faults' | 'messages' | 'world' | 'retention' | 'pools' | 'shards'> {
  readonly rule: string | RegExp;
  /** A seed that finds the mistake. */
  readonly seed: number;
}
