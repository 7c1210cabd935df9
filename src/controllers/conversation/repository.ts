import { readFileSync } from 'node:fs';
import type { ConversationSpec } from '../../resources/conversation.ts';
import { shellCommand } from './shell.ts';
import { StartErrorCode, StartFailure } from './start.ts';
import { stepFolder } from './step-command.ts';

/** Provider name → base URL, for example `{ github: 'https://github.com' }`. The first one is taken where a conversation names none. */
export type GitHosts = Readonly<Record<string, string>>;

export type Repository = NonNullable<ConversationSpec['repository']>;

export interface CloneWish {
  readonly repository: Repository;
  readonly hosts: GitHosts;
  /** Where the gateway passes on what the owner's credential opens; the ticket for it is in the file `ticketFile`. */
  readonly gatewayUrl?: string | undefined;
  /** Beyond it the clone is given up. */
  readonly maxMebibytes: number;
}

/** A user in a base URL is the gateway's to show, not the sandbox's to know. */
function withoutUser(base: string): string {
  const url = new URL(base);
  if (url.username === '' && url.password === '') return base;
  url.username = '';
  url.password = '';
  return url.href;
}

/** The name of the host that a repository is on. */
export const providerOf = (repository: Repository, hosts: GitHosts): string | undefined => repository.provider ?? Object.keys(hosts)[0];

export function cloneUrlOf(repository: Repository, hosts: GitHosts): string {
  const provider = providerOf(repository, hosts);
  const base = provider === undefined || !Object.hasOwn(hosts, provider) ? undefined : hosts[provider];
  if (base === undefined) {
    throw new StartFailure(StartErrorCode.providerNotConfigured, `The git provider ${provider ?? ''} is not configured.`);
  }
  return `${withoutUser(base).replace(/\/+$/, '')}/${repository.name}.git`;
}

/** The folder of the working tree, below the agent's working directory. */
export const projectFolder = 'project';

/** Read and removed by the clone as the first thing that it does. */
export const ticketFile = `${stepFolder('clone')}/ticket`;

/** Exit codes of the programs below that mean something. A script of the repository can not exit with them. */
export const preparation = {
  branchNotFound: 242,
  cloneFailed: 243,
  accessDenied: 244,
  tooLarge: 245,
  gitMissing: 246,
  volumeFull: 247,
  leadsOut: 248,
} as const;

/** Leaves a folder for a conversation without a repository, and prints its absolute path. */
export const workspaceScript = readFileSync(new URL('./workspace.sh', import.meta.url), 'utf8');

const cloneProgram = readFileSync(new URL('./clone.sh', import.meta.url), 'utf8');
const setupProgram = readFileSync(new URL('./setup.sh', import.meta.url), 'utf8');
const preCommitHook = readFileSync(new URL('./pre-commit.sh', import.meta.url), 'utf8');

/** A script that leaves the repository checked out in `project`, however often it runs. */
export const cloneScript = ({ repository, hosts, gatewayUrl = '', maxMebibytes }: CloneWish): string =>
  shellCommand(cloneProgram, cloneUrlOf(repository, hosts), repository.branch ?? '', gatewayUrl, maxMebibytes * 1024);

/** Runs the repository's own set-up script, once per clone, and installs its git hook; exits with the script's code. */
export const setupScript = shellCommand(setupProgram, preCommitHook);
