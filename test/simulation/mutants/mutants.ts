import { admissionMutants } from './admission-mutants.ts';
import { controllerMutants } from './controller-mutants.ts';
import { conversationMutants } from './conversation-mutants.ts';
import { operatorMutants } from './operator-mutants.ts';
import { poolMutants } from './pool-mutants.ts';
import { quotaMutants } from './quota-mutants.ts';
import { retentionMutants } from './retention-mutants.ts';
import { sandboxMutants } from './sandbox-mutants.ts';
import { shardMutants } from './shard-mutants.ts';
import { tenantMutants } from './tenant-mutants.ts';

/** Each mistake as a sentence. */
export const mutants = {
  ...controllerMutants,
  ...sandboxMutants,
  ...conversationMutants,
  ...quotaMutants,
  ...retentionMutants,
  ...poolMutants,
  ...operatorMutants,
  ...admissionMutants,
  ...shardMutants,
  ...tenantMutants,
};
