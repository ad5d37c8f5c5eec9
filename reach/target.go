package reach

import (
	"fmt"
	"net"
	"net/netip"
)

// cleanTarget returns target with an IPv4-mapped address unmapped, or an error
// that says why nothing can be connected there.
func cleanTarget(target netip.AddrPort) (netip.AddrPort, error) {
	addr, err := cleanAddr(target.Addr())
	if err != nil {
		return netip.AddrPort{}, err
	}
	if target.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("reach: target %v: port 0 cannot be connected to", target)
	}
	return netip.AddrPortFrom(addr, target.Port()), nil
}

// cleanAddr returns addr unmapped, or an error that says why it is no
// destination. Kernels answer such addresses with the errno of a refusing route
// (Linux says EINVAL, as for a blackhole), so they must never be asked.
func cleanAddr(addr netip.Addr) (netip.Addr, error) {
	if !addr.IsValid() {
		return netip.Addr{}, fmt.Errorf("reach: address: the zero netip.Addr is no address")
	}
	if addr.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("reach: address %v: zones are not supported", addr)
	}
	addr = addr.Unmap()
	switch {
	case addr.IsUnspecified():
		return netip.Addr{}, fmt.Errorf("reach: address %v: the unspecified address is no destination", addr)
	case addr.IsMulticast():
		return netip.Addr{}, fmt.Errorf("reach: address %v: TCP has no multicast destinations", addr)
	case addr.Is4() && addr.As4()[0] == 0:
		// RFC 1122, 3.2.1.3: "this network", never a destination.
		return netip.Addr{}, fmt.Errorf("reach: address %v: 0.0.0.0/8 holds no destinations", addr)
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return netip.Addr{}, fmt.Errorf("reach: address %v: TCP has no broadcast destinations", addr)
	case addr.Is6() && addr.IsLinkLocalUnicast():
		// RFC 4007, section 6: ambiguous without its interface.
		return netip.Addr{}, fmt.Errorf("reach: address %v: an IPv6 link-local address needs a zone, and zones are not supported", addr)
	}
	return addr, nil
}

// localAddr returns the own end of conn, zero if it is no IP address with port.
func localAddr(conn net.Conn) netip.AddrPort {
	local := conn.LocalAddr()
	if local == nil {
		return netip.AddrPort{}
	}
	var ap netip.AddrPort
	switch a := local.(type) {
	case *net.TCPAddr:
		ap = a.AddrPort()
	case *net.UDPAddr:
		ap = a.AddrPort()
	default:
		ap, _ = netip.ParseAddrPort(local.String()) // a caller's own kind of connection
	}
	if !ap.Addr().IsValid() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}
