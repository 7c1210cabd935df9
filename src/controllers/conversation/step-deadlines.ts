import type { Clock } from '@conversation-operator/kube/clock';
import type { Store } from '@conversation-operator/kube/store';
import { durationMs, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { SandboxReason, viewOfSandbox } from '../../resources/sandbox.ts';
import { ElapsedTimes } from '../elapsed-times.ts';
import type { PreparationLimits } from './preparation-failures.ts';
import type { Scope } from './scope.ts';
import { StartErrorCode, StartFailure, withDeadline } from './start.ts';

export interface StepDeadlinesOptions {
  readonly stores: { readonly templates: Pick<Store<SandboxTemplate>, 'get'> };
  readonly clock: Clock;
  readonly limits: Pick<PreparationLimits, 'cloneTimeoutSeconds' | 'setupTimeoutSeconds'>;
}

/** Beyond what the commands of a step may take themselves: how long its agent may be out of reach. */
export const slackMs = 60_000;
/** Until the sandbox of an earlier conversation of the same id has gone. */
const workingMs = 60_000;
/** For the agent of a sandbox that is there, to answer again: longer than its container's probes take to replace it. */
const silentMs = 120_000;

/** Ends a start whose present step has taken too long. No clock that jumps ends one (see `ElapsedTimes`). */
export class StepDeadlines {
  readonly #options: StepDeadlinesOptions;
  readonly #elapsed: ElapsedTimes;

  constructor(options: StepDeadlinesOptions) {
    this.#options = options;
    this.#elapsed = new ElapsedTimes(options);
  }

  /** Milliseconds until the step's time is up; undefined when it has no deadline. */
  leftMs(scope: Scope): number | undefined {
    const allowedMs = this.#allowedMs(scope);
    const { deadline } = scope.status.start ?? {};
    return deadline === undefined || allowedMs === undefined
      ? undefined
      : Math.max(0, allowedMs - this.#elapsedMs(scope, deadline, allowedMs)) + 1;
  }

  /** Gives the step its deadline, or throws when that has passed. */
  check(scope: Scope): void {
    const allowedMs = this.#allowedMs(scope);
    if (allowedMs === undefined) return;
    const { deadline, errorCode, error } = scope.status.start ?? {};
    if (deadline === undefined) {
      const stored = new Date(this.#options.clock.now() + allowedMs).toISOString();
      scope.status = withDeadline(scope.status, stored);
      // From here on this process counts.
      this.#elapsedMs(scope, stored, allowedMs);
    } else if (this.#elapsedMs(scope, deadline, allowedMs) > allowedMs) {
      if (scope.startStatus === 'WORKING') {
        if (errorCode !== undefined) throw new StartFailure(errorCode, error ?? errorCode);
        throw new StartFailure(StartErrorCode.sandboxNameTaken, 'The sandbox of an earlier conversation of this id is still in use.');
      }
      throw new StartFailure(
        StartErrorCode.stepDeadlineExceeded,
        `The step ${scope.startStatus} did not end within ${allowedMs / 1000} s.`,
      );
    }
  }

  #elapsedMs({ stored }: Scope, deadline: string, allowedMs: number): number {
    return this.#elapsed.elapsedMs(stored.metadata.uid, new Date(Date.parse(deadline) - allowedMs).toISOString());
  }

  #allowedMs(scope: Scope): number | undefined {
    const { cloneTimeoutSeconds, setupTimeoutSeconds } = this.#options.limits;
    const status = scope.startStatus;
    if (status === 'WORKING') return workingMs;
    if (status === 'WAITING_FOR_SANDBOX') return this.#answerMs(scope);
    if (status === 'PREPARING_REPOSITORY') return cloneTimeoutSeconds * 1000 + slackMs;
    return status === 'SETTING_UP_SKILLS' ? setupTimeoutSeconds * 1000 + slackMs : undefined;
  }

  /** For the agent to answer: in a container in which the agent never has, as long as a first start may take, if that is longer. */
  #answerMs({ sandbox, stored }: Scope): number {
    const { reason } = viewOfSandbox(sandbox);
    const template = this.#options.stores.templates.get(stored.metadata.namespace, sandbox?.spec.templateName ?? '');
    if (reason !== SandboxReason.waitingForAgent || template === undefined) return silentMs;
    return Math.max(silentMs, durationMs(template.spec.startDeadline));
  }
}
