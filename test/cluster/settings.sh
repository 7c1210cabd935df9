# Read by the other scripts of this folder: where files are, and how a failure is reported.
# shellcheck shell=bash disable=SC2034 # Each script uses some of the variables.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=${KUBERNETES_VERSION:-1.34.4}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/conversation-operator/cluster
state=${CLUSTER_STATE:-$cache/state}

# A change of a program or of the version gives another folder, so cached binaries are never stale.
bin=$cache/bin/$version-$(cat "$here/kube/main.go" "$here/pause/main.go" | sha256sum | cut -c1-8)
kube=$bin/kube
pause=$bin/pause

say() { echo "cluster: $*" >&2; }

# fail MESSAGE [LOG]: ends the script with the end of the log that explains it.
fail() {
  say "$1"
  if [ -s "${2:-}" ]; then
    say "the end of $2:"
    tail -n 20 "$2" >&2
  fi
  exit 1
}
