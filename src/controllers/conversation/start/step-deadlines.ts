import type { Clock } from '@conversation-operator/base/clock';
import type { Store } from '@conversation-operator/kube/store';
import { startStatusOf } from '../../../resources/conversation.ts';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { durationMs, type SandboxTemplate } from '../../../resources/sandbox-template.ts';
import { SandboxReason } from '../../../resources/sandbox.ts';
import { viewOfSandbox } from '../../../status/sandbox-phase.ts';
import { ElapsedTimes } from '../../elapsed-times.ts';
import type { PreparationLimits } from './preparation-failures.ts';
import { type StartScope, StartErrorCode, StartFailure } from './stage.ts';
import { withDeadline } from './start-status.ts';

export interface StepDeadlinesOptions {
  readonly stores: { readonly templates: Pick<Store<SandboxTemplate>, 'get'> };
  readonly clock: Clock;
  readonly limits: Pick<PreparationLimits, 'cloneTimeoutSeconds' | 'setupTimeoutSeconds'>;
}

export type DeadlineScope = Pick<StartScope, 'stored' | 'status' | 'sandbox'>;

/** Time beyond the step's own timeout, for an agent that is unreachable for a moment. */
export const graceMs = 60_000;
/** Maximum wait for the deletion of the sandbox of an earlier conversation with the same ID. */
const maxWorkingMs = 60_000;
/** Maximum wait for an agent to answer again: longer than probes take to restart its container. */
const maxUnresponsiveMs = 120_000;

/** Ends a start whose step takes too long. A jump of the clock ends no start (`ElapsedTimes`). */
export class StepDeadlines {
  readonly #options: StepDeadlinesOptions;
  readonly #elapsed: ElapsedTimes;

  constructor(options: StepDeadlinesOptions) {
    this.#options = options;
    this.#elapsed = new ElapsedTimes(options);
  }

  /** Milliseconds until the deadline of the step; undefined for a step without a deadline. */
  leftMs(scope: DeadlineScope): number | undefined {
    const allowedMs = this.#allowedMs(scope);
    const { deadline } = scope.status.start ?? {};
    return deadline === undefined || allowedMs === undefined
      ? undefined
      : Math.max(0, allowedMs - this.#elapsedMs(scope, deadline, allowedMs)) + 1;
  }

  /** The status with a deadline for the step. Throws `StartFailure` after the deadline. */
  check(scope: DeadlineScope): ConversationStatus {
    const { status } = scope;
    const startStatus = startStatusOf(scope);
    const allowedMs = this.#allowedMs(scope);
    if (allowedMs === undefined) return status;
    const { deadline, errorCode, error } = status.start ?? {};
    if (deadline === undefined) {
      const next = new Date(this.#options.clock.now() + allowedMs).toISOString();
      // The first call of `#elapsedMs` for a deadline begins its measurement in this process.
      this.#elapsedMs(scope, next, allowedMs);
      return withDeadline(status, next);
    }
    if (this.#elapsedMs(scope, deadline, allowedMs) <= allowedMs) return status;
    if (startStatus !== 'WORKING')
      throw new StartFailure(
        StartErrorCode.stepDeadlineExceeded,
        `The step ${startStatus} did not end within ${allowedMs / 1000} s.`,
      );
    throw new StartFailure(
      errorCode ?? StartErrorCode.stepDeadlineExceeded,
      error ?? `The step ${startStatus} did not end within ${allowedMs / 1000} s.`,
    );
  }

  #elapsedMs({ stored }: DeadlineScope, deadline: string, allowedMs: number): number {
    return this.#elapsed.elapsedMs(
      stored.metadata.uid,
      new Date(Date.parse(deadline) - allowedMs).toISOString(),
    );
  }

  #allowedMs(scope: DeadlineScope): number | undefined {
    const { cloneTimeoutSeconds, setupTimeoutSeconds } = this.#options.limits;
    switch (startStatusOf(scope)) {
      case 'WORKING':
        return maxWorkingMs;
      case 'WAITING_FOR_SANDBOX':
        return this.#answerMs(scope);
      case 'PREPARING_REPOSITORY':
        return cloneTimeoutSeconds * 1000 + graceMs;
      case 'SETTING_UP_SKILLS':
        return setupTimeoutSeconds * 1000 + graceMs;
      case 'READY':
      case 'ERROR':
        return undefined;
    }
  }

  /**
   * Maximum wait for an answer of the agent. If the agent has never answered in this container, the
   * `startDeadline` of the template may extend the wait.
   */
  #answerMs({ sandbox, stored }: DeadlineScope): number {
    const { reason } = viewOfSandbox(sandbox);
    const template = this.#options.stores.templates.get(
      stored.metadata.namespace,
      sandbox?.spec.templateName ?? '',
    );
    if (reason !== SandboxReason.waitingForAgent || template === undefined)
      return maxUnresponsiveMs;
    return Math.max(maxUnresponsiveMs, durationMs(template.spec.startDeadline));
  }
}
