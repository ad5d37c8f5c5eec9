package dnscheck

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Given is what an administrator can read out of a virtual network's DNS without
// a node: its DNS servers, private zones with their links and records, and where
// its own DNS servers forward to. [Given.Judge] derives from it which view the
// nodes of a network would get. Nothing is asked; the zero value knows nothing.
type Given struct {
	Networks   []GivenNetwork
	Zones      []GivenZone
	Forwarders []GivenForwarder
	// ForwardersComplete says that Forwarders is the whole list of the custom DNS
	// servers, so that a rule that is not in it does not exist.
	ForwardersComplete bool
	Endpoints          []GivenEndpoint
}

// GivenNetwork is a virtual network.
type GivenNetwork struct {
	ID       string // as the provider writes it; compared without case
	Name     string
	Prefixes []netip.Prefix
	// Servers are the DNS servers set for it; empty = the platform's own.
	Servers []netip.Addr
}

// GivenZone is a private zone.
type GivenZone struct {
	Name  string // "privatelink.azurecr.io"
	Links []GivenLink
	// Records are its address records; RecordsKnown says that they are all of them.
	Records      []GivenRecord
	RecordsKnown bool
	// LinksKnown says that Links are all of them.
	LinksKnown bool
}

// GivenLink ties a zone to a network.
type GivenLink struct {
	Network string // its ID
	// Complete says that the link is in force.
	Complete bool
	// Fallback says that a name that the zone does not hold is looked up publicly.
	Fallback bool
}

// GivenRecord is one name of a zone.
type GivenRecord struct {
	Name      string // relative to the zone, "@" for the zone itself
	Addresses []netip.Addr
}

// GivenForwarder is one conditional forwarder of the custom DNS servers, or a
// rule of a private resolver.
type GivenForwarder struct {
	Domain  string // "azurecr.io"; "." = everything
	Targets []netip.Addr
}

// GivenEndpoint is a name that a private endpoint serves, and where.
type GivenEndpoint struct {
	Name      string // "contoso.westeurope.data.azurecr.io"
	Addresses []netip.Addr
}

// What a node would get for a host, by [Given.Judge].
const (
	ViewPrivate  = "private"   // the record of a private zone
	ViewPublic   = "public"    // whatever the public DNS says
	ViewNXDomain = "nxdomain"  // a private zone denies it
	ViewUnknown  = "not known" // the given settings do not tell
)

// GivenReport is what given settings come to.
type GivenReport struct {
	Network string      `json:"network"`
	Hosts   []GivenHost `json:"hosts"`
	// Inconclusive says what was not given and would be needed; empty = nothing.
	Inconclusive string `json:"inconclusive,omitempty"`

	findings []classify.Finding
}

// GivenHost is what a node would get for one host.
type GivenHost struct {
	Name string `json:"name"`
	// View is one of the View constants.
	View string `json:"view"`
	// Zone is the private zone that is meant for the name; empty = none is given.
	Zone      string       `json:"zone,omitempty"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Path says in sentences how the question travels.
	Path []string `json:"path,omitempty"`
}

// Findings returns what is wrong, in the order of the hosts.
func (r *GivenReport) Findings() []classify.Finding { return slices.Clone(r.findings) }

// azurePlatform is the resolver that answers inside every Azure network.
var azurePlatform = netip.AddrFrom4([4]byte{168, 63, 129, 16})

// Judge derives what the nodes of a network, named by ID or name, would get for
// hosts: the registry and every data endpoint. Names of Endpoints that begin like
// one of the hosts are added, since a pull needs them too. started is when the
// oldest node booted and changed when the network's DNS servers were last set; a
// zero of either leaves that question out.
//
// It proves nothing about a node: settings may not have reached it, and DNS
// servers may do other than what is given.
func (g *Given) Judge(network string, hosts []string, started, changed time.Time) (*GivenReport, error) {
	net := g.network(network)
	if net == nil {
		return nil, fmt.Errorf("dnscheck: network %.80q is not among the given ones", network)
	}
	if len(hosts) == 0 {
		return nil, errors.New("dnscheck: no host to judge")
	}
	for _, h := range hosts {
		if err := checkName(h); err != nil {
			return nil, err
		}
	}
	r := &GivenReport{Network: classify.Redact(net.Name, maxNameText)}
	for _, name := range g.withEndpoints(hosts) {
		j := givenJudge{given: g, network: net, host: GivenHost{Name: strings.ToLower(strings.TrimSuffix(name, "."))}}
		j.judge()
		r.Hosts = append(r.Hosts, j.host)
		r.findings = append(r.findings, j.findings...)
		if j.host.View == ViewUnknown && r.Inconclusive == "" {
			r.Inconclusive = j.unknown
		}
	}
	if !started.IsZero() && started.Before(changed) {
		f := classify.New(classify.DNSSettingsNotRenewed,
			fmt.Sprintf("The DNS servers of network %s were set on %s, after the oldest node had started on %s; a running node keeps those of its last lease.",
				net.Name, changed.UTC().Format(time.DateTime), started.UTC().Format(time.DateTime)))
		f.Severity, f.Certainty = classify.SeverityWarn, classify.CertaintyLikely
		r.findings = append(r.findings, f)
	}
	return r, nil
}

func (g *Given) network(name string) *GivenNetwork {
	for i := range g.Networks {
		if n := &g.Networks[i]; name != "" && (strings.EqualFold(n.ID, name) || strings.EqualFold(n.Name, name)) {
			return n
		}
	}
	return nil
}

const maxGivenHosts = 64

func (g *Given) withEndpoints(hosts []string) []string {
	all := slices.Clone(hosts)
	for _, h := range hosts {
		label, _, _ := strings.Cut(h, ".")
		for _, e := range g.Endpoints {
			first, _, _ := strings.Cut(e.Name, ".")
			if strings.EqualFold(label, first) && len(all) < maxGivenHosts && checkName(e.Name) == nil &&
				!slices.ContainsFunc(all, func(x string) bool { return strings.EqualFold(x, e.Name) }) {
				all = append(all, e.Name)
			}
		}
	}
	return all
}

// givenJudge follows one host through the given settings.
type givenJudge struct {
	given    *Given
	network  *GivenNetwork
	host     GivenHost
	findings []classify.Finding
	unknown  string
}

func (j *givenJudge) path(format string, args ...any) {
	j.host.Path = append(j.host.Path, classify.Redact(fmt.Sprintf(format, args...), 512))
}

func (j *givenJudge) leave(why string) {
	j.host.View, j.unknown = ViewUnknown, why
	j.path("%s", why)
}

func (j *givenJudge) fail(cause classify.Cause, format string, args ...any) {
	f := classify.New(cause, classify.Redact(fmt.Sprintf(format, args...), 512))
	f.Endpoint, f.Certainty = j.host.Name, classify.CertaintyLikely
	j.findings = append(j.findings, f)
}

func (j *givenJudge) judge() {
	zone, record := j.zone()
	if zone == nil {
		j.host.View = ViewPublic
		j.path("no given zone is meant for %s", j.host.Name)
		return
	}
	j.host.Zone = classify.Redact(zone.Name, maxNameText)
	resolving := j.resolving(zone)
	if resolving == nil {
		return
	}
	link := zone.link(resolving)
	switch {
	case link == nil && !zone.LinksKnown:
		j.leave("the links of zone " + zone.Name + " are not given")
		return
	case link == nil || !link.Complete:
		state := "has no link to network " + resolving.Name
		if link != nil {
			state = "has a link to network " + resolving.Name + " that is not in force"
		}
		j.host.View = ViewPublic
		j.path("zone %s %s", zone.Name, state)
		j.fail(classify.DNSZoneNotLinked, "Zone %s %s, so that nodes of %s get the public answer for %s.", zone.Name, state, j.network.Name, j.host.Name)
		return
	}
	j.path("zone %s is linked to network %s", zone.Name, resolving.Name)
	for _, rec := range zone.Records {
		if strings.EqualFold(rec.Name, record) {
			j.host.View, j.host.Addresses = ViewPrivate, rec.Addresses
			j.path("record %s: %s", rec.Name, joined(rec.Addresses))
			j.stale(zone, rec)
			return
		}
	}
	switch {
	case !zone.RecordsKnown:
		j.leave("the records of zone " + zone.Name + " are not given")
	case link.Fallback:
		j.host.View = ViewPublic
		j.path("no record %s; the link falls back to public DNS", record)
		j.fail(classify.DNSPublicAnswer, "Zone %s has no record %s and its link falls back to public DNS, so that nodes of %s get the public answer for %s.", zone.Name, record, j.network.Name, j.host.Name)
		j.findings[len(j.findings)-1].Severity = classify.SeverityWarn
	default:
		j.host.View = ViewNXDomain
		j.path("no record %s", record)
		j.fail(classify.DNSPrivateZoneEmpty, "Zone %s is linked to network %s and has no record %s, so that %s does not exist for its nodes.", zone.Name, resolving.Name, record, j.host.Name)
	}
}

// stale compares a record with the private endpoint it is for.
func (j *givenJudge) stale(zone *GivenZone, rec GivenRecord) {
	for _, e := range j.given.Endpoints {
		if strings.EqualFold(e.Name, j.host.Name) && len(e.Addresses) > 0 && !slices.ContainsFunc(rec.Addresses, func(a netip.Addr) bool { return slices.Contains(e.Addresses, a) }) {
			j.fail(classify.DNSStaleRecord, "Record %s of zone %s is %s, while the private endpoint for %s has %s.", rec.Name, zone.Name, joined(rec.Addresses), j.host.Name, joined(e.Addresses))
		}
	}
}

// zone finds the zone that is meant for the host, and its record there: a zone
// that holds the name itself, else the private-link zone of its public one. The
// longest wins.
func (j *givenJudge) zone() (*GivenZone, string) {
	var best *GivenZone
	record, length := "", 0
	for i := range j.given.Zones {
		z := &j.given.Zones[i]
		name := strings.ToLower(strings.TrimSuffix(z.Name, "."))
		public := strings.TrimPrefix(name, privateLinkLabel+".")
		rel, ok := below(j.host.Name, public)
		if ok && public != "" && len(public) > length {
			best, record, length = z, rel, len(public)
		}
	}
	return best, record
}

// below returns what stands before domain in name, "@" for the domain itself.
func below(name, domain string) (string, bool) {
	if name == domain {
		return "@", true
	}
	return strings.CutSuffix(name, "."+domain)
}

// resolving is the network by whose links the name is looked up. nil = that is
// settled without, or not known, and said.
func (j *givenJudge) resolving(zone *GivenZone) *GivenNetwork {
	net := j.network
	if len(net.Servers) == 0 || slices.Contains(net.Servers, azurePlatform) {
		j.path("network %s uses the platform's resolver", net.Name)
		return net
	}
	j.path("network %s uses its own DNS servers %s", net.Name, joined(net.Servers))
	rule := j.forwarder()
	if rule == nil {
		if !j.given.ForwardersComplete {
			j.leave("where the DNS servers forward " + j.host.Name + " is not given")
			return nil
		}
		j.host.View = ViewPublic
		j.path("no forwarder covers it")
		also := ""
		if slices.ContainsFunc(j.given.Forwarders, func(f GivenForwarder) bool { return strings.EqualFold(unrooted(f.Domain), unrooted(zone.Name)) }) {
			also = " (there is one for " + zone.Name + " alone, which many servers do not use for the alias)"
		}
		j.fail(classify.DNSForwarderMissing, "The DNS servers %s of network %s have no forwarder for %s%s, so that its nodes get the public answer.", joined(net.Servers), net.Name, j.host.Name, also)
		return nil
	}
	for _, target := range rule.Targets {
		place := target
		if target == azurePlatform {
			place = net.Servers[0] // it answers for the network that asks it
		}
		if slices.ContainsFunc(net.Servers, func(s netip.Addr) bool { return s == target }) {
			continue // it would forward to itself
		}
		for i := range j.given.Networks {
			n := &j.given.Networks[i]
			if slices.ContainsFunc(n.Prefixes, func(p netip.Prefix) bool { return p.Contains(place) }) {
				j.path("they forward %s to %s, which resolves in network %s", rule.Domain, target, n.Name)
				return n
			}
		}
	}
	j.leave(fmt.Sprintf("the network in which %s, to which %s is forwarded, resolves is not given", joined(rule.Targets), rule.Domain))
	return nil
}

func (j *givenJudge) forwarder() *GivenForwarder {
	var best *GivenForwarder
	length := -1
	for i := range j.given.Forwarders {
		f := &j.given.Forwarders[i]
		domain := strings.ToLower(strings.Trim(f.Domain, "."))
		if _, ok := below(j.host.Name, domain); (ok || domain == "") && len(domain) > length {
			best, length = f, len(domain)
		}
	}
	return best
}

func (z *GivenZone) link(n *GivenNetwork) *GivenLink {
	for i := range z.Links {
		if l := &z.Links[i]; strings.EqualFold(l.Network, n.ID) {
			return l
		}
	}
	return nil
}
