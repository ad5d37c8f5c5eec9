//go:build unix

package classify_test

import (
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/classify"
)

// TestErrorOfErrnos pins what each number means during a connect and after it.
// The errors have the types of package net; only the kernel's part is given.
func TestErrorOfErrnos(t *testing.T) {
	v4 := &net.TCPAddr{IP: net.IPv4(10, 20, 0, 4), Port: 443}
	v6 := &net.TCPAddr{IP: net.ParseIP("2001:db8::4"), Port: 443}
	for _, c := range []struct {
		op   string
		addr *net.TCPAddr
		no   syscall.Errno
		want classify.Cause
	}{
		{"dial", v4, syscall.ECONNREFUSED, classify.EndpointConnectionRefused},
		{"dial", v4, syscall.ENETUNREACH, classify.RouteNetworkUnreachable},
		{"dial", v6, syscall.ENETUNREACH, classify.RouteIPv6Unreachable},
		{"dial", v6, syscall.EADDRNOTAVAIL, classify.RouteIPv6Unreachable},
		{"dial", v4, syscall.EADDRNOTAVAIL, classify.NodeLocalLimit},
		{"dial", v4, syscall.EHOSTUNREACH, classify.RouteNoRouteToHost},
		{"dial", v6, syscall.EHOSTUNREACH, classify.RouteNoRouteToHost},
		{"dial", v4, syscall.EACCES, classify.RouteProhibited},
		{"dial", v4, syscall.EPERM, classify.RouteProhibited},
		{"dial", v4, syscall.EINVAL, classify.RouteBlackhole},
		{"dial", v4, syscall.ETIMEDOUT, classify.RouteConnectTimeout},
		{"dial", v4, syscall.EMFILE, classify.NodeLocalLimit},
		{"dial", v4, syscall.ENOBUFS, classify.NodeLocalLimit},
		{"dial", v4, syscall.ECONNRESET, classify.EndpointConnectionReset},
		{"read", v4, syscall.ECONNRESET, classify.EndpointConnectionReset},
		{"write", v4, syscall.EPIPE, classify.EndpointConnectionReset},
		{"read", v4, syscall.ETIMEDOUT, classify.EndpointReadTimeout},
		{"read", v4, syscall.EHOSTUNREACH, classify.RouteNoRouteToHost},
	} {
		call := map[string]string{"dial": "connect", "read": "read", "write": "write"}[c.op]
		op := &net.OpError{Op: c.op, Net: "tcp", Addr: c.addr, Err: os.NewSyscallError(call, c.no)}
		if c.op != "dial" {
			op.Source = &net.TCPAddr{IP: net.IPv4(10, 20, 0, 9), Port: 40000}
		}
		err := &url.Error{Op: "Head", URL: "https://registry.corp.test/v2/team/app/manifests/v1", Err: op}
		f := classify.Error(err)
		assert.Equal(t, c.want, f.Cause, "%v", err)
		assert.Equal(t, c.addr.String(), f.Fact(classify.FactAddress))
		assert.NotEmpty(t, f.Fact(classify.FactErrno))
		assert.Equal(t, classify.OperationResolveManifest, f.Operation)
		assert.Equal(t, "registry.corp.test", f.Endpoint)
		if c.no != syscall.EMFILE {
			sameFault(t, err, f)
		}
	}
}

// TestErrorOfErrnosByStage pins that the stage moves a number to its layer.
func TestErrorOfErrnosByStage(t *testing.T) {
	for _, c := range []struct {
		stage classify.Stage
		op    string
		no    syscall.Errno
		want  classify.Cause
	}{
		{classify.StageLookup, "read", syscall.ECONNREFUSED, classify.DNSResolverPortClosed},
		{classify.StageLookup, "dial", syscall.ENETUNREACH, classify.DNSResolverUnreachable},
		{classify.StageLookup, "read", syscall.EHOSTUNREACH, classify.DNSResolverUnreachable},
		{classify.StageLookup, "dial", syscall.ETIMEDOUT, classify.DNSResolverTimeout},
		{classify.StageProxyConnect, "dial", syscall.ECONNREFUSED, classify.EndpointProxyUnreachable},
		{classify.StageProxyConnect, "dial", syscall.EHOSTUNREACH, classify.EndpointProxyUnreachable},
		{classify.StageProxyConnect, "read", syscall.ECONNRESET, classify.EndpointProxyRefusedConnect},
		{classify.StageBody, "read", syscall.ECONNRESET, classify.EndpointConnectionReset},
		{classify.StageBody, "write", syscall.ENOSPC, classify.NodeDiskFull},
	} {
		err := &net.OpError{Op: c.op, Net: "udp", Addr: &net.UDPAddr{IP: net.IPv4(10, 20, 0, 2), Port: 53}, Err: os.NewSyscallError("x", c.no)}
		f := classify.Error(&classify.StageError{Stage: c.stage, Endpoint: "registry.corp.test", Address: "10.20.0.2:53", Err: err})
		assert.Equal(t, c.want, f.Cause, "%s %v", c.stage, err)
		bare := classify.Error(&classify.StageError{Stage: c.stage, Endpoint: "registry.corp.test", Err: c.no})
		if c.no != syscall.ECONNRESET {
			assert.Equal(t, c.want, bare.Cause, "%s %v", c.stage, c.no)
		}
	}
}

func TestErrorOfBogusAddress(t *testing.T) {
	op := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(0, 0, 0, 0), Port: 443}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	err := &url.Error{Op: "Get", URL: "https://registry.corp.test/v2/", Err: op}
	f := classify.Error(err)
	assert.Equal(t, classify.DNSBogusAddress, f.Cause, "%v", err)
	sameFault(t, err, f)
	// Asked for by address, it is what it is.
	assert.Equal(t, classify.EndpointConnectionRefused, classify.Error(op).Cause)
}

func TestErrorOfLocalSocket(t *testing.T) {
	op := &net.OpError{Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: "/run/x.sock", Net: "unix"}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	f := classify.Error(op)
	assert.Equal(t, classify.NodeRuntimeUnavailable, f.Cause)
	sameFault(t, op, f)
}
