import type { SandboxKeys } from '../../../agent/keys.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { keySeedOf } from '../../../resources/sandbox.ts';
import { readFileSync } from 'node:fs';
import {
  hostUrlOf,
  providerOf,
  type GitHosts,
  type Repository,
  gitAccessOf,
  repositoryUrlAt,
  type GitAccessOptions,
} from '../git/git-access.ts';
import { StartErrorCode, StartFailure, type StartScope } from './stage.ts';
import { shellCommand } from '../../../agent/shell-quote.ts';
import { stepFolder } from './step-command.ts';
import { graceMs } from './step-deadlines.ts';

/** Access of a sandbox to one repository through the gateway, which adds the owner's credential. */
export interface CloneAccess {
  readonly gatewayUrl: string;
  readonly ticket: string;
}

export interface CloneAccessOptions extends GitAccessOptions {
  readonly keys: Pick<SandboxKeys, 'gitToken' | 'cloneTicket'>;
  readonly clock: Clock;
}

/** Grants a clone access until the deadline of its step; undefined if no gateway serves it. */
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
      keySeedOf(sandbox),
      { provider, repository },
      endMs,
      sandbox.status?.masterKeyId,
    ),
  };
}

export interface CloneScriptOptions {
  readonly repository: Repository;
  readonly hosts: GitHosts;
  /**
   * URL of the repository at the gateway, which adds the owner's credential. The clone token for
   * the gateway is in `ticketFile`.
   */
  readonly gatewayUrl?: string | undefined;
  readonly maxMebibytes: number;
  /** Result of `gitAccessScript`. Absent: sandboxes do not reach the gateway. */
  readonly accessScript?: string | undefined;
}

/** File with the clone token. The clone script removes the file once it has read the token. */
export const ticketFile = `${stepFolder('clone')}/ticket`;

const cloneProgram = readFileSync(new URL('./clone.sh', import.meta.url), 'utf8');

export function cloneUrlOf(repository: Repository, hosts: GitHosts): string {
  const provider = providerOf(repository, hosts);
  const base = provider === undefined ? undefined : hostUrlOf(provider, hosts);
  if (base === undefined) {
    throw new StartFailure(
      StartErrorCode.providerNotConfigured,
      `The git provider ${provider ?? ''} is not configured.`,
    );
  }
  return `${base}${repository.name}.git`;
}

/** An idempotent script that checks the repository out in the project folder. */
export const cloneScript = ({
  repository,
  hosts,
  gatewayUrl = '',
  maxMebibytes,
  accessScript = '',
}: CloneScriptOptions): string =>
  shellCommand(
    cloneProgram,
    cloneUrlOf(repository, hosts),
    repository.branch ?? '',
    gatewayUrl,
    maxMebibytes * 1024,
    accessScript,
  );
