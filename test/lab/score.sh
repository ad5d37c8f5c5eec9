#!/usr/bin/env bash
# score.sh LAB [FAULT...]: holds the verdict of examples/probe against a real network
# that is broken in known ways, and against what a real runtime with an empty store
# then does.
#
# LAB is a directory with two programs: `lab`, which builds and breaks a network of
# namespaces (registry, token server, blob hosts, nameserver, proxy, a node with
# containerd), and `score`, which applies each fault, runs the probe in the node's
# place and the pull after it, and prints a line per fault and the totals. Without
# FAULT all are scored. Needs root. LAB_STATE keeps the network, the programs and
# each document; "" = a new directory, removed afterwards. LAB_NO_PULL=1 compares
# with recorded pulls instead.
set -euo pipefail
lab=$(cd "${1:?usage: score.sh LAB [FAULT...]}" && pwd); shift
cd "$(dirname "$0")/../.."
if [ -z "${LAB_STATE:-}" ]; then
  LAB_STATE=$(mktemp -d -t pwXXXX) # short: unix sockets lie below it
  trap '"$lab/lab" down >/dev/null 2>&1 || true; rm -rf "$LAB_STATE"' EXIT
fi
export LAB_STATE
mkdir -p "$LAB_STATE"
CGO_ENABLED=0 go build -trimpath -o "$LAB_STATE/probe" ./examples/probe
ip netns list 2>/dev/null | grep -q "^${LAB_PREFIX:-plab}-node" || "$lab/lab" up
[ $# -gt 0 ] || set -- all
"$lab/score" "$LAB_STATE/probe" "$@"
