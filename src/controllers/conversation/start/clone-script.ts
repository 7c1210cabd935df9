import type { ConversationSpec } from '../../../resources/conversation.ts';
import { shellQuote } from './shell-quote.ts';
import { StartErrorCode, StartFailure } from './start-status.ts';
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

/** Exit codes of the scripts below that mean something. The repository's own scripts can't have them. */
export const preparation = {
  branchNotFound: 242,
  cloneFailed: 243,
  accessDenied: 244,
  tooLarge: 245,
  gitMissing: 246,
  volumeFull: 247,
  leadsOut: 248,
} as const;
const firstOwnCode = 240;

/** Leaves a folder for a conversation without a repository, and prints its absolute path. */
export const workspaceScript = ['set -eu', 'umask 022', `mkdir -p ${projectFolder}`, `cd ${projectFolder}`, 'pwd'].join('\n');

/** What git says of an answer 403, 401 without a way to ask for a password, and 404. */
const noAccess = "returned error: 40[13]|Authentication failed|could not read (Username|Password)|' not found$";

/** … of a host or gateway that begins anew, has too much to do or can't be found for a moment, and of a connection that broke. */
const mayPass =
  'Could not resolve host|Failed to connect|Connection (refused|reset)|[Tt]imed out|[Tt]imeout|Empty reply|(Recv|Send) failure|' +
  'returned error: (429|5[0-9][0-9])|transfer closed|SSL_ERROR_SYSCALL|GnuTLS recv error|' +
  'RPC failed|early EOF|hung up unexpectedly|unexpected disconnect';
/** Of that it is tried again, after 1 s at first, and each time after twice as long. */
const mostRetries = 4;
const full = 'No space left|[Dd]isk quota';

/**
 * A script that leaves the repository checked out in `project`. Run again it finds its work done; killed half-way it leaves no half
 * tree there, because the tree comes by one rename, and what was fetched completely is not fetched again.
 */
export function cloneScript({ repository, hosts, gatewayUrl, maxMebibytes }: CloneWish): string {
  const address = cloneUrlOf(repository, hosts);
  const { branch } = repository;
  return [
    'set -eu',
    'umask 022',
    `url=${shellQuote(address)} branch=${shellQuote(branch ?? '')} gateway=${shellQuote(gatewayUrl ?? '')} half=.agent/clone ticket=`,
    `if [ -f ${ticketFile} ]; then ticket=$(cat ${ticketFile}); rm -f ${ticketFile}; fi`,
    `if [ -e ${projectFolder}/.git ]; then exit 0; fi`,
    `command -v git >/dev/null || exit ${preparation.gitMissing}`,
    // No question may wait for an answer, and nothing of the workspace may change what git does.
    'export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 GIT_ASKPASS=true GIT_LFS_SKIP_SMUDGE=1',
    `export GIT_ALLOW_PROTOCOL=${shellQuote(address.split(':', 1)[0] ?? '')}`,
    `trap 'code=$?; [ "$code" -eq 0 ] || rm -rf "$half"; rm -f .agent/refs .agent/said .agent/refused .agent/code; exit "$code"' EXIT`,
    `trap 'exit 143' TERM`,
    // The last words are in the log of the step as soon as it has been read.
    `fail() { sleep 0.3; ! cat .agent/said ${stepFolder('clone')}/log.* 2>/dev/null | grep -qE ${shellQuote(full)} || exit ${preparation.volumeFull}; exit "$1"; }`,
    'tries=0',
    `may_pass() { [ "$tries" -lt ${mostRetries} ] && grep -qE ${shellQuote(mayPass)} .agent/said && ! grep -qE ${shellQuote(full)} .agent/said; }`,
    'later() { echo "Trying again in $((1 << tries)) s."; sleep $((1 << tries)); tries=$((tries + 1)); }',
    'refs() {',
    '  echo 0 >.agent/code',
    `  { git ls-remote -- "$url" HEAD "refs/heads/$branch" "refs/tags/$branch" >.agent/refs || echo "$?" >.agent/code; } 2>&1 | head -c 65536 >.agent/said`,
    '  code=$(cat .agent/code)',
    '}',
    'mkdir -p .agent',
    ...throughGateway,
    'ask() {',
    '  if [ -z "$ticket" ]; then refs; return; fi',
    '  use_gateway; refs',
    `  if [ "$code" -ne 0 ] && ! grep -q 'returned error: 403' .agent/said; then`,
    // Not needed, or not there: what everybody may read does not depend on the gateway.
    `    mv .agent/said .agent/refused; use_host; refs`,
    `    if [ "$code" -ne 0 ] && ! grep -q "' not found$" .agent/refused; then mv .agent/refused .agent/said; fi`,
    '  fi',
    '}',
    'ask',
    'while [ "$code" -ne 0 ] && may_pass; do cat .agent/said; later; ask; done',
    'if [ "$code" -ne 0 ]; then',
    '  cat .agent/said',
    `  ! grep -qE ${shellQuote(noAccess)} .agent/said || exit ${preparation.accessDenied}`,
    `  fail ${preparation.cloneFailed}`,
    'fi',
    'if [ -n "$branch" ]; then',
    '  cut -f 2 .agent/refs | grep -Fqx -e "refs/heads/$branch" -e "refs/tags/$branch" || ' + `exit ${preparation.branchNotFound}`,
    'fi',
    ...fetchAndCheckOut(maxMebibytes),
    ...putInPlace,
  ].join('\n');
}

/** Git takes these before all its files, and they are in no argument and in no file. They stand behind what the sandbox's own are. */
const throughGateway = [
  'version=$(git version); version=${version#git version }; minor=${version#*.}',
  'if [ -n "$ticket" ] && [ "${version%%.*}" -lt 3 ] && [ "${minor%%.*}" -lt 31 ]; then',
  '  echo "For a private repository the sandbox needs git 2.31 or later. It has $version."; ticket=',
  'fi',
  'had=${GIT_CONFIG_COUNT:-0}',
  'setting() { eval "export GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=\\$1 GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT=\\$2"; GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1)); }',
  'use_gateway() {',
  '  export GIT_CONFIG_COUNT="$had"',
  '  setting "url.$gateway.insteadOf" "$url"',
  '  setting "http.$gateway.extraHeader" "Authorization: Bearer $ticket"',
  '  setting "http.$gateway.followRedirects" false',
  '  export GIT_ALLOW_PROTOCOL="${gateway%%:*}:$GIT_ALLOW_PROTOCOL"',
  '}',
  'use_host() { export GIT_CONFIG_COUNT="$had"; }',
];

const fetchAndCheckOut = (maxMebibytes: number): readonly string[] => [
  // Watched by its size: a repository can be far larger than it looks, and so can its tree.
  `fits() { used=$(du -sk "$half" 2>/dev/null | cut -f 1); [ "\${used:-0}" -le ${maxMebibytes * 1024} ]; }`,
  'watched() {',
  '  code=0',
  '  "$@" & git=$!',
  '  { while sleep 0.5; do fits || { : >"$half.large"; kill "$git"; exit; }; done; } >/dev/null 2>&1 & watch=$!',
  '  wait "$git" || code=$?',
  '  kill "$watch" 2>/dev/null || :',
  `  if [ -e "$half.large" ] || ! fits; then rm -f "$half.large"; exit ${preparation.tooLarge}; fi`,
  '}',
  'rm -f "$half.large"',
  'if [ "$(cat "$half/fetched" 2>/dev/null)" = "$url $branch" ] && [ -d "$half/tree/.git" ]; then',
  '  rm -f "$half/tree/.git/index" "$half/tree/.git/"*.lock',
  'else',
  '  set -- --progress --no-checkout; [ -z "$branch" ] || set -- "$@" --branch "$branch"',
  '  while :; do',
  '    rm -rf "$half"; mkdir -p "$half"',
  '    watched git clone "$@" -- "$url" "$half/tree"',
  '    if [ "$code" -eq 0 ]; then break; fi',
  // What it has said last, as soon as that has been read.
  `    sleep 0.3; cat ${stepFolder('clone')}/log.* 2>/dev/null | tail -c 1000 >.agent/said`,
  `    may_pass || fail ${preparation.cloneFailed}`,
  '    later',
  '  done',
  '  printf %s "$url $branch" >"$half/fetched.new"; mv "$half/fetched.new" "$half/fetched"',
  'fi',
  'if git -C "$half/tree" rev-parse --quiet --verify "HEAD^{commit}" >/dev/null; then',
  '  watched git -C "$half/tree" checkout --force --progress HEAD --',
  `  [ "$code" -eq 0 ] || fail ${preparation.cloneFailed}`,
  'elif [ -s .agent/refs ]; then echo "The branch that HEAD names does not exist. Nothing is checked out."',
  'else echo "The repository has no commits yet."; fi',
];

/** One rename, or nothing: it fails where a folder with something in it is there already. What an agent has put there stays. */
const putInPlace = [
  `if ! mv -T "$half/tree" ${projectFolder} 2>/dev/null && ! [ -e ${projectFolder}/.git ]; then`,
  // The folder .git comes last, and by a rename: it is what says that all is there.
  `  mv -T "$half/tree/.git" "$half/git"; cp -an "$half/tree/." ${projectFolder}/; mv -T "$half/git" ${projectFolder}/.git`,
  'fi',
  'rm -rf "$half"',
];

/** What stands in `.git/hooks/pre-commit`. By its second line it is known as ours. */
const preCommitHook = `#!/bin/sh
# Installed by conversation-operator: runs .openhands/pre-commit.sh.
own=$(dirname "$0")/pre-commit.local
if [ -x "$own" ]; then "$own" "$@" || exit $?; fi
if [ -f .openhands/pre-commit.sh ]; then exec timeout -k 5 600 bash .openhands/pre-commit.sh </dev/null; fi
`;

/**
 * Runs the repository's own set-up script, once per clone, and installs its git hook; exits with the script's code. What leads out of
 * the repository is not run.
 */
export const setupScript = [
  'set -u',
  `cd ${projectFolder} || exit 1`,
  'done=../.agent/setup-done',
  `inside() { case $(readlink -f "$1") in "$(pwd -P)"/*) ;; *) echo "$1 leads out of the repository."; exit ${preparation.leadsOut} ;; esac; }`,
  'if [ -f .openhands/setup.sh ] && ! [ -e "$done" ]; then',
  '  inside .openhands/setup.sh',
  '  mkdir -p ../.agent',
  '  code=0; bash .openhands/setup.sh </dev/null || code=$?',
  '  if [ "$code" -ne 0 ]; then',
  '    echo "It ended with exit code $code."',
  `    [ "$code" -lt ${firstOwnCode} ] || code=1`,
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
  // An agent could not even keep its conversation.
  `set -- $(df -Pk . | tail -n 1); [ "\${4:-1024}" -ge 1024 ] 2>/dev/null || exit ${preparation.volumeFull}`,
].join('\n');
