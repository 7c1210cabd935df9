import { pods } from '@conversation-operator/kube/core';
import type { KubeObject } from '@conversation-operator/kube/object';
import { isTrue } from '../../src/resources/conditions.ts';
import { SandboxFailure } from '../../src/controllers/sandbox/decide.ts';
import { FailureCode } from '../../src/controllers/sandbox/failure.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { shouldRun, viewOfSandbox } from '../../src/status/sandbox-phase.ts';
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
  /** By the uid of the sandbox: the last wait for a resource quota. */
  readonly #quotaWaits = new Map<string, Wait>();

  constructor(options: StartDeadlineCheckOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
    options.traffic.add({ answered: (...answer) => this.#answered(...answer) });
  }

  /**
   * The quota refuses a pod, or the API server has another answer than that. An error of the server
   * says nothing about the quota. Where the answer to a creation is lost, the pod ends the wait.
   */
  #answered({ method, path, body = '{}' }: TrafficRequest, status: number, answer: string): void {
    if (method !== 'POST' || !path.endsWith('/pods')) return;
    const [uid = ''] = ownerUids(JSON.parse(body) as Pick<KubeObject, 'metadata'>);
    if (status === 403 && answer.includes('exceeded quota')) this.#beginQuotaWait(uid);
    else if (status < 500 && status !== 429) this.#endQuotaWait(uid);
  }

  /** A creation that was executed late may have made the pod, and the quota refuses another. */
  #beginQuotaWait(uid: string): void {
    const { cluster, scheduler } = this.#options;
    if (cluster.pods.some((pod) => ownerUids(pod).includes(uid))) return;
    const wait = this.#quotaWaits.get(uid);
    const since = scheduler.monotonic();
    if (wait === undefined || wait.until !== undefined) this.#quotaWaits.set(uid, { since });
  }

  #endQuotaWait(uid: string): void {
    const wait = this.#quotaWaits.get(uid);
    if (wait === undefined || wait.until !== undefined) return;
    this.#quotaWaits.set(uid, { ...wait, until: this.#options.scheduler.monotonic() });
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
    if (plural === pods.plural && type === 'ADDED')
      for (const uid of ownerUids(object)) this.#endQuotaWait(uid);
    if (plural !== sandboxes.plural || type === 'DELETED') return;
    const { history, scheduler, startDeadline } = this.#options;
    const sandbox = object as Sandbox;
    const { uid, name } = sandbox.metadata;
    const now = scheduler.monotonic();
    if (!shouldRun(sandbox)) this.#endQuotaWait(uid);
    else if (!this.#wantedSince.has(uid)) this.#wantedSince.set(uid, now);
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

const ownerUids = ({ metadata }: Pick<KubeObject, 'metadata'>): readonly string[] =>
  (metadata.ownerReferences ?? []).map(({ uid }) => uid);
