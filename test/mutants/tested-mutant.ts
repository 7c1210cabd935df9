import type { SourceMutation } from '../simulation/mutants/mutated-source.ts';

/** A plausible mistake in one place of the product, and the test that notices it. */
export interface TestedMutant extends SourceMutation {
  /** Path of the test file, below the root of the repository. */
  readonly test: string;
  /** A text that the full names of the tests contain of which at least one has to fail. */
  readonly name: string;
}
