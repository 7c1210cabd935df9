import { isTrue } from '../../src/resources/conditions.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import type { Change, Cluster } from './cluster.ts';
import type { SimulatedNode } from './node.ts';
import { Violation } from './safety.ts';
import type { SandboxHistory } from './sandbox-history.ts';

export interface PassingFailureCheckOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly history: SandboxHistory;
}

/**
 * Maximum time from the read of a pod to the write of its failure: the answer takes 4 s, and the
 * write waits 8 s for a connection and takes 5 s. A pod that is deleted meanwhile has failed.
 */
const decisionMs = 17_000;

/**
 * A sandbox that has run has work on its volume: it fails only for what lasts, by the node's own
 * record of its pods and by what there is of its template and its volume. No room, no registry, a
 * volume that another node holds, a lost node and a clock that jumps all pass.
 */
export class PassingFailureCheck {
  readonly #options: PassingFailureCheckOptions;

  constructor(options: PassingFailureCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  #observe({ plural, type, object, before }: Change): void {
    if (plural !== sandboxes.plural || type !== 'MODIFIED') return;
    const { history } = this.#options;
    const sandbox = object as Sandbox;
    if (
      !hasFailed(sandbox) ||
      hasFailed(before as Sandbox | undefined) ||
      history.of(sandbox.metadata.uid)?.hasRun !== true ||
      this.#lasts(sandbox)
    )
      return;
    const { reason } = viewOfSandbox(sandbox);
    throw new Violation(
      'a sandbox that has run does not fail for a passing cause',
      `${sandbox.metadata.name} with ${reason}`,
    );
  }

  #lasts({ metadata: { name, uid }, spec }: Sandbox): boolean {
    const { cluster, node } = this.#options;
    const claim = cluster.claims.find((one) => one.metadata.name === name);
    const hasTemplate = cluster.templates.some(
      ({ metadata }) => metadata.name === spec.templateName,
    );
    return (
      node.hasBeenBroken(uid, decisionMs) ||
      !hasTemplate ||
      claim === undefined ||
      claim.status?.phase === 'Lost'
    );
  }
}

const hasFailed = (sandbox: Sandbox | undefined): boolean =>
  isTrue(sandbox?.status?.conditions, SandboxCondition.failed);
