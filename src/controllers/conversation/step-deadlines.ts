import type { Clock } from '../../kube/clock.ts';
import type { StartStatus } from '../../resources/conversation.ts';
import { ElapsedTimes } from '../elapsed-times.ts';
import type { PreparationLimits } from './pipeline.ts';
import type { Scope } from './scope.ts';
import { StartErrorCode, StartFailure, withDeadline } from './start.ts';

export interface StepDeadlinesOptions {
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
    const allowedMs = this.#allowedMs(scope.startStatus);
    const { deadline } = scope.status.start ?? {};
    return deadline === undefined || allowedMs === undefined
      ? undefined
      : Math.max(0, allowedMs - this.#elapsedMs(scope, deadline, allowedMs)) + 1;
  }

  /** Gives the step its deadline, or throws when that has passed. */
  check(scope: Scope): void {
    const allowedMs = this.#allowedMs(scope.startStatus);
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

  #allowedMs(status: StartStatus): number | undefined {
    const { cloneTimeoutSeconds, setupTimeoutSeconds } = this.#options.limits;
    if (status === 'WORKING') return workingMs;
    if (status === 'WAITING_FOR_SANDBOX') return silentMs;
    if (status === 'PREPARING_REPOSITORY') return cloneTimeoutSeconds * 1000 + slackMs;
    return status === 'SETTING_UP_SKILLS' ? setupTimeoutSeconds * 1000 + slackMs : undefined;
  }
}
