package pullwalk

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// CoverageDifference is one property in which the nodes that were looked from differ. It
// is no cause; it says where to look for one.
type CoverageDifference struct {
	// What is "platform", "resolver file", "nameservers", "trusted roots", "source
	// network", "runtime", "runtime version", "Go version of the runtime", "proxy",
	// "identity", "age", or "label KEY".
	What string `json:"what"`
	// Apart: no node that proved shares its value with one that did not. The others
	// are those that failed, or without any all that did not prove. false where a
	// value of either is not known.
	Apart  bool            `json:"apart"`
	Values []CoverageValue `json:"values"`         // the most frequent first, at most 8
	More   int             `json:"more,omitempty"` // further values
}

// CoverageValue is one value, with the nodes that have it.
type CoverageValue struct {
	Value  string `json:"value"` // "" = not known
	Proved int    `json:"proved"`
	Failed int    `json:"failed"`
	Other  int    `json:"other"` // neither
}

// Bounds of what is compared.
const (
	maxValues     = 8
	maxLabels     = 16 // of one node
	maxProperties = 64 // of all nodes
)

// The networks that source addresses are compared by: every node has an address
// of its own. They are no statement about how the subnets are really cut.
const (
	sourceBits4 = 24
	sourceBits6 = 64
)

// property is what a node has of one kind.
type property struct{ what, value string }

// properties are in the order of the report.
func (n *probed) properties() []property {
	v := n.result.Vantage
	via, sources := n.paths()
	identity := v.Identity
	if !n.asked() { // it broke before there was anybody to show one to
		identity = ""
	}
	if via == "" && v.Proxy == "" {
		via = "none"
	} else if via == "" {
		via = "set, not used"
	}
	out := []property{
		{"platform", n.result.Image.Platform},
		{"resolver file", v.ResolverFile},
		{"nameservers", strings.Join(v.Nameservers, " ")},
		{"trusted roots", strings.Join(v.Roots, " ")},
		{"source network", sources},
		{"runtime", v.Runtime},
		{"runtime version", v.RuntimeVersion},
		{"Go version of the runtime", v.RuntimeGo},
		{"proxy", via},
		{"identity", identity},
		{"age", ageClass(time.Duration(n.AgeMS) * time.Millisecond)},
	}
	for _, l := range v.Labels[:min(len(v.Labels), maxLabels)] {
		if l.Key != LabelNode && l.Key != LabelPool {
			out = append(out, property{"label " + l.Key, l.Value})
		}
	}
	return out
}

// asked says whether a registry was asked for the image.
func (n *probed) asked() bool {
	for _, s := range n.result.Sources {
		for _, e := range s.Endpoints {
			if slices.ContainsFunc(e.Steps, func(st Step) bool { return st.Request != nil }) {
				return true
			}
		}
	}
	return false
}

// paths are the proxies in between and the networks that the node sent from.
func (n *probed) paths() (via, sources string) {
	var proxies, networks []string
	add := func(list []string, s string) []string {
		if s == "" || slices.Contains(list, s) || len(list) == maxValues {
			return list
		}
		return append(list, s)
	}
	for _, s := range n.result.Sources {
		for _, e := range s.Endpoints {
			proxies = add(proxies, e.Via)
			for _, st := range e.Steps {
				if st.Reach == nil {
					continue
				}
				if c := st.Reach.Connect; c != nil {
					networks = add(networks, network(c.Source.Addr()))
				}
				if r := st.Reach.Route; r != nil {
					networks = add(networks, network(r.Source))
				}
			}
		}
	}
	slices.Sort(proxies)
	slices.Sort(networks)
	return strings.Join(proxies, " "), strings.Join(networks, " ")
}

// network is the network of a source address, "" for none and for loopback.
func network(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	bits := sourceBits4
	if a.Is6() {
		bits = sourceBits6
	}
	p, err := a.Prefix(bits)
	if err != nil || !a.IsValid() || a.IsLoopback() || a.IsUnspecified() {
		return ""
	}
	return p.String()
}

// ageClass makes ages comparable. Clusters replace their nodes by the day, by the
// week or by the month.
func ageClass(age time.Duration) string {
	switch {
	case age <= 0:
		return ""
	case age <= day:
		return "up to 1 day"
	case age <= 7*day:
		return "up to 7 days"
	case age <= longLived:
		return fmt.Sprintf("up to %d days", longLived/day)
	}
	return fmt.Sprintf("over %d days", longLived/day)
}

// differences compares all nodes that stand in a pool.
func (c *coverage) differences() []CoverageDifference {
	var order []string
	tables := map[string]map[string]*CoverageValue{}
	total := CoverageValue{}
	for _, p := range c.pools {
		for _, n := range p.nodes {
			total.add(n.State)
			for _, x := range n.properties() {
				values := tables[x.what]
				if values == nil {
					if len(order) == maxProperties {
						continue
					}
					values = map[string]*CoverageValue{}
					tables[x.what] = values
					order = append(order, x.what)
				}
				if values[x.value] == nil {
					values[x.value] = &CoverageValue{Value: x.value}
				}
				values[x.value].add(n.State)
			}
		}
	}
	var out []CoverageDifference
	for _, what := range order {
		if d, differ := compareValues(what, tables[what], total); differ {
			out = append(out, d)
		}
	}
	var apart, rest []CoverageDifference
	for _, d := range out {
		if d.Apart {
			apart = append(apart, d)
		} else {
			rest = append(rest, d)
		}
	}
	return append(apart, rest...)
}

func (v *CoverageValue) add(s CoverageState) {
	switch s {
	case CoverageProved:
		v.Proved++
	case CoverageFailed:
		v.Failed++
	default:
		v.Other++
	}
}

func (v CoverageValue) nodes() int { return v.Proved + v.Failed + v.Other }

// compareValues reports false where not two values are known. total counts all
// nodes: those that lack a label are not known to differ.
func compareValues(what string, table map[string]*CoverageValue, total CoverageValue) (CoverageDifference, bool) {
	d := CoverageDifference{What: shown(what), Apart: total.Proved > 0 && total.nodes() > total.Proved}
	bad := func(v CoverageValue) int { return v.Failed }
	if total.Failed == 0 {
		bad = func(v CoverageValue) int { return v.Other }
	}
	known := 0
	var seen CoverageValue
	for value, v := range table {
		d.Values = append(d.Values, *v)
		seen.Proved, seen.Failed, seen.Other = seen.Proved+v.Proved, seen.Failed+v.Failed, seen.Other+v.Other
		if value != "" {
			known++
		}
		if v.Proved > 0 && (bad(*v) > 0 || value == "") || bad(*v) > 0 && value == "" {
			d.Apart = false
		}
	}
	if seen.Proved < total.Proved || bad(seen) < bad(total) {
		d.Apart = false
	}
	slices.SortFunc(d.Values, func(a, b CoverageValue) int {
		return cmp.Or(cmp.Compare(b.nodes(), a.nodes()), cmp.Compare(a.Value, b.Value))
	})
	if n := len(d.Values); n > maxValues {
		d.Values, d.More = d.Values[:maxValues], n-maxValues
	}
	for i := range d.Values {
		d.Values[i].Value = shown(d.Values[i].Value)
	}
	return d, known > 1
}
