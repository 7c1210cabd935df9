import { gitAccessOf, repositoryUrlAt, type GitAccessOptions } from '../git/git-access.ts';
import type { StartScope } from './stage.ts';
import { graceMs } from './step-deadlines.ts';
import type { OperatorRuntime } from '../../operator-runtime.ts';

/**
 * Access of a sandbox to one repository, through the gateway and with the credential of the owner.
 */
export interface CloneAccess {
  readonly gatewayUrl: string;
  readonly ticket: string;
}

export interface CloneAccessOptions
  extends Omit<GitAccessOptions, 'keys'>, Pick<OperatorRuntime, 'keys' | 'clock'> {}

/**
 * Returns the access for the clone of a start, which expires with the deadline of the step;
 * undefined where there is no gateway.
 */
export function cloneAccessOf(
  scope: StartScope,
  options: CloneAccessOptions,
): CloneAccess | undefined {
  const { sandbox, status } = scope;
  const access = gitAccessOf(scope, options);
  if (access?.repository === undefined || sandbox === undefined) return undefined;
  const { provider, name: repository } = access.repository;
  const { keys, clock } = options;
  const { deadline } = status.start ?? {};
  const endMs = deadline === undefined ? clock.now() + graceMs : Date.parse(deadline);
  return {
    gatewayUrl: repositoryUrlAt(access, access.repository),
    ticket: keys.cloneTicket(
      sandbox.metadata.uid,
      { provider, repository },
      endMs,
      sandbox.status?.masterKeyId,
    ),
  };
}
