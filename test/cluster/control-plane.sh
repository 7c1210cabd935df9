# Read by up: etcd, kube-apiserver and kube-controller-manager. Needs no rights, and touches nothing
# outside $state.
# shellcheck shell=bash disable=SC2154 # The file `ports` assigns the numbers of ports.

case $family in
  6) services=fd00:96::/112 ;;
  46) services=10.96.0.0/16,fd00:96::/112 ;;
  *) services=10.96.0.0/16 ;;
esac

# free_ports COUNT: below the range that the kernel gives to outgoing connections, from a place that
# differs from one copy to the next.
free_ports() {
  local port=$((20000 + $(cksum <<<"$state" | cut -d' ' -f1) % 8000)) left=$1
  while [ "$left" -gt 0 ]; do
    port=$((port + 1))
    # A port is taken when a process answers.
    if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then continue; fi
    echo "$port"
    left=$((left - 1))
  done
}

# Chosen once: kubeconfigs that people have copied stay good over a restart.
choose_ports() {
  if [ ! -f ports ]; then
    local names=(etcd etcd_peer apiserver controller_manager scheduler kubelet kubelet_health proxy_health proxy_metrics)
    local usual=(2379 2380 6443 10257 10259 10250 10248 10256 10249)
    paste -d= <(printf 'port_%s\n' "${names[@]}") \
      <(if [ "${CLUSTER_PORTS:-}" = usual ]; then printf '%s\n' "${usual[@]}"; else free_ports ${#names[@]}; fi) >ports.new
    mv ports.new ports
  fi
  # shellcheck source=/dev/null
  source ./ports
}

key() { openssl ecparam -name prime256v1 -genkey -noout -out "pki/$1.key"; }

# issue NAME SUBJECT EXTENSION
issue() {
  [ -s "pki/$1.crt" ] && return
  key "$1"
  openssl req -new -key "pki/$1.key" -subj "$2" -out "pki/$1.csr"
  openssl x509 -req -in "pki/$1.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 3650 -extfile <(echo "$3") \
    -out "pki/$1.crt.new" 2>>logs/openssl.log
  mv "pki/$1.crt.new" "pki/$1.crt"
}

# kubeconfig USER SUBJECT: writes USER.kubeconfig, which holds all it needs, so it can be copied
# away.
kubeconfig() {
  issue "$1" "$2" extendedKeyUsage=clientAuth
  cat >"$1.kubeconfig.new" <<YAML
apiVersion: v1
kind: Config
clusters:
  - name: test
    cluster:
      server: https://127.0.0.1:$port_apiserver
      certificate-authority-data: $(base64 -w0 pki/ca.crt)
users:
  - name: $1
    user:
      client-certificate-data: $(base64 -w0 "pki/$1.crt")
      client-key-data: $(base64 -w0 "pki/$1.key")
contexts:
  - name: test
    context: { cluster: test, user: $1 }
current-context: test
YAML
  chmod 600 "$1.kubeconfig.new"
  mv "$1.kubeconfig.new" "$1.kubeconfig"
}

kubectl() { "$kube" kubectl --kubeconfig "$state/admin.kubeconfig" "$@"; }

# control_plane ADDRESS: where the API server listens, beside loopback, so that pods can reach it.
control_plane() {
  local address=$1 bind=0.0.0.0
  if [ "$family" != 4 ]; then bind=::; fi
  if [ "$address" = 127.0.0.1 ]; then bind=$address; fi
  if [ ! -s pki/ca.crt ]; then
    key ca
    openssl req -x509 -new -key pki/ca.key -days 3650 -subj /CN=test-cluster -out pki/ca.crt.new 2>>logs/openssl.log
    key sa
    openssl ec -in pki/sa.key -pubout -out pki/sa.pub 2>>logs/openssl.log
    mv pki/ca.crt.new pki/ca.crt
  fi
  local hosts=DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc
  issue apiserver /CN=kube-apiserver "subjectAltName=$hosts,IP:127.0.0.1,IP:10.96.0.1,IP:fd00:96::1,IP:$address"
  kubeconfig admin /O=system:masters/CN=admin
  kubeconfig controller-manager /CN=system:kube-controller-manager

  # Without fsync: what it holds is worth nothing after a crash of the machine.
  start etcd "$kube" etcd --data-dir "$state/etcd" --unsafe-no-fsync --log-level warn \
    --listen-client-urls "http://127.0.0.1:$port_etcd" --advertise-client-urls "http://127.0.0.1:$port_etcd" \
    --listen-peer-urls "http://127.0.0.1:$port_etcd_peer" --initial-advertise-peer-urls "http://127.0.0.1:$port_etcd_peer" \
    --initial-cluster "default=http://127.0.0.1:$port_etcd_peer"
  start apiserver "$kube" kube-apiserver --etcd-servers "http://127.0.0.1:$port_etcd" --allow-privileged \
    --bind-address "$bind" --advertise-address "$address" --secure-port "$port_apiserver" \
    --tls-cert-file "$state/pki/apiserver.crt" --tls-private-key-file "$state/pki/apiserver.key" --client-ca-file "$state/pki/ca.crt" \
    --service-account-key-file "$state/pki/sa.pub" --service-account-signing-key-file "$state/pki/sa.key" \
    --service-account-issuer https://kubernetes.default.svc --service-cluster-ip-range "$services" --authorization-mode Node,RBAC \
    --kubelet-client-certificate "$state/pki/admin.crt" --kubelet-client-key "$state/pki/admin.key" \
    --kubelet-preferred-address-types InternalIP
  await apiserver 60 "the API server is ready" kubectl get --raw /readyz
  # Only now: it ends when it may not read what it needs, and its rights are written by the API
  # server. After an outage of the API server it may take 40 s until it asks again; by its default
  # of 50 s it would give up the only node then, whose lease it has not seen renewed.
  start controller-manager "$kube" kube-controller-manager --kubeconfig "$state/controller-manager.kubeconfig" \
    --authentication-kubeconfig "$state/controller-manager.kubeconfig" --authorization-kubeconfig "$state/controller-manager.kubeconfig" \
    --bind-address 127.0.0.1 --secure-port "$port_controller_manager" --leader-elect=false --use-service-account-credentials \
    --node-monitor-grace-period 80s \
    --service-account-private-key-file "$state/pki/sa.key" --root-ca-file "$state/pki/ca.crt" \
    --cluster-signing-cert-file "$state/pki/ca.crt" --cluster-signing-key-file "$state/pki/ca.key" --enable-hostpath-provisioner
  # The sign that its controllers work; no pod can be created before.
  await controller-manager 60 "the default service account exists" kubectl get serviceaccount default
}
