//go:build !linux

package reach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// canObserve: sockets cannot be looked at here as far as we need it.
const canObserve = false

// watch shows nothing on this system.
type watch struct{}

func newWatch() *watch { return &watch{} }

func (*watch) prepare(string, syscall.RawConn, socketOptions) error { return nil }

func (*watch) connected() tcpInfo { return tcpInfo{} }

func (*watch) failed() (tcpInfo, netip.AddrPort, *ICMP) { return tcpInfo{}, netip.AddrPort{}, nil }

func (*watch) close() {}

// run is never called here: [Checker.Trace] is refused and Check does not trace.
func (*Trace) run(context.Context, string) {}

// innerLink sees no kinds of interfaces here.
func innerLink(string) bool { return false }

// inNamespace calls do; there are no network namespaces to enter here.
func inNamespace(path string, do func() error) error {
	if path != "" {
		return &namespaceError{fmt.Errorf("%q: %w on this system", path, errors.ErrUnsupported)}
	}
	return do()
}

// place is this machine: there is only one.
type place struct{}

func here() place { return place{} }

func (place) path() string { return "" }
