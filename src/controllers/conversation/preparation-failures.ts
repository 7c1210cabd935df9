import { preparation, type Repository } from './repository.ts';
import { StartErrorCode, StartFailure } from './start.ts';
import { stepTimedOut, type StepReport } from './step-command.ts';
import { lastWords } from '../readable-output.ts';

export interface PreparationLimits {
  /** How long a clone may take, in seconds. */
  readonly cloneTimeoutSeconds: number;
  /** How long the repository's set-up script may take, in seconds. */
  readonly setupTimeoutSeconds: number;
  /** What a clone may take on the volume, in MiB. */
  readonly maxRepositoryMebibytes: number;
}

const volumeFull = (): StartFailure => new StartFailure(StartErrorCode.volumeFull, 'The volume of the sandbox is full.');

/** Why a clone can come to nothing more; undefined when it is done, or on its way. */
export function cloneFailure(
  { state, exitCode, output }: StepReport,
  { name, branch = '' }: Repository,
  { cloneTimeoutSeconds, maxRepositoryMebibytes }: PreparationLimits,
): StartFailure | undefined {
  const unavailable = (text: string) => new StartFailure(StartErrorCode.repositoryUnavailable, text);
  if (state === 'exhausted') return unavailable(`The clone of the repository ${name} was killed three times.`);
  if (state !== 'done' || exitCode === 0) return undefined;
  switch (exitCode) {
    case stepTimedOut:
      return unavailable(`The repository could not be cloned within ${cloneTimeoutSeconds} s.`);
    case preparation.branchNotFound:
      return new StartFailure(StartErrorCode.branchNotFound, `The repository ${name} has no branch ${branch}.`);
    case preparation.accessDenied:
      return new StartFailure(
        StartErrorCode.repositoryAccessDenied,
        `The repository ${name} does not exist, or its owner's credential, if there is one, does not open it.`,
      );
    case preparation.tooLarge:
      return new StartFailure(StartErrorCode.repositoryTooLarge, `The repository ${name} takes more than ${maxRepositoryMebibytes} MiB.`);
    case preparation.gitMissing:
      return new StartFailure(StartErrorCode.workspaceUnusable, "The sandbox's image has no git.");
    case preparation.volumeFull:
      return volumeFull();
    default:
      return unavailable(`The repository ${name} could not be cloned: ${lastWords(output)}`);
  }
}

/** The same of the set-up script. */
export function setupFailure(
  { state, exitCode, output }: StepReport,
  { setupTimeoutSeconds }: PreparationLimits,
): StartFailure | undefined {
  const failed = (text: string) => new StartFailure(StartErrorCode.setupFailed, `The set-up script .openhands/setup.sh ${text}`);
  if (state === 'exhausted') return failed('was killed three times, or has killed what runs it.');
  if (state !== 'done' || exitCode === 0) return undefined;
  switch (exitCode) {
    case stepTimedOut:
      return failed(`did not end within ${setupTimeoutSeconds} s.`);
    case preparation.volumeFull:
      return volumeFull();
    case preparation.leadsOut:
      return new StartFailure(StartErrorCode.setupFailed, `The repository's own scripts can't be used: ${lastWords(output)}`);
    default:
      return failed(`ended with exit code ${exitCode}: ${lastWords(output)}`);
  }
}
