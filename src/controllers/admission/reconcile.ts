import type { RecordingNeeds } from '../controller-spec.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { isoTime } from '@conversation-operator/base/clock';
import type { Request, Result } from '@conversation-operator/kube/controller';
import { ApiError, isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { SandboxKeys } from '../../agent/keys.ts';
import { decide, wakeAt, type Decision } from '../../quota/decide.ts';
import { findCondition } from '../../resources/conditions.ts';
import { ownerRule } from '../../quota/rules.ts';
import { SandboxCondition, sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { outcomeUnknown, type PodCreations } from '../sandbox/pod-creations.ts';
import type { Stores } from '../caches.ts';
import type { AdmissionCache } from './cache.ts';
import { assumedSlot, decidedSandbox, subjectOf } from './decided-sandbox.ts';
import type { AdmissionReads } from './reads.ts';
import { waitingReasonOf } from '../../quota/classify.ts';
import type { Slot } from '../../quota/slot.ts';
import { CapExceeded } from '../../quota/caps.ts';

export interface AdmissionReconcilerOptions extends RecordingNeeds {
  readonly metrics: Metrics;
  readonly stores: Pick<Stores, 'templates'>;
  readonly podCreations: Pick<PodCreations, 'admitting'>;
  readonly keys: Pick<SandboxKeys, 'currentKeyId'>;
  readonly cache: AdmissionCache;
  readonly reads: Pick<AdmissionReads, 'refresh'>;
  /** Maximum time from the sending to the execution of a write, in milliseconds. Default 10,000. */
  readonly settleMs?: number;
}

/**
 * Whether the next decision may be made while the write of this one is in flight. A sandbox that
 * waits or is rejected keeps its position in the queue, and counts against `maxSandboxes`, until
 * the API server has answered the write.
 */
const isAssumed = ({ kind }: Decision): boolean =>
  kind !== 'wait' && kind !== 'reject' && kind !== 'fail';

/** Maximum writes of one namespace that wait for a response at once. */
const maxInFlight = 32;
/** Milliseconds after which a reconcile makes no more decisions, because other namespaces wait. */
const turnMs = 250;

/**
 * The only writer of the condition Admitted, which grants slots to sandboxes. One worker handles a
 * namespace at a time, so that no two decisions are concurrent. Decisions are made in order, and
 * their writes are in flight together: like a pod that kube-scheduler assumes, a sandbox counts
 * with the outcome of its write from the moment when the write is sent. No plan exists in memory
 * alone, so a new leader can decide anew after a crash.
 */
export class AdmissionReconciler {
  readonly #options: AdmissionReconcilerOptions;
  readonly #settleMs: number;

  constructor(options: AdmissionReconcilerOptions) {
    this.#options = options;
    this.#settleMs = options.settleMs ?? 10_000;
  }

  async reconcile({ namespace }: Request, signal: AbortSignal): Promise<Result> {
    const { cache, clock } = this.#options;
    if (cache.rulesChangeAt(namespace) <= cache.now()) cache.rulesChanged(namespace);
    const endsAt = clock.monotonic() + turnMs;
    const inFlight = new Set<Promise<void>>();
    const failures: unknown[] = [];
    let now = cache.now();
    while (failures.length === 0) {
      if (signal.aborted) failures.push(signal.reason);
      const isOver = signal.aborted || clock.monotonic() >= endsAt;
      if (!isOver) now = cache.now();
      const decision = isOver ? undefined : this.#next(namespace, now);
      if (decision === undefined && (isOver || inFlight.size === 0)) break;
      if (decision !== undefined) {
        const write = this.#write(namespace, decision, signal)
          .catch((error: unknown) => void failures.push(error))
          .finally(() => inFlight.delete(write));
        inFlight.add(write);
        if (!isAssumed(decision)) await write;
        if (!isAssumed(decision) || inFlight.size < maxInFlight) continue;
      }
      await Promise.race(inFlight);
    }
    await Promise.all(inFlight);
    if (failures.length > 0) throw failures[0];
    if (clock.monotonic() >= endsAt) return { requeueAfterMs: 1 };
    // `wakeAt` counts from the last decision. An event that became due since then is due in 1 ms.
    const dueAt = Math.min(wakeAt(cache.snapshot(namespace), now), cache.rulesChangeAt(namespace));
    return dueAt === Infinity ? undefined : { requeueAfterMs: Math.max(1, dueAt - cache.now()) };
  }

  #next(namespace: string, now: number): Decision | undefined {
    const { cache, metrics } = this.#options;
    const began = performance.now();
    const decision = decide(cache.snapshot(namespace), now);
    metrics.admissionDecisionSeconds.observe((performance.now() - began) / 1000);
    return decision;
  }

  /** Writes a decision, and caches the outcome. Throws if the write was not executed. */
  async #write(namespace: string, decision: Decision, signal: AbortSignal): Promise<void> {
    const { cache } = this.#options;
    const { sandbox } = decision.slot;
    if (isAssumed(decision)) cache.sent(sandbox, assumedSlot(decision));
    try {
      await this.#send(namespace, decision, signal);
    } catch (error) {
      cache.notExecuted(sandbox);
      throw error;
    }
  }

  async #send(namespace: string, decision: Decision, signal: AbortSignal): Promise<void> {
    const { client, cache, clock, keys, logger, podCreations, reads, stores } = this.#options;
    const { sandbox, owner } = decision.slot;
    const decided = decidedSandbox(decision, ownerRule(cache.snapshot(namespace).rules, owner), {
      template: stores.templates.get(namespace, sandbox.spec.templateName),
      currentKeyId: keys.currentKeyId,
      now: isoTime(clock),
    });
    const sentAt = clock.monotonic();
    try {
      const storing = client.updateStatus(sandboxes, decided, { signal });
      podCreations.admitting(sandbox.metadata.uid, storing);
      cache.confirm(await storing);
    } catch (error) {
      if (isConflict(error) || isNotFound(error)) {
        await reads.refresh(sandbox, signal);
        return;
      }
      if (!outcomeUnknown(error)) {
        if (!(error instanceof ApiError) || error.status === 429) throw error;
        // A rejected write must not delay the decisions on other sandboxes.
        logger.error('A decision was refused', {
          namespace,
          sandbox: sandbox.metadata.name,
          kind: decision.kind,
          error,
        });
      }
      cache.assume(sandbox, { ...assumedSlot(decision), until: sentAt + this.#settleMs });
      return;
    }
    this.#report(decision, decided);
  }

  #report(decision: Decision, decided: Sandbox): void {
    const { cache, events, logger, metrics, clock } = this.#options;
    const { slot, kind } = decision;
    const message =
      findCondition(decided.status?.conditions, SandboxCondition.admitted)?.message ?? '';
    logger.debug('Admission decided', { sandbox: slot.name, kind, message });
    if (kind === 'admit' && !decision.resumed)
      metrics.admissionWaitSeconds.observe(Math.max(0, clock.now() - slot.requestedAt) / 1000);
    if (kind === 'expire') metrics.quotaPauses.inc({ reason: decision.reason });
    if (kind === 'evict') {
      const { preemptor, rule } = decision;
      const reason = preemptor === undefined ? 'LimitLowered' : 'Newcomer';
      metrics.quotaPauses.inc({ reason: slot.warmSandbox ? 'Spare' : reason });
      logger.info('sandbox paused by quota', {
        sandbox: slot.name,
        for: preemptor?.name,
        limit: rule.limit,
      });
    }
    for (const { about, reason, message: text } of eventsOf(decision, message)) {
      // Events go to the conversations in the sandbox, or to the sandbox if there are none.
      const inIt = cache.conversationsOf(about.sandbox);
      for (const object of inIt.length > 0 ? inIt : [about.sandbox])
        events.record(object, { type: 'Normal', reason, message: text });
    }
  }
}

interface DecisionEvent {
  readonly about: Slot;
  readonly reason: string;
  readonly message: string;
}

const capitalised = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

/**
 * The Events of a decision; an eviction has one for the evicted sandbox and one for the sandbox
 * that gets the slot. `message` is the message of the condition Admitted.
 */
export function eventsOf(decision: Decision, message: string): readonly DecisionEvent[] {
  const { slot: about } = decision;
  const one = (reason: string, text = message) => [{ about, reason, message: text }];
  switch (decision.kind) {
    case 'release':
      return [];
    case 'admit':
      return decision.resumed
        ? one('ResumedByQuota', 'The sandbox resumes automatically: there is room again.')
        : [];
    case 'wait':
      return one(waitingReasonOf(about));
    case 'reject':
      return one('QuotaExceeded');
    case 'fail':
      return one(CapExceeded.maxSandboxes);
    case 'expire':
      return one(decision.reason);
    case 'evict': {
      const { preemptor, rule } = decision;
      const eviction = one('PausedByQuota');
      if (preemptor === undefined) return eviction;
      const paused =
        preemptor.owner === about.owner
          ? capitalised(subjectOf(about.sandbox))
          : 'A conversation of another owner';
      return [
        ...eviction,
        {
          about: preemptor,
          reason: 'RoomMade',
          message: `${paused} is paused to make room; limit ${rule.limit}.`,
        },
      ];
    }
  }
}
