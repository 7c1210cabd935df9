import type { ConversationSpec } from '../../resources/conversation.ts';
import { StartErrorCode, StartFailure } from './start.ts';

/** Provider name → base URL, for example `{ github: 'https://github.com' }`. The first one is taken where a conversation names none. */
export type GitHosts = Readonly<Record<string, string>>;

type Repository = NonNullable<ConversationSpec['repository']>;

/** Single quotes for /bin/sh: nothing inside has a meaning. */
export const shellQuote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

export function cloneUrlOf(repository: Repository, hosts: GitHosts): string {
  const provider = repository.provider ?? Object.keys(hosts)[0];
  const base = provider === undefined ? undefined : hosts[provider];
  if (base === undefined) {
    throw new StartFailure(StartErrorCode.providerNotConfigured, `The git provider ${provider ?? ''} is not configured.`);
  }
  return `${base.replace(/\/+$/, '')}/${repository.name}.git`;
}

/** The folder of the working tree, below the agent's working directory. */
export const projectFolder = 'project';

/** Exit codes of the script below that mean something. */
export const preparation = { branchNotFound: 42, cloneFailed: 43 } as const;

/**
 * A script that leaves the repository checked out in `project` and prints that folder's absolute path as its last line. Run
 * again it finds its work done; run twice at once, or killed half-way, it leaves no half clone, because a clone becomes visible
 * by one rename.
 */
export function prepareScript(repository: Repository | undefined, hosts: GitHosts): string {
  const lines = ['set -eu', 'umask 022'];
  if (repository === undefined) {
    lines.push(`mkdir -p ${projectFolder}`);
  } else {
    const url = shellQuote(cloneUrlOf(repository, hosts));
    const branch = repository.branch === undefined ? undefined : shellQuote(repository.branch);
    lines.push(
      // No question may wait for an answer, and nothing of the workspace may change what git does.
      'export GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 GIT_ASKPASS=true',
      `if ! [ -e ${projectFolder}/.git ]; then`,
      '  mkdir -p .agent',
      '  half=$PWD/$(mktemp -d .agent/clone.XXXXXX)',
      `  trap 'rm -rf "$half"' EXIT`,
    );
    if (branch !== undefined) {
      lines.push(
        `  code=0; git ls-remote --exit-code --heads --tags -- ${url} ${branch} >/dev/null || code=$?`,
        `  if [ $code -eq 2 ]; then exit ${preparation.branchNotFound}; fi`,
      );
    }
    lines.push(
      `  git clone --quiet ${branch === undefined ? '' : `--branch ${branch} `}-- ${url} "$half/tree" || exit ${preparation.cloneFailed}`,
      // One rename, or nothing: it fails where a folder with something in it is there already. What an agent has put there stays.
      `  mv -T "$half/tree" ${projectFolder} 2>/dev/null || [ -e ${projectFolder}/.git ] || cp -an "$half/tree/." ${projectFolder}/`,
      'fi',
    );
  }
  lines.push(`cd ${projectFolder}`, 'pwd');
  return lines.join('\n');
}

/** Runs the repository's own set-up script, once per clone; exits with the script's code. */
export const setupScript = [
  `cd ${projectFolder}`,
  'done=../.agent/setup-done',
  'if [ -f .openhands/setup.sh ] && ! [ -e "$done" ]; then',
  '  mkdir -p ../.agent',
  '  bash .openhands/setup.sh </dev/null || exit $?',
  '  : >"$done"',
  'fi',
].join('\n');
