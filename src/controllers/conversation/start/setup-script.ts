import { PreparationExitCode, firstReservedCode } from './exit-codes.ts';
import { shellQuote } from './shell-quote.ts';

/** Folder of the working tree, below the agent's working directory. */
export const projectFolder = 'project';

/** Creates a folder for a conversation without a repository, and prints its absolute path. */
export const workspaceScript = ['set -eu', 'umask 022', `mkdir -p ${projectFolder}`, `cd ${projectFolder}`, 'pwd'].join('\n');

/** Content of `.git/hooks/pre-commit`. The second line marks a hook that the operator has installed. */
const preCommitHook = `#!/bin/sh
# Installed by conversation-operator: runs .openhands/pre-commit.sh.
own=$(dirname "$0")/pre-commit.local
if [ -x "$own" ]; then "$own" "$@" || exit $?; fi
if [ -f .openhands/pre-commit.sh ]; then exec timeout -k 5 600 bash .openhands/pre-commit.sh </dev/null; fi
`;

/**
 * Runs the set-up script of the repository once for each clone, and installs its git hook; exits with the code of the script. A link that
 * leads out of the repository is not run.
 */
export const setupScript = [
  'set -u',
  `cd ${projectFolder} || exit 1`,
  'done=../.agent/setup-done',
  `inside() { case $(readlink -f "$1") in "$(pwd -P)"/*) ;; *) echo "$1 leads out of the repository."; exit ${PreparationExitCode.leadsOut} ;; esac; }`,
  'if [ -f .openhands/setup.sh ] && ! [ -e "$done" ]; then',
  '  inside .openhands/setup.sh',
  '  mkdir -p ../.agent',
  '  code=0; bash .openhands/setup.sh </dev/null || code=$?',
  '  if [ "$code" -ne 0 ]; then',
  '    echo "It ended with exit code $code."',
  `    [ "$code" -lt ${firstReservedCode} ] || code=1`,
  '    exit "$code"',
  '  fi',
  '  : >"$done"',
  'fi',
  'if [ -f .openhands/pre-commit.sh ] && [ -d .git ]; then',
  '  inside .openhands/pre-commit.sh',
  '  hook=.git/hooks/pre-commit',
  '  mkdir -p .git/hooks',
  '  if [ -e "$hook" ] && ! grep -q "^# Installed by conversation-operator" "$hook"; then mv -f "$hook" "$hook.local"; fi',
  `  printf %s ${shellQuote(preCommitHook)} >"$hook.new" && chmod 755 "$hook.new" && mv -f "$hook.new" "$hook" || exit 1`,
  'fi',
  // An agent without free space can not store its conversation.
  `set -- $(df -Pk . | tail -n 1); [ "\${4:-1024}" -ge 1024 ] 2>/dev/null || exit ${PreparationExitCode.volumeFull}`,
].join('\n');
