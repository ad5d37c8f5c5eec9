package reach

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
)

// PathReport says what given tables do with the packets of a pull, and with the
// answers. It proves nothing of the network itself: tables may be old, and
// devices that stand in none of them may drop.
type PathReport struct {
	Node     netip.Addr     `json:"node"`
	Registry netip.AddrPort `json:"registry"`
	// Forward is the way from the node to the registry, Back that of the
	// answers; nil = no table was given for it.
	Forward *Half `json:"forward,omitempty"`
	Back    *Half `json:"back,omitempty"`
	// Notes say what is worth knowing and not wrong, such as a forced tunnel.
	Notes []string `json:"notes,omitempty"`
	// Inconclusive says what the tables leave open; "" = nothing.
	Inconclusive string `json:"inconclusive,omitempty"`

	findings []classify.Finding
}

// Half is one direction of a path.
type Half struct {
	Table string        `json:"table,omitempty"` // name of the table
	Route RouteDecision `json:"route"`
	// Rules are the decisions of its security rules about the first packet of a
	// connection, which only the way there has: out of the node's place in
	// Forward, into the registry's in Back. Empty = no rules were given.
	Rules []RuleDecision `json:"rules,omitempty"`
}

// Held reports whether the tables let the packets of both directions through.
func (r *PathReport) Held() bool {
	return r.Inconclusive == "" && !slices.ContainsFunc(r.findings, func(f classify.Finding) bool { return f.Severity == classify.SeverityFail })
}

// Findings returns what is wrong, the way there first. A report that was decoded
// from JSON has none.
func (r *PathReport) Findings() []classify.Finding { return slices.Clone(r.findings) }

func (r *PathReport) open(reason string) {
	if r.Inconclusive != "" {
		r.Inconclusive += "; "
	}
	r.Inconclusive += reason
}

// CheckPath compares the network that a node has with the path that a pull
// needs: what the table of the node's place does with packets to the registry
// (or the resolver, with port 53), and what the table of the registry's place
// does with the answers. back may be nil: that half is then unknown, and the
// report says so. The intended next hops, if any, are those that the packets
// should take on the way there.
//
// An error means that forward is nil or an address is none.
func CheckPath(forward, back *Table, node netip.Addr, registry netip.AddrPort, intended ...NextHop) (*PathReport, error) {
	if forward == nil {
		return nil, fmt.Errorf("reach: no table for the way from the node")
	}
	node, err := cleanAddr(node)
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	registry, err = cleanTarget(registry)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	if node.Is4() != registry.Addr().Is4() {
		return nil, fmt.Errorf("reach: node %v and registry %v are of different address families", node, registry.Addr())
	}
	r := &PathReport{Node: node, Registry: registry}
	r.Forward = &Half{Table: forward.Name, Route: forward.RouteFor(registry.Addr())}
	r.judgeForward(intended)
	r.judgeRules(r.Forward, forward, outbound)
	if back == nil {
		r.open("the way back is unknown: no table of the registry's side was given")
		return r, nil
	}
	r.Back = &Half{Table: back.Name, Route: back.RouteFor(node)}
	r.judgeBack()
	r.judgeRules(r.Back, back, inbound)
	return r, nil
}

// find adds a finding about one decision.
func (r *PathReport) find(cause classify.Cause, severity classify.Severity, certainty classify.Certainty, d RouteDecision, summary string, facts ...classify.Fact) {
	if d.Found {
		facts = append(facts, classify.Fact{Key: classify.FactPrefix, Value: d.Route.Prefix.String()}, classify.Fact{Key: factNextHop, Value: d.Route.NextHop.String()})
	}
	f := classify.New(cause, summary, append([]classify.Fact{
		{Key: classify.FactAddress, Value: r.Registry.String()}, {Key: classify.FactSource, Value: r.Node.String()},
	}, facts...)...)
	f.Endpoint, f.Severity, f.Certainty = r.Registry.String(), severity, certainty
	r.findings = append(r.findings, f)
}

func (r *PathReport) judgeForward(intended []NextHop) {
	d, to := r.Forward.Route, r.Registry.Addr()
	place := named(r.Forward.Table, "the node's table")
	fail := func(cause classify.Cause, summary string) {
		r.find(cause, classify.SeverityFail, classify.CertaintyProven, d, summary)
	}
	switch kind := d.Route.Kind; {
	case !d.Found:
		fail(classify.RouteNextHopNone, fmt.Sprintf("%s has no way to %v: %s", place, to, d.Reason))
		return
	case kind == hopNone:
		fail(classify.RouteNextHopNone, fmt.Sprintf("%s drops packets to %v: %v", place, to, d.Route))
		return
	case kind == hopUnreachable:
		fail(classify.RouteNoRouteToHost, fmt.Sprintf("%s declares %v unreachable: %v", place, to, d.Route))
		return
	case kind == hopProhibit:
		fail(classify.RouteProhibited, fmt.Sprintf("%s prohibits %v: %v", place, to, d.Route))
		return
	case kind == hopInternet && private(to):
		fail(classify.RouteInternetNextHop, fmt.Sprintf("%s sends packets to the private address %v out to the Internet: %v", place, to, d.Route))
		return
	case kind == hopOther:
		r.open(fmt.Sprintf("%s has a next hop of a kind that is not known here: %v", place, d.Route))
	}
	if d.Route.Kind == hopAppliance && d.Route.Prefix.Bits() == 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("forced tunnel: %s sends %v through the appliance %v by its default route; that appliance has to allow it and to know the way", place, to, d.Route.Address))
	}
	if len(intended) > 0 && !slices.ContainsFunc(intended, d.Route.matches) {
		names := ""
		for i, h := range intended {
			if i > 0 {
				names += " or "
			}
			names += h.String()
		}
		r.find(classify.RouteUnintendedNextHop, classify.SeverityFail, classify.CertaintyProven, d,
			fmt.Sprintf("%s sends %v to %v instead of %s: %s", place, to, d.Route.NextHop, names, d.Reason), classify.Fact{Key: factIntended, Value: names})
	}
}

func (r *PathReport) judgeBack() {
	d, to := r.Back.Route, r.Node
	place := named(r.Back.Table, "the registry's table")
	missing := func(why string) {
		summary := fmt.Sprintf("%s has no way back to the node %v: %s", place, to, why)
		if k := r.Forward.Route.Route.Kind; r.Forward.Route.Found && (k == hopGateway || k == hopPeering) {
			summary += fmt.Sprintf("; the way there goes by %s, so this is one way only (gateway transit, propagation)", k)
		}
		r.find(classify.RouteNoReturnRoute, classify.SeverityFail, classify.CertaintyProven, d, summary)
	}
	switch kind := d.Route.Kind; {
	case !d.Found:
		missing(d.Reason)
		return
	case kind == hopNone || kind == hopUnreachable || kind == hopProhibit:
		missing("its route is " + d.Route.String())
		return
	case kind == hopInternet && private(to):
		missing("its route leads to the Internet, " + d.Route.String())
		return
	case kind == hopOther:
		r.open(fmt.Sprintf("%s has a next hop of a kind that is not known here: %v", place, d.Route))
	}
	there, back := r.Forward.Route.Route.NextHop, d.Route.NextHop
	if !r.Forward.Route.Found || there.Kind != hopAppliance && back.Kind != hopAppliance {
		return
	}
	switch {
	case there.Kind == back.Kind && there.Address == back.Address:
	case there.Kind == back.Kind:
		// Two addresses may be two legs of one firewall.
		r.find(classify.RouteAsymmetric, classify.SeverityWarn, classify.CertaintyPossible, d,
			fmt.Sprintf("the way there passes %v, the way back %v; unless they are one device, a stateful firewall sees only half of each connection", there, back))
	default:
		r.find(classify.RouteAsymmetric, classify.SeverityWarn, classify.CertaintyLikely, d,
			fmt.Sprintf("the way there goes by %v, the way back by %v; a stateful firewall on one of them sees only half of each connection", there, back))
	}
}

func (r *PathReport) judgeRules(half *Half, t *Table, direction string) {
	if len(t.Rules) == 0 {
		return
	}
	protocols := []string{"tcp"}
	if r.Registry.Port() == 53 {
		protocols = []string{"udp", "tcp"} // RFC 7766: resolvers need both
	}
	for _, protocol := range protocols {
		d := t.Allows(direction, protocol, r.Node, r.Registry)
		half.Rules = append(half.Rules, d)
		what := fmt.Sprintf("%s from %v to %v, %sbound at %s", protocol, r.Node, r.Registry, direction, named(t.Name, "the given place"))
		switch {
		case !d.Decided:
			r.open(fmt.Sprintf("%s: %s", what, d.Reason))
		case !d.Allowed:
			f := classify.New(classify.RouteRuleDenies, what+" is denied: "+d.Reason,
				classify.Fact{Key: classify.FactAddress, Value: r.Registry.String()}, classify.Fact{Key: classify.FactSource, Value: r.Node.String()},
				classify.Fact{Key: factRule, Value: d.Rule.Group + " " + d.Rule.Name})
			f.Endpoint = r.Registry.String()
			r.findings = append(r.findings, f)
		}
	}
}

func named(name, other string) string {
	if name == "" {
		return other
	}
	return "the table " + classify.Redact(name, 64)
}

// private reports whether addr means nothing on the Internet: RFC 1918, RFC
// 4193, and the shared space of RFC 6598, which clouds use for their own.
func private(addr netip.Addr) bool {
	return addr.IsPrivate() || addr.IsLinkLocalUnicast() || sharedSpace.Contains(addr)
}

var sharedSpace = netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 64, 0, 0}), 10)
