package dnscheck_test

import (
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
)

const (
	blobs  = "blobs.corp.test"
	dnsIs  = "10.20.0.53 "
	oneDNS = "nameserver 10.20.0.53\n"
)

func alias(target string, addresses ...string) reply {
	r := found(addresses...)
	r.answer.CNAMEs = []string{target}
	return r
}

func denied(code, zone string, aliases ...string) reply {
	return reply{answer: dnscheck.Answer{RCode: code, SOA: zone, SOASerial: 7, NegativeTTLSeconds: 60, CNAMEs: aliases, RecursionAvailable: true}}
}

// The faults of a laboratory of real resolvers, one world each. A is what the
// nameserver says to A, everything else is no data unless it is written down.
func TestScenarios(t *testing.T) {
	t.Parallel()
	private := script{
		dnsIs + name + " A":  alias("registry.privatelink.corp.test", "10.20.0.9"),
		dnsIs + blobs + " A": alias("blobs.privatelink.corp.test", "10.20.0.12"),
		dnsIs + "*":          denied("NOERROR", "corp.test"),
	}
	with := func(changes script) script {
		world := script{}
		for k, v := range private {
			world[k] = v
		}
		for k, v := range changes {
			world[k] = v
		}
		return world
	}
	silent := reply{silent: true}
	tests := []struct {
		name  string
		query string // "" = name
		files []string
		world script
		held  bool
		codes []string
		says  string // in the summary of the finding that counts
		of    classify.Cause
	}{
		{name: "healthy", world: private, held: true},
		{name: "dns-resolver-drop", world: script{}, codes: []string{"fail dns.resolver-timeout"}},
		{name: "dns-resolver-closed", world: script{dnsIs + "*": readError(closedPort)}, codes: []string{"fail dns.resolver-port-closed"}},
		{
			name: "dns-refused, without the question repeated", codes: []string{"fail dns.refused"},
			world: script{dnsIs + "*": reply{silentWith: &dnscheck.Unmatched{Count: 2, Why: "the question is not repeated in it", RCode: "REFUSED"}}},
			says:  "REFUSED, the question is not repeated in it); the runtime ignores that and is left without an answer",
		},
		{name: "dns-nxdomain, the private zone not linked", world: script{dnsIs + "*": denied("NXDOMAIN", "corp.test")}, codes: []string{"fail dns.nxdomain"}, says: "keep this denial for 1m0s"},
		{name: "dns-servfail, by a dead forwarder", world: script{dnsIs + "*": rcode("SERVFAIL")}, codes: []string{"fail dns.servfail"}},
		{
			name: "dns-public-drop and dns-public-403", held: true, codes: []string{"warn dns.public-answer"},
			world: with(script{dnsIs + name + " A": alias("registry.privatelink.corp.test", "203.0.113.10")}),
			says:  "leads through registry.privatelink.corp.test, a name made for a private endpoint, to the public address 203.0.113.10",
		},
		{
			name: "dns-blob-public", query: blobs, held: true, codes: []string{"warn dns.public-answer"},
			world: with(script{dnsIs + blobs + " A": alias("blobs.privatelink.corp.test", "203.0.113.10")}),
		},
		{name: "dns-stale-record: nothing here can tell", world: with(script{dnsIs + name + " A": alias("registry.privatelink.corp.test", "10.20.0.98")}), held: true},
		{
			name: "dns-stale-hosts", files: []string{"hosts", "10.20.0.99 " + name + "\n"}, world: private, held: true,
			codes: []string{"warn dns.hosts-override"}, says: "DNS disagrees and gives 10.20.0.9",
		},
		{
			name: "dns-tcp-blocked", codes: []string{"fail dns.truncated-no-tcp", "fail dns.nodata"},
			world: with(script{dnsIs + name + " A": reply{answer: dnscheck.Answer{Truncated: true, RecursionAvailable: true}}, dnsIs + name + " A tcp": silent}),
		},
		{
			name: "dns-aaaa-only-noroute", held: true, codes: []string{"warn dns.no-usable-address"}, says: "no IPv6 route",
			files: []string{"../proc/net/ipv6_route", "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth0\n" +
				"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n"},
			world: with(script{dnsIs + name + " A": denied("NOERROR", "corp.test", "registry.privatelink.corp.test"), dnsIs + name + " AAAA": alias("registry.privatelink.corp.test", "fd00::10")}),
		},
		{
			name: "only AAAA, and there is a route", held: true,
			files: []string{"../proc/net/ipv6_route", "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003 eth0\n"},
			world: with(script{dnsIs + name + " A": denied("NOERROR", "corp.test"), dnsIs + name + " AAAA": found("fd00::10")}),
		},
		{name: "dns-aaaa-blackholed: both families, no fault of this layer", world: with(script{dnsIs + name + " AAAA": found("fd00::10")}), held: true},
		{name: "dns-blob-nxdomain and dns-token-nxdomain", query: blobs, world: with(script{dnsIs + blobs + " A": denied("NXDOMAIN", "corp.test"), dnsIs + blobs + " AAAA": denied("NXDOMAIN", "corp.test")}), codes: []string{"fail dns.nxdomain"}},
		{
			name: "dns-first-nameserver-dead", files: []string{"resolv.conf", "nameserver 10.20.0.98\n" + oneDNS}, world: private, held: true,
			codes: []string{"warn dns.resolver-timeout", "warn dns.first-server-dead"}, of: classify.DNSFirstServerDead, says: "takes about 5s",
		},
		{
			name: "dns-search-wildcard", files: []string{"resolv.conf", oneDNS + "search cluster.corp.test\noptions ndots:5\n"}, held: true,
			world: with(script{dnsIs + "under cluster.corp.test A": found("10.20.0.14")}), codes: []string{"warn dns.search-capture"},
			says: "by asking for registry.corp.test.cluster.corp.test first (ndots 5); the name itself has 10.20.0.9; a wildcard in cluster.corp.test answers any name",
		},
		{
			name: "a search domain that holds the name itself", files: []string{"resolv.conf", oneDNS + "search cluster.corp.test\noptions ndots:5\n"}, held: true,
			world: with(script{dnsIs + name + ".cluster.corp.test A": found("10.20.0.9")}),
		},
		{
			name: "a wildcard catches a name that does not exist", files: []string{"resolv.conf", oneDNS + "search lab.test\n"}, held: true,
			world: script{dnsIs + "*": denied("NXDOMAIN", "corp.test"), dnsIs + "under lab.test A": found("203.0.113.99"), dnsIs + "under lab.test AAAA": rcode("NOERROR")},
			codes: []string{"warn dns.search-capture"}, says: "the name itself has no address; a wildcard in lab.test",
		},
		{
			name: "a search domain is meant", query: "registry.prod", files: []string{"resolv.conf", oneDNS + "search corp.test\n"}, held: true,
			world: script{dnsIs + "*": denied("NXDOMAIN", "test"), dnsIs + "registry.prod.corp.test A": found("10.20.0.9"), dnsIs + "registry.prod.corp.test AAAA": rcode("NOERROR")},
		},
		{
			name: "dns-stub-upstream-dead", files: []string{"resolv.conf", "nameserver 127.0.0.53\noptions edns0 trust-ad\nsearch .\n", "../run/systemd/resolve/resolv.conf", "nameserver 10.20.0.53\n"},
			world: script{"127.0.0.53 *": rcode("SERVFAIL")}, codes: []string{"fail dns.servfail"}, says: "Behind this stub, 10.20.0.53 gives no answer.",
		},
		{
			name: "a stub of which nothing is known", files: []string{"resolv.conf", "nameserver 127.0.0.53\n"},
			world: script{}, codes: []string{"fail dns.resolver-timeout"}, says: "It listens on this node, so that what it forwards to is probably dead",
		},
		{
			name: "the stub does not know what a link's own server knows",
			files: []string{"resolv.conf", "nameserver 127.0.0.53\n", "../run/systemd/resolve/resolv.conf", "nameserver 10.20.0.4\n",
				"../run/systemd/resolve/netif/7", "# private\nSERVERS=10.8.0.1#dns.corp.test\nDOMAINS=~corp.test\n", "../sys/class/net/wg0/ifindex", "7\n"},
			world: script{"127.0.0.53 *": denied("NXDOMAIN", "test"), "10.20.0.4 *": denied("NXDOMAIN", "test"), "10.8.0.1 " + name + " A": found("10.20.0.9"), "10.8.0.1 *": rcode("NOERROR")},
			codes: []string{"fail dns.nxdomain"}, says: "10.8.0.1 on link wg0, to which this domain belongs, answers 10.20.0.9.",
		},
		{name: "dns-sinkhole", world: with(script{dnsIs + name + " A": found("0.0.0.0")}), codes: []string{"fail dns.bogus-address"}},
		{
			name: "a private-link zone without the record", codes: []string{"fail dns.private-zone-empty"},
			world: script{dnsIs + "*": denied("NXDOMAIN", "privatelink.corp.test", "registry.privatelink.corp.test")},
			says:  "looked into the private zone of registry.privatelink.corp.test and found no record there (NXDOMAIN",
		},
		{
			name: "split view, the public side first", files: []string{"resolv.conf", "nameserver 10.20.0.4\n" + oneDNS}, held: true,
			world: with(script{"10.20.0.4 " + name + " A": found("203.0.113.10"), "10.20.0.4 *": rcode("NOERROR")}),
			codes: []string{"warn dns.servers-disagree", "warn dns.public-answer"}, of: classify.DNSPublicAnswer, says: "nameserver 10.20.0.53:53 knows the private 10.20.0.9",
		},
		{
			name: "a block list that says so", codes: []string{"fail dns.bogus-address"}, says: "(it says: Blocked: by policy)",
			world: with(script{dnsIs + name + " A": reply{answer: dnscheck.Answer{Addresses: addrs("0.0.0.0"), Extended: []dnscheck.ExtendedError{{Code: 15, Name: "Blocked", Text: "by policy"}}}}}),
		},
		{
			name: "an answer out of an expired cache", held: true, codes: []string{"warn dns.stale-record"}, says: "says itself that 10.20.0.9 for registry.corp.test is stale",
			world: with(script{dnsIs + name + " A": reply{answer: dnscheck.Answer{Addresses: addrs("10.20.0.9"), Extended: []dnscheck.ExtendedError{{Code: 3, Name: "Stale Answer"}}}}}),
		},
		{
			name: "sinkhole to this node", held: true, codes: []string{"info dns.bogus-address"}, says: "this node itself",
			world: with(script{dnsIs + name + " A": found("127.0.0.1")}),
		},
		{
			name: "a hosts line to this node is meant", files: []string{"hosts", "127.0.0.1 " + name + "\n"}, world: private, held: true,
			codes: []string{"warn dns.hosts-override"},
		},
		{
			name: "NXDOMAIN for AAAA only", held: true, codes: []string{"info dns.nxdomain"}, says: "has A records of registry.corp.test and answers NXDOMAIN to AAAA",
			world: with(script{dnsIs + name + " AAAA": denied("NXDOMAIN", "corp.test")}),
		},
		{
			name: "Azure: the node's own nameserver does not forward", query: "contoso.azurecr.io", held: true, codes: []string{"warn dns.public-answer"},
			world: script{
				dnsIs + "contoso.azurecr.io A": alias("contoso.privatelink.azurecr.io", "203.0.113.10"), dnsIs + "*": rcode("NOERROR"),
				"168.63.129.16 contoso.azurecr.io A": alias("contoso.privatelink.azurecr.io", "10.20.1.5"), "168.63.129.16 *": rcode("NOERROR"),
			},
			says: "168.63.129.16 answers 10.20.1.5 from this node: the private zone is linked, and the node's own nameservers do not forward to it.",
		},
		{
			name: "Azure: the zone is not linked", query: "contoso.azurecr.io", held: true, codes: []string{"warn dns.public-answer"},
			world: script{
				dnsIs + "contoso.azurecr.io A": alias("contoso.privatelink.azurecr.io", "203.0.113.10"), dnsIs + "*": rcode("NOERROR"),
				"168.63.129.16 contoso.azurecr.io A": found("203.0.113.10"), "168.63.129.16 *": rcode("NOERROR"),
			},
			says: "the private zone is not linked to this network.",
		},
		{
			name: "Azure: the platform is not there", query: "contoso.azurecr.io", codes: []string{"fail dns.nxdomain"},
			world: script{dnsIs + "*": denied("NXDOMAIN", "azurecr.io")},
		},
		{name: "Azure, all private: nobody else is asked", query: "contoso.azurecr.io", world: script{dnsIs + "contoso.azurecr.io A": found("10.20.1.5"), dnsIs + "*": rcode("NOERROR")}, held: true},
		{
			name: "a local rule forbids the question", world: script{dnsIs + "*": readError(syscall.EPERM)}, codes: []string{"fail dns.resolver-unreachable"},
		},
		{
			name: "DNSSEC", codes: []string{"fail dns.dnssec-failed"}, says: "DNSSEC check failed (it says: Signature Expired)",
			world: script{dnsIs + "*": reply{answer: dnscheck.Answer{RCode: "SERVFAIL", Extended: []dnscheck.ExtendedError{{Code: 7, Name: "Signature Expired"}}}}, dnsIs + name + " A cd": found("10.20.0.9")},
		},
		{
			name: "DNSSEC, and the server does not say so", codes: []string{"fail dns.dnssec-failed"},
			world: script{dnsIs + "*": rcode("SERVFAIL"), dnsIs + name + " A cd": found("10.20.0.9"), dnsIs + name + " AAAA cd": rcode("NOERROR")},
		},
		{
			name: "alias loop in the answer", codes: []string{"fail dns.cname-loop"}, says: "registry.corp.test -> a.corp.test -> Registry.corp.test",
			world: script{dnsIs + "*": reply{answer: dnscheck.Answer{CNAMEs: []string{"a.corp.test", "Registry.corp.test"}, RecursionAvailable: true}}},
		},
		{
			name: "alias loop behind SERVFAIL", codes: []string{"fail dns.cname-loop"}, says: "registry.corp.test -> a.corp.test -> b.corp.test -> a.corp.test",
			world: script{dnsIs + "*": rcode("SERVFAIL"), dnsIs + name + " CNAME": alias("a.corp.test"), dnsIs + "a.corp.test CNAME": alias("b.corp.test"), dnsIs + "b.corp.test CNAME": alias("a.corp.test")},
		},
		{
			name: "a Service's name", query: "harbor.registry.svc.cluster.local", world: script{dnsIs + "*": denied("NXDOMAIN", ".")},
			codes: []string{"fail dns.cluster-only-name", "fail dns.nxdomain"}, says: "the name of a Service",
		},
		{name: "a single label, and nobody answers", query: "harbor", world: script{}, codes: []string{"fail dns.resolver-timeout"}},
		{
			name: "a pod's file", files: []string{"resolv.conf", "nameserver 10.20.0.53\nsearch apps.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"}, held: true,
			world: with(script{dnsIs + "*": denied("NXDOMAIN", "cluster.local"), dnsIs + name + " AAAA": rcode("NOERROR")}),
			codes: []string{"warn dns.pod-resolver"}, says: "no evidence about the node",
		},
		{
			name: "UDP dropped, TCP open", codes: []string{"fail dns.resolver-timeout"}, says: "Over TCP it answers, so something on the way drops UDP.",
			world: script{dnsIs + name + " A": silent, dnsIs + name + " AAAA": silent, dnsIs + name + " A tcp": found("10.20.0.9")},
		},
		{
			name: "answers from another address", codes: []string{"fail dns.answer-mismatch"}, says: "from 10.20.0.54",
			world: script{dnsIs + "*": reply{silentWith: &dnscheck.Unmatched{Count: 1, Why: "sent by another address than the one asked", From: addrs("10.20.0.54")[0]}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				query := tt.query
				if query == "" {
					query = name
				}
				c := dnscheck.Checker{FS: node(append([]string{"resolv.conf", oneDNS}, tt.files...)...), Exchanger: tt.world}
				start := time.Now()
				r, err := c.Check(t.Context(), query)
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(start), 5*time.Second)
				assert.Equal(t, tt.held, r.Held(), "held")
				assert.Equal(t, tt.codes, codes(r))
				assert.Empty(t, r.Inconclusive)
				f := first(r)
				for _, g := range r.Findings() {
					if g.Cause == tt.of {
						f = g
					}
				}
				assert.Contains(t, f.Summary, tt.says)
				roundTrip(t, r)
			})
		})
	}
}

// The runtime's silence is kept beside what was seen on the wire.
func TestUnmatchedIsSilenceForTheRuntime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := dnscheck.Checker{FS: node("resolv.conf", "nameserver 10.20.0.4\n"+oneDNS), Exchanger: script{
			"10.20.0.4 *":       reply{silentWith: &dnscheck.Unmatched{Count: 1, Why: "the id of another question"}},
			dnsIs + name + " A": found("10.20.0.9"), dnsIs + "*": rcode("NOERROR"),
		}}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		assert.EqualValues(t, 5000, r.PredictedMS, "what a Go client waits")
		assert.Equal(t, 1, r.Servers[0].A.Unmatched.Count)
		assert.Equal(t, []string{"warn dns.answer-mismatch"}, codes(r))
	})
}

func TestOnDecided(t *testing.T) {
	t.Parallel()
	type told struct {
		after  time.Duration
		report *dnscheck.Report
	}
	check := func(t *testing.T, world script, files ...string) (*dnscheck.Report, []told) {
		t.Helper()
		start := time.Now()
		var all []told
		c := dnscheck.Checker{FS: node(files...), Exchanger: world, OnDecided: func(r *dnscheck.Report) {
			all = append(all, told{time.Since(start), r})
		}}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		for _, early := range all {
			assert.NotEmpty(t, early.report.Inconclusive, "more is to come")
			assert.Empty(t, early.report.Findings())
			roundTrip(t, early.report)
		}
		return r, all
	}
	three := "nameserver 10.20.0.4\nnameserver 10.20.0.5\nnameserver 10.20.0.6\n"

	for _, tt := range []struct {
		name  string
		world script
		files []string
		after time.Duration // -1 = not told
		addrs []string
	}{
		{name: "the first is the last to answer: nothing is early", world: script{"10.20.0.4 *": found("10.20.0.9").in(time.Millisecond), "10.20.0.5 *": found("10.20.0.9"), "10.20.0.6 *": found("10.20.0.9")}, after: -1},
		{name: "the second is dead", world: script{"10.20.0.4 *": found("10.20.0.9").in(3 * time.Millisecond), "10.20.0.6 *": found("10.20.0.9")}, after: 3 * time.Millisecond, addrs: []string{"10.20.0.9"}},
		{name: "the first is dead", world: script{"10.20.0.5 *": found("10.20.0.9"), "10.20.0.6 *": found("10.20.0.9")}, after: 500 * time.Millisecond, addrs: []string{"10.20.0.9"}},
		{name: "the first is slow only", world: script{"10.20.0.4 *": found("10.20.0.8").in(300 * time.Millisecond), "10.20.0.5 *": found("10.20.0.9")}, after: 300 * time.Millisecond, addrs: []string{"10.20.0.8"}},
		{name: "AAAA is dropped", world: script{"10.20.0.4 " + name + " A": found("10.20.0.9")}, after: 500 * time.Millisecond, addrs: []string{"10.20.0.9"}},
		{name: "denied, and the others are silent", world: script{"10.20.0.4 *": rcode("NXDOMAIN")}, after: 0},
		{name: "nobody answers", world: script{}, after: -1},
		{name: "the hosts file decides", world: script{}, files: []string{"hosts", "10.20.0.9 " + name + "\n"}, after: 0, addrs: []string{"10.20.0.9"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, all := check(t, tt.world, append([]string{"resolv.conf", three}, tt.files...)...)
				if tt.after < 0 {
					assert.Empty(t, all)
					return
				}
				require.Len(t, all, 1)
				assert.Equal(t, tt.after, all[0].after)
				assert.Equal(t, addrs(tt.addrs...), all[0].report.Addresses)
				assert.Equal(t, r.Addresses, all[0].report.Addresses, "the truth is the same here")
			})
		})
	}

	t.Run("a very slow first nameserver says something else", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r, all := check(t, script{"10.20.0.4 *": found("10.20.0.8").in(2 * time.Second), "10.20.0.5 *": found("10.20.0.9")}, "resolv.conf", two)
			require.Len(t, all, 1)
			assert.Equal(t, addrs("10.20.0.9"), all[0].report.Addresses)
			assert.Equal(t, addrs("10.20.0.8"), r.Addresses, "what Check returns counts")
		})
	})
}

func TestCompareHosts(t *testing.T) {
	t.Parallel()
	look := func(t *testing.T, host string, addresses ...string) *dnscheck.Report {
		r, err := (&dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: script{"10.20.0.4 " + host + " A": found(addresses...), "10.20.0.4 *": rcode("NOERROR")}}).Check(t.Context(), host)
		require.NoError(t, err)
		return r
	}
	for _, tt := range []struct {
		private, public string
		found           bool
	}{
		{"registry.corp.test", "blobs.corp.test", true},
		{"contoso.azurecr.io", "contoso.westeurope.data.azurecr.io", true},
		{"contoso.azurecr.io", "fabrikam.azurecr.io", false},
		{"contoso.azurecr.io", "contosoblobs.blob.core.windows.net", false},
		{"123456789012.dkr.ecr.eu-west-1.amazonaws.com", "prod-eu-west-1-starport.s3.eu-west-1.amazonaws.com", false},
		{"registry.corp.test", "cdn.elsewhere.test", false},
		{"registry.corp.co.uk", "other.elsewhere.co.uk", false},
	} {
		got := dnscheck.CompareHosts([]*dnscheck.Report{nil, look(t, tt.private, "10.20.0.9"), look(t, tt.public, "203.0.113.7")})
		if !tt.found {
			assert.Empty(t, got, tt.public)
			continue
		}
		require.Len(t, got, 1, tt.public)
		assert.Equal(t, classify.DNSPublicAnswer, got[0].Cause)
		assert.Equal(t, tt.public, got[0].Endpoint)
		assert.Equal(t, classify.CertaintyLikely, got[0].Certainty)
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := dnscheck.Checker{FS: node("resolv.conf", "nameserver 168.63.129.16\n"), Exchanger: script{"168.63.129.16 *": found("199.36.153.5")}}
		r, err := c.Check(t.Context(), "europe-docker.pkg.dev")
		require.NoError(t, err)
		var subjects []string
		for _, h := range r.Hints {
			subjects = append(subjects, h.Subject)
			assert.NotEmpty(t, h.Text)
			assert.Contains(t, h.Source, "https://")
		}
		assert.Equal(t, []string{"168.63.129.16", "europe-docker.pkg.dev", "199.36.153.5"}, subjects)
		assert.Empty(t, codes(r), "a restricted VIP is private")
	})
}

func TestCLibrary(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, query string
		files       []string
		world       script
		none        bool
		addrs       []string
		predicted   int64
		says        string
	}{
		{name: "healthy", query: name, files: []string{"resolv.conf", one}, world: script{"10.20.0.4 *": found("10.20.0.9")}, none: true},
		{name: "one dead before a living one: the same", query: name, files: []string{"resolv.conf", two}, world: script{"10.20.0.5 *": found("10.20.0.9")}, none: true},
		{
			name: "two dead of three", query: name, files: []string{"resolv.conf", two + "nameserver 10.20.0.6\n"}, world: script{"10.20.0.6 *": found("10.20.0.9")},
			addrs: []string{"10.20.0.9"}, predicted: 8000, says: "waits 8s, Go 10s",
		},
		{
			name: "mdns keeps .local from DNS", query: "registry.local", files: []string{"resolv.conf", one, "nsswitch.conf", "hosts: files mdns4_minimal [NOTFOUND=return] dns\n"},
			world: script{"10.20.0.4 *": found("10.20.0.9")}, says: "never asked for in DNS",
		},
		{
			name: "silence in the search list ends it", query: "registry", files: []string{"resolv.conf", one + "search corp.test lab.test\noptions ndots:2 timeout:1 attempts:1\n"},
			world: script{"10.20.0.4 registry.lab.test A": found("10.20.0.9"), "10.20.0.4 registry.lab.test AAAA": rcode("NOERROR"), "10.20.0.4 registry.corp.test A": readError(closedPort), "10.20.0.4 registry.corp.test AAAA": readError(closedPort)},
			says:  "asks for no further name",
		},
		{
			name: "nothing in the file", query: name, files: []string{"hosts", ""}, world: script{"127.0.0.1 *": readError(closedPort), "::1 *": found("10.20.0.9")}, says: "not ::1",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, err := (&dnscheck.Checker{FS: node(tt.files...), Exchanger: tt.world}).Check(t.Context(), tt.query)
				require.NoError(t, err)
				if tt.none {
					assert.Nil(t, r.CLibrary)
					return
				}
				require.NotNil(t, r.CLibrary)
				assert.Equal(t, addrs(tt.addrs...), r.CLibrary.Addresses)
				assert.Equal(t, tt.predicted, r.CLibrary.PredictedMS)
				assert.Contains(t, r.CLibrary.Differs[0], tt.says)
			})
		})
	}
}
