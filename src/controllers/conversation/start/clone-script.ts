import { PreparationExitCode } from './exit-codes.ts';
import { cloneUrlOf, type GitHosts, type Repository } from './repository.ts';
import { projectFolder } from './setup-script.ts';
import { shellQuote } from './shell-quote.ts';
import { stepFolder } from './step-command.ts';

export interface CloneScriptOptions {
  readonly repository: Repository;
  readonly hosts: GitHosts;
  /** URL of the repository at the gateway, which adds the credential of the owner. The file `ticketFile` holds the ticket for the gateway. */
  readonly gatewayUrl?: string | undefined;
  /** Maximum size of the clone. */
  readonly maxMebibytes: number;
}

/** File with the ticket for the gateway. The clone reads and removes the file first. */
export const ticketFile = `${stepFolder('clone')}/ticket`;

/** Messages of git for an answer 403, for 401 without a prompt for a password, and for 404. */
const accessError = "returned error: 40[13]|Authentication failed|could not read (Username|Password)|' not found$";

/** Messages of git for a host or gateway that restarts, is overloaded or can not be resolved, and for a broken connection. */
const transientError =
  'Could not resolve host|Failed to connect|Connection (refused|reset)|[Tt]imed out|[Tt]imeout|Empty reply|(Recv|Send) failure|' +
  'returned error: (429|5[0-9][0-9])|transfer closed|SSL_ERROR_SYSCALL|GnuTLS recv error|' +
  'RPC failed|early EOF|hung up unexpectedly|unexpected disconnect';
/** Maximum retries after a transient error. The first delay is 1 s, and each delay is twice the previous one. */
const maxRetries = 4;
/** Messages of a full volume. */
const volumeFullError = 'No space left|[Dd]isk quota';

/**
 * Returns a script that checks the repository out in `project`. A repeated script finds the work done. A script that was killed leaves no
 * partial tree, because one rename puts the tree in place; a complete fetch is not repeated.
 */
export function cloneScript({ repository, hosts, gatewayUrl, maxMebibytes }: CloneScriptOptions): string {
  const address = cloneUrlOf(repository, hosts);
  const { branch } = repository;
  return [
    'set -eu',
    'umask 022',
    `url=${shellQuote(address)} branch=${shellQuote(branch ?? '')} gateway=${shellQuote(gatewayUrl ?? '')} half=.agent/clone ticket=`,
    `if [ -f ${ticketFile} ]; then ticket=$(cat ${ticketFile}); rm -f ${ticketFile}; fi`,
    `if [ -e ${projectFolder}/.git ]; then exit 0; fi`,
    `command -v git >/dev/null || exit ${PreparationExitCode.gitMissing}`,
    // Git must not prompt, and no file of the workspace may configure git.
    'export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_CONFIG_NOSYSTEM=1 GIT_ASKPASS=true GIT_LFS_SKIP_SMUDGE=1',
    `export GIT_ALLOW_PROTOCOL=${shellQuote(address.split(':', 1)[0] ?? '')}`,
    `trap 'code=$?; [ "$code" -eq 0 ] || rm -rf "$half"; rm -f .agent/refs .agent/said .agent/refused .agent/code; exit "$code"' EXIT`,
    `trap 'exit 143' TERM`,
    // The log of the step has the last output of git after a moment.
    `fail() { sleep 0.3; ! cat .agent/said ${stepFolder('clone')}/log.* 2>/dev/null | grep -qE ${shellQuote(volumeFullError)} || exit ${PreparationExitCode.volumeFull}; exit "$1"; }`,
    'tries=0',
    `may_pass() { [ "$tries" -lt ${maxRetries} ] && grep -qE ${shellQuote(transientError)} .agent/said && ! grep -qE ${shellQuote(volumeFullError)} .agent/said; }`,
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
    // A public repository does not depend on the gateway, which may lack a credential or be down.
    `    mv .agent/said .agent/refused; use_host; refs`,
    `    if [ "$code" -ne 0 ] && ! grep -q "' not found$" .agent/refused; then mv .agent/refused .agent/said; fi`,
    '  fi',
    '}',
    'ask',
    'while [ "$code" -ne 0 ] && may_pass; do cat .agent/said; later; ask; done',
    'if [ "$code" -ne 0 ]; then',
    '  cat .agent/said',
    `  ! grep -qE ${shellQuote(accessError)} .agent/said || exit ${PreparationExitCode.accessDenied}`,
    `  fail ${PreparationExitCode.cloneFailed}`,
    'fi',
    'if [ -n "$branch" ]; then',
    '  cut -f 2 .agent/refs | grep -Fqx -e "refs/heads/$branch" -e "refs/tags/$branch" || ' + `exit ${PreparationExitCode.branchNotFound}`,
    'fi',
    ...fetchAndCheckOut(maxMebibytes),
    ...putInPlace,
  ].join('\n');
}

/** Configures git by environment variables, which override files and appear in no argument. Settings of the sandbox come first. */
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
  // A watch limits the size on disk, because neither the size of a repository nor that of its tree is known before.
  `fits() { used=$(du -sk "$half" 2>/dev/null | cut -f 1); [ "\${used:-0}" -le ${maxMebibytes * 1024} ]; }`,
  'watched() {',
  '  code=0',
  '  "$@" & git=$!',
  '  { while sleep 0.5; do fits || { : >"$half.large"; kill "$git"; exit; }; done; } >/dev/null 2>&1 & watch=$!',
  '  wait "$git" || code=$?',
  '  kill "$watch" 2>/dev/null || :',
  `  if [ -e "$half.large" ] || ! fits; then rm -f "$half.large"; exit ${PreparationExitCode.tooLarge}; fi`,
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
  // The log of the step has the last output of git after a moment.
  `    sleep 0.3; cat ${stepFolder('clone')}/log.* 2>/dev/null | tail -c 1000 >.agent/said`,
  `    may_pass || fail ${PreparationExitCode.cloneFailed}`,
  '    later',
  '  done',
  '  printf %s "$url $branch" >"$half/fetched.new"; mv "$half/fetched.new" "$half/fetched"',
  'fi',
  'if git -C "$half/tree" rev-parse --quiet --verify "HEAD^{commit}" >/dev/null; then',
  '  watched git -C "$half/tree" checkout --force --progress HEAD --',
  `  [ "$code" -eq 0 ] || fail ${PreparationExitCode.cloneFailed}`,
  'elif [ -s .agent/refs ]; then echo "The branch that HEAD names does not exist. Nothing is checked out."',
  'else echo "The repository has no commits yet."; fi',
];

/** Puts the tree in place by one rename. The rename fails for a folder that is not empty; files that an agent has put there stay. */
const putInPlace = [
  `if ! mv -T "$half/tree" ${projectFolder} 2>/dev/null && ! [ -e ${projectFolder}/.git ]; then`,
  // The folder .git comes last and by a rename, because .git marks a complete tree.
  `  mv -T "$half/tree/.git" "$half/git"; cp -an "$half/tree/." ${projectFolder}/; mv -T "$half/git" ${projectFolder}/.git`,
  'fi',
  'rm -rf "$half"',
];
