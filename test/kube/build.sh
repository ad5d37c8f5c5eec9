#!/usr/bin/env bash
# Builds a Kubernetes out of the Go module proxy; nothing comes from a release page.
#
#   build.sh control   etcd and kube-apiserver: enough for tests against the API
#   build.sh all       and scheduler, controller-manager, kubelet, kubectl,
#                      containerd, CNI plugins: enough for nodes, with a runc in PATH
#
# The last line of its output, the only one on stdout, is the directory with the
# programs: $PULLWALK_KUBE, or pullwalk/kube in the user's cache. A program that is
# there in its version is not built again. The versions stand in modules/*/go.mod.
set -euo pipefail
modules=$(cd "$(dirname "$0")/modules" && pwd)
out=${PULLWALK_KUBE:-${XDG_CACHE_HOME:-$HOME/.cache}/pullwalk/kube}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# As the tests of examples/controller and examples/fleet are built, so that one
# build cache serves both; modules/k8s asks for the same golang.org/x for that.
export CGO_ENABLED=0 GOFLAGS='-trimpath -buildvcs=false'

build() { # MODULE LDFLAGS PACKAGE...
  local dir=$modules/$1 ldflags=$2 package program version wanted=() t0=$SECONDS
  shift 2
  for package; do
    program=$out/${package##*/}
    [ "$package" = go.etcd.io/etcd/server/v3 ] && program=$out/etcd
    version=$(cd "$dir" && go list -f '{{with .Module}}{{.Path}}{{"\t"}}{{.Version}}{{end}}' "$package")
    # What the program says of itself; one that was not written to its end says nothing.
    go version -m "$program" 2>/dev/null | grep -qF $'\tmod\t'"$version"$'\t' || wanted+=("$program=$package")
  done
  for package in "${wanted[@]}"; do
    (cd "$dir" && go build -ldflags "-s -w $ldflags" -o "${package%%=*}" "${package#*=}")
    echo "built ${package#*=}, $((SECONDS - t0)) s" >&2
  done
}
k8s() { # PROGRAM...
  local version minor at=k8s.io/component-base/version
  version=$(cd "$modules/k8s" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${version#v1.}
  # A kubelet and its server compare these.
  build k8s "-X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=${minor%%.*} -X k8s.io/client-go/pkg/version.gitVersion=$version" "${@/#/k8s.io/kubernetes/cmd/}"
}

case ${1:-} in
control | all)
  build etcd "" go.etcd.io/etcd/server/v3
  k8s kube-apiserver
  ;;
*)
  sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
  exit 2
  ;;
esac
if [ "$1" = all ]; then
  k8s kube-scheduler kube-controller-manager kubelet kubectl
  version=$(cd "$modules/containerd" && go list -m -f '{{.Version}}' github.com/containerd/containerd/v2)
  build containerd "-X github.com/containerd/containerd/v2/version.Version=$version" \
    github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}
  build cni "" github.com/containernetworking/plugins/plugins/{main/ptp,main/loopback,ipam/host-local}
fi
echo "$out"
