package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// startLab puts hosts on loopback whose blob host stands for a backend.
func startLab(t *testing.T) (*lab.World, Backend) {
	t.Helper()
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	require.NoError(t, w.Start())
	t.Cleanup(w.Close)
	return w, Backend{HostPort: w.Blobs.Address(), FS: w.FS(), DNS: w.Exchanger(), Limit: time.Second}
}

func codes(c *Connectivity, severity classify.Severity) []classify.Cause {
	var out []classify.Cause
	for _, s := range c.Observations {
		if s.Severity == severity {
			out = append(out, s.Code)
		}
	}
	return out
}

func TestEachWayInWhichABackendIsNotReached(t *testing.T) {
	for name, tt := range map[string]struct {
		fault func(*lab.World) lab.Fault
		plain bool
		want  string
		code  classify.Cause
	}{
		"works":               {nil, false, Reachable, ""},
		"works without TLS":   {func(w *lab.World) lab.Fault { return lab.UntrustedCA(w.Blobs) }, true, Reachable, ""},
		"no such name":        {func(w *lab.World) lab.Fault { return lab.NoSuchName(w.Blobs) }, false, Unreachable, classify.DNSNXDOMAIN},
		"nameserver refuses":  {func(w *lab.World) lab.Fault { return lab.RefusedRCode() }, false, Unreachable, classify.DNSRefused},
		"closed":              {func(w *lab.World) lab.Fault { return lab.Refused(w.Blobs) }, false, Unreachable, classify.EndpointConnectionRefused},
		"not trusted":         {func(w *lab.World) lab.Fault { return lab.UntrustedCA(w.Blobs) }, false, Unreachable, classify.TLSUnknownAuthority},
		"for another name":    {func(w *lab.World) lab.Fault { return lab.WrongName(w.Blobs) }, false, Unreachable, classify.TLSHostnameMismatch},
		"accepts, and no TLS": {func(w *lab.World) lab.Fault { return lab.Silent(w.Blobs) }, false, Unreachable, classify.EndpointTLSHandshakeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, b := startLab(t)
			b.Plain = tt.plain
			if tt.fault != nil {
				w.Break(tt.fault(w))
			}
			c, err := b.Check(t.Context())
			require.NoError(t, err)
			require.Equal(t, tt.want, c.Connectivity, "%s", c)
			require.Contains(t, c.String(), "application connectivity of "+b.HostPort+": "+tt.want)
			if tt.code == "" {
				require.Empty(t, codes(c, classify.SeverityFail))
				return
			}
			require.Contains(t, codes(c, classify.SeverityFail), tt.code)
		})
	}
}

// One address that works makes up for another: a client tries them in turn.
func TestOneAddressOfTwo(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has all of 127.0.0.0/8 on loopback")
	}
	_, b := startLab(t)
	b.DNS = dnscheck.ExchangerFunc(func(_ context.Context, _ netip.AddrPort, _ string, q dnscheck.Question) (dnscheck.Answer, error) {
		a := dnscheck.Answer{RCode: "NOERROR", RecursionAvailable: true}
		if q.Type == "A" {
			a.Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")}
		}
		return a, nil
	})
	c, err := b.Check(t.Context())
	require.NoError(t, err)
	require.Equal(t, Reachable, c.Connectivity, "%s", c)
	require.Empty(t, codes(c, classify.SeverityFail))
	require.Contains(t, codes(c, classify.SeverityWarn), classify.EndpointConnectionRefused)
	require.Len(t, c.Addresses, 2)
}

// A pod's resolver is the right one here, and a Service is named as what it is.
func TestThePodsResolver(t *testing.T) {
	w, b := startLab(t)
	files := maps.Clone(w.FS().(fstest.MapFS))
	files["etc/resolv.conf"] = &fstest.MapFile{Data: []byte("nameserver 127.0.0.1\nsearch shop.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5\n"), Mode: 0o644}
	b.FS = files
	c, err := b.Check(t.Context())
	require.NoError(t, err)
	require.Equal(t, Reachable, c.Connectivity, "%s", c)
	require.NotContains(t, c.String(), classify.DNSPodResolver)

	b.HostPort = "orders:443"
	c, err = b.Check(t.Context())
	require.NoError(t, err)
	require.Equal(t, Unreachable, c.Connectivity, "%s", c)
	require.Contains(t, c.String(), "orders looks like the name of a Service, and this resolver gives no address for it")
	require.NotContains(t, c.String(), "the runtime asks")
}

// What ends too early is not known.
func TestWhatEndsTooEarly(t *testing.T) {
	_, b := startLab(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, err := b.Check(ctx)
	require.NoError(t, err)
	require.Equal(t, Unknown, c.Connectivity, "%s", c)
	require.NotEmpty(t, c.Unknown)
}

// Nobody takes the answer for the verdict of a pull.
func TestTheAnswerIsNoPullVerdict(t *testing.T) {
	w, b := startLab(t)
	var out, errs bytes.Buffer
	require.Equal(t, 0, run(t.Context(), b, []string{"-json", w.Blobs.Address()}, &out, &errs), errs.String())
	var document map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &document))
	require.Equal(t, Schema, document["schema"])
	require.False(t, strings.HasPrefix(Schema, "pullwalk.result"))
	require.Contains(t, document["question"], "Nothing about an image pull")
	for _, word := range []string{"verdict", "image", "proof", "sources", "primary"} {
		require.NotContains(t, document, word)
	}
	var result pullwalk.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	require.NotEqual(t, pullwalk.Schema, result.Schema)
	require.Error(t, result.Err(), "read as a pull it is not good")

	out.Reset()
	require.Equal(t, 0, run(t.Context(), b, []string{w.Blobs.Address()}, &out, &errs))
	require.NotContains(t, out.String(), "every hop held")
	require.Contains(t, out.String(), "It says nothing about an image pull")
}

func TestExitCodes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for name, tt := range map[string]struct {
		args []string
		code int
	}{
		"reachable":   {[]string{"-plain", l.Addr().String()}, 0},
		"unreachable": {[]string{"-plain", "127.0.0.1:1"}, 1},
		"help":        {[]string{"-help"}, 0},
		"nothing":     {nil, 2},
		"two":         {[]string{"a:1", "b:2"}, 2},
		"no port":     {[]string{"127.0.0.1"}, 2},
		"port zero":   {[]string{"127.0.0.1:0"}, 2},
		"a URL":       {[]string{"https://backend.corp.test/"}, 2},
		"no name":     {[]string{"not a name:443"}, 2},
		"bad flag":    {[]string{"-complete", "a:1"}, 2},
		"no time":     {[]string{"-plain", "-budget", "1ns", l.Addr().String()}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			require.Equal(t, tt.code, run(t.Context(), Backend{FS: fstest.MapFS{}}, tt.args, &out, &errs), "%s%s", &out, &errs)
			require.NotContains(t, out.String(), "nameservers", "no name was looked up")
		})
	}
}
