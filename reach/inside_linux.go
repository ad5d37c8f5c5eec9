package reach

import (
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// innerLink reports whether an interface is a bridge to which nothing but ends
// of virtual links are attached, or a dummy: what is sent there stays on this
// machine. It reads the list of interfaces only if the interface is a bridge.
func innerLink(name string) bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name) // ethtool(8) -i
	if err != nil {
		return false
	}
	switch unix.ByteSliceToString(info.Driver[:]) {
	case "dummy":
		return true
	case "bridge":
		return onlyVirtualPorts(name)
	}
	return false
}

// onlyVirtualPorts reports whether no port of a bridge leads out of this machine.
func onlyVirtualPorts(name string) bool {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return false
	}
	defer handle.Close()
	if err := handle.SetSocketTimeout(time.Second); err != nil {
		return false
	}
	links, err := handle.LinkList()
	if err != nil {
		return false
	}
	index := 0
	for _, l := range links {
		if l.Attrs().Name == name {
			index = l.Attrs().Index
		}
	}
	for _, l := range links {
		if l.Attrs().MasterIndex != index {
			continue
		}
		switch l.Type() {
		case "veth", "tuntap", "tun", "dummy":
		default:
			return false
		}
	}
	return index > 0
}
