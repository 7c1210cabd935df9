import { findCondition } from '../../src/resources/conditions.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import type { Change, Cluster } from './cluster.ts';
import { Violation } from './safety.ts';
import type { Scheduler } from './scheduler.ts';

export interface DecisionCheckOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  /** Whether the product has no reason to be late. */
  readonly isPunctual: () => boolean;
}

/** Maximum time until the first decision on a sandbox is stored. */
const boundMs = 2_000;
/** Number of sandboxes without a decision that a namespace may have within the bound. */
const ownWork = 20;

/**
 * The first decision on a sandbox comes in time: the decisions of its own namespace are few, and
 * those of other namespaces delay none.
 */
export class DecisionCheck {
  readonly #options: DecisionCheckOptions;

  constructor(options: DecisionCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  #observe({ plural, type, object }: Change): void {
    if (plural !== sandboxes.plural || type !== 'ADDED' || !this.#options.isPunctual()) return;
    const { uid, name } = object.metadata;
    this.#options.scheduler.after(boundMs, () => {
      const undecided = this.#options.cluster.sandboxes.filter(isUndecided);
      const isLate = undecided.some(({ metadata }) => metadata.uid === uid);
      if (isLate && undecided.length <= ownWork && this.#options.isPunctual())
        throw new Violation('no namespace waits for the decisions of another one', name);
    });
  }
}

const isUndecided = ({ metadata, spec, status }: Sandbox): boolean =>
  metadata.deletionTimestamp === undefined &&
  spec.replicas === 1 &&
  findCondition(status?.conditions, SandboxCondition.admitted) === undefined;
