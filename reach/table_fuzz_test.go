package reach_test

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/pullwalk/pullwalk/reach"
)

// checkRoutes holds what a parser accepted against what any table must do.
func checkRoutes(t *testing.T, routes []reach.TableRoute, err error) {
	t.Helper()
	if err != nil {
		if routes != nil {
			t.Fatal("routes beside an error")
		}
		if len(err.Error()) > 1000 {
			t.Fatalf("an error of %d bytes", len(err.Error()))
		}
		return
	}
	table := &reach.Table{Routes: routes}
	for _, r := range routes {
		if !r.Prefix.IsValid() || r.Prefix != r.Prefix.Masked() || r.Prefix.Addr().Is4In6() {
			t.Fatalf("prefix %v", r.Prefix)
		}
		d := table.RouteFor(r.Prefix.Addr())
		if !r.Inactive && (!d.Found || d.Route.Prefix.Bits() < r.Prefix.Bits()) {
			t.Fatalf("%v: found %+v", r, d)
		}
		if len(d.Beaten) > 3 {
			t.Fatalf("%d beaten", len(d.Beaten))
		}
	}
	if _, err := reach.CheckPath(table, table, netip.MustParseAddr("10.40.0.7"), target); err != nil {
		t.Fatal(err)
	}
}

func FuzzParseAzureRoutes(f *testing.F) {
	f.Add([]byte(azureRoutes))
	f.Add([]byte(`[{"addressPrefix":"10.0.0.0/8","nextHopType":"None"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		routes, err := reach.ParseAzureRoutes(bytes.NewReader(data))
		checkRoutes(t, routes, err)
	})
}

func FuzzParseAzureRules(f *testing.F) {
	f.Add([]byte(azureRules))
	f.Add([]byte(`[{"effectiveSecurityRules":[{"access":"Deny","direction":"Inbound","destinationPortRanges":["1-2","*"]}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := reach.ParseAzureRules(bytes.NewReader(data))
		if err != nil {
			if rules != nil || len(err.Error()) > 1000 {
				t.Fatalf("%d rules beside %v", len(rules), err)
			}
			return
		}
		d := (&reach.Table{Rules: rules}).Allows("out", "tcp", netip.MustParseAddr("10.40.0.7"), target)
		if d.Allowed && !d.Decided || d.Reason == "" {
			t.Fatalf("%+v", d)
		}
	})
}

func FuzzParseLinuxRoutes(f *testing.F) {
	f.Add([]byte(`[{"dst":"default","gateway":"10.1.0.1","dev":"eth0","flags":[]},{"type":"unreachable","dst":"10.0.0.0/8"}]`))
	f.Add([]byte(`[{"dst":"10.0.0.0/8","nexthops":[{"gateway":"10.1.0.1","flags":["dead"]}]},{"dst":"default","via":{"host":"fe80::1"}}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		routes, err := reach.ParseLinuxRoutes(bytes.NewReader(data))
		checkRoutes(t, routes, err)
	})
}

func FuzzParseCSVRoutes(f *testing.F) {
	f.Add([]byte("prefix,hop,address,source\n10.20.0.0/16,gateway,,bgp\n0.0.0.0/0,appliance,10.1.255.4,user\n"))
	f.Add([]byte("hop,prefix,metric,state\nnone,2001:db8::/32,4,inactive\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		routes, err := reach.ParseCSVRoutes(bytes.NewReader(data))
		checkRoutes(t, routes, err)
	})
}
