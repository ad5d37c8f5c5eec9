package reach

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestICMPKinds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		typ, code int
		v4, v6    string
	}{
		{1, 0, ICMPOther, ICMPNetUnreachable},
		{1, 1, ICMPOther, ICMPAdminProhibited},
		{1, 3, ICMPOther, ICMPHostUnreachable},
		{1, 4, ICMPOther, ICMPPortUnreachable},
		{1, 5, ICMPOther, ICMPAdminProhibited},
		{1, 6, ICMPOther, ICMPRejectRoute},
		{1, 77, ICMPOther, ICMPOther},
		{2, 0, ICMPOther, ICMPTooBig},
		{3, 0, ICMPNetUnreachable, ICMPTimeExceeded},
		{3, 1, ICMPHostUnreachable, ICMPOther},
		{3, 2, ICMPProtocolUnreachable, ICMPOther},
		{3, 3, ICMPPortUnreachable, ICMPOther},
		{3, 4, ICMPTooBig, ICMPOther},
		{3, 9, ICMPAdminProhibited, ICMPOther},
		{3, 10, ICMPAdminProhibited, ICMPOther},
		{3, 13, ICMPAdminProhibited, ICMPOther},
		{3, 99, ICMPOther, ICMPOther},
		{4, 0, ICMPOther, ICMPOther},
		{11, 0, ICMPTimeExceeded, ICMPOther},
		{11, 1, ICMPOther, ICMPOther},
	} {
		assert.Equal(t, tc.v4, icmp4Kind(tc.typ, tc.code), "ICMP %d/%d", tc.typ, tc.code)
		assert.Equal(t, tc.v6, icmp6Kind(tc.typ, tc.code), "ICMPv6 %d/%d", tc.typ, tc.code)
	}
	assert.Equal(t, "admin-prohibited (3/13) from 10.1.0.1", ICMP{From: netip.MustParseAddr("10.1.0.1"), Kind: ICMPAdminProhibited, Type: 3, Code: 13}.String())
	assert.Equal(t, "other (9/9)", ICMP{Kind: ICMPOther, Type: 9, Code: 9}.String())
}
