package dnscheck

import (
	"context"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func tree(files ...string) fstest.MapFS {
	t := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		t[files[i]] = &fstest.MapFile{Data: []byte(files[i+1]), Mode: 0o644, ModTime: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)}
	}
	return t
}

// locked is a mount namespace that this process may not enter.
type locked struct{}

func (locked) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestSources(t *testing.T) {
	t.Parallel()
	host := Source{"this machine", tree("etc/resolv.conf", "nameserver 10.20.0.4\nsearch corp.test\n", "etc/hosts", "10.20.0.9 registry.corp.test\n")}
	own := Source{"runtime containerd (process 812)", tree("etc/resolv.conf", "nameserver 10.30.0.4\n", "etc/hosts", "")}

	t.Run("the runtime's own files count, the host's are a view", func(t *testing.T) {
		s := ReadSettings([]Source{own, host})
		assert.Equal(t, own.Name, s.Source)
		assert.Equal(t, []netip.AddrPort{netip.MustParseAddrPort("10.30.0.4:53")}, s.Nameservers)
		assert.Equal(t, []View{{host.Name, "/etc/resolv.conf", []netip.AddrPort{netip.MustParseAddrPort("10.20.0.4:53")}, []string{"corp.test"}}}, s.Views)
		assert.Empty(t, s.Hosts)
		assert.Equal(t, "2026-03-01T09:00:00Z", s.Changed.Format(time.RFC3339))
	})
	t.Run("a namespace that may not be entered", func(t *testing.T) {
		s := ReadSettings([]Source{{own.Name, locked{}}, host})
		assert.Equal(t, host.Name, s.Source)
		assert.Empty(t, s.Views)
		require.NotEmpty(t, s.Problems)
		assert.Contains(t, s.Problems[0], own.Name+": could not be read")
		require.Len(t, s.Hosts, 1)
		assert.Equal(t, s.Changed, s.Hosts[0].Changed)
	})
	t.Run("no file where the runtime looks", func(t *testing.T) {
		s := ReadSettings([]Source{{own.Name, tree("etc/hosts", "")}, host})
		assert.Equal(t, own.Name, s.Source)
		assert.True(t, s.DefaultNameservers, "the host's file does not help the runtime")
	})
	t.Run("nothing can be entered", func(t *testing.T) {
		s := ReadSettings([]Source{{own.Name, locked{}}})
		assert.NotEmpty(t, s.unknown)
		assert.Empty(t, s.Nameservers)
	})
	t.Run("in a check", func(t *testing.T) {
		c := Checker{FS: host.FS, Sources: []Source{own, host}, Exchanger: ExchangerFunc(func(_ context.Context, server netip.AddrPort, _ string, _ Question) (Answer, error) {
			return Answer{Addresses: []netip.Addr{server.Addr()}}, nil
		})}
		r, err := c.Check(t.Context(), "registry.corp.test")
		require.NoError(t, err)
		assert.Equal(t, "10.30.0.4", r.Addresses[0].String())
		assert.Equal(t, own.Name, r.Settings.Source)
	})
}

func TestSourcesAt(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no symbolic links without rights on windows")
	}
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "run/systemd/resolve"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "run/systemd/resolve/stub-resolv.conf"), []byte("nameserver 127.0.0.53\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "run/systemd/resolve/resolv.conf"), []byte("nameserver 10.20.0.4\nnameserver 10.20.0.5\n"), 0o644))
	require.NoError(t, os.Symlink("/run/systemd/resolve/stub-resolv.conf", filepath.Join(root, "etc/resolv.conf")))

	s := ReadSettings(SourcesAt(root))
	assert.Equal(t, "host root "+root, s.Source)
	assert.Equal(t, "127.0.0.53:53", s.Nameservers[0].String(), "an absolute link stays inside the tree")
	require.Len(t, s.Behind, 2)
	assert.Equal(t, "/run/systemd/resolve/resolv.conf", s.Behind[0].File)

	assert.Empty(t, SourcesAt(filepath.Join(root, "missing")))
	s = ReadSettings(nil)
	assert.NotEmpty(t, s.unknown)
}

// The files of a process are those of its root, here this process itself.
func TestProcessRoot(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no /proc/PID/root on " + runtime.GOOS)
	}
	if _, err := os.Stat("/etc/resolv.conf"); err != nil {
		t.Skip("no /etc/resolv.conf here")
	}
	sources := SourcesAt("/proc/" + strconv.Itoa(os.Getpid()) + "/root")
	require.NotEmpty(t, sources)
	want, got := settingsOf(os.DirFS("/")), ReadSettings(sources[len(sources)-1:])
	assert.Equal(t, want.Nameservers, got.Nameservers)
}

func TestFollowStub(t *testing.T) {
	t.Parallel()
	stub := "nameserver 127.0.0.53\noptions edns0 trust-ad\n"
	for _, tt := range []struct {
		name  string
		files []string
		want  string
	}{
		{"no stub", []string{"etc/resolv.conf", "nameserver 10.20.0.4\n", "run/systemd/resolve/resolv.conf", "nameserver 10.20.0.5\n"}, ""},
		{"no state", []string{"etc/resolv.conf", stub}, ""},
		{"uplinks, more than three", []string{"etc/resolv.conf", stub, "run/systemd/resolve/resolv.conf", "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\nnameserver x\n"}, "10.0.0.1:53 10.0.0.2:53 10.0.0.3:53 10.0.0.4:53"},
		{"uplink file that names the stub", []string{"etc/resolv.conf", stub, "run/systemd/resolve/resolv.conf", "nameserver 127.0.0.53\n"}, ""},
		{
			"per link", []string{"etc/resolv.conf", stub, "run/systemd/resolve/resolv.conf", "nameserver 10.0.0.1\n",
				"run/systemd/netif/links/2", "ADMIN_STATE=configured\nDNS=10.0.0.1 fe80::1%2\nDOMAINS=corp.test ~lab.test\nROUTE_DOMAINS=.\n",
				"run/systemd/resolve/netif/9", "SERVERS=10.8.0.1:5353#dns.corp.test 10.8.0.2%wg0\nDOMAINS=~vpn.test -bad-\n",
				"run/systemd/resolve/netif/x", "SERVERS=10.9.9.9\n", "sys/class/net/eth0/ifindex", "2\n"},
			"10.0.0.1:53(eth0 corp.test ~lab.test ~.) 10.8.0.1:5353(9 ~vpn.test) 10.8.0.2:53(9 ~vpn.test) [fe80::1%2]:53(eth0 corp.test ~lab.test ~.)",
		},
		{"NetworkManager's dnsmasq", []string{"etc/resolv.conf", "nameserver 127.0.1.1\n", "run/NetworkManager/no-stub-resolv.conf", "nameserver 10.0.0.9\n"}, "10.0.0.9:53"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := settingsOf(tree(tt.files...))
			var got []string
			for _, b := range s.Behind {
				text := b.Server.String()
				if b.Link != "" {
					text += "(" + strings.Join(append([]string{b.Link}, b.Domains...), " ") + ")"
				}
				got = append(got, text)
			}
			assert.Equal(t, tt.want, strings.Join(got, " "))
		})
	}
}

func TestLooksLikePod(t *testing.T) {
	t.Parallel()
	for search, want := range map[string]bool{
		"default.svc.cluster.local svc.cluster.local cluster.local corp.test": true,
		"apps.svc.k8s.corp.test svc.k8s.corp.test":                            true,
		"apps.svc.k8s.corp.test":                                              false,
		"corp.test":                                                           false,
		"svc-lab.test":                                                        false,
		"a.b.svc.test":                                                        false,
		"":                                                                    false,
	} {
		assert.Equal(t, want, settingsOf(tree("etc/resolv.conf", "nameserver 10.96.0.10\nsearch "+search+"\n")).Cluster, search)
	}
}

func TestClusterName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"harbor.registry.svc": true, "harbor.registry.svc.cluster.local.": true, "harbor.registry.svc.corp.test": true,
		"x.cluster.local": true, "harbor": true, "registry.corp.test": false, "svc.corp.test": false, "harbor.svcs.test": false,
	} {
		assert.Equal(t, want, clusterName(name) != "", name)
	}
}

func FuzzLink(f *testing.F) {
	f.Add([]byte("DNS=10.0.0.1 fe80::1%2\nDOMAINS=corp.test ~lab.test\nROUTE_DOMAINS=.\n"))
	f.Add([]byte("SERVERS=10.8.0.1:5353#dns.corp.test\r\nDOMAINS=~.\x00\n"))
	f.Add([]byte(strings.Repeat("SERVERS=1.1.1.1 2.2.2.2\nDOMAINS=a b c\n", 1000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		servers, domains := parseLink(data)
		if len(servers) > maxBehind || len(domains) > maxDomains {
			t.Fatal("not bounded")
		}
		for _, s := range servers {
			if !s.IsValid() || s.Port() == 0 {
				t.Fatalf("server %v", s)
			}
		}
		for _, d := range domains {
			if d != "~." && checkDomain(strings.TrimPrefix(d, "~")) != nil {
				t.Fatalf("domain %q", d)
			}
		}
		s := settingsOf(tree("etc/resolv.conf", "nameserver 127.0.0.53\n", "run/systemd/resolve/resolv.conf", string(data), "run/systemd/netif/links/2", string(data)))
		if len(s.Behind) > maxBehind {
			t.Fatal("not bounded")
		}
	})
}

func FuzzIPv6Routes(f *testing.F) {
	f.Add([]byte("fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001 eth0\n"))
	f.Add([]byte(strings.Repeat("0", 32) + " ff x x x x x x zz eth0\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		routes := parseIPv6Routes(data)
		if len(routes) > maxRoutes {
			t.Fatal("not bounded")
		}
		for _, r := range routes {
			if !r.IsValid() || r.Addr().Is4() {
				t.Fatalf("route %v", r)
			}
		}
	})
}
