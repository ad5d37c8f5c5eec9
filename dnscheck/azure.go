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

// azureObject is any object of the Azure CLI that says something of DNS. Which
// one it is shows its id. Field names are matched without case, since versions
// differ ("aRecords", "arecords").
type azureObject struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	AddressSpace struct {
		AddressPrefixes []string `json:"addressPrefixes"`
	} `json:"addressSpace"`
	DHCPOptions struct {
		DNSServers []string `json:"dnsServers"`
	} `json:"dhcpOptions"`

	VirtualNetwork struct {
		ID string `json:"id"`
	} `json:"virtualNetwork"`
	LinkState  string `json:"virtualNetworkLinkState"`
	Resolution string `json:"resolutionPolicy"`

	ARecords []struct {
		Address string `json:"ipv4Address"`
	} `json:"aRecords"`
	AAAARecords []struct {
		Address string `json:"ipv6Address"`
	} `json:"aaaaRecords"`

	DomainName string `json:"domainName"`
	RuleState  string `json:"forwardingRuleState"`
	Targets    []struct {
		Address string `json:"ipAddress"`
	} `json:"targetDnsServers"`

	DNSConfigs []struct {
		FQDN      string   `json:"fqdn"`
		Addresses []string `json:"ipAddresses"`
	} `json:"customDnsConfigs"`
}

// AddAzure adds what the Azure CLI printed as JSON, one object or a list. It
// recognises the output of
//
//	az network vnet show, list
//	az network private-dns zone show, list
//	az network private-dns link vnet list
//	az network private-dns record-set list, record-set a list
//	az network private-endpoint show, list
//	az dns-resolver forwarding-rule list
//
// by the ids in it, and takes a list of links, records or rules for a whole one.
// An empty list says nothing, since it does not say of what. The error is for
// what is no such JSON.
func (g *Given) AddAzure(data []byte) error {
	if len(data) > maxAzure {
		return fmt.Errorf("dnscheck: more than %d bytes", maxAzure)
	}
	var objects []azureObject
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	list := bytes.HasPrefix(data, []byte("["))
	var err error
	if list {
		err = json.Unmarshal(data, &objects)
	} else {
		objects = make([]azureObject, 1)
		err = json.Unmarshal(data, &objects[0])
	}
	switch {
	case err != nil:
		return fmt.Errorf("dnscheck: not the JSON of the Azure CLI: %s", classify.Redact(err.Error(), maxErrorText))
	case len(objects) > maxObjects:
		return fmt.Errorf("dnscheck: more than %d objects", maxObjects)
	}
	known := 0
	for i := range objects {
		if g.addAzure(&objects[i], list) {
			known++
		}
	}
	if known == 0 && len(objects) > 0 {
		return errors.New("dnscheck: nothing in it is a network, zone, link, record set, private endpoint or forwarding rule of Azure")
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
	zone := after("privatednszones")
	switch {
	case after("virtualnetworklinks") != "" && zone != "":
		z := g.zoneNamed(zone)
		z.LinksKnown = z.LinksKnown || list
		z.Links = append(z.Links, GivenLink{
			Network: o.VirtualNetwork.ID, Complete: o.LinkState == "" || strings.EqualFold(o.LinkState, "Completed"),
			Fallback: strings.EqualFold(o.Resolution, "NxDomainRedirect"),
		})
	case zone != "" && len(parts) >= 2 && parts[len(parts)-2] != "privatednszones":
		z := g.zoneNamed(zone)
		z.RecordsKnown = z.RecordsKnown || list
		rec := GivenRecord{Name: strings.ToLower(o.Name)}
		for _, a := range o.ARecords {
			rec.Addresses = appendAddr(rec.Addresses, a.Address)
		}
		for _, a := range o.AAAARecords {
			rec.Addresses = appendAddr(rec.Addresses, a.Address)
		}
		if len(rec.Addresses) > 0 {
			z.Records = append(z.Records, rec)
		}
	case zone != "":
		g.zoneNamed(zone)
	case after("forwardingrules") != "" || o.DomainName != "" && len(o.Targets) > 0:
		g.ForwardersComplete = g.ForwardersComplete || list
		if strings.EqualFold(o.RuleState, "Disabled") {
			return true
		}
		f := GivenForwarder{Domain: strings.ToLower(unrooted(o.DomainName))}
		for _, t := range o.Targets {
			f.Targets = appendAddr(f.Targets, t.Address)
		}
		g.Forwarders = append(g.Forwarders, f)
	case after("privateendpoints") != "":
		for _, c := range o.DNSConfigs {
			e := GivenEndpoint{Name: strings.ToLower(unrooted(c.FQDN))}
			for _, a := range c.Addresses {
				e.Addresses = appendAddr(e.Addresses, a)
			}
			if checkName(e.Name) == nil {
				g.Endpoints = append(g.Endpoints, e)
			}
		}
	case after("virtualnetworks") != "" && len(parts) >= 2 && parts[len(parts)-2] == "virtualnetworks":
		n := GivenNetwork{ID: o.ID, Name: o.Name}
		for _, p := range o.AddressSpace.AddressPrefixes {
			if prefix, err := netip.ParsePrefix(p); err == nil {
				n.Prefixes = append(n.Prefixes, prefix)
			}
		}
		for _, s := range o.DHCPOptions.DNSServers {
			n.Servers = appendAddr(n.Servers, s)
		}
		g.Networks = append(g.Networks, n)
	default:
		return false
	}
	return true
}

func (g *Given) zoneNamed(name string) *GivenZone {
	for i := range g.Zones {
		if strings.EqualFold(g.Zones[i].Name, name) {
			return &g.Zones[i]
		}
	}
	g.Zones = append(g.Zones, GivenZone{Name: name})
	return &g.Zones[len(g.Zones)-1]
}

func appendAddr(all []netip.Addr, text string) []netip.Addr {
	addr, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil || len(all) == maxAddresses {
		return all
	}
	return append(all, addr.Unmap())
}

// AddForwarders adds the conditional forwarders of the custom DNS servers as a
// list that can be typed: a domain and the addresses it goes to on each line, "."
// for everything else, "#" before a comment. It is taken for the whole list. The
// error names the first line that is none.
func (g *Given) AddForwarders(data []byte) error {
	if len(data) > maxFile {
		return fmt.Errorf("dnscheck: more than %d bytes", maxFile)
	}
	var problems []string
	for line := range lines(data, &problems, "forwarders") {
		text, _, _ := strings.Cut(line.text, "#")
		f := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '\r' || r == ',' })
		if len(f) == 0 {
			continue
		}
		rule := GivenForwarder{Domain: strings.ToLower(unrooted(f[0]))}
		for _, a := range f[1:] {
			rule.Targets = appendAddr(rule.Targets, a)
		}
		if rule.Domain != "." && checkDomain(rule.Domain) != nil || len(rule.Targets) == 0 || len(g.Forwarders) == maxObjects {
			return fmt.Errorf("dnscheck: line %d: %s is not a domain with addresses", line.number, shown(line.text))
		}
		g.Forwarders = append(g.Forwarders, rule)
	}
	if len(problems) > 0 {
		return errors.New("dnscheck: " + problems[0])
	}
	g.ForwardersComplete = true
	return nil
}
