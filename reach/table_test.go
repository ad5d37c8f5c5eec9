package reach_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/reach"
)

const azureRoutes = `{"nextLink": null, "value": [
  {"addressPrefix": ["10.40.0.0/16"], "nextHopIpAddress": [], "nextHopType": "VnetLocal", "source": "Default", "state": "Active", "name": null},
  {"addressPrefix": ["10.20.0.0/16", "10.21.0.0/16"], "nextHopIpAddress": ["10.60.0.4"], "nextHopType": "VirtualNetworkGateway", "source": "VirtualNetworkGateway", "state": "Active", "hasBgpOverride": false},
  {"addressPrefix": ["10.20.8.0/24"], "nextHopIpAddress": [], "nextHopType": "None", "source": "User", "state": "Active", "name": "quarantine"},
  {"addressPrefix": ["0.0.0.0/0"], "nextHopIpAddress": [], "nextHopType": "Internet", "source": "Default", "state": "Invalid"},
  {"addressPrefix": ["0.0.0.0/0"], "nextHopIpAddress": ["10.40.255.4"], "nextHopType": "VirtualAppliance", "source": "User", "state": "Active", "name": "to-firewall"},
  {"addressPrefix": ["10.0.0.0/8"], "nextHopIpAddress": [], "nextHopType": "SomethingNew", "source": "Default", "state": "Active"}
]}`

const azureRules = `{"value": [{
  "association": {"networkInterface": null, "subnet": {"id": "/subscriptions/x/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/v/subnets/nodes"}},
  "networkSecurityGroup": {"id": "/subscriptions/x/resourceGroups/rg/providers/Microsoft.Network/networkSecurityGroups/nsg-nodes"},
  "effectiveSecurityRules": [
    {"access": "Allow", "direction": "Outbound", "name": "securityRules/allow-registry", "priority": 200, "protocol": "Tcp",
     "sourceAddressPrefix": "10.40.0.0/16", "destinationAddressPrefix": "10.20.0.4/32", "destinationPortRange": "443-443", "destinationPortRanges": ["443-443"]},
    {"access": "Deny", "direction": "Outbound", "name": "securityRules/deny-private", "priority": 300, "protocol": "All",
     "sourceAddressPrefixes": ["0.0.0.0/0", "0.0.0.0/0"], "destinationAddressPrefixes": ["10.20.0.0/16"], "destinationPortRange": "0-65535"},
    {"access": "Allow", "direction": "Outbound", "name": "securityRules/allow-storage", "priority": 400, "protocol": "Tcp",
     "sourceAddressPrefix": "*", "destinationAddressPrefix": "Storage", "destinationPortRange": "443"},
    {"access": "Allow", "direction": "Outbound", "name": "defaultSecurityRules/AllowVnetOutBound", "priority": 65000, "protocol": "All",
     "sourceAddressPrefix": "VirtualNetwork", "expandedSourceAddressPrefix": ["10.40.0.0/16"], "destinationAddressPrefix": "VirtualNetwork", "expandedDestinationAddressPrefix": ["10.40.0.0/16", "10.60.0.0/16"], "destinationPortRange": "0-65535"},
    {"access": "Deny", "direction": "Outbound", "name": "defaultSecurityRules/DenyAllOutBound", "priority": 65500, "protocol": "All",
     "sourceAddressPrefix": "0.0.0.0/0", "destinationAddressPrefix": "0.0.0.0/0", "destinationPortRange": "0-65535"},
    {"access": "Deny", "direction": "Outbound", "name": "securityRules/no-ping", "priority": 100, "protocol": "Icmp", "destinationAddressPrefix": "*"}
  ]}]}`

func azureTable(t *testing.T) *reach.Table {
	t.Helper()
	routes, err := reach.ParseAzureRoutes(strings.NewReader(azureRoutes))
	require.NoError(t, err)
	rules, err := reach.ParseAzureRules(strings.NewReader(azureRules))
	require.NoError(t, err)
	return &reach.Table{Name: "nodes", Routes: routes, Rules: rules}
}

func TestAzureTable(t *testing.T) {
	t.Parallel()
	table := azureTable(t)
	require.Len(t, table.Routes, 7)
	for dst, want := range map[string]string{
		"10.40.7.7": "10.40.0.0/16 -> local (default)",
		"10.20.0.4": "10.20.0.0/16 -> gateway 10.60.0.4 (bgp)",
		"10.20.8.4": "10.20.8.0/24 -> none (user)",
		"192.0.2.1": "0.0.0.0/0 -> appliance 10.40.255.4 (user)",
		"10.99.0.1": "10.0.0.0/8 -> other (default)",
	} {
		d := table.RouteFor(netip.MustParseAddr(dst))
		assert.True(t, d.Found)
		assert.Equal(t, want, d.Route.String())
		assert.NotEmpty(t, d.Reason)
	}
	assert.False(t, table.RouteFor(netip.MustParseAddr("2001:db8::1")).Found)
	assert.False(t, table.RouteFor(netip.Addr{}).Found)

	require.Len(t, table.Rules, 5, "ICMP rules say nothing of a pull")
	assert.Equal(t, "nsg-nodes on subnet nodes", table.Rules[0].Group)
	for _, tc := range []struct {
		dst              string
		decided, allowed bool
		reason           string
	}{
		{"10.20.0.4:443", true, true, "allow-registry"},
		{"10.20.0.4:80", true, false, "deny-private"},
		{"10.60.0.4:443", false, false, "Storage"}, // open: the tag's prefixes are not given
		{"10.60.0.4:53", true, true, "AllowVnetOutBound"},
		{"192.0.2.1:53", true, false, "DenyAllOutBound"},
	} {
		d := table.Allows("out", "tcp", netip.MustParseAddr("10.40.0.7"), netip.MustParseAddrPort(tc.dst))
		assert.Equal(t, tc.decided, d.Decided, "%s %s", tc.dst, d.Reason)
		assert.Equal(t, tc.allowed, d.Allowed, tc.dst)
		assert.Contains(t, d.Reason, tc.reason)
	}
	d := table.Allows("in", "tcp", netip.MustParseAddr("10.40.0.7"), target)
	assert.False(t, d.Decided, "a list without an inbound rule was not given whole")
	d = (&reach.Table{}).Allows("", "", netip.Addr{}, netip.AddrPort{})
	assert.False(t, d.Decided)
}

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func route(p string, kind string, address ...string) reach.TableRoute {
	r := reach.TableRoute{Prefix: prefix(p), NextHop: reach.NextHop{Kind: kind}}
	if len(address) > 0 {
		r.Address = netip.MustParseAddr(address[0])
	}
	return r
}

func TestRouteForOrder(t *testing.T) {
	t.Parallel()
	with := func(r reach.TableRoute, source string, metric int) reach.TableRoute {
		r.Source, r.Metric = source, metric
		return r
	}
	for name, tc := range map[string]struct {
		routes []reach.TableRoute
		want   string
		reason string
	}{
		"longest prefix": {[]reach.TableRoute{route("0.0.0.0/0", "internet"), route("10.20.0.0/24", "peering"), route("10.0.0.0/8", "gateway")}, "peering", "more specific than 10.0.0.0/8"},
		"source":         {[]reach.TableRoute{with(route("10.20.0.0/24", "peering"), "default", 0), with(route("10.20.0.0/24", "gateway"), "bgp", 0), with(route("10.20.0.0/24", "none"), "user", 0)}, "none", "user comes before bgp"},
		"metric":         {[]reach.TableRoute{with(route("10.20.0.0/24", "peering"), "", 200), with(route("10.20.0.0/24", "gateway"), "", 100)}, "gateway", "lowest metric"},
		"first":          {[]reach.TableRoute{route("10.20.0.0/24", "peering"), route("10.20.0.0/24", "gateway")}, "peering", "more than once"},
		"alone":          {[]reach.TableRoute{route("10.20.0.0/24", "peering"), {}}, "peering", "only active route"},
	} {
		d := (&reach.Table{Routes: tc.routes}).RouteFor(netip.MustParseAddr("::ffff:10.20.0.4"))
		assert.Equal(t, tc.want, d.Route.Kind, name)
		assert.Contains(t, d.Reason, tc.reason, name)
	}
	inactive := route("10.20.0.0/24", "peering")
	inactive.Inactive = true
	d := (&reach.Table{Routes: []reach.TableRoute{inactive}}).RouteFor(target.Addr())
	assert.False(t, d.Found)
	assert.Contains(t, d.Reason, "1 inactive")
}

func TestCheckPath(t *testing.T) {
	t.Parallel()
	node := netip.MustParseAddr("10.40.0.7")
	good := []reach.TableRoute{route("10.20.0.0/16", "gateway")}
	goodBack := []reach.TableRoute{route("10.40.0.0/16", "gateway"), route("0.0.0.0/0", "internet")}
	deny := reach.Rule{Name: "deny-all", Priority: 100, Direction: "out"}
	denyIn := reach.Rule{Name: "deny-spokes", Priority: 100, Direction: "in", Sources: []netip.Prefix{prefix("10.40.0.0/16")}}
	allow := reach.Rule{Name: "allow-tcp", Priority: 10, Allow: true, Protocol: "tcp"}
	for name, tc := range map[string]struct {
		forward, back *reach.Table
		registry      string
		intended      []reach.NextHop
		causes        []classify.Cause
		held          bool
		open          string
		note          string
	}{
		"both ways":                 {forward: &reach.Table{Routes: good}, back: &reach.Table{Routes: goodBack}, held: true},
		"no table of the way back":  {forward: &reach.Table{Routes: good}, open: "way back is unknown"},
		"no route there":            {forward: &reach.Table{Routes: goodBack[:1]}, back: &reach.Table{Routes: goodBack}, causes: []classify.Cause{classify.RouteNextHopNone}},
		"none":                      {forward: &reach.Table{Routes: append(good, route("10.20.0.4/32", "none"))}, back: &reach.Table{Routes: goodBack}, causes: []classify.Cause{classify.RouteNextHopNone}},
		"unreachable":               {forward: &reach.Table{Routes: []reach.TableRoute{route("10.20.0.4/32", "unreachable")}}, back: &reach.Table{Routes: goodBack}, causes: []classify.Cause{classify.RouteNoRouteToHost}},
		"prohibit":                  {forward: &reach.Table{Routes: []reach.TableRoute{route("10.20.0.4/32", "prohibit")}}, back: &reach.Table{Routes: goodBack}, causes: []classify.Cause{classify.RouteProhibited}},
		"private to the Internet":   {forward: &reach.Table{Routes: goodBack[1:]}, back: &reach.Table{Routes: goodBack}, causes: []classify.Cause{classify.RouteInternetNextHop}},
		"public to the Internet":    {forward: &reach.Table{Routes: goodBack[1:]}, back: &reach.Table{Routes: goodBack}, registry: "192.0.2.4:443", held: true},
		"one way only":              {forward: &reach.Table{Routes: good}, back: &reach.Table{Routes: goodBack[1:]}, causes: []classify.Cause{classify.RouteNoReturnRoute}},
		"no route back":             {forward: &reach.Table{Routes: good}, back: &reach.Table{}, causes: []classify.Cause{classify.RouteNoReturnRoute}},
		"none back":                 {forward: &reach.Table{Routes: good}, back: &reach.Table{Routes: []reach.TableRoute{route("10.0.0.0/8", "none")}}, causes: []classify.Cause{classify.RouteNoReturnRoute}},
		"forced tunnel, same back":  {forward: &reach.Table{Routes: []reach.TableRoute{route("0.0.0.0/0", "appliance", "10.99.0.4")}}, back: &reach.Table{Routes: []reach.TableRoute{route("10.40.0.0/16", "appliance", "10.99.0.4")}}, held: true, note: "forced tunnel"},
		"appliance one way":         {forward: &reach.Table{Routes: []reach.TableRoute{route("10.20.0.0/16", "appliance", "10.99.0.4")}}, back: &reach.Table{Routes: goodBack}, causes: []classify.Cause{classify.RouteAsymmetric}, held: true},
		"two appliances":            {forward: &reach.Table{Routes: []reach.TableRoute{route("10.20.0.0/16", "appliance", "10.99.0.4")}}, back: &reach.Table{Routes: []reach.TableRoute{route("10.40.0.0/16", "appliance", "10.99.0.5")}}, causes: []classify.Cause{classify.RouteAsymmetric}, held: true},
		"as intended":               {forward: &reach.Table{Routes: good}, back: &reach.Table{Routes: goodBack}, intended: []reach.NextHop{{Kind: "appliance"}, {Kind: "gateway"}}, held: true},
		"not as intended":           {forward: &reach.Table{Routes: good}, back: &reach.Table{Routes: goodBack}, intended: []reach.NextHop{{Kind: "appliance", Address: netip.MustParseAddr("10.99.0.4")}}, causes: []classify.Cause{classify.RouteUnintendedNextHop}},
		"denied out":                {forward: &reach.Table{Routes: good, Rules: []reach.Rule{deny}}, back: &reach.Table{Routes: goodBack}, causes: []classify.Cause{classify.RouteRuleDenies}},
		"denied in":                 {forward: &reach.Table{Routes: good}, back: &reach.Table{Routes: goodBack, Rules: []reach.Rule{denyIn}}, causes: []classify.Cause{classify.RouteRuleDenies}},
		"denied by a second group":  {forward: &reach.Table{Routes: good, Rules: []reach.Rule{allow, {Group: "nic", Name: "deny", Priority: 1}}}, back: &reach.Table{Routes: goodBack}, causes: []classify.Cause{classify.RouteRuleDenies}},
		"resolver, UDP denied":      {forward: &reach.Table{Routes: good, Rules: []reach.Rule{allow, deny}}, back: &reach.Table{Routes: goodBack}, registry: "10.20.0.53:53", causes: []classify.Cause{classify.RouteRuleDenies}},
		"rule with an unknown name": {forward: &reach.Table{Routes: good, Rules: []reach.Rule{{Name: "tag", Allow: true, DestinationTags: []string{"Storage"}}}}, back: &reach.Table{Routes: goodBack}, open: "Storage"},
		"unknown kind of hop":       {forward: &reach.Table{Routes: []reach.TableRoute{route("0.0.0.0/0", "other")}}, back: &reach.Table{Routes: goodBack}, open: "not known here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := target
			if tc.registry != "" {
				to = netip.MustParseAddrPort(tc.registry)
			}
			r, err := reach.CheckPath(tc.forward, tc.back, node, to, tc.intended...)
			require.NoError(t, err)
			var got []classify.Cause
			for _, f := range r.Findings() {
				got = append(got, f.Cause)
				assert.Equal(t, to.String(), f.Endpoint)
				assert.NotEmpty(t, f.Fact(classify.FactSource))
			}
			assert.Equal(t, tc.causes, got, "%v", r.Findings())
			assert.Equal(t, tc.held, r.Held(), "%+v", r)
			if tc.open == "" {
				assert.Empty(t, r.Inconclusive)
			} else {
				assert.Contains(t, r.Inconclusive, tc.open)
			}
			if tc.note != "" {
				assert.Contains(t, strings.Join(r.Notes, "\n"), tc.note)
			}
			text, err := json.Marshal(r)
			require.NoError(t, err)
			var back reach.PathReport
			require.NoError(t, json.Unmarshal(text, &back))
			again, err := json.Marshal(&back)
			require.NoError(t, err)
			assert.JSONEq(t, string(text), string(again))
		})
	}
}

func TestCheckPathRefusesInvalidArguments(t *testing.T) {
	t.Parallel()
	node, table := netip.MustParseAddr("10.40.0.7"), &reach.Table{}
	for name, call := range map[string]func() (*reach.PathReport, error){
		"no table":    func() (*reach.PathReport, error) { return reach.CheckPath(nil, table, node, target) },
		"no node":     func() (*reach.PathReport, error) { return reach.CheckPath(table, nil, netip.Addr{}, target) },
		"no registry": func() (*reach.PathReport, error) { return reach.CheckPath(table, nil, node, netip.AddrPort{}) },
		"zone": func() (*reach.PathReport, error) {
			return reach.CheckPath(table, nil, node, netip.MustParseAddrPort("[fe80::1%eth0]:443"))
		},
		"port 0": func() (*reach.PathReport, error) {
			return reach.CheckPath(table, nil, node, netip.AddrPortFrom(target.Addr(), 0))
		},
		"two families": func() (*reach.PathReport, error) { return reach.CheckPath(table, nil, node, target6) },
		"multicast": func() (*reach.PathReport, error) {
			return reach.CheckPath(table, nil, netip.MustParseAddr("224.0.0.1"), target)
		},
		"mapped is IP4": func() (*reach.PathReport, error) {
			return reach.CheckPath(table, nil, netip.MustParseAddr("::ffff:10.40.0.7"), target6)
		},
	} {
		_, err := call()
		require.Error(t, err, name)
	}
	_, err := reach.CheckPath(table, nil, netip.MustParseAddr("::ffff:10.40.0.7"), target)
	require.NoError(t, err)
}

func TestParseLinuxRoutes(t *testing.T) {
	t.Parallel()
	routes, err := reach.ParseLinuxRoutes(strings.NewReader(`[
	 {"dst":"default","gateway":"10.40.0.1","dev":"eth0","protocol":"dhcp","metric":100,"flags":[]},
	 {"dst":"10.40.0.0/24","dev":"eth0","protocol":"kernel","scope":"link","prefsrc":"10.40.0.7","flags":[]},
	 {"dst":"172.17.0.0/16","dev":"docker0","protocol":"kernel","scope":"link","prefsrc":"172.17.0.1","flags":["linkdown"]},
	 {"type":"blackhole","dst":"10.244.0.0/24","flags":[]},
	 {"type":"unreachable","dst":"10.20.8.0/24","flags":[]},
	 {"type":"prohibit","dst":"10.20.9.4","flags":[]},
	 {"dst":"10.21.0.0/16","protocol":"static","flags":[],"nexthops":[{"gateway":"10.40.0.8","dev":"eth1","weight":1,"flags":["dead","linkdown"]},{"gateway":"10.40.0.9","dev":"eth0","weight":1,"flags":[]}]},
	 {"dst":"10.22.0.0/16","nexthops":[{"gateway":"10.40.0.8","dev":"eth1","flags":["dead"]}]},
	 {"type":"local","dst":"10.40.0.7","dev":"eth0","table":"local","flags":[]},
	 {"type":"broadcast","dst":"10.40.0.255","dev":"eth0","table":"local","flags":[]},
	 {"dst":"default","gateway":"10.99.0.1","dev":"wg0","table":"51820","flags":[]},
	 {"dst":"10.23.0.0/16","via":{"family":"inet6","host":"fe80::1"},"dev":"eth0","flags":[]},
	 {"dst":"default","dev":"tun0","scope":"link","metric":500,"flags":[]}]`))
	require.NoError(t, err)
	table := &reach.Table{Routes: routes}
	for dst, want := range map[string]string{
		"192.0.2.1":    "0.0.0.0/0 -> gateway 10.40.0.1 (proto dhcp)",
		"10.40.0.9":    "10.40.0.0/24 -> local (proto kernel)",
		"10.40.0.7":    "10.40.0.7/32 -> local",
		"172.17.0.4":   "0.0.0.0/0 -> gateway 10.40.0.1 (proto dhcp)",
		"10.244.0.4":   "10.244.0.0/24 -> none",
		"10.20.8.4":    "10.20.8.0/24 -> unreachable",
		"10.20.9.4":    "10.20.9.4/32 -> prohibit",
		"10.21.0.4":    "10.21.0.0/16 -> gateway 10.40.0.9 (proto static)",
		"10.22.0.4":    "0.0.0.0/0 -> gateway 10.40.0.1 (proto dhcp)",
		"10.23.0.4":    "10.23.0.0/16 -> gateway fe80::1",
		"2001:db8::20": "::/0 -> local",
	} {
		assert.Equal(t, want, table.RouteFor(netip.MustParseAddr(dst)).Route.String(), dst)
	}
}

func TestParseCSVRoutes(t *testing.T) {
	t.Parallel()
	routes, err := reach.ParseCSVRoutes(strings.NewReader("\xef\xbb\xbfhop,Prefix, address,source,metric,state,interface,name\n# a remark\n" +
		"Gateway,10.20.0.0/16,,BGP,,,eth0,to hub\n\nappliance,0.0.0.0/0,10.1.255.4,user,5,inactive,,\n"))
	require.NoError(t, err)
	require.Len(t, routes, 2)
	assert.Equal(t, reach.TableRoute{Prefix: prefix("10.20.0.0/16"), NextHop: reach.NextHop{Kind: "gateway"}, Source: "bgp", Interface: "eth0", Name: "to hub"}, routes[0])
	assert.True(t, routes[1].Inactive)
	assert.Equal(t, 5, routes[1].Metric)
}

func TestTablesOfTheWrongShape(t *testing.T) {
	t.Parallel()
	parsers := map[string]func(string) (int, error){
		"azure routes": func(s string) (int, error) {
			r, err := reach.ParseAzureRoutes(strings.NewReader(s))
			return len(r), err
		},
		"azure rules": func(s string) (int, error) { r, err := reach.ParseAzureRules(strings.NewReader(s)); return len(r), err },
		"linux": func(s string) (int, error) {
			r, err := reach.ParseLinuxRoutes(strings.NewReader(s))
			return len(r), err
		},
		"csv": func(s string) (int, error) { r, err := reach.ParseCSVRoutes(strings.NewReader(s)); return len(r), err },
	}
	secret := "hunter2-" + strings.Repeat("x", 300)
	for name, parse := range parsers {
		for _, text := range []string{
			"", "  \n", "no JSON at all", "{}", `{"value": 7}`, `{"value": null}`, "null", `[7]`, `["a"]`, `[{}]`, `{"value":[{}]}`, "[[]]", `"text"`, "[", strings.Repeat("[", 100000),
			`[{"addressPrefix":["10.0.0.0/33"],"nextHopType":"None"}]`, `[{"addressPrefix":["::ffff:10.0.0.0/104"],"nextHopType":"None"}]`,
			`[{"addressPrefix":["10.0.0.0/8"],"nextHopType":"VirtualAppliance","nextHopIpAddress":["here"]}]`,
			`[{"effectiveSecurityRules":[{"access":"Maybe","direction":"Outbound"}]}]`, `[{"effectiveSecurityRules":[{"access":"Deny","direction":"Up"}]}]`,
			`[{"effectiveSecurityRules":[{"access":"Deny","direction":"Outbound","destinationPortRange":"9-1"}]}]`,
			`[{"effectiveSecurityRules":[{"access":"Deny","direction":"Outbound","destinationAddressPrefix":"10.0.0.0/99"}]}]`,
			`[{"dst":"10.0.0.0/8","type":"odd"}]`, `[{"dst":"everywhere"}]`, `[{"dst":"10.0.0.0/8","gateway":"there"}]`,
			"prefix\n10.0.0.0/8\n", "prefix,hop\n10.0.0.0/8,sideways\n", "prefix,hop\n10.0.0.0/8\n", "prefix,hop,prefix\n", "prefix,hop,metric\n10.0.0.0/8,none,-1\n", "prefix,hop,state\n10.0.0.0/8,none,odd\n", "prefix,hop,secret\n", "prefix,hop\n\"10.0.0.0/8,none\n",
			`[{"dst":"` + secret + `"}]`, `[{"addressPrefix":["` + secret + `"],"nextHopType":"None"}]`,
		} {
			n, err := parse(text)
			require.Error(t, err, "%s: %.80s", name, text)
			assert.Zero(t, n)
			assert.Less(t, len(err.Error()), 300, "errors quote little")
		}
		_, err := parse(strings.Repeat(" ", 17<<20))
		require.ErrorContains(t, err, "more than")
	}
	_, err := reach.ParseCSVRoutes(nil)
	require.Error(t, err)
}
