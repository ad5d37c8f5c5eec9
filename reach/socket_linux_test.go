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
	}{
		{unix.SO_EE_ORIGIN_ICMP, 3, 0, v4, ICMPNetUnreachable},
		{unix.SO_EE_ORIGIN_ICMP, 3, 1, v4, ICMPHostUnreachable},
		{unix.SO_EE_ORIGIN_ICMP, 3, 2, v4, ICMPProtocolUnreachable},
		{unix.SO_EE_ORIGIN_ICMP, 3, 3, v4, ICMPPortUnreachable},
		{unix.SO_EE_ORIGIN_ICMP, 3, 4, v4, ICMPTooBig},
		{unix.SO_EE_ORIGIN_ICMP, 3, 9, v4, ICMPAdminProhibited},
		{unix.SO_EE_ORIGIN_ICMP, 3, 10, v4, ICMPAdminProhibited},
		{unix.SO_EE_ORIGIN_ICMP, 3, 13, v4, ICMPAdminProhibited},
		{unix.SO_EE_ORIGIN_ICMP, 3, 99, v4, ICMPOther},
		{unix.SO_EE_ORIGIN_ICMP, 11, 0, v4, ICMPTimeExceeded},
		{unix.SO_EE_ORIGIN_ICMP, 12, 0, v4, ICMPOther},
		{unix.SO_EE_ORIGIN_ICMP6, 1, 0, v6, ICMPNetUnreachable},
		{unix.SO_EE_ORIGIN_ICMP6, 1, 1, v6, ICMPAdminProhibited},
		{unix.SO_EE_ORIGIN_ICMP6, 1, 3, v6, ICMPHostUnreachable},
		{unix.SO_EE_ORIGIN_ICMP6, 1, 4, v6, ICMPPortUnreachable},
		{unix.SO_EE_ORIGIN_ICMP6, 1, 6, v6, ICMPRejectRoute},
		{unix.SO_EE_ORIGIN_ICMP6, 1, 77, v6, ICMPOther},
		{unix.SO_EE_ORIGIN_ICMP6, 2, 0, v6, ICMPTooBig},
		{unix.SO_EE_ORIGIN_ICMP6, 3, 0, v6, ICMPTimeExceeded},
		{unix.SO_EE_ORIGIN_ICMP6, 4, 0, v6, ICMPOther},
		{unix.SO_EE_ORIGIN_LOCAL, 3, 1, v4, ""},
	} {
		icmp := parseICMP(extendedError(tc.origin, tc.typ, tc.code, 1280, tc.from))
		if tc.kind == "" {
			assert.Nil(t, icmp)
			continue
		}
		want := ICMP{From: tc.from, Kind: tc.kind, Type: int(tc.typ), Code: int(tc.code)}
		if tc.kind == ICMPTooBig {
			want.MTU = 1280
		}
		assert.Equal(t, want, *icmp)
		assert.Contains(t, icmp.String(), "from "+tc.from.String())
	}
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
