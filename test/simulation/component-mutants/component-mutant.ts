import type { AgentClient } from '../../../src/agent/agent.ts';
import type { SandboxKeys } from '../../../src/agent/keys.ts';
import type { Caches, CachesOptions } from '../../../src/controllers/caches.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import type { Patch } from './patched.ts';

/**
 * A deliberate mistake: components that the simulated operator gets in the place of the real ones.
 * A component that the mutant leaves out is the real one.
 */
export interface ComponentMutant {
  readonly client?: (client: KubeClient, context: MutantContext) => KubeClient;
  readonly caches?: (options: CachesOptions, context: MutantContext) => Caches;
  readonly agent?: (agent: AgentClient, context: MutantContext) => AgentClient;
  /** The clock of the controllers. Caches, transport and leader election keep the real one. */
  readonly clock?: (clock: Clock) => Clock;
  /** The client of the leader writes without a check that the leader still holds the lease. */
  readonly unfenced?: boolean;
  /** Changes of classes, applied before the simulation begins and reverted when it is over. */
  readonly patches?: readonly Patch[];
}

export interface MutantContext {
  /** The client below the leader's client, without a check of the lease. */
  readonly client: KubeClient;
  readonly caches: () => Caches;
  readonly clock: Clock;
  readonly keys: SandboxKeys;
}
