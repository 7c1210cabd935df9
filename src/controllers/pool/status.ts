import { conditionUpdate, setConditions } from '../../resources/conditions.ts';
import { beginningOf } from '../../resources/plain-text.ts';
import { poolLabel, poolLabelValue, type Sandbox } from '../../resources/sandbox.ts';
import {
  PoolCondition,
  PoolReason,
  type SandboxPool,
  type SandboxPoolState,
} from '../../resources/sandbox-pool.ts';
import type { PoolPlan } from './decide.ts';

export interface ReconciledPool {
  readonly pool: SandboxPool;
  readonly plan: PoolPlan;
  readonly spares: readonly Sandbox[];
  /** Number of stored spares that the cache does not show yet. */
  readonly unseen: number;
  /** Number of spares in a row that have not booted. */
  readonly failures: number;
  /** The reason why the API server refuses a spare. */
  readonly refused: string | undefined;
  readonly now: string;
}

/** The status that a pool should have now. */
export function poolStatus(reconciled: ReconciledPool): SandboxPoolState {
  const { pool, plan, spares, unseen, failures, refused, now } = reconciled;
  const { name, generation } = pool.metadata;
  const { reason, ready, remove } = plan;
  const isReady = reason === PoolReason.full || reason === PoolReason.scaledToZero;
  const message =
    refused === undefined
      ? plan.message
      : `${plan.message} The API server refuses more: ${refused}`;
  return {
    observedGeneration: generation,
    replicas: spares.length - remove.length + unseen,
    readyReplicas: ready,
    selector: `${poolLabel}=${poolLabelValue(name)}`,
    ...(failures === 0 ? {} : { failures }),
    conditions: setConditions(
      pool.status?.conditions,
      [conditionUpdate(PoolCondition.ready, isReady, reason, beginningOf(message, 2048))],
      generation,
      now,
    ),
  };
}
