import type { KubeClient } from '../../kube/client.ts';
import { isoTime, type Clock } from '../../kube/clock.ts';
import type { Request, Result } from '../../kube/controller.ts';
import type { Store } from '../../kube/store.ts';
import { setCondition } from '../../resources/conditions.ts';
import { SandboxCondition, sandboxes, viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import { decideAdmission } from './decide.ts';

export interface AdmissionReconcilerOptions {
  readonly client: KubeClient;
  readonly stores: { readonly sandboxes: Store<Sandbox> };
  readonly clock: Clock;
}

/** The one writer of the condition Admitted. */
export class AdmissionReconciler {
  readonly #options: AdmissionReconcilerOptions;

  constructor(options: AdmissionReconcilerOptions) {
    this.#options = options;
  }

  async reconcile({ namespace, name }: Request, signal: AbortSignal): Promise<Result> {
    const { client, stores, clock } = this.#options;
    const sandbox = stores.sandboxes.get(namespace, name);
    if (sandbox === undefined || sandbox.metadata.deletionTimestamp !== undefined) return undefined;
    const decision = decideAdmission(sandbox);
    if (decision === undefined) return undefined;
    const { admitted, reason, message } = decision;
    const conditions = setCondition(
      sandbox.status?.conditions,
      {
        type: SandboxCondition.admitted,
        status: admitted ? 'True' : 'False',
        reason,
        message,
        observedGeneration: sandbox.metadata.generation,
      },
      isoTime(clock),
    );
    const next: Sandbox = { ...sandbox, status: { ...sandbox.status, conditions: [...conditions] } };
    const view = viewOfSandbox(next);
    // A write on an old state is refused by the server, and decided anew.
    await client.updateStatus(
      sandboxes,
      { ...next, status: { ...next.status, phase: view.phase, reason: view.reason, message: view.message } },
      { signal },
    );
    return undefined;
  }
}
