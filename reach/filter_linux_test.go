package reach_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// nft sets up a packet filter in the namespace: what a host's own REJECT rule
// answers cannot be made with routes.
func (s *space) nft(rules string) {
	s.t.Helper()
	program, err := exec.LookPath("nft")
	if err != nil {
		s.t.Skip("needs the program nft for a packet filter")
	}
	var out []byte
	s.do(func() { // a child inherits the namespace of the thread that starts it
		cmd := exec.Command(program, "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		out, err = cmd.CombinedOutput()
	})
	if err != nil {
		s.t.Skipf("needs a kernel with nftables: %v: %s", err, out)
	}
}

func TestPathFiltered(t *testing.T) {
	t.Parallel()
	const table = "table inet t { chain c { type filter hook %HOOK% priority 0; tcp dport 443 %DO%; }; }"
	rules := func(hook, do string) string {
		return strings.NewReplacer("%HOOK%", hook, "%DO%", do).Replace(table)
	}
	host := registry.Addr()
	for name, tc := range map[string]struct {
		at         func(p *path) *space
		hook, do   string
		cause      classify.Cause
		kind       string
		from       netip.Addr
		errno      string
		traced     bool
		lastHop    netip.Addr
		otherDoors bool
	}{
		"host rejects as closed":    {at: func(p *path) *space { return p.reg }, hook: "input", do: "reject with icmpx port-unreachable", cause: classify.EndpointConnectionRefused, kind: "port-unreachable", from: host, errno: "ECONNREFUSED"},
		"host prohibits":            {at: func(p *path) *space { return p.reg }, hook: "input", do: "reject with icmpx admin-prohibited", cause: classify.RouteRejected, kind: "admin-prohibited", from: host, errno: "EHOSTUNREACH"},
		"router rejects as closed":  {at: func(p *path) *space { return p.r2 }, hook: "forward", do: "reject with icmpx port-unreachable", cause: classify.RouteRejected, kind: "port-unreachable", from: hop2, errno: "ECONNREFUSED", traced: true, lastHop: hop2, otherDoors: true},
		"router rejects as no host": {at: func(p *path) *space { return p.r1 }, hook: "forward", do: "reject with icmpx host-unreachable", cause: classify.RouteRejected, kind: "host-unreachable", from: hop1, errno: "EHOSTUNREACH", traced: true, lastHop: hop1, otherDoors: true},
		"router resets":             {at: func(p *path) *space { return p.r1 }, hook: "forward", do: "reject with tcp reset", cause: classify.EndpointConnectionRefused, errno: "ECONNREFUSED"},
		"router drops the port":     {at: func(p *path) *space { return p.r1 }, hook: "forward", do: "drop", cause: classify.RouteConnectTimeout, traced: true, lastHop: hop1, otherDoors: true},
		"host drops the port":       {at: func(p *path) *space { return p.reg }, hook: "input", do: "drop", cause: classify.RouteConnectTimeout, traced: true, lastHop: hop2, otherDoors: true},
		"answers dropped":           {at: func(p *path) *space { return p.r2 }, hook: "forward", do: "counter; tcp sport 443 drop", cause: classify.RouteConnectTimeout, traced: true, lastHop: hop2, otherDoors: true},
		"own output refused":        {at: func(p *path) *space { return p.node }, hook: "output", do: "reject with icmpx admin-prohibited", cause: classify.RouteProhibited, kind: "admin-prohibited", from: netip.MustParseAddr("10.20.1.2"), errno: "EHOSTUNREACH"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPath(t)
			p.reg.serve(registry.String(), nil)
			tc.at(p).nft(rules(tc.hook, tc.do))
			r := check(t, p.checker(), registry)
			require.Equal(t, []classify.Cause{tc.cause}, causes(r), "%v", r.Findings())
			assert.Equal(t, tc.errno, r.Connect.Errno)
			if tc.kind == "" {
				assert.Nil(t, r.Connect.ICMP)
			} else {
				require.NotNil(t, r.Connect.ICMP)
				assert.Equal(t, tc.kind, r.Connect.ICMP.Kind)
				assert.Equal(t, tc.from, r.Connect.ICMP.From)
			}
			require.Equal(t, tc.traced, r.Trace != nil)
			if tc.traced && tc.kind == "" {
				assert.Equal(t, tc.lastHop, r.Trace.LastHop().Address)
			}
			if tc.traced {
				assert.Equal(t, tc.otherDoors, r.Findings()[0].Fact("other") != "", "%+v", r.Trace)
			}
		})
	}
}
