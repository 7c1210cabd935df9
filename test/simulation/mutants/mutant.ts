import type { SimulationOptions } from '../stage.ts';
import type { SourceMutation } from './mutated-source.ts';

/** Seeds for a mistake that one seed in ten to twenty shows, and no narrower world sooner. */
export const rareSeeds = 300;

/** The world in which the simulation shows a mistake, and the checks that may notice it. */
export interface Kill extends Pick<
  SimulationOptions,
  'faults' | 'focus' | 'messages' | 'world' | 'retention' | 'pools' | 'tenant' | 'shards' | 'busy'
> {
  /** The check that has to fail, or a pattern of the checks that rightly fail. */
  readonly rule: string | Pick<RegExp, 'test'>;
  /** Maximum number of seeds until one shows the mistake: `rareSeeds`, or 80 by default. */
  readonly seeds?: number;
}

/** A plausible mistake in one line of the product, and where the simulation finds it. */
export interface Mutant extends SourceMutation, Kill {}
