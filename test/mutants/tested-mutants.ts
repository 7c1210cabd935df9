import { agentMutants } from './agent-mutants.ts';
import { approvalMutants } from './approval-mutants.ts';
import { archiveMutants } from './archive-mutants.ts';
import { budgetQuestionMutants } from './budget-question-mutants.ts';
import { budgetMutants } from './budget-mutants.ts';
import { gatewayMutants } from './gateway-mutants.ts';
import { gitMutants } from './git-mutants.ts';
import { handoverMutants } from './handover-mutants.ts';
import { modelApiMutants } from './model-api-mutants.ts';
import { modelMutants } from './model-mutants.ts';
import { nodeMutants } from './node-mutants.ts';
import { ownerMutants } from './owner-mutants.ts';
import { pageMutants } from './page-mutants.ts';
import { relayMutants } from './relay-mutants.ts';
import { shareMutants } from './share-mutants.ts';
import { signInMutants } from './sign-in-mutants.ts';
import type { TestedMutant } from './tested-mutant.ts';

/** Every mistake that a test other than the simulation has to notice, with its name. */
export const testedMutants: readonly (readonly [name: string, mutant: TestedMutant])[] = [
  agentMutants,
  approvalMutants,
  archiveMutants,
  budgetMutants,
  budgetQuestionMutants,
  gatewayMutants,
  gitMutants,
  handoverMutants,
  modelApiMutants,
  modelMutants,
  nodeMutants,
  ownerMutants,
  pageMutants,
  relayMutants,
  shareMutants,
  signInMutants,
].flatMap((area) => Object.entries<TestedMutant>(area));
