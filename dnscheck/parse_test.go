package dnscheck

import (
	"fmt"
	"io/fs"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
)

func TestParseResolvConf(t *testing.T) {
	t.Parallel()
	servers := func(texts ...string) (all []netip.AddrPort) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddrPort(text))
		}
		return all
	}
	base := Settings{File: "/etc/resolv.conf", NDots: 1, Attempts: 2, TimeoutMS: 5000, Nameservers: servers("10.20.0.4:53")}
	with := func(change func(*Settings)) Settings {
		s := base
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		text, domain string
		want         Settings
	}{
		"plain":                  {text: "nameserver 10.20.0.4\n", want: base},
		"comments, blanks, CRLF": {text: "# one\r\n; two\r\n\r\n\tnameserver\t10.20.0.4  # not part\r\n", want: base},
		"no newline at the end":  {text: "nameserver 10.20.0.4", want: base},
		"unknown words":          {text: "sortlist 10.0.0.0\nnameserver\nnameserver 10.20.0.4\noptions edns0 trust-ad inet6\n", want: with(func(s *Settings) { s.LeftToCLibrary = []string{"/etc/resolv.conf: options inet6"} })},
		"read once":              {text: "nameserver 10.20.0.4\noptions no-reload\n", want: with(func(s *Settings) { s.NoReload = true })},
		"IPv6 with a zone":       {text: "nameserver fe80::1%eth0\nnameserver fd00::4\n", want: with(func(s *Settings) { s.Nameservers = servers("[fe80::1%eth0]:53", "[fd00::4]:53") })},
		"three count": {text: "nameserver 10.20.0.4\nnameserver 10.20.0.5\nnameserver 10.20.0.6\nnameserver 10.20.0.7\n", want: with(func(s *Settings) {
			s.Nameservers, s.Ignored = servers("10.20.0.4:53", "10.20.0.5:53", "10.20.0.6:53"), []string{"10.20.0.7"}
		})},
		"a name is no nameserver":     {text: "nameserver dns.corp.test\nnameserver 10.20.0.4\n", want: with(func(s *Settings) { s.Ignored = []string{"dns.corp.test"} })},
		"a port is no nameserver":     {text: "nameserver 10.20.0.4:5353\nnameserver 10.20.0.4\n", want: with(func(s *Settings) { s.Ignored = []string{"10.20.0.4:5353"} })},
		"none":                        {text: "", want: with(func(s *Settings) { s.Nameservers, s.DefaultNameservers = servers("127.0.0.1:53", "[::1]:53"), true })},
		"last search counts":          {text: "domain a.test\nsearch b.test c.test. .\nnameserver 10.20.0.4\n", want: with(func(s *Settings) { s.Search = []string{"b.test", "c.test"} })},
		"last domain counts":          {text: "search b.test c.test\ndomain a.test\nnameserver 10.20.0.4\n", want: with(func(s *Settings) { s.Search = []string{"a.test"} })},
		"search from the host's name": {text: "nameserver 10.20.0.4\n", domain: "corp.test", want: with(func(s *Settings) { s.Search = []string{"corp.test"} })},
		"options": {text: "nameserver 10.20.0.4\noptions ndots:5 timeout:1 attempts:3 rotate single-request use-vc\n", want: with(func(s *Settings) {
			s.NDots, s.TimeoutMS, s.Attempts, s.Rotate, s.SingleRequest, s.UseTCP = 5, 1000, 3, true, true, true
		})},
		"options out of range": {text: "nameserver 10.20.0.4\noptions ndots:99 timeout:0 attempts:-1\n", want: with(func(s *Settings) {
			s.NDots, s.TimeoutMS, s.Attempts = 15, 1000, 1
		})},
		"options without sense": {text: "nameserver 10.20.0.4\noptions ndots:x timeout:99999999999999999999 attempts\n", want: with(func(s *Settings) {
			s.NDots, s.TimeoutMS, s.Attempts = 0, 1000000, 1
		})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, parseResolvConf([]byte(tt.text), tt.domain))
		})
	}

	s := parseResolvConf([]byte("search ok.test bad\x00.test\nnameserver 10.20.0.4\n"), "")
	assert.Equal(t, []string{"ok.test"}, s.Search)
	assert.Equal(t, []string{`/etc/resolv.conf:1: search domain "bad\x00.test" is not a domain name`}, s.Problems)
}

func TestParseNSSwitch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "files dns",
		"passwd: files\n":            "files dns",
		"hosts: files dns\n":         "files dns",
		"hosts:\tdns  files # order": "dns files",
		"hosts: files\r\n":           "files",
		"hosts: dns":                 "dns",
		"hosts:":                     "files dns",
		"hosts: files files dns":     "files dns",
		"hosts: mymachines resolve [!UNAVAIL=return] files myhostname dns\n": "files dns",
		"hosts: files mdns4_minimal [NOTFOUND=return] dns\n":                 "files dns",
		"hosts: resolve [!UNAVAIL=return] files\n":                           "dns files",
		"hosts: files resolve\n":                                             "files dns",
		"hosts: files[SUCCESS=return]dns":                                    "files dns",
	} {
		var problems []string
		assert.Equal(t, want, strings.Join(parseNSSwitch([]byte(text), &problems), " "), text)
		assert.Empty(t, problems)
	}
	for _, text := range []string{"hosts: dns [NOTFOUND=return\n", "nonsense\nhosts: dns\n"} {
		var problems []string
		assert.Equal(t, []string{"files", "dns"}, parseNSSwitch([]byte(text), &problems), text)
		assert.Len(t, problems, 1)
	}
}

func TestParseHosts(t *testing.T) {
	t.Parallel()
	text := "127.0.0.1 localhost\r\n# 10.20.0.1 registry.corp.test\n\n10.20.0.9\tother.corp.test REGISTRY.corp.test. # by hand\n" +
		"not-an-address registry.corp.test\nfd00::9 registry.corp.test\n10.20.0.9 xregistry.corp.test\n10.20.0.10\n"
	var problems []string
	got := parseHosts([]byte(text), &problems, maxHostsMatches, named("registry.corp.test"))
	assert.Equal(t, []HostsEntry{
		{Address: netip.MustParseAddr("10.20.0.9"), Names: []string{"other.corp.test", "REGISTRY.corp.test."}, File: "/etc/hosts", Line: 4},
		{Address: netip.MustParseAddr("fd00::9"), Names: []string{"registry.corp.test"}, File: "/etc/hosts", Line: 6},
	}, got)
	assert.Empty(t, problems)
}

// A line beyond the ten thousandth still counts for a lookup.
func TestLongHostsFile(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 12000 {
		fmt.Fprintf(&b, "0.0.0.0 ads%d.example\n", i)
	}
	b.WriteString("10.20.0.9 registry.corp.test\n")
	var problems []string
	got := parseHosts([]byte(b.String()), &problems, maxHostsMatches, named("registry.corp.test"))
	assert.Len(t, got, 1)
	assert.Equal(t, 12001, got[0].Line)

	s := settingsOf(fstest.MapFS{"etc/hosts": {Data: []byte(b.String())}})
	assert.Len(t, s.Hosts, maxHostsEntries)
	assert.Contains(t, s.Problems[len(s.Problems)-1], "more entries")
}

func settingsOf(fsys fs.FS) Settings { return ReadSettings([]Source{{FS: fsys}}) }

func TestReadSettings(t *testing.T) {
	t.Parallel()
	s := settingsOf(fstest.MapFS{
		"etc/resolv.conf":   {Data: []byte("nameserver 10.20.0.4\n")},
		"etc/nsswitch.conf": {Data: []byte("hosts: dns files\n")},
		"etc/hosts":         {Data: []byte("10.20.0.9 registry.corp.test\n")},
		"etc/hostname":      {Data: []byte("node1.corp.test\n")},
	})
	assert.Equal(t, []string{"dns", "files"}, s.Order)
	assert.False(t, s.HostsFirst)
	assert.Equal(t, []string{"corp.test"}, s.Search)
	assert.Len(t, s.Hosts, 1)
	assert.Empty(t, s.Problems)

	s = settingsOf(fstest.MapFS{
		"etc/resolv.conf":   {Data: []byte("nameserver 10.20.0.4\noptions no-aaaa\n")},
		"etc/nsswitch.conf": {Data: []byte("hosts: mymachines resolve [!UNAVAIL=return] files mdns4_minimal myhostname dns\n")},
	})
	assert.Equal(t, []string{"/etc/resolv.conf: options no-aaaa", "/etc/nsswitch.conf: mymachines", "/etc/nsswitch.conf: resolve"}, s.LeftToCLibrary)

	s = settingsOf(fstest.MapFS{})
	assert.True(t, s.DefaultNameservers)
	assert.True(t, s.HostsFirst)
	assert.Equal(t, []string{"/etc/resolv.conf: does not exist"}, s.Problems)

	s = settingsOf(fstest.MapFS{"etc/resolv.conf": {Data: []byte("nameserver 10.20.0.4\n" + strings.Repeat("#", maxLine+1) + "\n" + strings.Repeat("# filler\n", maxFile/8))}})
	assert.Len(t, s.Nameservers, 1)
	assert.Len(t, s.Problems, 2)

	if s = ReadSettings(SourcesAt("")); runtime.GOOS == "windows" {
		assert.Empty(t, s.Nameservers)
		assert.NotEmpty(t, s.Problems)
	} else {
		assert.NotEmpty(t, s.Nameservers)
	}
}

func FuzzResolvConf(f *testing.F) {
	f.Add([]byte("nameserver 10.20.0.4\nsearch corp.test\noptions ndots:5 timeout:1\n"), "corp.test")
	f.Add([]byte("nameserver 10.20.0.4\r\n\x00\r\nnameserver fe80::1%\x00\n"), "\x00")
	f.Add([]byte(strings.Repeat("nameserver a\nsearch b\n", 10000)), strings.Repeat("a.", 200))
	f.Add([]byte(strings.Repeat("x", 70000)), "")
	f.Fuzz(func(t *testing.T, data []byte, domain string) {
		s := parseResolvConf(data, domain)
		if n := len(s.Nameservers); n < 1 || n > maxNameservers {
			t.Fatalf("%d nameservers", n)
		}
		if len(s.Ignored) > maxIgnored || len(s.Search) > maxSearch || len(s.Problems) > maxProblems {
			t.Fatal("not bounded")
		}
		if s.NDots < 0 || s.NDots > 15 || s.Attempts < 1 || s.TimeoutMS < 1000 {
			t.Fatalf("options out of range: %+v", s)
		}
		for _, n := range searchNames("registry.corp.test", &s) {
			if len(n) > maxFQDN || checkDomain(strings.TrimSuffix(n, ".")) != nil {
				t.Fatalf("would ask for %q", n)
			}
		}
	})
}

func FuzzHosts(f *testing.F) {
	f.Add([]byte("10.20.0.9 registry.corp.test # by hand\n"), "registry.corp.test")
	f.Add([]byte("10.20.0.9\tregistry.corp.test.\r\n\x00 \x00\n"), "REGISTRY.corp.test.")
	f.Add([]byte(strings.Repeat("0.0.0.0 a b c\n", 10000)), "c")
	f.Add([]byte("::1 "+strings.Repeat("a ", 40000)), "a")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		var problems []string
		entries := parseHosts(data, &problems, maxHostsMatches, named(name))
		if len(entries) > maxHostsMatches || len(problems) > maxProblems {
			t.Fatal("not bounded")
		}
		for _, e := range entries {
			if !e.Address.IsValid() || e.Line < 1 || len(e.Names) > maxHostsNames {
				t.Fatalf("bad entry %+v", e)
			}
		}
	})
}

func FuzzNSSwitch(f *testing.F) {
	f.Add([]byte("hosts: files mdns4_minimal [NOTFOUND=return] dns\n"))
	f.Add([]byte("hosts: [[[]]]\x00 dns\r\nhosts: [\n"))
	f.Add([]byte(strings.Repeat("hosts: a b c d\n", 10000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var problems []string
		order := parseNSSwitch(data, &problems)
		if len(order) < 1 || len(order) > 2 || len(problems) > maxProblems {
			t.Fatalf("order %q, problems %q", order, problems)
		}
		for _, source := range order {
			if source != sourceFiles && source != sourceDNS {
				t.Fatalf("order %q", order)
			}
		}
	})
}

func FuzzCheckName(f *testing.F) {
	for _, seed := range []string{"registry.corp.test", "10.20.0.4:443", "[::1]", "https://x", "a..b", "\x00", strings.Repeat("a.", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if err := checkName(name); err == nil && (len(name) > maxFQDN || strings.ContainsAny(name, ":/ \x00\n")) {
			t.Fatalf("%q accepted", name)
		} else if err != nil && len(err.Error()) > 1024 {
			t.Fatal("error not bounded")
		}
	})
}
