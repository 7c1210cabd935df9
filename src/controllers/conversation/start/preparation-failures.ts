import { lastWords } from '../../sandbox/readable-output.ts';
import type { Repository } from '../git/git-access.ts';
import { StartErrorCode, StartFailure } from './stage.ts';
import { stepTimedOut, type StepReport } from './step-command.ts';

/** Exit codes of the preparation scripts. Scripts of a repository can not end with these codes. */
export const PreparationExitCode = {
  branchNotFound: 242,
  cloneFailed: 243,
  accessDenied: 244,
  tooLarge: 245,
  gitMissing: 246,
  volumeFull: 247,
  leadsOut: 248,
} as const;

export interface PreparationLimits {
  /** Maximum time of a clone, in seconds. */
  readonly cloneTimeoutSeconds: number;
  /** Maximum time of the repository's set-up script, in seconds. */
  readonly setupTimeoutSeconds: number;
  /** Maximum size of a clone on the volume, in MiB. */
  readonly maxRepositoryMebibytes: number;
}

/** The message of git or ssh for a host name that can not be resolved. */
const unresolved = /Could not resolve host/i;

const volumeFull = (): StartFailure =>
  new StartFailure(StartErrorCode.volumeFull, 'The volume of the sandbox is full.');

/** The reason why a clone has failed for good; undefined while it runs, and after success. */
export function cloneFailure(
  { state, exitCode, output }: StepReport,
  { name, branch = '' }: Repository,
  { cloneTimeoutSeconds, maxRepositoryMebibytes }: PreparationLimits,
): StartFailure | undefined {
  const unavailable = (text: string) =>
    new StartFailure(StartErrorCode.repositoryUnavailable, text);
  if (state === 'exhausted')
    return unavailable(`The clone of the repository ${name} was killed three times.`);
  if (state !== 'done' || exitCode === 0) return undefined;
  switch (exitCode) {
    case stepTimedOut:
      return unavailable(`The repository could not be cloned within ${cloneTimeoutSeconds} s.`);
    case PreparationExitCode.branchNotFound:
      return new StartFailure(
        StartErrorCode.branchNotFound,
        `The repository ${name} has no branch ${branch}.`,
      );
    case PreparationExitCode.accessDenied:
      return new StartFailure(
        StartErrorCode.repositoryAccessDenied,
        `The repository ${name} does not exist, or the credential of its owner, if there is one, gives no access.`,
      );
    case PreparationExitCode.tooLarge:
      return new StartFailure(
        StartErrorCode.repositoryTooLarge,
        `The repository ${name} takes more than ${maxRepositoryMebibytes} MiB.`,
      );
    case PreparationExitCode.gitMissing:
      return new StartFailure(
        StartErrorCode.workspaceUnusable,
        'The image of the sandbox has no git.',
      );
    case PreparationExitCode.volumeFull:
      return volumeFull();
    default: {
      const words = lastWords(output);
      return unavailable(
        unresolved.test(words)
          ? `The repository ${name} could not be cloned, because the sandbox can not resolve the name of a host. Check the DNS of the cluster, and whether the NetworkPolicies of the namespace let sandboxes reach it. Git says: ${words}`
          : `The repository ${name} could not be cloned: ${words}`,
      );
    }
  }
}

/** The reason why the set-up has failed for good; undefined while it runs, and after success. */
export function setupFailure(
  { state, exitCode, output }: StepReport,
  { setupTimeoutSeconds }: PreparationLimits,
): StartFailure | undefined {
  const failed = (text: string) =>
    new StartFailure(StartErrorCode.setupFailed, `The set-up script .openhands/setup.sh ${text}`);
  if (state === 'exhausted')
    return failed('was killed three times, or has killed the process that runs it.');
  if (state !== 'done' || exitCode === 0) return undefined;
  switch (exitCode) {
    case stepTimedOut:
      return failed(`did not end within ${setupTimeoutSeconds} s.`);
    case PreparationExitCode.volumeFull:
      return volumeFull();
    case PreparationExitCode.leadsOut:
      return new StartFailure(
        StartErrorCode.setupFailed,
        `The scripts of the repository can not be used: ${lastWords(output)}`,
      );
    default:
      return failed(`ended with exit code ${exitCode}: ${lastWords(output)}`);
  }
}
