package reach

import (
	"fmt"
	"net/netip"
)

// ICMP is the answer of a router or host that stopped a connect.
type ICMP struct {
	// From is who answered; zero = the system does not say.
	From netip.Addr `json:"from,omitzero"`
	// Kind is one of the ICMP constants, the same for both families.
	Kind string `json:"kind"`
	// Type and Code are the numbers of RFC 792 or RFC 4443.
	Type int `json:"type"`
	Code int `json:"code"`
	// MTU, in bytes, stands in an answer of kind [ICMPTooBig]; 0 = none.
	MTU int `json:"mtu,omitempty"`
	// Own: this machine's own kernel said it, because nobody on its link
	// answered for the next hop.
	Own bool `json:"own,omitempty"`
}

// The values of [ICMP.Kind].
const (
	ICMPNetUnreachable      = "net-unreachable"      // the router has no route
	ICMPHostUnreachable     = "host-unreachable"     // the last router finds nobody there, or says so by rule
	ICMPPortUnreachable     = "port-unreachable"     // nothing listens, or a REJECT rule
	ICMPProtocolUnreachable = "protocol-unreachable" // TCP is not spoken there
	ICMPAdminProhibited     = "admin-prohibited"     // a filter rule
	ICMPRejectRoute         = "reject-route"         // a route that refuses
	ICMPTooBig              = "too-big"              // the packet does not fit the next link
	ICMPTimeExceeded        = "time-exceeded"        // the hop count ran out: a trace, else a routing loop
	ICMPOther               = "other"
)

// icmp4Kind names the types of RFC 792 and RFC 1812.
func icmp4Kind(typ, code int) string {
	switch {
	case typ == 11 && code == 0:
		return ICMPTimeExceeded
	case typ != 3:
		return ICMPOther
	}
	switch code {
	case 0, 6, 8, 11:
		return ICMPNetUnreachable
	case 1, 7, 12:
		return ICMPHostUnreachable
	case 2:
		return ICMPProtocolUnreachable
	case 3:
		return ICMPPortUnreachable
	case 4:
		return ICMPTooBig
	case 9, 10, 13:
		return ICMPAdminProhibited
	}
	return ICMPOther
}

// icmp6Kind names the types of RFC 4443.
func icmp6Kind(typ, code int) string {
	switch {
	case typ == 2:
		return ICMPTooBig
	case typ == 3 && code == 0:
		return ICMPTimeExceeded
	case typ != 1:
		return ICMPOther
	}
	switch code {
	case 0, 2:
		return ICMPNetUnreachable
	case 1, 5:
		return ICMPAdminProhibited
	case 3:
		return ICMPHostUnreachable
	case 4:
		return ICMPPortUnreachable
	case 6:
		return ICMPRejectRoute
	}
	return ICMPOther
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
