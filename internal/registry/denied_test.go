package registry

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDenyPlatform(t *testing.T) {
	t.Parallel()
	for address, denied := range map[string]bool{
		"169.254.169.254:80": true, "[::ffff:169.254.169.254]:80": true, "[fe80::1%eth0]:443": true, "224.0.0.1:443": true, "[ff02::1]:443": true,
		"168.63.129.16:80": true, "168.63.129.16:53": false, "[fd00:ec2::254]:80": true, "100.100.100.200:80": true,
		"10.20.0.4:443": false, "192.0.2.1:443": false, "127.0.0.1:5000": false, "[fd00::4]:443": false, "[2001:db8::1]:443": false,
	} {
		assert.Equal(t, denied, DenyPlatform(netip.MustParseAddrPort(address)) != nil, address)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	d := net.Dialer{ControlContext: Guard(func(ap netip.AddrPort) error { return errStop })}
	_, err := d.DialContext(t.Context(), "tcp", "127.0.0.1:9")
	var denied *DeniedError
	require.True(t, errors.As(err, &denied))
	assert.Equal(t, netip.MustParseAddrPort("127.0.0.1:9"), denied.Addr)
	assert.ErrorIs(t, err, errStop)
	assert.ErrorContains(t, err, "127.0.0.1:9 is not contacted")
	assert.NoError(t, Guard(DenyPlatform)(t.Context(), "tcp", "127.0.0.1:9", nil))
	assert.Error(t, Guard(DenyPlatform)(t.Context(), "tcp", "a name", nil))
}
