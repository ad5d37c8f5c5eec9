package reach

import (
	"fmt"
	"net/netip"
)

// ICMP is the answer of a router or host that stopped a connect.
type ICMP struct {
	// From is who answered; zero = the system does not say.
	From netip.Addr `json:"from,omitzero"`
	// Kind names type and code, alike for both families: "net-unreachable",
	// "host-unreachable", "port-unreachable", "protocol-unreachable",
	// "admin-prohibited" (a filter rule), "reject-route", "too-big",
	// "time-exceeded" (a trace, else a routing loop) or "other".
	Kind string `json:"kind"`
	// Type and Code are the numbers of RFC 792 or RFC 4443.
	Type int `json:"type"`
	Code int `json:"code"`
	// MTU, in bytes, stands in an answer of kind "too-big"; 0 = none.
	MTU int `json:"mtu,omitempty"`
	// Own: this machine's own kernel said it, because nobody on its link
	// answered for the next hop.
	Own bool `json:"own,omitempty"`
}

// The values of [ICMP.Kind].
const (
	icmpNetUnreachable      = "net-unreachable"      // the router has no route
	icmpHostUnreachable     = "host-unreachable"     // the last router finds nobody there, or says so by rule
	icmpPortUnreachable     = "port-unreachable"     // nothing listens, or a REJECT rule
	icmpProtocolUnreachable = "protocol-unreachable" // TCP is not spoken there
	icmpAdminProhibited     = "admin-prohibited"     // a filter rule
	icmpRejectRoute         = "reject-route"         // a route that refuses
	icmpTooBig              = "too-big"              // the packet does not fit the next link
	icmpTimeExceeded        = "time-exceeded"        // the hop count ran out: a trace, else a routing loop
	icmpOther               = "other"
)

// icmp4Kinds and icmp6Kinds name the codes of "destination unreachable": RFC 792
// and RFC 1812, RFC 4443.
var (
	icmp4Kinds = [...]string{
		0: icmpNetUnreachable, 1: icmpHostUnreachable, 2: icmpProtocolUnreachable, 3: icmpPortUnreachable, 4: icmpTooBig,
		6: icmpNetUnreachable, 7: icmpHostUnreachable, 8: icmpNetUnreachable, 9: icmpAdminProhibited, 10: icmpAdminProhibited,
		11: icmpNetUnreachable, 12: icmpHostUnreachable, 13: icmpAdminProhibited,
	}
	icmp6Kinds = [...]string{
		0: icmpNetUnreachable, 1: icmpAdminProhibited, 2: icmpNetUnreachable, 3: icmpHostUnreachable,
		4: icmpPortUnreachable, 5: icmpAdminProhibited, 6: icmpRejectRoute,
	}
)

func icmp4Kind(typ, code int) string {
	switch {
	case typ == 11 && code == 0:
		return icmpTimeExceeded
	case typ == 3 && code >= 0 && code < len(icmp4Kinds) && icmp4Kinds[code] != "":
		return icmp4Kinds[code]
	}
	return icmpOther
}

func icmp6Kind(typ, code int) string {
	switch {
	case typ == 2:
		return icmpTooBig
	case typ == 3 && code == 0:
		return icmpTimeExceeded
	case typ == 1 && code >= 0 && code < len(icmp6Kinds):
		return icmp6Kinds[code]
	}
	return icmpOther
}

// String returns kind, numbers and sender, as in "net-unreachable (3/0) from
// 10.1.0.1".
func (i ICMP) String() string {
	s := fmt.Sprintf("%s (%d/%d)", i.Kind, i.Type, i.Code)
	if i.From.IsValid() {
		s += " from " + i.From.String()
	}
	return s
}
