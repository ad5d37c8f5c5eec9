#!/usr/bin/env bash
# Three node pools of a real Kubernetes, and a private registry. The nodes of one
# pool have no route to the registry. Those of another ask a nameserver that does
# not know it, and somebody wrote it into the hosts file of one. The third pool is
# well. The agent, the controller and fleet of examples/ have to say so, each time
# something is repaired, and must not call a pool proved that is not.
#
# Needs root: everything runs in network namespaces of its own, on this machine,
# and is gone afterwards. README.md says what it costs.
set -euo pipefail
cd "$(dirname "$0")/../.."

core=10.77.0.1 public=10.77.0.2 registry=10.78.0.10 token=10.78.0.11 blobs=10.78.0.12
ns=pullwalk # prefix of the namespaces

began=$SECONDS
say() { printf '\n%4ds  %s\n' $((SECONDS - began)) "$*"; }
show() { sed 's/^./       &/'; }
die() {
  echo "FAILED: $*" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || die "needs root: network namespaces, mounts, cgroups"
for program in runc ip unshare openssl mount; do
  command -v "$program" >/dev/null || die "no $program (apt-get install runc iproute2 util-linux openssl)"
done
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || die "this machine has cgroup v2, and only v1 was tried: see README.md"
! ip netns list | grep -q "^$ns-" || die "namespaces $ns-* are there: another run, or one that was killed"

say "building"
programs=$(test/kube/build.sh all)
work=$(mktemp -d /tmp/pullwalk-e2e.XXXXXX)

# ------------------------------------------------------------------ tidying up

declare -A pids=() # by what it is; nodes by their names
cgroups() { # NODE: controllers and directory, for each hierarchy
  local controllers path
  while IFS=: read -r _ controllers path; do
    controllers=${controllers#name=}
    [ -d "/sys/fs/cgroup/$controllers" ] && [ -n "$controllers" ] && echo "$controllers /sys/fs/cgroup/$controllers${path%/}/$ns-$1"
  done </proc/self/cgroup
}
stop() { # WHAT [SIGNAL]
  kill -s "${2:-TERM}" "${pids[$1]}" 2>/dev/null || true
  local rc=0
  { wait "${pids[$1]}"; } 2>/dev/null || rc=$? # not that bash tells of each
  unset "pids[$1]"
  return $rc
}
gone() { # NODE: what is left of it when its processes are
  local path
  ip netns del "$ns-$1"
  while read -r _ path; do
    for _ in $(seq 50); do
      find "$path" -depth -type d -exec rmdir {} + 2>/dev/null || true # not before the last process is gone
      [ -e "$path" ] || break
      sleep .1
    done
  done < <(cgroups "$1")
}
node_down() { # NODE
  stop "$1" KILL || true # unshare, by --kill-child the node's first process, and all others
  gone "$1"
}
cleanup() {
  local rc=$? what
  trap - EXIT
  set +e
  if [ $rc != 0 ] && [ -n "${PULLWALK_KEEP:-}" ]; then
    mkdir -p "$PULLWALK_KEEP"
    (cd "$work" && find . -type f -name '*.log' -exec cp --parents {} "$PULLWALK_KEEP" \;)
  fi
  for what in "${!pids[@]}"; do stop "$what" KILL; done
  for what in $(ip netns list | sed -n "s/^$ns-\([^ ]*\).*/\1/p"); do gone "$what"; done
  for _ in $(seq 50); do umount "$work" 2>/dev/null && break; sleep .1; done
  rmdir "$work"
  exit $rc
}
trap cleanup EXIT
trap 'exit 130' INT TERM
mount -t tmpfs -o mode=700 "$ns" "$work" # so nothing of it stays on a disk

in_core() { ip netns exec "$ns-core" "$@"; }
start() { # WHAT COMMAND... beside the nodes
  local what=$1
  shift
  ip netns exec "$ns-core" "$@" >"$work/$what.log" 2>&1 </dev/null &
  pids[$what]=$!
}
within() { # SECONDS WHAT COMMAND...
  local limit=$1 what=$2 until=$((SECONDS + $1))
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $until ] || die "not within $limit s: $what"
    sleep .3
  done
}
k() { in_core "$programs/kubectl" --kubeconfig "$work/admin" --request-timeout 20s "$@"; }

# --------------------------------------------------------------------- programs

export CGO_ENABLED=0
go build -trimpath -o "$work/" ./test/kube/lab ./test/kube/pause ./examples/agent
for example in controller fleet; do
  (cd "examples/$example" && go build -trimpath -o "$work/$example" .)
done
mkdir "$work/preload"
"$work/lab" image pullwalk.test/pause:1 "$work/pause" "$work/preload/pause.tar"
"$work/lab" image "$(sed -n 's/^ *image: *\([^ ]*\).*/\1/p' examples/agent/daemonset.yaml)" "$work/agent" "$work/preload/agent.tar"

# ---------------------------------------- network, registry, and the control plane

say "a private registry, two nameservers, a control plane"
ip netns add "$ns-core"
ip -n "$ns-core" link set lo up
# Its own hardware address: a bridge otherwise takes one of its ports', and a port
# that goes would change it.
ip -n "$ns-core" link add br0 address 02:00:0a:4d:00:01 type bridge
ip -n "$ns-core" link set br0 up
for address in $core/24 $public/24; do ip -n "$ns-core" addr add "$address" dev br0; done
for address in $registry $token $blobs; do ip -n "$ns-core" addr add "$address/32" dev lo; done

start lab "$work/lab" serve -registry $registry -token $token -blobs $blobs -dns $core -public-dns $public -app "$work/pause" -out "$work"
within 20 "the registry" test -s "$work/image"
image=$(cat "$work/image")

openssl genrsa -out "$work/accounts.key" 2048 2>/dev/null
certificate() { # FILE NAME SANS
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$2" -addext "subjectAltName=$3" \
    -keyout "$work/$1.key" -out "$work/$1.crt" 2>/dev/null
}
certificate api kube-apiserver "IP:$core,DNS:kubernetes.default.svc"
certificate tls pullwalk-agent DNS:pullwalk-agent
openssl rand -hex 32 >"$work/token"
identity() { # FILE USER [GROUP]: a kubeconfig with a token
  local secret
  secret=$(openssl rand -hex 16)
  echo "$secret,$2,$2${3:+,\"$3\"}" >>"$work/users.csv"
  cat >"$1" <<C
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: "https://$core:6443", certificate-authority-data: $(base64 -w0 "$work/api.crt")}}]
users: [{name: e2e, user: {token: $secret}}]
contexts: [{name: e2e, context: {cluster: e2e, user: e2e}}]
current-context: e2e
C
}
identity "$work/admin" admin system:masters
identity "$work/manager" system:kube-controller-manager system:masters
identity "$work/scheduler" system:kube-scheduler
for node in a1 b1 b2 b3 c1; do identity "$work/kubeconfig.$node" "system:node:$node" system:nodes; done

start etcd "$programs/etcd" --data-dir "$work/etcd" --unsafe-no-fsync
start apiserver "$programs/kube-apiserver" --etcd-servers http://127.0.0.1:2379 --bind-address $core \
  --tls-cert-file "$work/api.crt" --tls-private-key-file "$work/api.key" --token-auth-file "$work/users.csv" --cert-dir "$work/certs" \
  --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$work/accounts.key" --service-account-signing-key-file "$work/accounts.key" \
  --service-cluster-ip-range 10.96.0.0/24 --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction
within 120 "kube-apiserver" k get --raw /readyz
start manager "$programs/kube-controller-manager" --kubeconfig "$work/manager" --service-account-private-key-file "$work/accounts.key" \
  --root-ca-file "$work/api.crt" --leader-elect=false --bind-address 127.0.0.1 --cert-dir "$work/certs"
start scheduler "$programs/kube-scheduler" --kubeconfig "$work/scheduler" --leader-elect=false --bind-address 127.0.0.1 --cert-dir "$work/certs"
within 90 "the default service account" k get serviceaccount default

# ------------------------------------------------------------------------- nodes

node_up() { # NODE NUMBER NAMESERVER: a new node of the pool that its name begins with
  local node=$1 address=10.77.0.1$2 dir=$work/nodes/$1 controllers path known=()
  mkdir -p "$dir"/{programs,run,var/{lib,log,tmp},etc/{containerd,cni/net.d,kubernetes,ssl/certs}}
  ln -s ../run "$dir/var/run"
  ln -s "$work/preload" "$dir/var/preload"
  printf 'nameserver %s\noptions timeout:2 attempts:2\n' "$3" >"$dir/etc/resolv.conf"
  printf '127.0.0.1 localhost\n' >"$dir/etc/hosts"
  printf 'hosts: files dns\n' >"$dir/etc/nsswitch.conf"
  printf 'root:x:0:0:root:/root:/bin/sh\n' >"$dir/etc/passwd"
  printf 'root:x:0:\n' >"$dir/etc/group"
  cp "$work/ca.crt" "$dir/etc/ssl/certs/ca-certificates.crt"
  cp "$work/kubeconfig.$node" "$dir/etc/kubernetes/kubeconfig"
  cat >"$dir/etc/containerd/config.toml" <<C
version = 3
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd-opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "pullwalk.test/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true # not every root may lower it
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["$dir/programs"]
C
  cat >"$dir/etc/cni/net.d/10-pods.conflist" <<C
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.79.$2.0/24"}]]}}]}
C
  cat >"$dir/etc/kubernetes/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: "$work/api.crt"}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: /etc/resolv.conf
volumePluginDir: /var/lib/kubelet/volumeplugins
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
enforceNodeAllocatable: []
evictionHard: {memory.available: 50Mi}
imageGCHighThresholdPercent: 100
C
  ip netns add "$ns-$node"
  ip -n "$ns-$node" link set lo up
  ip -n "$ns-$node" link add eth0 type veth peer name "$node" netns "$ns-core"
  ip -n "$ns-core" link set "$node" master br0 up
  ip -n "$ns-$node" addr add "$address/24" dev eth0
  ip -n "$ns-$node" link set eth0 up
  route_to_registry "$node" add
  while read -r controllers path; do
    mkdir "$path"
    [ ! -e "$path/cpuset.cpus" ] || for file in cpuset.cpus cpuset.mems; do cat "${path%/*}/$file" >"$path/$file"; done
    known+=("$controllers")
  done < <(cgroups "$node")
  (
    while read -r _ path; do echo "$BASHPID" >"$path/cgroup.procs"; done < <(cgroups "$node")
    exec ip netns exec "$ns-$node" unshare --mount --uts --ipc --cgroup --pid --fork --kill-child \
      test/kube/node.sh "$dir" "$node" "$address" "${node%?}" "$programs" "${known[@]}"
  ) >"$work/$node.log" 2>&1 </dev/null &
  pids[$node]=$!
}
# As the network gives it: one that somebody added by hand proves nothing either.
route_to_registry() { ip -n "$ns-$1" route "$2" 10.78.0.0/24 via $core proto dhcp; } # NODE add|del
joined() { # NODE
  within 90 "node $1" k wait --for=condition=Ready --timeout=5s "node/$1"
  within 90 "the agent on $1" k -n pullwalk wait pod -l app.kubernetes.io/name=pullwalk-agent --field-selector "spec.nodeName=$1" --for=condition=Ready --timeout=5s
}
replaced() { # OLD NEW: as a pool does it
  node_down "$1"
  k delete node "$1" >/dev/null
  k delete pod -A --field-selector "spec.nodeName=$1" --force --grace-period=0 >/dev/null 2>&1
}

say "three nodes: a1 has no route to the registry, b1 asks a nameserver that does not know it, c1 is well"
k apply -f examples/agent/daemonset.yaml >/dev/null
k -n pullwalk create secret generic pullwalk-agent --from-file=tls.crt="$work/tls.crt" --from-file=tls.key="$work/tls.key" --from-file=token="$work/token" >/dev/null
node_up a1 1 $core
route_to_registry a1 del
node_up b1 2 $public
printf '%s registry.corp.test\n%s auth.corp.test\n%s blobs.corp.test\n' $registry $token $blobs >>"$work/nodes/b1/etc/hosts"
node_up c1 3 $core
for node in a1 b1 c1; do joined $node; done
k get nodes -L agentpool -o wide | cut -c1-110 | show

# ------------------------------------------------------------------- what is seen

say "a workload for every node: $image"
k create secret generic pull --type=kubernetes.io/dockerconfigjson --from-file=.dockerconfigjson="$work/pullsecret.json" >/dev/null
k apply -f - >/dev/null <<C
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: app}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      terminationGracePeriodSeconds: 0
      imagePullSecrets: [{name: pull}]
      containers: [{name: app, image: "$image"}]
C
on() { echo -l app=app --field-selector "spec.nodeName=$1"; } # the pod on a node
runs_on() { k wait pod $(on "$1") --for=condition=Ready --timeout=5s; }
waits_on() { k get pod $(on "$1") -o jsonpath='{.items[*].status.containerStatuses[*].state.waiting.message}' | grep -q "failed to pull"; }
# The three fields of the controller's condition.
said_on() { k get pod $(on "$1") -o jsonpath='{range .items[*].status.conditions[?(@.type=="pullwalk.dev/ImagePull")]}{.status} {.reason}: {.message}{"\n"}{end}'; }
says_on() { said_on "$1" | grep -q "^$2"; } # NODE BEGINNING

start controller env KUBECONFIG="$work/admin" "$work/controller" -agent-ca "$work/tls.crt" -token-file "$work/token" \
  -send-pull-secrets -metrics-address 127.0.0.1:8080 -health-address 0
fleet() { # EXPECTED-CODE: whether the workload's image is proved on every pool
  local rc=0
  in_core "$work/fleet" -kubeconfig "$work/admin" -agent-ca "$work/tls.crt" -agent-token-file "$work/token" -pull-secrets send \
    -n default -workload daemonset/app >"$work/fleet.out" 2>"$work/fleet.err" || rc=$?
  show <"$work/fleet.out"
  [ $rc = "$1" ] || die "fleet's exit code is $rc and not $1: $(cat "$work/fleet.err")"
}
pool() { grep -Eq "^  $1 +$2 " "$work/fleet.out" || die "pool $1 is not $2"; } # NAME STATE
told() { grep -qF "$1" "$work/fleet.out" || die "fleet does not say: $1"; }
in_pods() { k get pods -l app=app -o 'custom-columns=NODE:.spec.nodeName,READY:.status.containerStatuses[0].ready,KUBELET:.status.containerStatuses[0].state.waiting.message' | cut -c1-240 | fold -w 110 | show; }

for node in b1 c1; do within 90 "the pod on $node" runs_on $node; done
within 90 "a failed pull on a1" waits_on a1
in_pods

say "the controller: what is broken on a1, and whose it is"
within 120 "the route, and its owner, on a1's pod" says_on a1 'False RouteNetworkUnreachable: .* owner network: '
said_on a1 | fold -s -w 100 | show
for node in b1 c1; do [ -z "$(said_on $node)" ] || die "the pod on $node runs, and it is said: $(said_on $node)"; done

say "fleet: a failed, b is proved by no node that lasts, c is proved"
fleet 1
pool a failed
told "owner network: route.network-unreachable at registry.corp.test"
pool b hand-repaired
told "/etc/hosts:2: entry for registry.corp.test"
pool c proved

say "a1 gets its route. Every pod runs now, and the workload is still not proved"
route_to_registry a1 add
within 240 "the pod on a1" runs_on a1
within 60 "the controller to see it" says_on a1 True
said_on a1 | fold -s -w 100 | show
fleet 3
pool a proved
pool b hand-repaired
pool c proved

say "b1 is replaced, as nodes are: b2 has the pool's nameserver and no hosts entry"
replaced b1 b2
node_up b2 4 $public
joined b2
within 120 "the name, and its owner, on b2's pod" says_on b2 'False DnsNxdomain: .* owner dns: '
said_on b2 | fold -s -w 100 | show
fleet 1
pool a proved
pool b failed
told "owner dns: dns.nxdomain at registry.corp.test"
pool c proved

say "the pool gets the right nameserver, and a new node"
replaced b2 b3
node_up b3 5 $core
joined b3
within 90 "the pod on b3" runs_on b3
fleet 0
for name in a b c; do pool $name proved; done

# Passwords, tokens and signatures of the lab have these marks.
if grep -rlE 'reader-secret-for-tests|TOKEN-SECRET-MARK|SIGNATURE-SECRET-MARK' "$work"/{controller.log,fleet.out,fleet.err} "$work"/nodes/*/var/log/pods/pullwalk_* ||
  k get events,pods -A -o yaml | grep -E 'PullDiagnosed|pullwalk.dev' | grep -E 'SECRET-MARK|reader-secret'; then
  die "a secret was printed"
fi
stop controller || die "the controller ended badly: $(tail -3 "$work/controller.log")"
stop lab || die "$(cat "$work/lab.log")"
show <"$work/lab.log"
say "told"
