package dnscheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// The most that is kept of given settings.
const (
	maxAzure   = 16 << 20
	maxObjects = 20000
)

// azureObject is any object of the Azure CLI that says something of DNS; its ID shows its kind.
// Field names are matched without case, since versions differ ("aRecords", "arecords").
type azureObject struct {
	ID, Name     string
	AddressSpace struct{ AddressPrefixes []string }
	DHCPOptions  struct{ DNSServers []string }

	VirtualNetwork   struct{ ID string }
	LinkState        string `json:"virtualNetworkLinkState"`
	ResolutionPolicy string

	ARecords    []struct{ IPv4Address string }
	AAAARecords []struct{ IPv6Address string }

	DomainName          string
	ForwardingRuleState string
	TargetDNSServers    []struct{ IPAddress string }

	CustomDNSConfigs []struct {
		FQDN        string
		IPAddresses []string
	}
}

// AddAzure adds what the Azure CLI printed as JSON, one object or a list. It recognises the output
// of
//
//	az network vnet show, list
//	az network private-dns zone show, list
//	az network private-dns link vnet list
//	az network private-dns record-set list, record-set a list
//	az network private-endpoint show, list
//	az dns-resolver forwarding-rule list
//
// by the IDs in it, and takes a list of links, records or rules for a whole one. An empty list adds
// nothing. The error is for anything else.
func (g *Given) AddAzure(data []byte) error {
	if len(data) > maxAzure {
		return fmt.Errorf("dnscheck: want at most %d bytes, got %d", maxAzure, len(data))
	}
	var objects []azureObject
	var err error
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	list := bytes.HasPrefix(data, []byte("["))
	if list {
		err = json.Unmarshal(data, &objects)
	} else {
		objects = make([]azureObject, 1)
		err = json.Unmarshal(data, &objects[0])
	}
	switch {
	case err != nil:
		return fmt.Errorf("dnscheck: want JSON of the Azure CLI: %s", classify.Redact(err.Error(), maxErrorText))
	case len(objects) > maxObjects:
		return fmt.Errorf("dnscheck: want at most %d objects, got %d", maxObjects, len(objects))
	}
	known := 0
	for i := range objects {
		if g.addAzure(&objects[i], list) {
			known++
		}
	}
	if known == 0 && len(objects) > 0 {
		return errors.New("dnscheck: want a network, zone, link, record set, private endpoint or forwarding rule of Azure, got none of these")
	}
	return nil
}

func (g *Given) addAzure(o *azureObject, list bool) bool {
	parts := strings.Split(strings.ToLower(strings.Trim(o.ID, "/")), "/")
	after := func(kind string) string {
		if i := slices.Index(parts, kind); i >= 0 && i+1 < len(parts) {
			return parts[i+1]
		}
		return ""
	}
	parent := "" // the last word but one
	if len(parts) > 1 {
		parent = parts[len(parts)-2]
	}
	zone := after("privatednszones")
	switch {
	case zone != "" && after("virtualnetworklinks") != "":
		z := g.zoneNamed(zone)
		z.allLinks = z.allLinks || list
		z.links = append(z.links, givenLink{
			network: o.VirtualNetwork.ID, complete: o.LinkState == "" || strings.EqualFold(o.LinkState, "Completed"),
			fallback: strings.EqualFold(o.ResolutionPolicy, "NxDomainRedirect"),
		})
	case zone != "" && parent != "privatednszones":
		z := g.zoneNamed(zone)
		z.allRecords = z.allRecords || list
		rec := givenNames{name: strings.ToLower(o.Name)}
		for _, a := range o.ARecords {
			rec.add(a.IPv4Address)
		}
		for _, a := range o.AAAARecords {
			rec.add(a.IPv6Address)
		}
		if len(rec.addresses) > 0 {
			z.records = append(z.records, rec)
		}
	case zone != "":
		g.zoneNamed(zone)
	case after("forwardingrules") != "" || o.DomainName != "" && len(o.TargetDNSServers) > 0:
		g.forwardersDone = g.forwardersDone || list
		if !strings.EqualFold(o.ForwardingRuleState, "Disabled") {
			f := givenNames{name: strings.ToLower(trimDot(o.DomainName))}
			for _, t := range o.TargetDNSServers {
				f.add(t.IPAddress)
			}
			g.forwarders = append(g.forwarders, f)
		}
	case after("privateendpoints") != "":
		for _, c := range o.CustomDNSConfigs {
			e := givenNames{name: strings.ToLower(trimDot(c.FQDN))}
			e.add(c.IPAddresses...)
			if checkName(e.name) == nil {
				g.endpoints = append(g.endpoints, e)
			}
		}
	case parent == "virtualnetworks":
		n := givenNetwork{id: o.ID, name: o.Name}
		for _, p := range o.AddressSpace.AddressPrefixes {
			if prefix, err := netip.ParsePrefix(p); err == nil {
				n.prefixes = append(n.prefixes, prefix)
			}
		}
		var servers givenNames
		servers.add(o.DHCPOptions.DNSServers...)
		n.servers = servers.addresses
		g.networks = append(g.networks, n)
	default:
		return false
	}
	return true
}

func (g *Given) zoneNamed(name string) *givenZone {
	at := slices.IndexFunc(g.zones, func(z givenZone) bool { return strings.EqualFold(z.name, name) })
	if at < 0 {
		at = len(g.zones)
		g.zones = append(g.zones, givenZone{name: name})
	}
	return &g.zones[at]
}

// add appends what is an address, within the bound.
func (n *givenNames) add(texts ...string) {
	for _, text := range texts {
		if addr, err := netip.ParseAddr(strings.TrimSpace(text)); err == nil && len(n.addresses) < maxAddresses {
			n.addresses = append(n.addresses, addr.Unmap())
		}
	}
}

// AddForwarders adds the conditional forwarders of the network's own DNS servers: a domain and the
// addresses it goes to on each line, "." for everything else, "#" before a comment. It is taken for
// the whole list. The error names the first other line.
func (g *Given) AddForwarders(data []byte) error {
	if len(data) > maxFile {
		return fmt.Errorf("dnscheck: want at most %d bytes, got %d", maxFile, len(data))
	}
	var problems []string
	for line := range lines(data, &problems, "forwarders") {
		text, _, _ := strings.Cut(line.text, "#")
		f := fields(strings.ReplaceAll(text, ",", " "))
		if len(f) == 0 {
			continue
		}
		rule := givenNames{name: strings.ToLower(trimDot(f[0]))}
		rule.add(f[1:]...)
		if rule.name != "." && checkDomain(rule.name) != nil || len(rule.addresses) == 0 || len(g.forwarders) == maxObjects {
			return fmt.Errorf("dnscheck: line %d: want a domain with addresses, got %s", line.number, shown(line.text))
		}
		g.forwarders = append(g.forwarders, rule)
	}
	if len(problems) > 0 {
		return errors.New("dnscheck: " + problems[0])
	}
	g.forwardersDone = true
	return nil
}
