import { agentMutants } from './agent-mutants.ts';
import { gatewayMutants } from './gateway-mutants.ts';
import { gitMutants } from './git-mutants.ts';
import { ownerMutants } from './owner-mutants.ts';
import type { TestedMutant } from './tested-mutant.ts';

/** Every mistake that a test other than the simulation has to notice. */
export const testedMutants: Readonly<Record<string, TestedMutant>> = {
  ...agentMutants,
  ...gatewayMutants,
  ...gitMutants,
  ...ownerMutants,
};
