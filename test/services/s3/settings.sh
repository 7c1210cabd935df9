# Read by the other scripts of this folder: where files are, and how a failure is reported.
# shellcheck shell=bash disable=SC2034 # Each script uses some of the variables.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/conversation-operator/test-services
module=github.com/versity/versitygw/cmd/versitygw
version=v1.8.0

# A change of the build gives another program, so a cached one is never stale.
program=$cache/versitygw-$version-$(sha256sum <"$here/build" | cut -c1-8)

say() { echo "s3: $*" >&2; }

# fail MESSAGE [LOG]: ends the script with the end of the log that explains it.
fail() {
  say "$1"
  if [ -s "${2:-}" ]; then
    say "the end of $2:"
    tail -n 20 "$2" >&2
  fi
  exit 1
}

# Whether the process of the file `pid` in the current folder is the server of that folder, and not
# another one that has its id by now.
running() {
  [ -f pid ] && grep -qzxF "$PWD/data" "/proc/$(<pid)/cmdline" 2>/dev/null
}
