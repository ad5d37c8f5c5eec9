package registry

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/pullwalk/pullwalk/classify"
)

// DeniedError says that an address is not contacted: nothing was seen of it, so it proves
// nothing about the target.
type DeniedError struct {
	Addr netip.AddrPort
	Err  error // why
}

func (e *DeniedError) Error() string { return fmt.Sprintf("%v is not contacted: %v", e.Addr, e.Err) }

// Unwrap returns the reason.
func (e *DeniedError) Unwrap() error { return e.Err }

// ErrProxyScheme says that a proxy is configured in a way that no runtime speaks, so that
// nothing was asked.
var ErrProxyScheme = errors.New("no runtime speaks this scheme to a proxy")

// UnreachedError says that a host was not reached or not trusted, in the words of the probe
// that looked. It makes no request fail by itself: see Findings.
type UnreachedError struct {
	Findings     []classify.Finding
	Inconclusive string // why the probe decided nothing; "" = it did
}

func (e *UnreachedError) Error() string {
	if len(e.Findings) > 0 {
		return e.Findings[0].Error()
	}
	return e.Inconclusive
}

var (
	errLinkLocal = errors.New("it is link-local")
	errPlatform  = errors.New("it is a cloud platform's own address")

	azurePlatform   = netip.MustParseAddr("168.63.129.16")   // wire server and resolver of Azure
	alibabaMetadata = netip.MustParseAddr("100.100.100.200") // metadata service of Alibaba Cloud
	// The IPv6 addresses of metadata services whose IPv4 address is link-local.
	awsMetadata6    = netip.MustParseAddr("fd00:ec2::254")
	googleMetadata6 = netip.MustParseAddr("fd20:ce::254")
	oracleMetadata6 = netip.MustParseAddr("fd00:c1::a9fe:a9fe")
)

// DenyPlatform refuses the addresses at which a cloud platform hands out credentials and
// settings, and all that is link-local or multicast. A registry that names such an address
// as its token server or blob host would otherwise make whoever runs a diagnosis ask it on
// the registry's behalf. Private ranges are allowed: they are the use case.
func DenyPlatform(ap netip.AddrPort) error {
	switch addr := embedded(ap.Addr().Unmap().WithZone("")); {
	case addr.IsLinkLocalUnicast(), addr.IsMulticast():
		return errLinkLocal
	case addr == azurePlatform && ap.Port() != 53, addr == alibabaMetadata, addr == awsMetadata6, addr == googleMetadata6, addr == oracleMetadata6:
		return errPlatform
	}
	return nil
}

// nat64 is the well-known prefix behind which a translator reaches IPv4 addresses (RFC
// 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// embedded returns the IPv4 address that an IPv6 address stands for.
func embedded(addr netip.Addr) netip.Addr {
	if !nat64.Contains(addr) {
		return addr
	}
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// Guard makes allow the ControlContext of a [net.Dialer], which sees the address itself,
// after any name was resolved. A refusal is a [*DeniedError].
func Guard(allow func(netip.AddrPort) error) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if err := allow(ap); err != nil {
			return &DeniedError{Addr: ap, Err: err}
		}
		return nil
	}
}
