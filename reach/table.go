package reach

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Table is what the configuration of a network says of one place in it: the
// routes and the security rules that apply to the interface of a node, or to the
// subnet of a registry. It is data that was given, not something that was seen
// to work.
type Table struct {
	// Name tells it from others: "node subnet", "hub". "" = none.
	Name string `json:"name,omitempty"`
	// Routes in any order; the longest prefix decides. nil = none is known.
	Routes []TableRoute `json:"routes,omitempty"`
	// Rules in any order; within a group the lowest priority number decides.
	// nil = none is known, and then none is judged.
	Rules []Rule `json:"rules,omitempty"`
}

// The kinds of a [NextHop], named alike whatever the source of the table.
const (
	hopNone        = "none"        // dropped
	hopInternet    = "internet"    // out to the Internet
	hopLocal       = "local"       // the same network
	hopPeering     = "peering"     // a peered network
	hopGateway     = "gateway"     // VPN, ExpressRoute or another gateway
	hopAppliance   = "appliance"   // a firewall or router of the customer's own, by address
	hopEndpoint    = "endpoint"    // a private or service endpoint
	hopUnreachable = "unreachable" // refused
	hopProhibit    = "prohibit"    // forbidden
	hopOther       = "other"       // a word of the source that we do not know
)

// The sources of a route, in the order in which Azure prefers them for the same
// prefix.
const (
	sourceUser    = "user"    // written by somebody
	sourceBGP     = "bgp"     // learnt from a gateway
	sourceDefault = "default" // the platform's own
)

// NextHop is where packets go next. Given to [CheckPath], a zero Address stands
// for any address of that kind, and "" for any kind.
type NextHop struct {
	// Kind is "none" (dropped), "internet", "local" (the same network), "peering"
	// (a peered network), "gateway" (VPN, ExpressRoute or another gateway),
	// "appliance" (a firewall or router of the customer's own), "endpoint" (a
	// private or service endpoint), "unreachable" or "prohibit" (refused), or
	// "other" for a word of the source that is not known here.
	Kind    string     `json:"kind"`
	Address netip.Addr `json:"address,omitzero"`
}

// String returns kind and address, as in "appliance 10.1.255.4".
func (h NextHop) String() string {
	if h.Address.IsValid() {
		return h.Kind + " " + h.Address.String()
	}
	return h.Kind
}

// matches reports whether h is what was declared.
func (h NextHop) matches(declared NextHop) bool {
	return (declared.Kind == "" || declared.Kind == h.Kind) && (!declared.Address.IsValid() || declared.Address == h.Address)
}

// TableRoute is one route of a [Table].
type TableRoute struct {
	Prefix netip.Prefix `json:"prefix"`
	NextHop
	// Interface is its name, where the table has one.
	Interface string `json:"interface,omitempty"`
	// Source is "user" (written by somebody), "bgp" (learnt from a gateway),
	// "default" (the platform's own), or a word of the table; "" = not known.
	Source string `json:"source,omitempty"`
	// Metric decides between routes of one prefix and source: the lower wins.
	Metric int `json:"metric,omitempty"`
	// Inactive: stands in the table and does not count.
	Inactive bool `json:"inactive,omitempty"`
	// Name is what its owner calls it; "" = nothing.
	Name string `json:"name,omitempty"`
}

// String returns prefix, next hop and source, as in "0.0.0.0/0 -> internet (default)".
func (r TableRoute) String() string {
	s := fmt.Sprintf("%v -> %v", r.Prefix, r.NextHop)
	if r.Source != "" {
		s += " (" + r.Source + ")"
	}
	return s
}

// RouteDecision is what a table does with packets to an address.
type RouteDecision struct {
	// Found: a route matches. Without one nothing is delivered.
	Found bool       `json:"found"`
	Route TableRoute `json:"route,omitzero"`
	// Beaten are the other active routes that match, the most specific first, at
	// most three.
	Beaten []TableRoute `json:"beaten,omitempty"`
	// Reason is one clause that says why it is this route.
	Reason string `json:"reason"`
}

// maxBeaten bounds the list of a decision.
const maxBeaten = 3

// RouteFor returns what the table does with packets to dst: the longest prefix
// wins, then user before BGP before default routes, then the lowest metric, then
// the first. An invalid dst matches nothing.
func (t *Table) RouteFor(dst netip.Addr) RouteDecision {
	dst = dst.Unmap()
	var matching []TableRoute
	inactive := 0
	for _, r := range t.Routes {
		switch {
		case !r.Prefix.IsValid() || !dst.IsValid() || !r.Prefix.Contains(dst):
		case r.Inactive:
			inactive++
		default:
			matching = append(matching, r)
		}
	}
	if len(matching) == 0 {
		d := RouteDecision{Reason: fmt.Sprintf("no active route of %d matches %v", len(t.Routes), dst)}
		if inactive > 0 {
			d.Reason += fmt.Sprintf("; %d inactive ones would", inactive)
		}
		return d
	}
	slices.SortStableFunc(matching, func(a, b TableRoute) int {
		return cmp.Or(cmp.Compare(b.Prefix.Bits(), a.Prefix.Bits()), cmp.Compare(sourceRank(a.Source), sourceRank(b.Source)), cmp.Compare(a.Metric, b.Metric))
	})
	d := RouteDecision{Found: true, Route: matching[0], Beaten: matching[1:min(len(matching), 1+maxBeaten)]}
	best := d.Route
	switch {
	case len(d.Beaten) == 0:
		d.Reason = fmt.Sprintf("%v is the only active route that matches", best.Prefix)
	case d.Beaten[0].Prefix.Bits() < best.Prefix.Bits():
		d.Reason = fmt.Sprintf("%v is more specific than %v", best.Prefix, d.Beaten[0].Prefix)
	case sourceRank(d.Beaten[0].Source) > sourceRank(best.Source):
		d.Reason = fmt.Sprintf("of the routes for %v, %s comes before %s", best.Prefix, best.Source, orNone(d.Beaten[0].Source))
	case d.Beaten[0].Metric > best.Metric:
		d.Reason = fmt.Sprintf("of the routes for %v it has the lowest metric", best.Prefix)
	default:
		d.Reason = fmt.Sprintf("%v stands more than once; the first is taken", best.Prefix)
	}
	return d
}

func sourceRank(source string) int {
	switch source {
	case sourceUser:
		return 0
	case sourceBGP:
		return 1
	}
	return 2
}

func orNone(s string) string {
	if s == "" {
		return "one without a source"
	}
	return s
}

// The directions, as seen from the place of the table.
const (
	inbound  = "in"
	outbound = "out"
)

// PortRange holds both ends.
type PortRange struct {
	From uint16 `json:"from"`
	To   uint16 `json:"to"`
}

// Rule is one rule of a security group.
type Rule struct {
	// Group is the list that it belongs to: a packet has to pass every group.
	Group    string `json:"group,omitempty"`
	Name     string `json:"name,omitempty"`
	Priority int    `json:"priority"`
	Allow    bool   `json:"allow"`
	// Direction ("in" or "out" of the place), Protocol ("tcp", "udp", …), Ports:
	// "" and nil = any.
	Direction    string         `json:"direction,omitempty"`
	Protocol     string         `json:"protocol,omitempty"`
	Sources      []netip.Prefix `json:"sources,omitempty"`      // nil = any, unless SourceTags
	Destinations []netip.Prefix `json:"destinations,omitempty"` // nil = any, unless DestinationTags
	Ports        []PortRange    `json:"ports,omitempty"`        // destination ports
	// SourceTags and DestinationTags are names whose prefixes the table does not
	// say: whether they match is not known.
	SourceTags      []string `json:"sourceTags,omitempty"`
	DestinationTags []string `json:"destinationTags,omitempty"`
}

// traffic is what rules are asked about.
type traffic struct {
	direction, protocol string
	source              netip.Addr
	destination         netip.AddrPort
}

// RuleDecision is what the rules do with some traffic.
type RuleDecision struct {
	Protocol string `json:"protocol"`
	// Decided: the given rules leave no doubt. Allowed counts only then.
	Decided bool `json:"decided"`
	Allowed bool `json:"allowed"`
	// Rule is the one that denies or leaves the doubt, else the last that allowed.
	Rule   *Rule  `json:"rule,omitempty"`
	Reason string `json:"reason"`
}

// Allows returns what the rules do with the first packet of a connection:
// direction is "in" or "out" of the table's place, protocol "tcp" or "udp". Every
// group has to allow it. A group in which no rule matches leaves the answer open,
// because lists end with a default that was not given. Without any rule nothing
// is decided.
func (t *Table) Allows(direction, protocol string, source netip.Addr, destination netip.AddrPort) RuleDecision {
	asked := traffic{direction, protocol, source, destination}
	d := RuleDecision{Protocol: protocol, Reason: "no rules were given"}
	var groups []string
	for _, r := range t.Rules {
		if !slices.Contains(groups, r.Group) {
			groups = append(groups, r.Group)
		}
	}
	slices.Sort(groups)
	d.Decided, d.Allowed = len(groups) > 0, len(groups) > 0
	var doubt *RuleDecision
	for _, group := range groups {
		one := t.group(group, asked)
		switch {
		case one.Decided && !one.Allowed:
			return one // whatever the others say
		case !one.Decided && doubt == nil:
			doubt = &one
		case one.Decided:
			d.Rule, d.Reason = one.Rule, one.Reason
		}
	}
	if doubt != nil {
		return *doubt
	}
	return d
}

// group asks one list.
func (t *Table) group(group string, asked traffic) RuleDecision {
	d := RuleDecision{Protocol: asked.protocol}
	var rules []Rule
	for _, r := range t.Rules {
		if r.Group == group && (r.Direction == "" || r.Direction == asked.direction) {
			rules = append(rules, r)
		}
	}
	slices.SortStableFunc(rules, func(a, b Rule) int { return cmp.Compare(a.Priority, b.Priority) })
	for _, r := range rules {
		switch r.match(asked) {
		case matches:
			verb := "denies"
			if r.Allow {
				verb = "allows"
			}
			d.Decided, d.Allowed, d.Rule = true, r.Allow, &r
			d.Reason = fmt.Sprintf("rule %q (priority %d) %s it", r.Name, r.Priority, verb)
			return d
		case unknownMatch:
			d.Rule = &r
			d.Reason = fmt.Sprintf("rule %q (priority %d) names %s, whose addresses are not given", r.Name, r.Priority,
				strings.Join(append(slices.Clone(r.SourceTags), r.DestinationTags...), ", "))
			return d
		}
	}
	d.Reason = "no given rule matches, and the default of the list is not known"
	return d
}

type ruleMatch int

const (
	matchesNot ruleMatch = iota
	matches
	unknownMatch
)

// match compares one rule with some traffic. Names without prefixes leave it
// open, unless something else rules it out.
func (r Rule) match(asked traffic) ruleMatch {
	if r.Protocol != "" && r.Protocol != asked.protocol {
		return matchesNot
	}
	if len(r.Ports) > 0 && !slices.ContainsFunc(r.Ports, func(p PortRange) bool {
		return p.From <= asked.destination.Port() && asked.destination.Port() <= p.To
	}) {
		return matchesNot
	}
	source := side(r.Sources, r.SourceTags, asked.source)
	destination := side(r.Destinations, r.DestinationTags, asked.destination.Addr())
	switch {
	case source == matchesNot || destination == matchesNot:
		return matchesNot
	case source == unknownMatch || destination == unknownMatch:
		return unknownMatch
	}
	return matches
}

func side(prefixes []netip.Prefix, tags []string, addr netip.Addr) ruleMatch {
	for _, p := range prefixes {
		if p.IsValid() && p.Contains(addr) {
			return matches
		}
	}
	switch {
	case len(tags) > 0:
		return unknownMatch
	case len(prefixes) == 0:
		return matches
	}
	return matchesNot
}
