package dnscheck_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
)

// unboundBinary finds a real recursive resolver; without one the test is skipped.
func unboundBinary(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"unbound", "/usr/sbin/unbound", "/usr/local/sbin/unbound"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no unbound on this machine (Debian: apt-get install unbound)")
	return ""
}

// freePort returns a port of 127.0.0.1 that is free for UDP and TCP.
func freePort(t *testing.T) int {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		port := l.Addr().(*net.TCPAddr).Port
		p, err := net.ListenPacket("udp", fmt.Sprintf("127.0.0.1:%d", port))
		l.Close()
		if err == nil {
			p.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

const (
	servesZone = "auth-zone:\n name: \"corp.test\"\n zonefile: \"corp.zone\"\n for-downstream: yes\n for-upstream: no\n fallback-enabled: no\n"
	zoneHead   = "$ORIGIN corp.test.\n$TTL 60\n@ SOA ns.corp.test. admin.corp.test. 7 60 60 60 30\n@ NS ns\nns A 127.0.0.1\n"
	theZone    = zoneHead + "registry CNAME registry.privatelink\nregistry.privatelink A 10.20.0.9\n"
)

// unbound starts a resolver on loopback with the zone corp.test, and returns
// where it listens. extra is added to its configuration.
func unbound(t *testing.T, zone, extra string) netip.AddrPort {
	t.Helper()
	binary := unboundBinary(t)
	dir := t.TempDir()
	if zone != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "corp.zone"), []byte(zone), 0o600))
	}
	for range 3 { // another process may take the port in between
		port := freePort(t)
		conf := fmt.Sprintf(`server:
 interface: 127.0.0.1
 port: %d
 do-daemonize: no
 username: ""
 chroot: ""
 directory: %q
 pidfile: ""
 use-syslog: no
 logfile: ""
 verbosity: 1
 do-ip6: no
 num-threads: 1
 outgoing-range: 64
 num-queries-per-thread: 32
 do-not-query-localhost: no
 local-zone: "test" nodefault
 ede: yes
 access-control: 127.0.0.0/8 allow
remote-control:
 control-enable: no
%s`, port, dir, extra)
		file := filepath.Join(dir, "unbound.conf")
		require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
		if server := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)); startUnbound(t, binary, file) {
			return server
		}
	}
	t.Fatal("unbound does not start")
	return netip.AddrPort{}
}

func startUnbound(t *testing.T, binary, file string) bool {
	t.Helper()
	log, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(binary, "-d", "-c", file)
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	w.Close()
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(log)
		var said []string
		for lines.Scan() {
			said = append(said, lines.Text())
			if strings.Contains(lines.Text(), "start of service") {
				ready <- true
				_, _ = io.Copy(io.Discard, log)
				return
			}
		}
		t.Log(strings.Join(said, "\n"))
		ready <- false
	}()
	ok := <-ready
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		log.Close()
	}
	if !ok {
		stop()
		return false
	}
	t.Cleanup(stop)
	return true
}

// at sends the questions for the nameservers of the settings, which can only
// name port 53, to where the resolvers of a test listen.
func at(servers map[string]netip.AddrPort) dnscheck.Exchanger {
	return dnscheck.ExchangerFunc(func(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
		return dnscheck.Network{}.Exchange(ctx, servers[server.Addr().String()], network, q)
	})
}

// blackHole is a UDP and TCP address that takes and never answers.
func blackHole(t *testing.T) netip.AddrPort {
	t.Helper()
	p, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p.LocalAddr().(*net.UDPAddr).AddrPort()
}

// The central faults, against a real recursive resolver.
func TestUnbound(t *testing.T) {
	t.Parallel()
	unboundBinary(t)
	one := "nameserver 10.20.0.53\n"
	only := func(server netip.AddrPort) map[string]netip.AddrPort {
		return map[string]netip.AddrPort{"10.20.0.53": server}
	}
	check := func(t *testing.T, servers map[string]netip.AddrPort, files ...string) *dnscheck.Report {
		t.Helper()
		c := dnscheck.Checker{FS: node(append([]string{"resolv.conf", one}, files...)...), Exchanger: at(servers)}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		require.Empty(t, r.Inconclusive)
		roundTrip(t, r)
		return r
	}

	t.Run("healthy", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, theZone, servesZone)))
		assert.Equal(t, addrs("10.20.0.9"), r.Addresses)
		assert.Empty(t, codes(r))
		a := r.Servers[0].A.Answer
		assert.Equal(t, []string{"registry.privatelink.corp.test"}, a.CNAMEs)
		assert.True(t, a.Authoritative)
		assert.Equal(t, 60, a.TTLSeconds)
		assert.Equal(t, classify.DNSNoData, r.Servers[0].AAAA.Cause)
	})
	t.Run("no zone", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, "", "server:\n local-zone: \".\" static\n local-data: \". 30 SOA a. b. 1 60 60 60 30\"\n")))
		require.Equal(t, []string{"fail dns.nxdomain"}, codes(r))
		assert.Contains(t, first(r).Summary, "keep this denial for 30s")
		assert.Equal(t, ".", r.Servers[0].A.Answer.SOA)
		assert.EqualValues(t, 1, r.Servers[0].A.Answer.SOASerial)
	})
	t.Run("private-link zone without the record", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, zoneHead+"registry CNAME registry.privatelink\n", servesZone)))
		assert.Equal(t, []string{"fail dns.private-zone-empty"}, codes(r))
	})
	t.Run("public answer through the private name", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, strings.Replace(theZone, "10.20.0.9", "203.0.113.10", 1), servesZone)))
		assert.True(t, r.Held())
		assert.Equal(t, []string{"warn dns.public-answer"}, codes(r))
	})
	t.Run("SERVFAIL by a dead forwarder", func(t *testing.T) {
		t.Parallel()
		closed := freePort(t)
		r := check(t, only(unbound(t, "", fmt.Sprintf("server:\n module-config: \"iterator\"\n tcp-upstream: yes\nforward-zone:\n name: \".\"\n forward-addr: 127.0.0.1@%d\n", closed))))
		require.Equal(t, []string{"fail dns.servfail"}, codes(r))
		require.NotNil(t, r.Servers[0].Unchecked, "asked again with the check disabled")
		assert.Equal(t, "SERVFAIL", r.Servers[0].Unchecked.Answer.RCode)
	})
	t.Run("stub whose upstream is silent", func(t *testing.T) {
		t.Parallel()
		// Unbound asks on for longer than any client waits.
		up := blackHole(t)
		stub := unbound(t, "", fmt.Sprintf("server:\n module-config: \"iterator\"\nforward-zone:\n name: \".\"\n forward-addr: 127.0.0.1@%d\n", up.Port()))
		r := check(t, map[string]netip.AddrPort{"127.0.0.53": stub, "10.20.0.53": up},
			"resolv.conf", "nameserver 127.0.0.53\n", "../run/systemd/resolve/resolv.conf", one)
		require.Contains(t, [][]string{{"fail dns.servfail"}, {"fail dns.resolver-timeout"}}, codes(r))
		assert.Contains(t, first(r).Summary, "Behind this stub, 10.20.0.53 gives no answer.")
	})
	t.Run("refused, with its reason", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, theZone, "server:\n access-control: 127.0.0.0/8 refuse\n"+servesZone)))
		require.Equal(t, []string{"fail dns.refused"}, codes(r))
		require.NotNil(t, r.Servers[0].A.Answer)
		assert.EqualValues(t, 18, r.Servers[0].A.Answer.Extended[0].Code)
		assert.Contains(t, first(r).Summary, "Prohibited")
	})
	t.Run("refused, without the question repeated", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, theZone, "server:\n ede: no\n access-control: 127.0.0.0/8 refuse\n"+servesZone)))
		require.Equal(t, []string{"fail dns.refused"}, codes(r))
		require.NotNil(t, r.Servers[0].A.Unmatched)
		assert.Equal(t, "REFUSED", r.Servers[0].A.Unmatched.RCode)
		assert.EqualValues(t, 10000, r.PredictedMS, "a Go client ignores it and waits")
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		c := dnscheck.Checker{
			FS:        node("resolv.conf", one),
			Exchanger: at(only(unbound(t, theZone, "server:\n access-control: 127.0.0.0/8 deny\n"+servesZone))), Limit: 1500 * time.Millisecond,
		}
		r, err := c.Check(t.Context(), name)
		require.NoError(t, err)
		assert.Equal(t, []string{"fail dns.resolver-timeout"}, codes(r))
	})
	many := theZone
	for i := range 200 {
		many += fmt.Sprintf("registry.privatelink A 10.21.0.%d\n", i)
	}
	t.Run("truncated, and TCP works", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, many, servesZone)))
		assert.Len(t, r.Addresses, 64)
		assert.Equal(t, "tcp", r.Servers[0].A.Network)
		assert.Empty(t, codes(r))
	})
	t.Run("truncated, and TCP blocked", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, many, "server:\n do-tcp: no\n"+servesZone)))
		assert.False(t, r.Held())
		assert.Contains(t, codes(r), "fail dns.truncated-no-tcp")
	})
	t.Run("hosts override", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, theZone, servesZone)), "hosts", "10.20.0.99 "+name+"\n")
		require.Equal(t, []string{"warn dns.hosts-override"}, codes(r))
		assert.Contains(t, first(r).Summary, "DNS disagrees and gives 10.20.0.9")
	})
	t.Run("search wildcard", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, theZone+"*.cluster A 10.20.0.14\n", servesZone)),
			"resolv.conf", one+"search cluster.corp.test\noptions ndots:5\n")
		require.Equal(t, []string{"warn dns.search-capture"}, codes(r))
		assert.Equal(t, addrs("10.20.0.14"), r.Addresses)
		require.NotNil(t, r.Wildcard)
		assert.Equal(t, "cluster.corp.test", r.Wildcard.Domain)
	})
	t.Run("servers disagree", func(t *testing.T) {
		t.Parallel()
		r := check(t, map[string]netip.AddrPort{
			"10.20.0.53": unbound(t, theZone, servesZone),
			"10.20.0.54": unbound(t, strings.Replace(theZone, "10.20.0.9", "203.0.113.10", 1), servesZone),
		}, "resolv.conf", "nameserver 10.20.0.54\n"+one)
		assert.Equal(t, []string{"warn dns.servers-disagree", "warn dns.public-answer"}, codes(r))
	})
	t.Run("alias loop", func(t *testing.T) {
		t.Parallel()
		r := check(t, only(unbound(t, zoneHead+"registry CNAME a\na CNAME b\nb CNAME a\n", servesZone)))
		assert.Equal(t, []string{"fail dns.cname-loop"}, codes(r))
	})
	t.Run("DNSSEC", func(t *testing.T) {
		t.Parallel()
		// An unsigned zone below a trust anchor: what a private zone under a signed
		// parent looks like to a validating resolver.
		zone := unbound(t, theZone, servesZone)
		r := check(t, only(unbound(t, "", fmt.Sprintf("server:\n module-config: \"validator iterator\"\n"+
			" trust-anchor: \"corp.test. DS 12345 8 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\n"+
			"stub-zone:\n name: \"corp.test\"\n stub-addr: 127.0.0.1@%d\n", zone.Port()))))
		require.Equal(t, []string{"fail dns.dnssec-failed"}, codes(r))
		assert.Equal(t, addrs("10.20.0.9"), r.Servers[0].Unchecked.Answer.Addresses)
		assert.NotEmpty(t, r.Servers[0].A.Answer.Extended, "its own reason")
	})
}
