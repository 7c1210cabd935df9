import type { SourceMutation } from '../simulation/mutants/mutated-source.ts';

/** Names the mistake, as JSON, to the processes of a test that load the product. */
export const mutationVariable = 'TESTED_MUTATION';

/** The mistake that this process has to make. Throws where the variable is missing. */
export function wantedMutation(environment: NodeJS.ProcessEnv): SourceMutation {
  const text = environment[mutationVariable];
  if (text === undefined) throw new Error(`${mutationVariable} is missing`);
  return JSON.parse(text) as SourceMutation;
}
