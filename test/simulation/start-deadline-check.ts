import type { KubeObject } from '../../packages/kube/src/object.ts';
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
import type { SimulatedNode, Wait } from './node.ts';
import type { Traffic, TrafficRequest } from './traffic.ts';

export interface StartDeadlineCheckOptions {
  readonly cluster: Cluster;
  readonly node: Pick<SimulatedNode, 'waitOf'>;
  readonly traffic: Traffic;
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
  FailureCode.schedulingGated,
  FailureCode.resourceQuotaExceeded,
  FailureCode.nodeBeingAdded,
]);

/**
 * Minimum length of a wait that an operator has certainly observed: a leader that ends is replaced,
 * and creations are tried again, within this time.
 */
const observedMs = 30_000;

/**
 * A first start has the whole time of its template's startDeadline, whatever the wall clocks say
 * meanwhile, and has it again after a wait at a scheduling gate, for a resource quota or for a new
 * node.
 */
export class StartDeadlineCheck {
  readonly #options: StartDeadlineCheckOptions;
  /**
   * By the uid of the sandbox: when it was first meant to run. A pause that no controller has seen
   * leaves the deadline as it is.
   */
  readonly #wantedSince = new Map<string, number>();
  /** By the uid of the sandbox: the last wait for a resource quota, by what the API server answers. */
  readonly #quotaWaits = new Map<string, Wait>();

  constructor(options: StartDeadlineCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
    options.traffic.add({ answered: (...answer) => this.#answered(...answer) });
  }

  /** A creation of a pod was refused by the quota, or was executed. */
  #answered({ method, path, body = '{}' }: TrafficRequest, status: number, answer: string): void {
    if (method !== 'POST' || !path.endsWith('/pods')) return;
    const { metadata } = JSON.parse(body) as Pick<KubeObject, 'metadata'>;
    const uid = metadata.ownerReferences?.[0]?.uid ?? '';
    const now = this.#options.scheduler.monotonic();
    const wait = this.#quotaWaits.get(uid);
    if (status === 403 && answer.includes('exceeded quota')) {
      if (wait === undefined || wait.until !== undefined) this.#quotaWaits.set(uid, { since: now });
    } else if (status === 201 && wait !== undefined && wait.until === undefined)
      this.#quotaWaits.set(uid, { ...wait, until: now });
  }

  /** The end of the last wait for the cluster: now, while one is under way. */
  #waitedUntil(uid: string, now: number): number {
    const { startDeadline } = this.#options;
    const ends = [this.#options.node.waitOf(uid), this.#quotaWaits.get(uid)].flatMap((wait) => {
      const { since = now, until = now, isForNode = false } = wait ?? {};
      // The operator reads some seconds later that a node is being added, and a new leader again.
      const minimumMs = observedMs + (isForNode ? durationMs(startDeadline) : 0);
      return until - since >= minimumMs ? [until] : [];
    });
    return Math.max(-Infinity, ...ends);
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
    const waitedMs = now - this.#waitedUntil(uid, now);
    if (waitedMs < durationMs(startDeadline))
      throw new Violation(
        'a wait for the cluster counts for no start deadline',
        `${name} failed with ${reason} ${waitedMs.toFixed(0)} ms after it had waited`,
      );
  }
}

const hasFailed = (sandbox: Sandbox | undefined): boolean =>
  isTrue(sandbox?.status?.conditions, SandboxCondition.failed);
