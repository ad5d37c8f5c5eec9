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

// Given is what an administrator can read out of a virtual network's DNS without a node: its DNS
// servers, private zones with links and records, forwarders and private endpoints. [Given.AddAzure]
// and [Given.AddForwarders] fill it, and [Given.Judge] derives which view the nodes of a network
// would get. Nothing is asked; the zero value knows nothing.
type Given struct {
	networks       []givenNetwork
	zones          []givenZone
	forwarders     []givenNames
	forwardersDone bool // forwarders is the whole list
	endpoints      []givenNames
}

type givenNetwork struct {
	id, name string // id is as the provider writes it; both are compared without case
	prefixes []netip.Prefix
	servers  []netip.Addr // empty = the platform's own
}

type givenZone struct {
	name                 string // "privatelink.azurecr.io"
	links                []givenLink
	records              []givenNames // relative to the zone, "@" for the zone itself
	allLinks, allRecords bool
}

type givenLink struct {
	network  string // its id
	complete bool   // the link is in force
	fallback bool   // a name that the zone does not hold is looked up publicly
}

// givenNames is a record of a zone, a forwarder (a domain, "." = everything, and its targets) or
// the name of a private endpoint.
type givenNames struct {
	name      string
	addresses []netip.Addr
}

// GivenReport is what given settings come to.
type GivenReport struct {
	// Network is the name of the network.
	Network string `json:"network"`
	// Hosts are the hosts asked for, then those of private endpoints.
	Hosts []GivenHost `json:"hosts"`
	// Inconclusive says what was not given and would be needed; empty = nothing.
	Inconclusive string `json:"inconclusive,omitempty"`

	findings []classify.Finding
}

// GivenHost is what a node would get for one host.
type GivenHost struct {
	// Name is the host.
	Name string `json:"name"`
	// View is "private" (the record of a private zone), "public" (the public DNS), "nxdomain" (a
	// private zone denies the name) or "not known" (the given settings do not tell).
	View string `json:"view"`
	// Zone is the private zone that is meant for the name; empty = none is given.
	Zone string `json:"zone,omitempty"`
	// Addresses are those of the private zone's record.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// Path says in sentences how the question travels.
	Path []string `json:"path,omitempty"`
}

const (
	viewPrivate  = "private"
	viewPublic   = "public"
	viewNXDomain = "nxdomain"
	viewUnknown  = "not known"

	maxGivenHosts = 64
)

// Findings returns the faults, in the order of the hosts.
func (r *GivenReport) Findings() []classify.Finding { return slices.Clone(r.findings) }

// Judge derives what the nodes of a network, given by ID or name, would get for hosts: the registry
// and every data endpoint. Names of private endpoints that begin like one of the hosts are added,
// since a pull needs them too. started is when the oldest node booted, changed when the network's
// DNS servers were last set; a zero of either leaves that question out. The error is for a network
// that was not given, and for a host that is no host name.
//
// It proves nothing about a node: settings may not have reached it, and DNS servers may do other
// than what is given.
func (g *Given) Judge(network string, hosts []string, started, changed time.Time) (*GivenReport, error) {
	at := slices.IndexFunc(g.networks, func(n givenNetwork) bool {
		return network != "" && (strings.EqualFold(n.id, network) || strings.EqualFold(n.name, network))
	})
	if at < 0 {
		return nil, fmt.Errorf("dnscheck: network %.80q is not among the given ones", network)
	}
	net := &g.networks[at]
	if len(hosts) == 0 {
		return nil, errors.New("dnscheck: want a host, got none")
	}
	for _, h := range hosts {
		if err := checkName(h); err != nil {
			return nil, err
		}
	}
	r := &GivenReport{Network: classify.Redact(net.name, maxNameText)}
	for _, name := range g.withEndpoints(hosts) {
		j := givenJudge{given: g, network: net, host: GivenHost{Name: lower(name)}}
		j.judge()
		r.Hosts = append(r.Hosts, j.host)
		r.findings = append(r.findings, j.findings...)
		if j.host.View == viewUnknown && r.Inconclusive == "" {
			r.Inconclusive = j.unknown
		}
	}
	if !started.IsZero() && started.Before(changed) {
		f := classify.New(classify.DNSSettingsNotRenewed,
			fmt.Sprintf("The DNS servers of network %s were set on %s, after the oldest node had started on %s; a running node keeps those of its last lease.",
				net.name, changed.UTC().Format(time.DateTime), started.UTC().Format(time.DateTime)))
		f.Severity, f.Certainty = classify.SeverityWarn, classify.CertaintyLikely
		r.findings = append(r.findings, f)
	}
	return r, nil
}

func (g *Given) withEndpoints(hosts []string) []string {
	all := slices.Clone(hosts)
	for _, h := range hosts {
		label, _, _ := strings.Cut(h, ".")
		for _, e := range g.endpoints {
			first, _, _ := strings.Cut(e.name, ".")
			if strings.EqualFold(label, first) && len(all) < maxGivenHosts && checkName(e.name) == nil &&
				!slices.ContainsFunc(all, func(x string) bool { return strings.EqualFold(x, e.name) }) {
				all = append(all, e.name)
			}
		}
	}
	return all
}

// givenJudge follows one host through the given settings.
type givenJudge struct {
	given    *Given
	network  *givenNetwork
	host     GivenHost
	findings []classify.Finding
	unknown  string
}

// view settles the host's view and says how it came to it.
func (j *givenJudge) view(view, format string, args ...any) {
	j.host.View = view
	j.path(format, args...)
}

func (j *givenJudge) path(format string, args ...any) {
	j.host.Path = append(j.host.Path, classify.Redact(fmt.Sprintf(format, args...), 512))
}

func (j *givenJudge) notGiven(format string, args ...any) {
	j.unknown = fmt.Sprintf(format, args...)
	j.view(viewUnknown, "%s", j.unknown)
}

func (j *givenJudge) fail(cause classify.Cause, format string, args ...any) {
	f := classify.New(cause, classify.Redact(fmt.Sprintf(format, args...), 512))
	f.Endpoint, f.Certainty = j.host.Name, classify.CertaintyLikely
	j.findings = append(j.findings, f)
}

func (j *givenJudge) judge() {
	zone, record := j.zone()
	if zone == nil {
		j.view(viewPublic, "no given zone is meant for %s", j.host.Name)
		return
	}
	j.host.Zone = classify.Redact(zone.name, maxNameText)
	resolving := j.resolving(zone)
	if resolving == nil {
		return
	}
	at := slices.IndexFunc(zone.links, func(l givenLink) bool { return strings.EqualFold(l.network, resolving.id) })
	if at < 0 || !zone.links[at].complete {
		state := "has no link to network " + resolving.name
		if at >= 0 {
			state = "has a link to network " + resolving.name + " that is not in force"
		} else if !zone.allLinks {
			j.notGiven("the links of zone %s are not given", zone.name)
			return
		}
		j.view(viewPublic, "zone %s %s", zone.name, state)
		j.fail(classify.DNSZoneNotLinked, "Zone %s %s, so that nodes of %s get the public answer for %s.", zone.name, state, j.network.name, j.host.Name)
		return
	}
	j.path("zone %s is linked to network %s", zone.name, resolving.name)
	for _, rec := range zone.records {
		if strings.EqualFold(rec.name, record) {
			j.view(viewPrivate, "record %s: %s", rec.name, joined(rec.addresses))
			j.host.Addresses = rec.addresses
			j.stale(zone, rec)
			return
		}
	}
	switch {
	case !zone.allRecords:
		j.notGiven("the records of zone %s are not given", zone.name)
	case zone.links[at].fallback:
		j.view(viewPublic, "no record %s; the link falls back to public DNS", record)
		j.fail(classify.DNSPublicAnswer, "Zone %s has no record %s and its link falls back to public DNS, so that nodes of %s get the public answer for %s.", zone.name, record, j.network.name, j.host.Name)
		j.findings[len(j.findings)-1].Severity = classify.SeverityWarn
	default:
		j.view(viewNXDomain, "no record %s", record)
		j.fail(classify.DNSPrivateZoneEmpty, "Zone %s is linked to network %s and has no record %s, so that %s does not exist for its nodes.", zone.name, resolving.name, record, j.host.Name)
	}
}

// stale compares a record with the private endpoint it is for.
func (j *givenJudge) stale(zone *givenZone, rec givenNames) {
	for _, e := range j.given.endpoints {
		if strings.EqualFold(e.name, j.host.Name) && len(e.addresses) > 0 && !overlap(rec.addresses, e.addresses) {
			j.fail(classify.DNSStaleRecord, "Record %s of zone %s is %s, while the private endpoint for %s has %s.", rec.name, zone.name, joined(rec.addresses), j.host.Name, joined(e.addresses))
		}
	}
}

// zone finds the zone that is meant for the host, and its record there: a zone that holds the name
// itself, else the private-link zone of its public one. The longest wins.
func (j *givenJudge) zone() (best *givenZone, record string) {
	length := 0
	for i := range j.given.zones {
		z := &j.given.zones[i]
		public := strings.TrimPrefix(lower(z.name), privateLinkLabel+".")
		if rel, ok := below(j.host.Name, public); ok && len(public) > length {
			best, record, length = z, rel, len(public)
		}
	}
	return best, record
}

// resolving is the network by whose links the name is looked up. nil = the view is settled without,
// or not known.
func (j *givenJudge) resolving(zone *givenZone) *givenNetwork {
	net := j.network
	if len(net.servers) == 0 || slices.Contains(net.servers, azurePlatform) {
		j.path("network %s uses the platform's resolver", net.name)
		return net
	}
	j.path("network %s uses its own DNS servers %s", net.name, joined(net.servers))
	rule := j.forwarder()
	if rule == nil {
		if !j.given.forwardersDone {
			j.notGiven("where the DNS servers forward %s is not given", j.host.Name)
			return nil
		}
		j.view(viewPublic, "no forwarder covers it")
		zoneOnly := ""
		if slices.ContainsFunc(j.given.forwarders, func(f givenNames) bool { return strings.EqualFold(trimDot(f.name), trimDot(zone.name)) }) {
			zoneOnly = " (there is one for " + zone.name + " alone, which many servers do not use for the alias)"
		}
		j.fail(classify.DNSForwarderMissing, "The DNS servers %s of network %s have no forwarder for %s%s, so that its nodes get the public answer.", joined(net.servers), net.name, j.host.Name, zoneOnly)
		return nil
	}
	for _, target := range rule.addresses {
		place := target
		if target == azurePlatform {
			place = net.servers[0] // it answers for the network that asks it
		}
		if slices.Contains(net.servers, target) {
			continue // it would forward to itself
		}
		for i := range j.given.networks {
			n := &j.given.networks[i]
			if slices.ContainsFunc(n.prefixes, func(p netip.Prefix) bool { return p.Contains(place) }) {
				j.path("they forward %s to %s, which resolves in network %s", rule.name, target, n.name)
				return n
			}
		}
	}
	j.notGiven("the network in which %s, to which %s is forwarded, resolves is not given", joined(rule.addresses), rule.name)
	return nil
}

// forwarder is the rule with the longest domain above the host; nil = none.
func (j *givenJudge) forwarder() (best *givenNames) {
	length := -1
	for i := range j.given.forwarders {
		domain := strings.ToLower(strings.Trim(j.given.forwarders[i].name, "."))
		if _, ok := below(j.host.Name, domain); (ok || domain == "") && len(domain) > length {
			best, length = &j.given.forwarders[i], len(domain)
		}
	}
	return best
}
