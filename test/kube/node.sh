#!/usr/bin/env bash
# The first process of a node of e2e.sh, in namespaces of its own. It gives itself
# the files of a node instead of this machine's, then runs containerd and the
# kubelet. Everything in the node ends with it.
#
#   node.sh DIR NAME ADDRESS POOL PROGRAMS [CGROUP...]
set -euo pipefail
dir=$1 name=$2 address=$3 pool=$4 programs=$5
shift 5
export PATH=$dir/programs:$PATH

mount --make-rshared / # what kubelet and runtime mount is seen by both
mount --bind "$programs" "$dir/programs" # they may be where the node gets other files
mount -t proc proc /proc # ip netns exec has mounted /sys
# A kubelet sets these, and they belong to the whole machine: it may write to copies.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  copy=$dir/sysctl.${setting//\//.}
  cat "/proc/sys/$setting" >"$copy"
  mount --bind "$copy" "/proc/sys/$setting"
done
mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
for controllers; do
  mkdir "/sys/fs/cgroup/$controllers"
  case $controllers in
  systemd) mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd ;;
  *) mount -t cgroup -o "$controllers" cgroup "/sys/fs/cgroup/$controllers" ;;
  esac
done
for tree in etc var run; do mount --bind "$dir/$tree" "/$tree"; done
hostname "$name"

containerd >/var/log/containerd.log 2>&1 &
until ctr version >/dev/null 2>&1; do sleep .1; done
for image in /var/preload/*.tar; do ctr -n k8s.io images import "$image" >/dev/null; done
kubelet --config /etc/kubernetes/kubelet.yaml --kubeconfig /etc/kubernetes/kubeconfig --hostname-override "$name" \
  --node-ip "$address" --node-labels "agentpool=$pool" >/var/log/kubelet.log 2>&1 &
wait
