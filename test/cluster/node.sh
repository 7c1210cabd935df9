# Read by up: what makes pods run on this machine (scheduler, containerd, kubelet, kube-proxy).
# Needs root; pods share the kernel's bridge, nftables table and cgroups with everything else, so
# `down` removes them again.
# The files `network` and `ports` assign the names and numbers of this machine.
# shellcheck shell=bash disable=SC2154

packages=(containerd runc containernetworking-plugins iproute2 iptables nftables conntrack)

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  # policy-rc.d: the packages' own services are not wanted, this folder starts its own.
  local policy=/usr/sbin/policy-rc.d ours=
  if [ ! -e "$policy" ]; then
    ours=1
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
  fi
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"; } \
    >logs/apt.log 2>&1 || missing=(failed)
  if [ -n "$ours" ]; then rm -f "$policy"; fi
  [ "${missing[0]}" != failed ] || fail "the packages can't be installed" "$state/logs/apt.log"
}

# Chosen once: a bridge of its own, and a network that no route of this machine knows.
choose_network() {
  if [ ! -f network ]; then
    local number=88
    while ip route show | grep -q "^10\.$number\."; do number=$((number + 1)); done
    printf 'bridge=pods%s\npods=10.%s\n' "$number" "$number" >network.new
    mv network.new network
  fi
  # shellcheck source=/dev/null
  source ./network
  local v4=$pods.0.0/16 v6=fd00:${pods#10.}::/64 node_v6=fd00:${pods#10.}::1
  case $family in
    4) ranges=("$v4") addresses=("$pods.0.1") ;;
    6) ranges=("$v6") addresses=("$node_v6") ;;
    46) ranges=("$v4" "$v6") addresses=("$pods.0.1" "$node_v6") ;;
    *) fail "CLUSTER_FAMILY is $family; allowed are 4, 6 and 46" ;;
  esac
}

# joined SEPARATOR ITEM...
joined() {
  local IFS=$1
  shift
  echo "$*"
}

# The image that holds a pod's namespaces. containerd loads archives, so one is written: a layer,
# its description, a list.
pause_image() {
  local image=localhost/pause:1 work layer
  if containers images ls -q | grep -qx "$image"; then return; fi
  work=$(mktemp -d "$state/pause.XXXXXX")
  mkdir "$work/root" "$work/image"
  cp "$pause" "$work/root/pause"
  tar -C "$work/root" --owner=0 --group=0 -cf "$work/image/layer.tar" pause
  layer=$(sha256sum "$work/image/layer.tar" | cut -d' ' -f1)
  cat >"$work/image/config.json" <<JSON
{"architecture": "$(go_architecture)", "os": "linux", "config": {"Entrypoint": ["/pause"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:$layer"]}}
JSON
  echo "[{\"Config\": \"config.json\", \"RepoTags\": [\"$image\"], \"Layers\": [\"layer.tar\"]}]" >"$work/image/manifest.json"
  tar -C "$work/image" -cf "$work/pause.tar" manifest.json config.json layer.tar
  containers images import "$work/pause.tar" >>logs/images.log 2>&1 || fail "the pause image can't be loaded" "$state/logs/images.log"
  rm -rf "$work"
}

go_architecture() { case $(uname -m) in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) uname -m ;; esac; }

containers() { ctr -a "$state/containerd.sock" -n k8s.io "$@"; }

node() {
  local all=() listen=() subnets
  if ! running proxy && nft list table ip kube-proxy >/dev/null 2>&1; then
    fail "another Kubernetes node runs on this machine: its kube-proxy and this one's would fight over one table"
  fi
  mkdir -p cni containerd podlogs
  if [ -n "$cgroup" ]; then cgroup_folders | xargs mkdir -p; fi
  if [ "$family" != 6 ]; then all+=('{"dst": "0.0.0.0/0"}'); fi
  if [ "$family" != 4 ]; then
    all+=('{"dst": "::/0"}')
    listen=(--address ::)
  fi
  subnets=$(printf '[{"subnet": "%s"}]\n' "${ranges[@]}" | paste -sd ,)
  kubeconfig scheduler /CN=system:kube-scheduler
  kubeconfig proxy /CN=system:kube-proxy
  kubeconfig node /O=system:nodes/CN=system:node:node1

  # restrict_oom_score_adj: without it no pod starts where even root may not lower that score
  # (containers, some VMs).
  cat >containerd.toml <<TOML
version = 2
root = "$state/containerd/root"
state = "$state/containerd/state"
[grpc]
  address = "$state/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$state/cni"
TOML
  cat >cni/10-pods.conflist <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "$bridge", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$state/cni/addresses", "ranges": [$subnets], "routes": [$(joined , "${all[@]}")]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
  cat >kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
port: $port_kubelet
healthzPort: $port_kubelet_health
authentication: { anonymous: { enabled: false }, webhook: { enabled: true }, x509: { clientCAFile: $state/pki/ca.crt } }
authorization: { mode: Webhook }
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
containerRuntimeEndpoint: unix://$state/containerd.sock
podLogsDir: $state/podlogs
# Renewed every 2 s: see the controller-manager's --node-monitor-grace-period.
nodeLeaseDurationSeconds: 8
evictionHard: { memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1% }
YAML
  sysctl -qw net.ipv4.ip_forward=1
  if [ "$family" != 4 ]; then sysctl -qw net.ipv6.conf.all.forwarding=1; fi
  start scheduler "$kube" kube-scheduler --kubeconfig "$state/scheduler.kubeconfig" --leader-elect=false \
    --authentication-kubeconfig "$state/scheduler.kubeconfig" --authorization-kubeconfig "$state/scheduler.kubeconfig" \
    --bind-address 127.0.0.1 --secure-port "$port_scheduler"
  start containerd containerd -c "$state/containerd.toml"
  await containerd 30 "containerd answers" containers version
  pause_image
  start kubelet "$kube" kubelet --kubeconfig "$state/node.kubeconfig" --config "$state/kubelet.yaml" --root-dir "$state/kubelet" \
    --cert-dir "$state/kubelet-pki" --hostname-override node1 \
    --node-ip "$(joined , "${addresses[@]}")" ${dns:+--cluster-dns "$dns" --cluster-domain cluster.local} ${cgroup:+--cgroup-root "$cgroup"} "${listen[@]}"
  start proxy "$kube" kube-proxy --kubeconfig "$state/proxy.kubeconfig" --proxy-mode nftables --cluster-cidr "$(joined , "${ranges[@]}")" \
    --hostname-override node1 --conntrack-max-per-core 0 --healthz-bind-address "127.0.0.1:$port_proxy_health" \
    --metrics-bind-address "127.0.0.1:$port_proxy_metrics"
  # The provisioner of the controller-manager makes folders that only root may write to; those of a
  # real cluster heed fsGroup.
  start volumes bash -c 'while sleep 0.5; do find /tmp/hostpath_pv -mindepth 1 -maxdepth 1 -perm 0750 -exec chmod 0777 {} + 2>/dev/null; done' \
    "volumes of $state"
  kubectl apply -f - >/dev/null <<YAML
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: { name: standard, annotations: { storageclass.kubernetes.io/is-default-class: "true" } }
provisioner: kubernetes.io/host-path
# As the classes of most clusters. With the other mode, a scheduler that reads its cache before the
# claim is bound there leaves the pod until something else changes, or for five minutes
# (kubernetes/kubernetes#73216).
volumeBindingMode: WaitForFirstConsumer
YAML
  await kubelet 60 "the node is registered" kubectl get node node1
  await kubelet 90 "the node is ready" kubectl wait --for=condition=Ready node/node1 --timeout=1s
}

# The bridge comes before the kubelet and the API server: both want the node's address to exist.
make_bridge() {
  if ip link show "$bridge" >/dev/null 2>&1; then return; fi
  # A bridge without an address of its own takes the lowest of its ports', another one as pods come.
  # Pods of IPv6 keep the former one as their neighbour's, and the node drops what they send there:
  # probes of the kubelet fail, and connections to the API server by the address of the node.
  ip link add "$bridge" address 02:00:00:00:00:01 type bridge
  local i
  for i in "${!addresses[@]}"; do
    # nodad: the address serves at once.
    if [[ ${addresses[i]} = *:* ]]; then set -- nodad; else set --; fi
    ip addr add "${addresses[i]}/${ranges[i]#*/}" dev "$bridge" "$@"
  done
  # A bridge with multicast snooping keeps IPv6 neighbour solicitations from ports that have not
  # joined the group yet, so that a new pod may be unreachable for 45 s.
  if [ "$family" != 4 ]; then ip link set "$bridge" type bridge mcast_snooping 0; fi
  ip link set "$bridge" up
}
