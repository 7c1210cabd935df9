# Read by the other scripts of this folder: where files are, and how a failure is reported.
# shellcheck shell=bash disable=SC2034 # Each script uses some of the variables.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/conversation-operator/forge

# A change of the build gives another folder, so a cached forge is never stale.
built=$cache/$(cat "$here"/{build,main.go,go.mod,go.sum} | sha256sum | cut -c1-16)

say() { echo "forge: $*" >&2; }

# fail MESSAGE [LOG]: ends the script with the end of the log that explains it.
fail() {
  say "$1"
  if [ -s "${2:-}" ]; then
    say "the end of $2:"
    tail -n 20 "$2" >&2
  fi
  exit 1
}
