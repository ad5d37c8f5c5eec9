package dnscheck_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
)

const (
	azure    = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers/Microsoft.Network/"
	spokeID  = azure + "virtualNetworks/spoke"
	hubID    = azure + "virtualNetworks/hub"
	zoneID   = azure + "privateDnsZones/privatelink.azurecr.io"
	networks = `[
 {"id": "` + spokeID + `", "name": "spoke", "addressSpace": {"addressPrefixes": ["10.20.0.0/16"]}, "dhcpOptions": {"dnsServers": []}},
 {"id": "` + hubID + `", "name": "hub", "addressSpace": {"addressPrefixes": ["10.10.0.0/16"]}, "dhcpOptions": null}]`
	ownServers = `[
 {"id": "` + spokeID + `", "name": "spoke", "addressSpace": {"addressPrefixes": ["10.20.0.0/16"]}, "dhcpOptions": {"dnsServers": ["10.10.0.4", "10.10.0.5"]}},
 {"id": "` + hubID + `", "name": "hub", "addressSpace": {"addressPrefixes": ["10.10.0.0/16"]}}]`
	registryName = "contoso.azurecr.io"
	dataName     = "contoso.westeurope.data.azurecr.io"
	endpointJSON = `{"id": "` + azure + `privateEndpoints/pe", "name": "pe", "customDnsConfigs": [
 {"fqdn": "contoso.azurecr.io", "ipAddresses": ["10.20.1.5"]}, {"fqdn": "contoso.westeurope.data.azurecr.io", "ipAddresses": ["10.20.1.4"]}]}`
)

func linkTo(id, more string) string {
	return `[{"id": "` + zoneID + `/virtualNetworkLinks/l1", "name": "l1", "virtualNetwork": {"id": "` + id + `"}, "virtualNetworkLinkState": "Completed"` + more + `}]`
}

func records(names ...string) string {
	var all []string
	for i := 0; i < len(names); i += 2 {
		all = append(all, `{"id": "`+zoneID+`/A/`+names[i]+`", "name": "`+names[i]+`", "type": "Microsoft.Network/privateDnsZones/A", "ttl": 10, "aRecords": [{"ipv4Address": "`+names[i+1]+`"}]}`)
	}
	all = append(all, `{"id": "`+zoneID+`/SOA/@", "name": "@", "type": "Microsoft.Network/privateDnsZones/SOA"}`)
	return "[" + strings.Join(all, ",") + "]"
}

func TestGiven(t *testing.T) {
	t.Parallel()
	both := records("contoso", "10.20.1.5", "contoso.westeurope.data", "10.20.1.4")
	for _, tt := range []struct {
		name       string
		settings   []string
		forwarders string // "-" = not given
		views      []string
		codes      []string
		says       string
		unknown    string
	}{
		{name: "all in place", settings: []string{networks, linkTo(spokeID, ""), both}, views: []string{"private", "private"}},
		{
			name: "linked to the hub only", settings: []string{networks, linkTo(hubID, ""), both}, views: []string{"public", "public"},
			codes: []string{"dns.zone-not-linked", "dns.zone-not-linked"}, says: "no link to network spoke",
		},
		{
			name: "the data endpoint is forgotten", settings: []string{networks, linkTo(strings.ToUpper(spokeID), ""), records("contoso", "10.20.1.5")},
			views: []string{"private", "nxdomain"}, codes: []string{"dns.private-zone-empty"}, says: "no record contoso.westeurope.data",
		},
		{
			name: "the same, with fallback to the internet", settings: []string{networks, linkTo(spokeID, `, "resolutionPolicy": "NxDomainRedirect"`), records("contoso", "10.20.1.5")},
			views: []string{"private", "public"}, codes: []string{"dns.public-answer"},
		},
		{
			name: "a record of a deleted endpoint", settings: []string{networks, linkTo(spokeID, ""), records("contoso", "10.20.1.99", "contoso.westeurope.data", "10.20.1.4"), endpointJSON},
			views: []string{"private", "private"}, codes: []string{"dns.stale-record"}, says: "is 10.20.1.99, while the private endpoint for contoso.azurecr.io has 10.20.1.5",
		},
		{
			name: "own servers that forward to the platform, zone linked to their network", settings: []string{ownServers, linkTo(hubID, ""), both},
			forwarders: "azurecr.io 168.63.129.16 # to Azure\n. 203.0.113.53\n", views: []string{"private", "private"},
		},
		{
			name: "own servers, zone linked to the nodes' network", settings: []string{ownServers, linkTo(spokeID, ""), both},
			forwarders: "azurecr.io, 168.63.129.16\n", views: []string{"public", "public"}, codes: []string{"dns.zone-not-linked", "dns.zone-not-linked"}, says: "no link to network hub",
		},
		{
			name: "own servers without a forwarder", settings: []string{ownServers, linkTo(hubID, ""), both}, forwarders: "privatelink.azurecr.io 168.63.129.16\n",
			views: []string{"public", "public"}, codes: []string{"dns.forwarder-missing", "dns.forwarder-missing"}, says: "for privatelink.azurecr.io alone",
		},
		{
			name:     "rules of a private resolver",
			settings: []string{ownServers, linkTo(hubID, ""), both, `[{"id": "` + azure + `dnsForwardingRulesets/rs/forwardingRules/r1", "domainName": "azurecr.io.", "forwardingRuleState": "Enabled", "targetDnsServers": [{"ipAddress": "10.10.9.4", "port": 53}]}]`},
			views:    []string{"private", "private"}, forwarders: "-",
		},
		{name: "own servers, nothing known of them", settings: []string{ownServers, linkTo(hubID, ""), both}, forwarders: "-", views: []string{"not known", "not known"}, unknown: "is not given"},
		{name: "no zone", settings: []string{networks}, views: []string{"public", "public"}},
		{name: "no links given", settings: []string{networks, both}, views: []string{"not known", "not known"}, unknown: "the links of zone privatelink.azurecr.io are not given"},
		{name: "no records given", settings: []string{networks, linkTo(spokeID, "")}, views: []string{"not known", "not known"}, unknown: "the records"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var g dnscheck.Given
			for _, s := range tt.settings {
				require.NoError(t, g.AddAzure([]byte(s)))
			}
			if tt.forwarders != "-" {
				require.NoError(t, g.AddForwarders([]byte(tt.forwarders)))
			}
			r, err := g.Judge("spoke", []string{registryName, dataName}, time.Time{}, time.Time{})
			require.NoError(t, err)
			var views, causes []string
			for _, h := range r.Hosts {
				views = append(views, h.View)
			}
			for _, f := range r.Findings() {
				causes = append(causes, string(f.Cause))
				assert.Equal(t, classify.LayerDNS, f.Layer)
				assert.Contains(t, []string{registryName, dataName}, f.Endpoint)
			}
			assert.Equal(t, tt.views, views)
			assert.Equal(t, tt.codes, causes)
			assert.Contains(t, r.Inconclusive, tt.unknown)
			assert.Equal(t, tt.unknown == "", r.Inconclusive == "")
			if tt.says != "" {
				assert.Contains(t, r.Findings()[0].Summary, tt.says)
			}
		})
	}
}

func TestGivenHostsAndTimes(t *testing.T) {
	t.Parallel()
	var g dnscheck.Given
	require.NoError(t, g.AddAzure([]byte(networks)))
	require.NoError(t, g.AddAzure([]byte(endpointJSON)))
	changed := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

	r, err := g.Judge(spokeID, []string{registryName}, changed.Add(-time.Hour), changed)
	require.NoError(t, err)
	require.Len(t, r.Hosts, 2, "the endpoint's data name belongs to the pull")
	assert.Equal(t, dataName, r.Hosts[1].Name)
	require.Len(t, r.Findings(), 1)
	assert.Equal(t, classify.DNSSettingsNotRenewed, r.Findings()[0].Cause)

	r, err = g.Judge("hub", []string{registryName}, changed.Add(time.Hour), changed)
	require.NoError(t, err)
	assert.Empty(t, r.Findings())

	for _, bad := range []struct {
		network string
		hosts   []string
	}{{"elsewhere", []string{registryName}}, {"", []string{registryName}}, {"hub", nil}, {"hub", []string{"contoso.azurecr.io:443"}}} {
		_, err := g.Judge(bad.network, bad.hosts, time.Time{}, time.Time{})
		assert.Error(t, err)
	}
}

func TestGivenBadInput(t *testing.T) {
	t.Parallel()
	var g dnscheck.Given
	for _, bad := range []string{"", "{", "[{]", "null x", `{"id": 7}`, `{"hello": "world"}`, `[{"id": "/subscriptions/x"}]`} {
		assert.Error(t, g.AddAzure([]byte(bad)), bad)
	}
	assert.NoError(t, g.AddAzure([]byte("[]")))
	for _, bad := range []string{"azurecr.io", "azurecr.io dns.corp.test", "-x- 10.0.0.1", strings.Repeat("a", 70000)} {
		assert.Error(t, g.AddForwarders([]byte(bad)))
	}
	assert.Equal(t, dnscheck.Given{}, g)
}

func FuzzGiven(f *testing.F) {
	f.Add([]byte(networks), []byte("azurecr.io 168.63.129.16\n"))
	f.Add([]byte(ownServers), []byte(". 10.10.0.9\r\n#\n\x00"))
	f.Add([]byte(linkTo(spokeID, "")), []byte{})
	f.Add([]byte(records("contoso", "10.20.1.5")), []byte{})
	f.Add([]byte(endpointJSON), []byte{})
	f.Fuzz(func(t *testing.T, data, forwarders []byte) {
		var g dnscheck.Given
		for _, s := range []string{ownServers, linkTo(spokeID, ""), records("contoso", "10.20.1.5")} {
			if err := g.AddAzure([]byte(s)); err != nil {
				t.Fatal(err)
			}
		}
		_ = g.AddAzure(data)
		_ = g.AddForwarders(forwarders)
		r, err := g.Judge("spoke", []string{registryName}, time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Hosts) == 0 || len(r.Hosts) > 64 {
			t.Fatalf("%d hosts", len(r.Hosts))
		}
		for _, h := range r.Hosts {
			if h.View == "" {
				t.Fatalf("no view: %+v", h)
			}
		}
	})
}
