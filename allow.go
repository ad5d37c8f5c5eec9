package pullwalk

import (
	"net/netip"

	"github.com/pullwalk/pullwalk/internal/registry"
)

// DenyPlatformAddrs is the default of Options.AllowAddr. It refuses link-local
// and multicast addresses, and those at which a cloud platform hands out
// credentials and settings: 168.63.129.16 except port 53, 100.100.100.200,
// fd00:ec2::254, fd20:ce::254 and fd00:c1::a9fe:a9fe. A registry that names such an address as its token server or
// blob host would otherwise make whoever runs a diagnosis ask it on the
// registry's behalf. Private ranges are allowed: they are the use case.
func DenyPlatformAddrs(ap netip.AddrPort) error { return registry.DenyPlatform(ap) }
