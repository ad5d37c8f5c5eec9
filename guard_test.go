package pullwalk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// panicking is code of the caller with a bug in it, which quotes a secret.
type panicking struct{}

const panicWords = "index out of range, password=wrong-SECRET-for-tests"

func (panicking) Open(string) (fs.File, error) { panic(panicWords) }

func (panicking) DialContext(context.Context, string, string) (net.Conn, error) { panic(panicWords) }

func (panicking) DialSegment(context.Context, string, string, int) (net.Conn, error) {
	panic(panicWords)
}

func (panicking) Exchange(context.Context, netip.AddrPort, string, dnscheck.Question) (dnscheck.Answer, error) {
	panic(panicWords)
}

func (panicking) RouteTo(context.Context, netip.Addr) (reach.Route, error) { panic(panicWords) }

func (panicking) Resolve(authn.Resource) (authn.Authenticator, error) { panic(panicWords) }

type panickingLister struct{ panicking }

func (panickingLister) Credentials(context.Context, string) ([]tlsauth.Credential, error) {
	panic(panicWords)
}

// A panic in code of the caller ends no process, blames no network, and is said.
func TestCallerCodeThatPanics(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		put  func(*world, *pullwalk.Options)
		says string
		ok   bool // the diagnosis comes to its end all the same
	}{
		"file tree": {func(_ *world, o *pullwalk.Options) { o.Node.FS = panicking{} }, "file tree", false},
		"dialer":    {func(_ *world, o *pullwalk.Options) { o.Node.Dialer = panicking{} }, "dialer", false},
		"router":    {func(_ *world, o *pullwalk.Options) { o.Node.Router = panicking{} }, "router", false},
		"exchanger": {func(_ *world, o *pullwalk.Options) { o.Node.DNS = panicking{} }, "DNS exchanger", false},
		"clock":     {func(_ *world, o *pullwalk.Options) { o.Node.Now = func() time.Time { panic(panicWords) } }, "clock", false},
		"proxy": {func(_ *world, o *pullwalk.Options) {
			o.Node.Proxy = func(*url.URL) (*url.URL, error) { panic(panicWords) }
		}, "proxy function", false},
		"address check":    {func(_ *world, o *pullwalk.Options) { o.AllowAddr = func(netip.AddrPort) error { panic(panicWords) } }, "address check", false},
		"keychain":         {func(_ *world, o *pullwalk.Options) { o.Keychain = panicking{} }, "keychain", false},
		"keychain, listed": {func(_ *world, o *pullwalk.Options) { o.Keychain = panickingLister{} }, "keychain", false},
		"no words":         {func(_ *world, o *pullwalk.Options) { o.Node.Now = func() time.Time { panic(errors.New("")) } }, "without a word", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "", func(t *testing.T, w *world) {
				tt.put(w, &w.opts)
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkShape(t)
				got.checkLeaks(t)
				got.checkBacking(t)
				require.Equal(t, pullwalk.StatusInconclusive, got.result.Verdict, got.result.String())
				require.True(t, hasCause(got.result, classify.NodeViewFailed), got.result.String())
				require.Contains(t, got.result.String(), "the caller's ")
				require.Contains(t, got.result.String(), tt.says)
			})
		})
	}
}

// A dialer that fails for one address only takes nothing from what others saw.
func TestPanicOfOneCall(t *testing.T) {
	t.Parallel()
	inWorld(t, "zone 10.20.0.2 registry.corp.test 10.20.0.4 10.20.0.8", func(t *testing.T, w *world) {
		inner := w.opts.Node.Dialer
		w.opts.Node.Dialer = reach.DialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "10.20.0.8") {
				panic(panicWords)
			}
			return inner.DialContext(ctx, network, address)
		})
		got := w.diagnose(t, t.Context(), scenario{})
		got.checkShape(t)
		require.Equal(t, pullwalk.StatusInconclusive, got.result.Verdict)
		require.Equal(t, pullwalk.StatusOK, stepOf(got.result, pullwalk.StepLayer).Status)
	})
}

// lying is a file tree that contradicts itself.
type lying struct {
	fstest.MapFS
	count int
}

type lyingFile struct {
	fs.File
	count int
}

func (l lying) Open(name string) (fs.File, error) {
	f, err := l.MapFS.Open(name)
	if err != nil {
		return nil, err
	}
	return lyingFile{f, l.count}, nil
}

func (f lyingFile) Read(p []byte) (int, error) { return f.count, nil }

// Files that count wrongly, files without end, and neither a file nor an error.
func TestFileTreesThatLie(t *testing.T) {
	t.Parallel()
	nothing := fsFunc(func(string) (fs.File, error) { return nil, nil })
	for name, tree := range map[string]func(fstest.MapFS) fs.FS{
		"a negative count": func(m fstest.MapFS) fs.FS { return lying{m, -1} },
		"a count too high": func(m fstest.MapFS) fs.FS { return lying{m, 1 << 40} },
		"nothing at all":   func(fstest.MapFS) fs.FS { return nothing },
		"errors only": func(fstest.MapFS) fs.FS {
			return fsFunc(func(string) (fs.File, error) { return nil, errors.New("stale handle") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "", func(t *testing.T, w *world) {
				w.opts.Node.FS = tree(w.files)
				got := w.diagnose(t, t.Context(), scenario{})
				checkResult(t, got.result)
				require.Equal(t, pullwalk.StatusInconclusive, got.result.Verdict, got.result.String())
			})
		})
	}
}

type fsFunc func(string) (fs.File, error)

func (f fsFunc) Open(name string) (fs.File, error) { return f(name) }

// A clock that jumps changes what is judged by it, and nothing else: no step
// hangs, no time is negative, and the result is valid.
func TestClocksThatJump(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]func(n int64, now time.Time) time.Time{
		"backwards": func(n int64, now time.Time) time.Time { return now.Add(-time.Duration(n) * time.Minute) },
		"to and fro": func(n int64, now time.Time) time.Time {
			return now.Add(time.Duration(n%2) * 30 * time.Minute)
		},
		"to the year 1":    func(int64, time.Time) time.Time { return time.Time{} },
		"to the year 9999": func(int64, time.Time) time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "", func(t *testing.T, w *world) {
				var calls atomic.Int64
				w.opts.Node.Now = func() time.Time { return jump(calls.Add(1), time.Now()) }
				e := failedPull(asked, saysTimeout)
				e.Time = time.Now().Add(-time.Hour)
				w.opts.Events = []classify.EventRecord{e}
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkShape(t)
				got.checkEncoding(t)
				require.Positive(t, calls.Load())
				require.GreaterOrEqual(t, got.result.Reported.LastFailureAgeMS, int64(0))
				require.GreaterOrEqual(t, got.result.ElapsedMS, int64(0))
				if name == "to the year 9999" {
					require.NotEqual(t, pullwalk.StatusOK, got.result.Verdict)
				}
			})
		})
	}
}

// Links and odd files in a host's tree lead out of it nowhere, and hold nobody up.
func TestHostRootsWithHostileLinks(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("links need rights there")
	}
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("nameserver 192.0.2.99\n"), 0o600))
	for name, make := range map[string]func(t *testing.T, root string){
		"out of the tree":  func(t *testing.T, root string) { symlink(t, "../../../../../../.."+outside, root, "etc/resolv.conf") },
		"absolute":         func(t *testing.T, root string) { symlink(t, outside, root, "etc/resolv.conf") },
		"in a circle":      func(t *testing.T, root string) { symlink(t, "resolv.conf", root, "etc/resolv.conf") },
		"to a device":      func(t *testing.T, root string) { symlink(t, "/dev/zero", root, "etc/resolv.conf") },
		"to the tree":      func(t *testing.T, root string) { symlink(t, "/", root, "etc/ssl/certs/loop") },
		"etc out of it":    func(t *testing.T, root string) { symlink(t, filepath.Dir(outside), root, "etc") },
		"proc out of it":   func(t *testing.T, root string) { symlink(t, "/proc", root, "proc") },
		"a directory":      func(t *testing.T, root string) { mkdir(t, root, "etc/resolv.conf") },
		"roots everywhere": func(t *testing.T, root string) { symlink(t, "/etc/ssl/certs", root, "etc/ssl/certs/self") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			make(t, root)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			res, err := pullwalk.Diagnose(ctx, "registry.corp.test/team/app:v1", &pullwalk.Options{
				Node: withoutNetwork(pullwalk.HostNode(root)), Platform: "linux/amd64",
			})
			require.NoError(t, err)
			checkResult(t, res)
			require.NoError(t, ctx.Err(), "it did not hang")
			require.NotContains(t, fmt.Sprint(res.Vantage.Nameservers), "192.0.2.99")
			require.NotContains(t, res.String(), "192.0.2.99")
		})
	}
}

// withoutNetwork lets nothing of a diagnosis leave this test.
func withoutNetwork(n pullwalk.Node) pullwalk.Node {
	n.Dialer = reach.DialerFunc(func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no network here") })
	n.DNS = dnscheck.ExchangerFunc(func(context.Context, netip.AddrPort, string, dnscheck.Question) (dnscheck.Answer, error) {
		return dnscheck.Answer{}, errors.New("no network here")
	})
	n.Router = reach.RouterFunc(func(_ context.Context, dst netip.Addr) (reach.Route, error) {
		return reach.Route{Destination: dst, Kind: reach.RouteUnicast}, nil
	})
	return n
}

func symlink(t *testing.T, target, root, name string) {
	t.Helper()
	mkdir(t, root, filepath.Dir(name))
	require.NoError(t, os.Symlink(target, filepath.Join(root, name)))
}

func mkdir(t *testing.T, root, name string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(root, name), 0o755))
}
