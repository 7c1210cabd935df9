import type { SourceMutation } from '../simulation/mutants/mutated-source.ts';

/** Names the mistake, as JSON, to the processes of a test that load the product. */
export const mutationVariable = 'TESTED_MUTATION';

/** The mistake that this process has to make; undefined: none. */
export function wantedMutation(environment: NodeJS.ProcessEnv): SourceMutation | undefined {
  const text = environment[mutationVariable];
  return text === undefined ? undefined : (JSON.parse(text) as SourceMutation);
}
