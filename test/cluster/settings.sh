# Read by the other scripts of this folder: where files are, and how a failure is reported.
# shellcheck shell=bash disable=SC2034 # Each script uses some of the variables.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=${KUBERNETES_VERSION:-1.34.4}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/conversation-operator/cluster
state=${CLUSTER_STATE:-$cache/state}
# For clusters unlike the usual. `down` needs the same network namespace and cgroup as `up`.
# CLUSTER_FAMILY   the address family of the node, pods and Services: 4, 6, or 46 (both; IPv4 first)
# CLUSTER_NETNS    the network namespace of the node, by its name for `ip netns`: a bridge, nftables
#                  and ports of its own
# CLUSTER_PORTS    usual: the ports that Kubernetes' documentation names, such as 6443, which are
#                  free in a network namespace
# CLUSTER_DNS      the address at which pods resolve names of the cluster
# CLUSTER_CGROUP   the cgroup that holds those of the pods. A kubelet removes what it does not know,
#                  so two kubelets of a machine need different ones
family=${CLUSTER_FAMILY:-4}
netns=${CLUSTER_NETNS:-}
dns=${CLUSTER_DNS:-}
cgroup=${CLUSTER_CGROUP:-}

# A change of a program or of the version gives another folder, so cached binaries are never stale.
bin=$cache/bin/$version-$(cat "$here/kube/main.go" "$here/pause/main.go" | sha256sum | cut -c1-8)
kube=$bin/kube
pause=$bin/pause

# enter_network: continues this script in the network namespace of the node.
enter_network() {
  [ -n "$netns" ] || return 0
  [ "$(stat -Lc %i /proc/self/ns/net)" != "$(stat -Lc %i "/run/netns/$netns")" ] || return 0
  exec nsenter "--net=/run/netns/$netns" "$0" "$@"
}

# cgroup_folders: the cgroup of all pods in each hierarchy.
cgroup_folders() {
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo "/sys/fs/cgroup$cgroup"
  else
    printf "%s$cgroup\n" /sys/fs/cgroup/*
  fi
}

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
