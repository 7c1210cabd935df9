#!/bin/sh
# Leaves a repository checked out in `project`. A repeated run finds its work done. A run that is
# killed leaves no half tree in `project`, because one rename moves the tree there, and the next run
# does not fetch again what was complete.
#
# arguments: URL BRANCH GATEWAY MAX_KIB ACCESS
#   BRANCH    a branch or a tag; empty for the branch that HEAD names
#   GATEWAY   the repository at the gateway, which adds the credential of the owner; empty where
#             there is none. The ticket for the gateway is in a file of the step, and the program
#             removes that file first.
#   MAX_KIB   maximum size of the clone on the volume, with its history
#   ACCESS    a program that leaves the settings of git for the shells of the sandbox; empty where
#             there is no gateway
set -eu
umask 022
url=$1 branch=$2 gateway=$3 max_kib=$4 access=$5
half=.agent/clone step=.agent/steps/clone ticket=
# preparation-failures.ts has the same exit codes.
branch_not_found=242 clone_failed=243 access_denied=244 too_large=245 git_missing=246 volume_full=247
# A failure that may pass is retried after 1 s, and each time after twice as long.
max_retries=4

# Messages of git for an answer 403, for 401 without a way to ask for a password, and for 404.
no_access="returned error: 40[13]|Authentication failed|could not read (Username|Password)|' not found\$"
# Messages of git for a host or a gateway that restarts, is overloaded or can not be resolved for a
# moment, and for a broken connection.
may_pass='Could not resolve host|Failed to connect|Connection (refused|reset)|[Tt]imed out|[Tt]imeout|Empty reply|(Recv|Send) failure'
may_pass="$may_pass|returned error: (429|5[0-9][0-9])|transfer closed|SSL_ERROR_SYSCALL|GnuTLS recv error"
may_pass="$may_pass|RPC failed|early EOF|hung up unexpectedly|unexpected disconnect"
full='No space left|[Dd]isk quota'

if [ -f "$step/ticket" ]; then
  ticket=$(cat "$step/ticket")
  rm -f "$step/ticket"
fi
if [ -e project/.git ]; then
  if [ -z "$access" ] || ! command -v git >/dev/null; then exit 0; fi
fi
command -v git >/dev/null || exit "$git_missing"
# Git asks no question that would wait for an answer. An earlier conversation in the same sandbox
# may have written any file of the user, and settings run programs and lead elsewhere: git reads
# neither files of settings nor .netrc, and finds no repository around the workspace. What the
# template sets in the environment counts.
export LC_ALL=C GIT_TERMINAL_PROMPT=0 GIT_ASKPASS=true GIT_LFS_SKIP_SMUDGE=1
export HOME=/dev/null XDG_CONFIG_HOME=/dev/null GIT_CONFIG_GLOBAL=/dev/null
export GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_DIR=/dev/null
export GIT_ALLOW_PROTOCOL="${url%%:*}"

# shellcheck disable=SC2154 # The trap assigns `code` itself.
trap 'code=$?; [ "$code" -eq 0 ] || rm -rf "$half"; rm -f .agent/refs .agent/said .agent/refused .agent/code; exit "$code"' EXIT
trap 'exit 143' TERM

# fail CODE: a full volume is reported as such. The pause lets the last output of git reach the log
# of the step.
fail() {
  sleep 0.3
  if cat .agent/said "$step"/log.* 2>/dev/null | grep -qE "$full"; then exit "$volume_full"; fi
  exit "$1"
}

tries=0 at_most=
can_retry() { [ "$tries" -lt "$max_retries" ] && grep -qE "$may_pass" .agent/said && ! grep -qE "$full" .agent/said; }
back_off() {
  echo "Trying again in $((1 << tries)) s."
  sleep $((1 << tries))
  tries=$((tries + 1))
}

# Sets `code`; the refs are in .agent/refs, the messages of git in .agent/said.
list_refs() {
  echo 0 >.agent/code
  { $at_most git ls-remote -- "$url" HEAD "refs/heads/$branch" "refs/tags/$branch" >.agent/refs || echo "$?" >.agent/code; } 2>&1 |
    head -c 65536 >.agent/said
  code=$(cat .agent/code)
}

mkdir -p .agent
version=$(git version)
version=${version#git version }
minor=${version#*.}
if [ -n "$ticket" ] && [ "${version%%.*}" -lt 3 ] && [ "${minor%%.*}" -lt 31 ]; then
  echo "For a private repository the sandbox needs git 2.31 or later. It has $version."
  ticket=
fi

# Git takes settings of its environment before those of all files, and they are in no argument and
# in no file. The settings of the sandbox itself come first.
had=${GIT_CONFIG_COUNT:-0}
setting() { # NAME VALUE
  eval "export GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=\$1 GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT=\$2"
  GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1))
}
use_gateway() {
  use_host
  setting "url.$gateway.insteadOf" "$url"
  setting "http.$gateway.extraHeader" "Authorization: Bearer $ticket"
  setting "http.$gateway.followRedirects" false
  # An empty proxy is none, whatever the environment has: a proxy would see the ticket.
  setting "http.$gateway.proxy" ''
  setting credential.helper ''
  export GIT_ALLOW_PROTOCOL="${gateway%%:*}:${url%%:*}"
}
use_host() {
  while [ "${GIT_CONFIG_COUNT:-0}" -gt "$had" ]; do
    GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT - 1))
    unset "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT" "GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT"
  done
  export GIT_CONFIG_COUNT="$had" GIT_ALLOW_PROTOCOL="${url%%:*}"
}

# A repository that everybody may read does not depend on the gateway. Sets `source`.
list_refs_anywhere() {
  source=host
  if [ -z "$ticket" ]; then
    list_refs
    return
  fi
  source=gateway
  use_gateway
  list_refs
  if [ "$code" -eq 0 ] || grep -q 'returned error: 403' .agent/said; then return; fi
  mv .agent/said .agent/refused
  source=host
  use_host
  list_refs
  if [ "$code" -ne 0 ] && ! grep -q "' not found\$" .agent/refused; then mv .agent/refused .agent/said; fi
}

# The settings are there before the tree is, so that a run that finds the tree finds them too.
leave_access() { # SOURCE
  [ -z "$access" ] || CLONE_SOURCE=$1 sh -c "$access" || fail "$clone_failed"
}
# Another conversation has prepared `project`, maybe with another repository, which this one may
# fetch too. One question shows whether it is private; without an answer that stays unknown.
if [ -e project/.git ]; then
  source=
  at_most='timeout 10'
  cloned=$($at_most git config --file project/.git/config remote.origin.url 2>/dev/null) || :
  if [ -n "$ticket" ] && [ "$cloned" != "$url" ]; then
    list_refs_anywhere
    [ "$code" -eq 0 ] || source=
    use_host
  fi
  leave_access "$source"
  exit 0
fi

list_refs_anywhere
while [ "$code" -ne 0 ] && can_retry; do
  cat .agent/said
  back_off
  list_refs_anywhere
done
if [ "$code" -ne 0 ]; then
  cat .agent/said
  if grep -qE "$no_access" .agent/said; then exit "$access_denied"; fi
  fail "$clone_failed"
fi
if [ -n "$branch" ]; then
  tr '\t' '\n' <.agent/refs | grep -Fqx -e "refs/heads/$branch" -e "refs/tags/$branch" || exit "$branch_not_found"
fi

# Git is watched by the size of its output: a repository can be far larger than its refs suggest,
# and so can its tree.
fits() {
  used=$(du -sk "$half" 2>/dev/null) || :
  used=${used%%[!0-9]*}
  [ "${used:-0}" -le "$max_kib" ]
}
watched() { # COMMAND...; sets `code`
  code=0
  "$@" &
  git=$!
  {
    # Also where the step is killed, this ends with git.
    while sleep 0.5 && kill -0 "$git"; do
      fits && continue
      : >"$half.large"
      kill "$git"
      exit
    done
  } >/dev/null 2>&1 &
  watch=$!
  wait "$git" || code=$?
  kill "$watch" 2>/dev/null || :
  if [ -e "$half.large" ] || ! fits; then
    rm -f "$half.large"
    exit "$too_large"
  fi
}

# A template may bring a bare repository, in its image or on a volume. The clone copies the objects
# of this mirror. The refs, and the objects that the mirror lacks, come from the git host.
mirror=${url#*://}
mirror=${GIT_MIRRORS:-/git-mirrors}/${mirror%.git}.git
objects() { find "$mirror/objects" -type f 2>/dev/null | sort; }
# A mirror that itself lacks objects is of no use, nor is one that would not fit.
is_usable() {
  [ -d "$mirror/objects" ] && ! [ -e "$mirror/shallow" ] && ! [ -e "$mirror/objects/info/alternates" ] || return 1
  case $(objects) in '' | *.promisor*) return 1 ;; esac
  kib=$(du -sk "$mirror/objects" 2>/dev/null) || :
  kib=${kib%%[!0-9]*}
  [ "${kib:-$max_kib}" -lt "$max_kib" ]
}
copy_objects() {
  cp -R "$mirror/objects/." "$half/tree/.git/objects/" && chmod -R u+w "$half/tree/.git/objects"
}
# Sets `code`. Where a repack of the mirror removes objects before they are copied, the list of
# files is another one afterwards.
clone_with_mirror() { # GIT_ARGUMENT...
  before=$(objects)
  watched git "$@" --reference "$mirror" -- "$url" "$half/tree"
  [ "$code" -eq 0 ] || return 0
  watched copy_objects
  [ "$code" -eq 0 ] || return 0
  if [ "$(objects)" != "$before" ]; then
    code=1
    return 0
  fi
  rm "$half/tree/.git/objects/info/alternates"
  : >"$half/mirrored"
  echo "The clone has the objects of $mirror."
}

set -- -c core.hooksPath=/dev/null -c core.fsmonitor=false clone --template= --progress --no-checkout
if [ -n "$branch" ]; then set -- "$@" --branch "$branch"; fi
clone() { # GIT_ARGUMENT...
  "use_$source"
  while :; do
    rm -rf "$half"
    mkdir -p "$half"
    code=1
    if [ -n "$mirror" ]; then clone_with_mirror "$@"; fi
    if [ "$code" -eq 0 ]; then break; fi
    rm -rf "$half/tree"
    mirror=
    watched git "$@" -- "$url" "$half/tree"
    if [ "$code" -eq 0 ]; then break; fi
    # The pause lets the last output of git reach the log of the step.
    sleep 0.3
    cat "$step"/log.* 2>/dev/null | tail -c 1000 >.agent/said
    can_retry || fail "$clone_failed"
    back_off
  done
  printf %s "$url $branch" >"$half/fetched.new"
  mv "$half/fetched.new" "$half/fetched"
}
# Sets `code`. The ticket is in no environment any more.
check_out() {
  use_host
  export GIT_DIR="$half/tree/.git" GIT_WORK_TREE="$half/tree"
  code=0
  if git rev-parse --quiet --verify 'HEAD^{commit}' >/dev/null 2>&1; then
    watched git -c core.hooksPath=/dev/null -c core.fsmonitor=false checkout --force --progress HEAD --
  elif git rev-parse --quiet --verify HEAD >/dev/null 2>&1; then
    code=1
  elif [ -s .agent/refs ]; then
    echo 'The branch that HEAD names does not exist. Nothing is checked out.'
  else
    echo 'The repository has no commits yet.'
  fi
  export GIT_DIR=/dev/null
  unset GIT_WORK_TREE
}

# The tree of a killed run is used again unless it has a setting that a clone does not write: an
# earlier conversation may have written it, and settings run programs.
own_settings='core\.(repositoryformatversion|filemode|bare|logallrefupdates|symlinks|ignorecase)'
own_settings="$own_settings|extensions\.objectformat|remote\.origin\.(url|fetch)|branch\..*\.(remote|merge)"
is_own_clone() {
  [ "$(cat "$half/fetched" 2>/dev/null)" = "$url $branch" ] && [ -d "$half/tree/.git" ] || return 1
  ! [ -L "$half/tree" ] && ! [ -L "$half/tree/.git" ] && ! [ -e "$half/tree/.git/commondir" ] || return 1
  settings=$(git config --file "$half/tree/.git/config" --name-only --list) || return 1
  ! printf '%s\n' "$settings" | grep -qvxE "$own_settings"
}

rm -f "$half.large"
if is_own_clone; then
  rm -rf "$half/tree/.git/index" "$half/tree/.git/"*.lock "$half/tree/.git/hooks"
else
  is_usable || mirror=
  clone "$@"
fi
check_out
if [ "$code" -ne 0 ] && [ -e "$half/mirrored" ]; then
  echo "The objects of the mirror are not complete. Cloning without it."
  mirror=
  clone "$@"
  check_out
fi
[ "$code" -eq 0 ] || fail "$clone_failed"
leave_access "$source"

# One rename moves the tree. The rename fails where `project` has content already, and the content
# that the agent has put there stays.
if ! mv -T "$half/tree" project 2>/dev/null && ! [ -e project/.git ]; then
  # The folder .git comes last, and by a rename: its presence says that the tree is complete.
  mv -T "$half/tree/.git" "$half/git"
  cp -an "$half/tree/." project/
  mv -T "$half/git" project/.git
fi
rm -rf "$half"
