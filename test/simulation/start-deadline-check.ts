import { isTrue } from '../../src/resources/conditions.ts';
import { SandboxFailure } from '../../src/controllers/sandbox/decide.ts';
import { FailureCode } from '../../src/controllers/sandbox/failure.ts';
import {
  SandboxCondition,
  sandboxes,
  shouldRun,
  viewOfSandbox,
  type Sandbox,
} from '../../src/resources/sandbox.ts';
import { durationMs } from '../../src/resources/sandbox-template.ts';
import type { Change, Cluster } from './cluster.ts';
import { Violation } from './safety.ts';
import type { SandboxHistory } from './sandbox-history.ts';
import type { Scheduler } from './scheduler.ts';

export interface StartDeadlineCheckOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly history: SandboxHistory;
  /** `startDeadline` of the template. */
  readonly startDeadline: string;
}

/** Failures of a first start that end it at its deadline, and not before. */
const lateFailures: ReadonlySet<string> = new Set([
  SandboxFailure.startDeadlineExceeded,
  FailureCode.unschedulable,
  FailureCode.nodeLost,
  FailureCode.volumeNotBound,
]);

/**
 * A first start has the whole time of its template's startDeadline, whatever the wall clocks say
 * meanwhile.
 */
export class StartDeadlineCheck {
  readonly #options: StartDeadlineCheckOptions;
  /**
   * By the uid of the sandbox: when it was first meant to run. A pause that no controller has seen
   * leaves the deadline as it is.
   */
  readonly #wantedSince = new Map<string, number>();

  constructor(options: StartDeadlineCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  #observe({ plural, type, object, before }: Change): void {
    if (plural !== sandboxes.plural || type === 'DELETED') return;
    const { history, scheduler, startDeadline } = this.#options;
    const sandbox = object as Sandbox;
    const { uid, name } = sandbox.metadata;
    const now = scheduler.monotonic();
    if (shouldRun(sandbox) && !this.#wantedSince.has(uid)) this.#wantedSince.set(uid, now);
    const { reason } = viewOfSandbox(sandbox);
    const fails = hasFailed(sandbox) && !hasFailed(before as Sandbox | undefined);
    if (!fails || !lateFailures.has(reason) || history.of(uid)?.hasRun === true) return;
    const forMs = now - (this.#wantedSince.get(uid) ?? now);
    if (forMs < durationMs(startDeadline))
      throw new Violation(
        'a first start gets its whole start deadline',
        `${name} failed with ${reason} after ${forMs.toFixed(0)} ms of ${startDeadline}`,
      );
  }
}

const hasFailed = (sandbox: Sandbox | undefined): boolean =>
  isTrue(sandbox?.status?.conditions, SandboxCondition.failed);
