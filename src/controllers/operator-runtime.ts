import type { KubeClient } from '@conversation-operator/kube/client';
import type { SandboxKeys } from '../agent/keys.ts';
import type { MeasuredRuntime } from '../observability/metrics.ts';

/** Parts of the operator that most of its classes take. */
export interface OperatorRuntime extends MeasuredRuntime {
  readonly client: KubeClient;
  readonly keys: SandboxKeys;
}
