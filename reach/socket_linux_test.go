package reach

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

// extendedError is what the kernel puts into an error queue.
func extendedError(origin, typ, code byte, info uint32, offender netip.Addr) []byte {
	b := make([]byte, 16)
	b[4], b[5], b[6] = origin, typ, code
	binary.NativeEndian.PutUint32(b[8:], info)
	switch {
	case offender.Is4():
		b = binary.NativeEndian.AppendUint16(b, unix.AF_INET)
		b = append(b, 0, 0)
		b = append(b, offender.AsSlice()...)
		b = append(b, make([]byte, 8)...)
	case offender.Is6():
		b = binary.NativeEndian.AppendUint16(b, unix.AF_INET6)
		b = append(b, 0, 0, 0, 0, 0, 0)
		b = append(b, offender.AsSlice()...)
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

func TestParseICMP(t *testing.T) {
	t.Parallel()
	v4, v6 := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("2001:db8::1")
	for _, tc := range []struct {
		origin, typ, code byte
		from              netip.Addr
		kind              string
		mtu               int
	}{
		{unix.SO_EE_ORIGIN_ICMP, 3, 1, v4, icmpHostUnreachable, 0},
		{unix.SO_EE_ORIGIN_ICMP, 3, 4, v4, icmpTooBig, 1280},
		{unix.SO_EE_ORIGIN_ICMP6, 1, 1, v6, icmpAdminProhibited, 0},
		{unix.SO_EE_ORIGIN_ICMP6, 2, 0, v6, icmpTooBig, 1280},
	} {
		icmp := parseICMP(extendedError(tc.origin, tc.typ, tc.code, 1280, tc.from))
		assert.Equal(t, &ICMP{From: tc.from, Kind: tc.kind, Type: int(tc.typ), Code: int(tc.code), MTU: tc.mtu}, icmp)
	}
	assert.Nil(t, parseICMP(extendedError(unix.SO_EE_ORIGIN_LOCAL, 3, 1, 0, v4)))
	assert.Nil(t, parseICMP(nil))
	assert.Equal(t, netip.Addr{}, parseICMP(extendedError(unix.SO_EE_ORIGIN_ICMP, 3, 1, 0, netip.Addr{})).From)
}

func FuzzICMP(f *testing.F) {
	f.Add(extendedError(unix.SO_EE_ORIGIN_ICMP, 3, 4, 1280, netip.MustParseAddr("10.1.0.1")))
	f.Add(extendedError(unix.SO_EE_ORIGIN_ICMP6, 1, 3, 0, netip.MustParseAddr("2001:db8::1")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if icmp := parseICMP(data); icmp != nil && (icmp.Kind == "" || icmp.MTU < 0 || icmp.MTU > 1<<16) {
			t.Fatalf("%+v", icmp)
		}
	})
}
