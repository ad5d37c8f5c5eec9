package dnscheck_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
)

const (
	one  = "nameserver 10.20.0.4\n"
	two  = "nameserver 10.20.0.4\nnameserver 10.20.0.5\n"
	name = "registry.corp.test"
)

func readError(errno syscall.Errno) reply {
	return reply{err: &net.OpError{Op: "read", Net: "udp", Err: os.NewSyscallError("read", errno)}}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	both := func(server string, a, aaaa reply) script {
		return script{server + " " + name + " A": a, server + " " + name + " AAAA": aaaa}
	}
	tests := []struct {
		name      string
		files     []string
		world     script
		expect    []netip.Prefix
		held      bool
		from      string
		addresses []string
		answered  string
		predicted int64
		codes     []string
		says      string // in the first finding's summary
	}{
		{
			name: "healthy, both families, IPv4 first", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", found("10.20.0.9", "10.20.0.8").in(3*time.Millisecond), found("fd00::8").in(7*time.Millisecond)),
			held:  true, from: "dns", addresses: []string{"10.20.0.9", "10.20.0.8", "fd00::8"}, answered: "10.20.0.4:53", predicted: 7,
		},
		{
			name: "no AAAA record is no fault", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", found("10.20.0.9"), rcode("NOERROR")),
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.4:53",
		},
		{
			name: "NXDOMAIN with the zone that denies", files: []string{"resolv.conf", one},
			world:    script{"10.20.0.4 *": reply{answer: dnscheck.Answer{RCode: "NXDOMAIN", SOA: "corp.test", NegativeTTLSeconds: 300}}},
			answered: "10.20.0.4:53", codes: []string{"fail dns.nxdomain"}, says: "in the words of the zone corp.test",
		},
		{
			name: "name without addresses, at the end of an alias", files: []string{"resolv.conf", one},
			world:    script{"10.20.0.4 *": reply{answer: dnscheck.Answer{CNAMEs: []string{"registry.privatelink.corp.test"}, RecursionAvailable: true}}},
			answered: "10.20.0.4:53", codes: []string{"fail dns.private-zone-empty"}, says: "registry.privatelink.corp.test",
		},
		{
			name: "NXDOMAIN of the first is final although the second knows the name", files: []string{"resolv.conf", two},
			world:    script{"10.20.0.4 *": rcode("NXDOMAIN"), "10.20.0.5 " + name + " A": found("10.20.0.9"), "10.20.0.5 *": rcode("NOERROR")},
			answered: "10.20.0.4:53", codes: []string{"fail dns.nxdomain", "warn dns.servers-disagree"},
		},
		{
			name: "SERVFAIL moves on", files: []string{"resolv.conf", two},
			world: script{"10.20.0.4 *": rcode("SERVFAIL").in(10 * time.Millisecond), "10.20.0.5 " + name + " A": found("10.20.0.9").in(5 * time.Millisecond), "10.20.0.5 *": rcode("NOERROR")},
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.5:53", predicted: 15, codes: []string{"warn dns.servfail"},
		},
		{
			name: "REFUSED moves on, and the last failure is shown", files: []string{"resolv.conf", two},
			world: script{"10.20.0.4 *": rcode("REFUSED"), "10.20.0.5 *": rcode("SERVFAIL")},
			codes: []string{"fail dns.servfail", "fail dns.refused"},
		},
		{
			name: "another code counts like SERVFAIL", files: []string{"resolv.conf", one},
			world: script{"10.20.0.4 *": rcode("NOTIMP")}, codes: []string{"fail dns.servfail"}, says: "answered NOTIMP",
		},
		{
			name: "lame referral moves on", files: []string{"resolv.conf", two},
			world: script{"10.20.0.4 *": reply{answer: dnscheck.Answer{Lame: true}}, "10.20.0.5 *": rcode("NXDOMAIN")},
			codes: []string{"fail dns.nxdomain", "warn dns.servfail"}, answered: "10.20.0.5:53",
		},
		{
			name: "silent resolver", files: []string{"resolv.conf", one}, world: script{},
			predicted: 10000, codes: []string{"fail dns.resolver-timeout"}, says: "within 5s",
		},
		{
			name: "first server dead", files: []string{"resolv.conf", two},
			world: script{"10.20.0.5 " + name + " A": found("10.20.0.9").in(20 * time.Millisecond), "10.20.0.5 *": rcode("NOERROR")},
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.5:53", predicted: 5020,
			codes: []string{"warn dns.resolver-timeout", "warn dns.first-server-dead"},
		},
		{
			name: "two dead servers before the third, short timeout", files: []string{"resolv.conf", two + "nameserver 10.20.0.6\noptions timeout:2\n"},
			world: script{"10.20.0.5 *": readError(syscall.ECONNREFUSED), "10.20.0.6 *": found("10.20.0.9")},
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.6:53", predicted: 2000,
			codes: []string{"warn dns.resolver-timeout", "warn dns.resolver-port-closed", "warn dns.first-server-dead"},
		},
		{
			name: "first server dead, second denies", files: []string{"resolv.conf", two},
			world:    script{"10.20.0.5 *": rcode("NXDOMAIN")},
			answered: "10.20.0.5:53", predicted: 5000,
			codes: []string{"fail dns.nxdomain", "warn dns.resolver-timeout", "warn dns.first-server-dead"},
		},
		{
			name: "a later dead server is a warning only", files: []string{"resolv.conf", two},
			world: script{"10.20.0.4 *": found("10.20.0.9")},
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.4:53", codes: []string{"warn dns.resolver-timeout"},
		},
		{
			name: "resolver port closed", files: []string{"resolv.conf", one},
			world: script{"10.20.0.4 *": readError(syscall.ECONNREFUSED)}, codes: []string{"fail dns.resolver-port-closed"}, says: "nothing listens",
		},
		{
			name: "no way to the resolver", files: []string{"resolv.conf", one},
			world: script{"10.20.0.4 *": readError(syscall.ENETUNREACH)}, codes: []string{"fail dns.resolver-unreachable"},
		},
		{
			name: "answer that cannot be read", files: []string{"resolv.conf", one},
			world: script{"10.20.0.4 *": reply{err: dnscheck.ErrMalformed}}, codes: []string{"fail dns.answer-malformed"},
		},
		{
			name: "truncated, and TCP works", files: []string{"resolv.conf", one},
			world: script{
				"10.20.0.4 " + name + " A":     reply{answer: dnscheck.Answer{Truncated: true}},
				"10.20.0.4 " + name + " A tcp": found("10.20.0.9"), "10.20.0.4 *": rcode("NOERROR"),
			},
			held: true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.4:53",
		},
		{
			name: "truncated, and TCP is closed", files: []string{"resolv.conf", one},
			world: script{
				"10.20.0.4 " + name + " A":     reply{answer: dnscheck.Answer{Truncated: true, Addresses: addrs("10.20.0.9")}},
				"10.20.0.4 " + name + " A tcp": readError(syscall.ECONNREFUSED), "10.20.0.4 *": rcode("NOERROR"),
			},
			answered: "10.20.0.4:53", codes: []string{"fail dns.truncated-no-tcp", "fail dns.nodata"}, says: "failed over TCP",
		},
		{
			name: "truncated, and TCP is silent", files: []string{"resolv.conf", one},
			world: script{
				"10.20.0.4 *":                     reply{answer: dnscheck.Answer{Truncated: true}},
				"10.20.0.4 " + name + " A tcp":    {silent: true},
				"10.20.0.4 " + name + " AAAA tcp": {silent: true},
			},
			predicted: 10000, codes: []string{"fail dns.truncated-no-tcp"},
		},
		{
			name: "AAAA silently dropped costs every lookup", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", found("10.20.0.9"), reply{silent: true}),
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.4:53", predicted: 10000,
			codes: []string{"warn dns.resolver-timeout"}, says: "A lookup waits 10s",
		},
		{
			name: "an answer that comes too late for the runtime", files: []string{"resolv.conf", one + "options timeout:1 attempts:3\n"},
			world:     script{"10.20.0.4 *": found("10.20.0.9").in(1500 * time.Millisecond)},
			predicted: 3000, codes: []string{"fail dns.resolver-timeout"}, says: "no longer waits",
		},
		{
			name: "single-request adds up", files: []string{"resolv.conf", one + "options single-request\n"},
			world: both("10.20.0.4", found("10.20.0.9").in(30*time.Millisecond), rcode("NOERROR").in(40*time.Millisecond)),
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.4:53", predicted: 70,
		},
		{
			name: "no resolv.conf, nothing on loopback", files: []string{"hosts", "127.0.0.1 localhost\n"},
			world: script{"127.0.0.1 *": readError(syscall.ECONNREFUSED), "::1 *": readError(syscall.ECONNREFUSED)},
			codes: []string{"fail dns.no-nameserver", "fail dns.resolver-port-closed", "fail dns.resolver-port-closed"}, says: "does not exist",
		},
		{
			name: "no nameserver line, but a local resolver answers", files: []string{"resolv.conf", "search corp.test\n"},
			world: script{"127.0.0.1 *": found("10.20.0.9"), "::1 *": found("10.20.0.9")},
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "127.0.0.1:53",
			codes: []string{"warn dns.no-nameserver"}, says: "names no usable nameserver",
		},
		{
			name: "fourth nameserver", files: []string{"resolv.conf", two + "nameserver 10.20.0.6\nnameserver 10.20.0.7\nnameserver dns.corp.test\n"},
			world: script{"10.20.0.4 *": found("10.20.0.9"), "10.20.0.5 *": found("10.20.0.9"), "10.20.0.6 *": found("10.20.0.9")},
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.4:53",
			codes: []string{"warn dns.ignored-nameserver"}, says: "10.20.0.7, dns.corp.test",
		},
		{
			name: "hosts entry agrees with DNS", files: []string{"resolv.conf", one, "hosts", "# by hand\n10.20.0.9 Registry.corp.test\n"},
			world: both("10.20.0.4", found("10.20.0.9"), rcode("NOERROR")),
			held:  true, from: "hosts", addresses: []string{"10.20.0.9"}, codes: []string{"warn dns.hosts-override"}, says: "/etc/hosts:2, a line on this node alone; DNS gives the same",
		},
		{
			name: "hosts entry hides another address", files: []string{"resolv.conf", one, "hosts", "10.20.0.9 " + name + "\n"},
			world: both("10.20.0.4", found("10.20.0.10"), rcode("NOERROR")),
			held:  true, from: "hosts", addresses: []string{"10.20.0.9"}, codes: []string{"warn dns.hosts-override"}, says: "DNS disagrees and gives 10.20.0.10",
		},
		{
			name: "hosts entry hides a name that DNS does not know", files: []string{"resolv.conf", one, "hosts", "10.20.0.9 " + name + "\n"},
			world: script{"10.20.0.4 *": rcode("NXDOMAIN")},
			held:  true, from: "hosts", addresses: []string{"10.20.0.9"}, codes: []string{"warn dns.hosts-override"}, says: "DNS does not know the name",
		},
		{
			name: "hosts entry hides a dead resolver", files: []string{"resolv.conf", one, "hosts", "10.20.0.9 " + name + "\n"},
			world: script{},
			held:  true, from: "hosts", addresses: []string{"10.20.0.9"}, codes: []string{"warn dns.resolver-timeout", "warn dns.hosts-override"},
		},
		{
			name: "dns before files", files: []string{"resolv.conf", one, "nsswitch.conf", "hosts: dns files\n", "hosts", "10.20.0.9 " + name + "\n"},
			world: both("10.20.0.4", found("10.20.0.10"), rcode("NOERROR")),
			held:  true, from: "dns", addresses: []string{"10.20.0.10"}, answered: "10.20.0.4:53",
		},
		{
			name: "dns before files, and only the file knows", files: []string{"resolv.conf", one, "nsswitch.conf", "hosts: dns files\n", "hosts", "10.20.0.9 " + name + "\n"},
			world: script{"10.20.0.4 *": rcode("NXDOMAIN").in(9 * time.Millisecond)},
			held:  true, from: "hosts", addresses: []string{"10.20.0.9"}, predicted: 9, codes: []string{"warn dns.hosts-override"},
		},
		{
			name: "hosts file switched off", files: []string{"resolv.conf", one, "nsswitch.conf", "hosts: dns\n", "hosts", "10.20.0.9 " + name + "\n"},
			world: script{"10.20.0.4 *": rcode("NXDOMAIN")}, answered: "10.20.0.4:53", codes: []string{"fail dns.nxdomain"},
		},
		{
			name: "DNS switched off", files: []string{"resolv.conf", one, "nsswitch.conf", "hosts: files\n"},
			world: script{"10.20.0.4 *": found("10.20.0.9")}, codes: []string{"fail dns.no-nameserver"}, says: "/etc/nsswitch.conf",
		},
		{
			name: "filtering resolver answers 0.0.0.0", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", found("0.0.0.0"), found("::")),
			from:  "dns", addresses: []string{"0.0.0.0", "::"}, answered: "10.20.0.4:53", codes: []string{"fail dns.bogus-address"},
		},
		{
			name: "one bogus address beside a good one", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", found("10.20.0.9", "224.0.0.1"), rcode("NOERROR")),
			held:  true, from: "dns", addresses: []string{"10.20.0.9", "224.0.0.1"}, answered: "10.20.0.4:53", codes: []string{"warn dns.bogus-address"},
		},
		{
			name: "only link-local addresses", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", rcode("NOERROR"), found("fe80::1")),
			from:  "dns", addresses: []string{"fe80::1"}, answered: "10.20.0.4:53", codes: []string{"fail dns.no-usable-address"},
		},
		{
			name: "loopback addresses are usable, but odd", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", found("127.0.0.2"), rcode("NOERROR")),
			held:  true, from: "dns", addresses: []string{"127.0.0.2"}, answered: "10.20.0.4:53", codes: []string{"info dns.bogus-address"}, says: "this node itself",
		},
		{
			name: "loopback addresses that the caller expects", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", found("127.0.0.2"), rcode("NOERROR")), expect: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			held: true, from: "dns", addresses: []string{"127.0.0.2"}, answered: "10.20.0.4:53",
		},
		{
			name: "public answer where a private one is expected", files: []string{"resolv.conf", one},
			world: both("10.20.0.4", found("203.0.113.7"), rcode("NOERROR")), expect: []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")},
			held: true, from: "dns", addresses: []string{"203.0.113.7"}, answered: "10.20.0.4:53", codes: []string{"warn dns.public-answer"}, says: "10.20.0.0/16",
		},
		{
			name: "one nameserver private, one public", files: []string{"resolv.conf", two},
			world: script{"10.20.0.4 " + name + " A": found("10.20.0.9"), "10.20.0.5 " + name + " A": found("203.0.113.7"), "10.20.0.4 *": rcode("NOERROR"), "10.20.0.5 *": rcode("NOERROR")},
			held:  true, from: "dns", addresses: []string{"10.20.0.9"}, answered: "10.20.0.4:53", codes: []string{"warn dns.servers-disagree"}, says: "203.0.113.7",
		},
		{
			name: "different public answers are ordinary", files: []string{"resolv.conf", two},
			world: script{"10.20.0.4 " + name + " A": found("203.0.113.9"), "10.20.0.5 " + name + " A": found("203.0.113.7"), "10.20.0.4 *": rcode("NOERROR"), "10.20.0.5 *": rcode("NOERROR")},
			held:  true, from: "dns", addresses: []string{"203.0.113.9"}, answered: "10.20.0.4:53",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := dnscheck.Checker{FS: node(tt.files...), Exchanger: tt.world, Expect: tt.expect}
				start := time.Now()
				r, err := c.Check(t.Context(), name)
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(start), 5*time.Second)
				assert.Equal(t, tt.held, r.Held(), "held")
				assert.Equal(t, tt.from, r.From)
				assert.Equal(t, addrs(tt.addresses...), r.Addresses)
				answered := ""
				if r.Answered.IsValid() {
					answered = r.Answered.String()
				}
				assert.Equal(t, tt.answered, answered, "answered")
				assert.Equal(t, tt.predicted, r.PredictedMS, "predicted")
				assert.Equal(t, tt.codes, codes(r))
				assert.Contains(t, first(r).Summary, tt.says)
				assert.Empty(t, r.Inconclusive)
				for _, f := range r.Findings() {
					assert.Equal(t, name, f.Endpoint)
					assert.Equal(t, classify.LayerDNS, f.Layer)
				}
				roundTrip(t, r)
			})
		})
	}
}

func roundTrip(t *testing.T, r *dnscheck.Report) {
	t.Helper()
	data, err := json.Marshal(r)
	require.NoError(t, err)
	var back dnscheck.Report
	require.NoError(t, json.Unmarshal(data, &back))
	again, err := json.Marshal(&back)
	require.NoError(t, err)
	assert.JSONEq(t, string(data), string(again))
}

func TestFacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := dnscheck.Checker{FS: node("resolv.conf", two), Exchanger: script{
			"10.20.0.4 *": readError(syscall.ECONNREFUSED), "10.20.0.5 *": rcode("SERVFAIL"),
		}}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, []string{"fail dns.servfail", "fail dns.resolver-port-closed"}, codes(r))
		servfail, closed := r.Findings()[0], r.Findings()[1]
		assert.Equal(t, "10.20.0.5:53", servfail.Fact(classify.FactResolver))
		assert.Equal(t, "SERVFAIL", servfail.Fact(classify.FactRCode))
		assert.Equal(t, "10.20.0.4:53", closed.Fact(classify.FactResolver))
		assert.Equal(t, "ECONNREFUSED", closed.Fact(classify.FactErrno))
		assert.ErrorIs(t, closed, syscall.ECONNREFUSED)
		var stage *classify.StageError
		require.ErrorAs(t, closed, &stage)
		assert.Equal(t, classify.StageLookup, stage.Stage)
		assert.Equal(t, classify.DNSResolverPortClosed, r.Servers[0].A.Cause)
		assert.Equal(t, "SERVFAIL", r.Servers[1].AAAA.Answer.RCode)
	})
}

func TestSearchList(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, query, conf string
		world             script
		asked             []string // full names, sorted
		of                string   // Report.Asked
		unasked           []string
		addresses         []string
		predicted         int64
		codes             []string
	}{
		{
			name: "enough dots, known as it stands", query: name, conf: one + "search corp.test\n",
			world: script{"10.20.0.4 *": found("10.20.0.9")},
			asked: []string{name + "."}, of: name + ".", addresses: []string{"10.20.0.9"},
		},
		{
			name: "enough dots, known with a suffix only", query: "registry.prod", conf: one + "search corp.test lab.test\n",
			world: script{"10.20.0.4 *": rcode("NXDOMAIN").in(4 * time.Millisecond), "10.20.0.4 registry.prod.lab.test A": found("10.20.0.9").in(2 * time.Millisecond), "10.20.0.4 registry.prod.lab.test AAAA": rcode("NOERROR").in(4 * time.Millisecond)},
			asked: []string{"registry.prod.", "registry.prod.corp.test.", "registry.prod.lab.test."}, of: "registry.prod.lab.test.",
			addresses: []string{"10.20.0.9"}, predicted: 12,
		},
		{
			name: "too few dots: the suffix first", query: "registry", conf: one + "search corp.test\n",
			world: script{"10.20.0.4 *": found("10.20.0.9")},
			asked: []string{"registry.corp.test."}, of: "registry.corp.test.", addresses: []string{"10.20.0.9"},
		},
		{
			name: "nothing knows it", query: "registry", conf: one + "search corp.test\n",
			world: script{"10.20.0.4 *": rcode("NXDOMAIN")},
			asked: []string{"registry.", "registry.corp.test."}, of: "registry.", codes: []string{"fail dns.cluster-only-name", "fail dns.nxdomain"},
		},
		{
			name: "a trailing dot switches the search off", query: name + ".", conf: one + "search corp.test\noptions ndots:5\n",
			world: script{"10.20.0.4 *": rcode("NXDOMAIN")},
			asked: []string{name + "."}, of: name + ".", codes: []string{"fail dns.nxdomain"},
		},
		{
			name: "a silent first nameserver does not hide the search list", query: name, conf: two + "search corp.test\n",
			world: script{"10.20.0.5 *": rcode("NXDOMAIN"), "10.20.0.5 " + name + ".corp.test A": found("10.20.0.9"), "10.20.0.5 " + name + ".corp.test AAAA": rcode("NOERROR")},
			asked: []string{name + ".", name + ".corp.test."}, of: name + ".corp.test.", addresses: []string{"10.20.0.9"}, predicted: 10000,
			codes: []string{"warn dns.resolver-timeout", "warn dns.first-server-dead"},
		},
		{
			name: "all silent: no time for the search list", query: name, conf: one + "search corp.test\n",
			world: script{}, asked: []string{name + "."}, of: name + ".", unasked: []string{name + ".corp.test."}, predicted: 10000,
			codes: []string{"fail dns.resolver-timeout"},
		},
		{
			name: "a first answer later than the second's denial is waited for", query: name, conf: two + "search corp.test\n",
			world: script{"10.20.0.4 *": found("10.20.0.9").in(300 * time.Millisecond), "10.20.0.5 *": rcode("NXDOMAIN")},
			asked: []string{name + "."}, of: name + ".", addresses: []string{"10.20.0.9"}, predicted: 300,
			codes: []string{"warn dns.servers-disagree"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rec := &recorder{Exchanger: tt.world}
				c := dnscheck.Checker{FS: node("resolv.conf", tt.conf), Exchanger: rec}
				r, err := c.Check(t.Context(), tt.query)
				require.NoError(t, err)
				assert.Equal(t, tt.asked, rec.names())
				assert.Equal(t, tt.of, r.Asked)
				assert.Len(t, r.Also, len(tt.asked)-1)
				assert.Equal(t, tt.unasked, r.Unasked)
				assert.Equal(t, addrs(tt.addresses...), r.Addresses)
				assert.Equal(t, tt.predicted, r.PredictedMS)
				assert.Equal(t, tt.codes, codes(r))
				assert.Empty(t, r.Inconclusive)
			})
		})
	}
}

// A name that was asked only a moment before the limit is not found silent.
func TestLateNameIsInconclusive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := dnscheck.Checker{FS: node("resolv.conf", one+"search corp.test\n"), Exchanger: script{
			"10.20.0.4 registry.corp.test A":    rcode("NXDOMAIN").in(4900 * time.Millisecond),
			"10.20.0.4 registry.corp.test AAAA": rcode("NXDOMAIN").in(4900 * time.Millisecond),
		}}
		r, err := c.Check(t.Context(), "registry")
		require.NoError(t, err)
		assert.Contains(t, r.Inconclusive, "before registry was answered")
		assert.Empty(t, codes(r))
		assert.Empty(t, r.Servers[0].A.Cause)
		assert.False(t, r.Held())
	})
}

func TestUseTCP(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{Exchanger: script{"10.20.0.4 *": found("10.20.0.9")}}
		c := dnscheck.Checker{FS: node("resolv.conf", one+"options use-vc\n"), Exchanger: rec}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		assert.True(t, r.Held())
		assert.ElementsMatch(t, []string{"10.20.0.4 " + name + ". A tcp", "10.20.0.4 " + name + ". AAAA tcp"}, rec.asked)
	})
}

func TestLocalhostLineIsNoOverride(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := dnscheck.Checker{
			FS:        node("resolv.conf", one, "hosts", "::1 localhost\n127.0.0.1 localhost\n"),
			Exchanger: script{"10.20.0.4 *": rcode("NXDOMAIN")},
		}
		r, err := c.Check(t.Context(), "localhost")
		require.NoError(t, err)
		assert.Equal(t, addrs("127.0.0.1", "::1"), r.Addresses)
		assert.Empty(t, codes(r))
	})
}

func TestCallerEnds(t *testing.T) {
	t.Parallel()
	t.Run("before any answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			r, err := (&dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: script{}}).Check(ctx, name)
			require.NoError(t, err)
			assert.Equal(t, time.Second, time.Since(start))
			assert.Contains(t, r.Inconclusive, "ended by the caller")
			assert.Empty(t, codes(r))
			assert.Empty(t, r.Servers[0].A.Cause)
			assert.EqualValues(t, 1000, r.Servers[0].A.ElapsedMS)
			assert.Zero(t, r.PredictedMS)
		})
	})
	t.Run("with the answer already seen", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := (&dnscheck.Checker{FS: node("resolv.conf", two), Exchanger: script{"10.20.0.4 *": found("10.20.0.9")}}).Check(ctx, name)
			require.NoError(t, err)
			assert.Contains(t, r.Inconclusive, "ended by the caller")
			assert.Equal(t, addrs("10.20.0.9"), r.Addresses)
			assert.Empty(t, codes(r))
		})
	})
	t.Run("a denial seen before is kept as a warning", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := (&dnscheck.Checker{FS: node("resolv.conf", two), Exchanger: script{"10.20.0.4 *": rcode("NXDOMAIN")}}).Check(ctx, name)
			require.NoError(t, err)
			assert.NotEmpty(t, r.Inconclusive)
			assert.Equal(t, []string{"warn dns.nxdomain"}, codes(r))
		})
	})
	t.Run("before the start", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r, err := (&dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: script{}}).Check(ctx, name)
			require.NoError(t, err)
			assert.NotEmpty(t, r.Inconclusive)
			assert.Empty(t, codes(r))
		})
	})
	t.Run("with an Exchanger that does not listen", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			r, err := (&dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: script{"10.20.0.4 *": {deaf: true}}}).Check(ctx, name)
			require.NoError(t, err)
			assert.Less(t, time.Since(start), time.Second+250*time.Millisecond)
			assert.Contains(t, r.Inconclusive, "ended by the caller")
			assert.Empty(t, codes(r))
			<-time.After(2 * time.Hour) // in the bubble: lets the deaf one return
		})
	})
}

func TestOwnLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r, err := (&dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: script{}, Limit: 700 * time.Millisecond}).Check(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, 700*time.Millisecond, time.Since(start))
		require.Equal(t, []string{"fail dns.resolver-timeout"}, codes(r))
		var stage *classify.StageError
		require.ErrorAs(t, first(r), &stage)
		assert.Equal(t, 700*time.Millisecond, stage.Limit)
		assert.Equal(t, "700ms", first(r).Fact(classify.FactLimit))
		assert.EqualValues(t, 10000, r.PredictedMS, "the runtime waits its own timeouts")
	})
}

func TestLiteral(t *testing.T) {
	t.Parallel()
	for _, literal := range []string{"10.20.0.4", "fd00::4"} {
		r, err := (&dnscheck.Checker{Exchanger: script{}}).Check(t.Context(), literal)
		require.NoError(t, err)
		assert.True(t, r.Literal)
		assert.True(t, r.Held())
		assert.Equal(t, addrs(literal), r.Addresses)
		assert.Empty(t, r.Servers)
		assert.Empty(t, codes(r))
	}
	r, err := (&dnscheck.Checker{}).Check(t.Context(), "0.0.0.0")
	require.NoError(t, err)
	assert.False(t, r.Held())
	assert.Equal(t, []string{"fail dns.bogus-address"}, codes(r))
}

func TestSenselessNames(t *testing.T) {
	t.Parallel()
	for query, says := range map[string]string{
		"":                                      "empty",
		"registry.corp.test:5000":               "port",
		"10.20.0.4:443":                         "port",
		"[fd00::4]:443":                         "port",
		"https://registry.corp.test/v2/":        "URL",
		"registry.corp.test/team":               "holds '/'",
		"registry corp.test":                    "holds ' '",
		"registry..corp.test":                   "empty",
		".":                                     "empty",
		"-registry.corp.test":                   "hyphen",
		"régistry.corp.test":                    "cannot",
		"12345":                                 "digits",
		strings.Repeat("a", 64) + ".corp.test":  "longer than 63",
		strings.Repeat("abcdefg.", 32) + "test": "longer than 253",
		"registry\x00.corp.test":                "cannot",
	} {
		_, err := (&dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: script{}}).Check(t.Context(), query)
		require.Error(t, err, query)
		assert.Contains(t, err.Error(), says, query)
		assert.Less(t, len(err.Error()), 400)
	}
}

// noRead is a file system whose files exist but may not be read.
type noRead struct {
	fs.FS
	file string
}

func (n noRead) Open(name string) (fs.File, error) {
	if name == n.file {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return n.FS.Open(name)
}

func TestUnreadableSettings(t *testing.T) {
	t.Parallel()
	t.Run("resolv.conf", func(t *testing.T) {
		r, err := (&dnscheck.Checker{FS: noRead{node("resolv.conf", one), "etc/resolv.conf"}, Exchanger: script{}}).Check(t.Context(), name)
		require.NoError(t, err)
		assert.Contains(t, r.Inconclusive, "permission")
		assert.Empty(t, codes(r))
		assert.Empty(t, r.Settings.Nameservers)
	})
	t.Run("hosts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, err := (&dnscheck.Checker{FS: noRead{node("resolv.conf", one), "etc/hosts"}, Exchanger: script{"10.20.0.4 *": rcode("NXDOMAIN")}}).Check(t.Context(), name)
			require.NoError(t, err)
			assert.Equal(t, []string{"fail dns.nxdomain"}, codes(r))
			assert.Equal(t, classify.CertaintyLikely, first(r).Certainty)
			assert.Contains(t, r.Settings.Problems[0], "/etc/hosts")
		})
	})
	t.Run("a directory in its place", func(t *testing.T) {
		tree := fstest.MapFS{"etc/resolv.conf/x": &fstest.MapFile{}}
		r, err := (&dnscheck.Checker{FS: tree, Exchanger: script{}}).Check(t.Context(), name)
		require.NoError(t, err)
		assert.Contains(t, r.Inconclusive, "not a regular file")
	})
}

// hanging is a file system on a dead network mount.
type hanging struct{ until chan struct{} }

func (h hanging) Open(string) (fs.File, error) {
	<-h.until
	return nil, errors.New("gone")
}

func TestHangingFileSystem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := hanging{make(chan struct{})}
		defer close(h.until)
		start := time.Now()
		r, err := (&dnscheck.Checker{FS: h, Exchanger: script{}}).Check(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Contains(t, r.Inconclusive, "not read in time")
	})
}

// A hostile resolver fills neither the report nor the text.
func TestBoundedAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var a dnscheck.Answer
		for i := range 5000 {
			a.Addresses = append(a.Addresses, netip.AddrFrom4([4]byte{10, 20, byte(i >> 8), byte(i)}))
			a.CNAMEs = append(a.CNAMEs, strings.Repeat("x", 5000))
		}
		r, err := (&dnscheck.Checker{FS: node("resolv.conf", one), Exchanger: script{"10.20.0.4 *": reply{answer: a}}}).Check(t.Context(), name)
		require.NoError(t, err)
		assert.Len(t, r.Addresses, 64, "and none of them for AAAA")
		assert.Len(t, r.Servers[0].A.Answer.CNAMEs, 16)
		data, err := json.Marshal(r)
		require.NoError(t, err)
		assert.Less(t, len(data), 16<<10)
	})
}

// Cancelling after any number of exchanges leaves a valid report.
func TestCancelAnywhere(t *testing.T) {
	t.Parallel()
	for n := range 8 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			world := script{"10.20.0.4 *": rcode("NXDOMAIN").in(time.Millisecond), "10.20.0.5 *": rcode("SERVFAIL").in(2 * time.Millisecond)}
			ended := make(chan struct{}, 64)
			go func() {
				for range n {
					select {
					case <-ended:
					case <-ctx.Done():
						return
					}
				}
				cancel()
			}()
			c := dnscheck.Checker{FS: node("resolv.conf", two+"search corp.test lab.test\n"), Exchanger: dnscheck.ExchangerFunc(
				func(ctx context.Context, s netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
					defer func() { ended <- struct{}{} }()
					return world.Exchange(ctx, s, network, q)
				})}
			r, err := c.Check(ctx, name)
			require.NoError(t, err)
			roundTrip(t, r)
			if r.Inconclusive != "" {
				assert.NotContains(t, strings.Join(codes(r), " "), "fail dns")
			}
		})
	}
}

func BenchmarkCheckHealthy(b *testing.B) {
	world := script{"10.20.0.4 *": found("10.20.0.9"), "10.20.0.5 *": found("10.20.0.9")}
	c := dnscheck.Checker{FS: node("resolv.conf", two, "hosts", "127.0.0.1 localhost\n"), Exchanger: world}
	b.ReportAllocs()
	for b.Loop() {
		if r, err := c.Check(b.Context(), name); err != nil || !r.Held() {
			b.Fatal(err, codes(r))
		}
	}
}
