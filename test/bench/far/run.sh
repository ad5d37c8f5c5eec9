#!/usr/bin/env bash
# A healthy Touch against a real containerd's pull of the same image into an empty
# store, 50 ms away from registry, token server and blob host, each with TLS; once
# with the nameserver on the node and once as far away. A program in user space
# carries the packets, since not every kernel has netem: any with TUN devices will
# do. What is compared, and when it ends with 1, stands in main.go.
#
#   CONTAINERD=PROGRAM CRICTL=PROGRAM run.sh [-rounds 5] [-rtt 50ms] [-steps]
#
# It needs root, or a kernel that lets users make namespaces; nothing outside these
# namespaces changes.
set -euo pipefail
here=$(dirname "$0")
if [ ! -x "${CONTAINERD:-}" ] || [ ! -x "${CRICTL:-}" ]; then
  cat <<'END'
skipped: CONTAINERD (2.0 or later) and CRICTL must name programs. To build them in DIR:
  (cd test/kube/modules/containerd && go build -o DIR github.com/containerd/containerd/v2/cmd/containerd)
  GOBIN=DIR go install sigs.k8s.io/cri-tools/cmd/crictl@v1.37.0
END
  exit 0
fi
[ -r /dev/net/tun ] && [ -w /dev/net/tun ] || { echo "skipped: no /dev/net/tun, or not for this user"; exit 0; }
own=(unshare --net --mount --pid --fork --kill-child --mount-proc)
[ "$(id -u)" = 0 ] || own+=(--user --map-root-user)
"${own[@]}" true 2>/dev/null || { echo "skipped: no namespaces of its own for ${own[*]}"; exit 0; }
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
CGO_ENABLED=0 go build -C "$here" -o "$bin/far" .
"${own[@]}" "$bin/far" -containerd "$(realpath "$CONTAINERD")" -crictl "$(realpath "$CRICTL")" "$@"
