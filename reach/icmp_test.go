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
		{1, 0, icmpOther, icmpNetUnreachable},
		{1, 1, icmpOther, icmpAdminProhibited},
		{1, 3, icmpOther, icmpHostUnreachable},
		{1, 4, icmpOther, icmpPortUnreachable},
		{1, 5, icmpOther, icmpAdminProhibited},
		{1, 6, icmpOther, icmpRejectRoute},
		{1, 77, icmpOther, icmpOther},
		{2, 0, icmpOther, icmpTooBig},
		{3, 0, icmpNetUnreachable, icmpTimeExceeded},
		{3, 1, icmpHostUnreachable, icmpOther},
		{3, 2, icmpProtocolUnreachable, icmpOther},
		{3, 3, icmpPortUnreachable, icmpOther},
		{3, 4, icmpTooBig, icmpOther},
		{3, 9, icmpAdminProhibited, icmpOther},
		{3, 10, icmpAdminProhibited, icmpOther},
		{3, 13, icmpAdminProhibited, icmpOther},
		{3, 99, icmpOther, icmpOther},
		{4, 0, icmpOther, icmpOther},
		{11, 0, icmpTimeExceeded, icmpOther},
		{11, 1, icmpOther, icmpOther},
	} {
		assert.Equal(t, tc.v4, icmp4Kind(tc.typ, tc.code), "ICMP %d/%d", tc.typ, tc.code)
		assert.Equal(t, tc.v6, icmp6Kind(tc.typ, tc.code), "ICMPv6 %d/%d", tc.typ, tc.code)
	}
	assert.Equal(t, "admin-prohibited (3/13) from 10.1.0.1", ICMP{From: netip.MustParseAddr("10.1.0.1"), Kind: icmpAdminProhibited, Type: 3, Code: 13}.String())
	assert.Equal(t, "other (9/9)", ICMP{Kind: icmpOther, Type: 9, Code: 9}.String())
}
