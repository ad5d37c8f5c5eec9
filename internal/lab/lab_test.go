package lab_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/lab"
)

func start(t *testing.T, o lab.Options) *lab.World {
	t.Helper()
	w, err := lab.New(o)
	require.NoError(t, err)
	require.NoError(t, w.Start())
	t.Cleanup(w.Close)
	return w
}

func TestAHealthyWorldServesAWholePull(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	require.NoError(t, newPuller(w, nil).pull(t.Context()))

	assert.Empty(t, w.Violations())
	assert.Equal(t, 2, w.Registry.Count("GET", "/v2/team/app/manifests/v1", 0))
	assert.Equal(t, 1, w.Registry.Count("GET", "/v2/team/app/manifests/v1", 401))
	assert.Equal(t, 8, w.Registry.Count("GET", "/v2/team/app/blobs/", 307))
	assert.Equal(t, 1, w.Token.Count("GET", "/token", 200))
	assert.Equal(t, 8, w.Blobs.Count("GET", "/data/sha256/", 200))
	assert.Equal(t, 8, w.Blobs.Connections())
	assert.Contains(t, w.Queries(), "udp A registry.corp.test.")
	layer := w.Manifest("linux/arm64").Layers[2]
	for _, r := range w.Blobs.Requests() {
		assert.Empty(t, r.Credential)
		if r.Path == "/data/sha256/"+layer.Digest.Hex {
			assert.Equal(t, layer.Size, r.Bytes)
		}
	}
}

func TestOtherPlatformsAndSizes(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{LayerSizes: []int{0, 1, 7, 900_001}, Platforms: []string{"windows/amd64", "linux/arm/v7"}})
	require.NoError(t, newPuller(w, nil).pull(t.Context()))
	assert.NotNil(t, w.Manifest("linux/arm/v7"))
	assert.Nil(t, w.Manifest("linux/amd64"))

	again, err := lab.New(lab.Options{LayerSizes: []int{0, 1, 7, 900_001}, Platforms: []string{"windows/amd64", "linux/arm/v7"}})
	require.NoError(t, err)
	assert.Equal(t, w.Digest(), again.Digest(), "the same image in every world")
}

func TestLayersOfOnesOwn(t *testing.T) {
	t.Parallel()
	content := []byte("what a runtime is to unpack")
	w := start(t, lab.Options{Layers: [][]byte{content}, LayerSizes: []int{1, 2}, Platforms: []string{"linux/amd64", "linux/arm64"}})
	require.NoError(t, newPuller(w, nil).pull(t.Context()), "every digest is that of what is served")
	digest, size, err := v1.SHA256(bytes.NewReader(content))
	require.NoError(t, err)
	for _, platform := range []string{"linux/amd64", "linux/arm64"} {
		layers := w.Manifest(platform).Layers
		require.Len(t, layers, 1)
		assert.Equal(t, digest, layers[0].Digest)
		assert.Equal(t, size, layers[0].Size)
	}
}

func TestSenselessOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]lab.Options{
		"platform":       {Platforms: []string{"linux"}},
		"empty platform": {Platforms: []string{""}},
		"same platform":  {Platforms: []string{"linux/amd64", "linux/amd64"}},
		"size":           {LayerSizes: []int{-1}},
	} {
		_, err := lab.New(o)
		assert.Error(t, err, name)
	}
}

func TestPlainWorld(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{Plain: true})
	p := newPuller(w, nil)
	p.base = "http://" + w.Registry.Address()
	require.NoError(t, p.pull(t.Context()))
	assert.Empty(t, w.Violations())
}

func TestBothWaysToAToken(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	p := newPuller(w, nil)
	p.post = true
	require.NoError(t, p.pull(t.Context()))
	assert.Equal(t, 1, w.Token.Count("POST", "/token", 200))

	w.Break(lab.NoTokenPost(http.StatusNotFound))
	assertStatus(t, p.pull(t.Context()), lab.TokenName, 404, "")
	p.post = false
	require.NoError(t, p.pull(t.Context()))
}

func TestWhoMayPull(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	p := newPuller(w, nil)

	p.password = "wrong"
	assertStatus(t, p.pull(t.Context()), lab.TokenName, 401, "UNAUTHORIZED")
	p.post = true
	assertStatus(t, p.pull(t.Context()), lab.TokenName, 401, "UNAUTHORIZED")

	p.user, p.post = "", false
	assertStatus(t, p.pull(t.Context()), lab.RegistryName, 401, "UNAUTHORIZED")
	w.Break(lab.AnonymousRefused())
	assertStatus(t, p.pull(t.Context()), lab.TokenName, 401, "")
}

func TestMissingTagReference(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	p := newPuller(w, nil)
	_, p.tag, _ = strings.Cut(w.MissingTag(), lab.Repository+":")
	assertStatus(t, p.pull(t.Context()), lab.RegistryName, 404, "MANIFEST_UNKNOWN")
	_, p.tag, _ = strings.Cut(w.ImageByDigest(), "@")
	require.NoError(t, p.pull(t.Context()))
}

func assertStatus(t *testing.T, err error, host string, status int, text string) {
	t.Helper()
	var answer *answerError
	if assert.ErrorAs(t, err, &answer) {
		assert.Equal(t, host, answer.host)
		assert.Equal(t, status, answer.status)
		assert.Contains(t, answer.body, text)
	}
}

// errorIs is a check that an error wraps another.
func errorIs(target error) func(*testing.T, error) {
	return func(t *testing.T, err error) { assert.ErrorIs(t, err, target) }
}

// errorAs is a check that an error is of a type.
func errorAs[E error](t *testing.T, err error) {
	var target E
	assert.ErrorAs(t, err, &target)
}

func errorText(text string) func(*testing.T, error) {
	return func(t *testing.T, err error) { assert.ErrorContains(t, err, text) }
}

func status(host string, code int, text string) func(*testing.T, error) {
	return func(t *testing.T, err error) { assertStatus(t, err, host, code, text) }
}

// Each fault that answers something breaks a pull in its own way, on the
// loopback interface, and healing makes the pull whole again.
func TestFaults(t *testing.T) {
	t.Parallel()
	registry := func(w *lab.World) *lab.Host { return w.Registry }
	token := func(w *lab.World) *lab.Host { return w.Token }
	blobs := func(w *lab.World) *lab.Host { return w.Blobs }
	type pick = func(*lab.World) *lab.Host
	on := func(h pick, f func(*lab.Host) lab.Fault) func(*lab.World) lab.Fault {
		return func(w *lab.World) lab.Fault { return f(h(w)) }
	}
	always := func(f lab.Fault) func(*lab.World) lab.Fault { return func(*lab.World) lab.Fault { return f } }

	for name, tc := range map[string]struct {
		fault func(*lab.World) lab.Fault
		check func(*testing.T, error)
	}{
		"no such name":      {on(registry, lab.NoSuchName), errorText("NXDOMAIN")},
		"no such blob host": {on(blobs, lab.NoSuchName), errorText("lookup blobs.corp.test: NXDOMAIN")},
		"SERVFAIL":          {always(lab.ServFail()), errorText("SERVFAIL")},
		"REFUSED":           {always(lab.RefusedRCode()), errorText("REFUSED")},
		"truncated answers": {always(lab.TruncatedDNS()), func(t *testing.T, err error) { assert.NoError(t, err) }},

		"refused":        {on(registry, lab.Refused), errorAs[*os.SyscallError]},
		"refused tokens": {on(token, lab.Refused), errorAs[*os.SyscallError]},
		"refused blobs":  {on(blobs, lab.Refused), errorAs[*os.SyscallError]},
		"reset":          {on(registry, lab.ResetAfterAccept), errorAs[*net.OpError]},
		"not tls":        {on(token, lab.NotTLS), errorText("server gave HTTP response to HTTPS client")},
		"untrusted":      {on(registry, lab.UntrustedCA), errorAs[x509.UnknownAuthorityError]},
		"wrong name":     {on(blobs, lab.WrongName), errorAs[x509.HostnameError]},
		"expired":        {on(token, lab.ExpiredCert), errorAs[x509.CertificateInvalidError]},

		"status": {func(w *lab.World) lab.Fault { return lab.Status(w.Registry, 503, `{"errors":[]}`) },
			status(lab.RegistryName, 503, "errors")},
		"html":            {func(w *lab.World) lab.Fault { return lab.HTMLPage(w.Token, 200) }, errorAs[*json.SyntaxError]},
		"redirect loop":   {on(blobs, lab.RedirectLoop), errorText("stopped after 10 redirects")},
		"endless body":    {on(token, lab.EndlessBody), errorIs(errTooLarge)},
		"endless 401":     {on(registry, lab.EndlessBody), errorIs(errTooLarge)},
		"endless headers": {on(registry, lab.EndlessHeaders), errorText("server response headers exceeded")},

		"no challenge":  {always(lab.NoChallenge()), errorText(`challenge ""`)},
		"other realm":   {always(lab.RealmTo("http://169.254.169.254/token")), errorText("169.254.169.254")},
		"denied":        {always(lab.AccessDenied()), status(lab.RegistryName, 403, "DENIED")},
		"missing tag":   {always(lab.MissingTag()), status(lab.RegistryName, 404, "MANIFEST_UNKNOWN")},
		"wrong digest":  {always(lab.WrongDigestManifest()), errorIs(errDigest)},
		"huge manifest": {always(lab.HugeManifest()), errorIs(errTooLarge)},
		"redirect to":   {always(lab.RedirectTo("https://elsewhere.corp.test/x")), errorText("lookup elsewhere.corp.test: NXDOMAIN")},

		"token without right": {always(lab.TokenWithoutRight()), status(lab.RegistryName, 401, "UNAUTHORIZED")},
		"token empty":         {always(lab.TokenEmpty()), errorText("no token")},

		"missing blob": {always(lab.MissingBlob(1)), status(lab.RegistryName, 404, "BLOB_UNKNOWN")},
		"blob gone":    {always(lab.BlobGone(1)), status(lab.RegistryName, 404, "NoSuchKey")},
		"corrupt":      {always(lab.CorruptLayer(2)), errorIs(errDigest)},
		"truncated":    {always(lab.TruncatedLayer(2)), errorIs(io.ErrUnexpectedEOF)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, lab.Options{})
			p := newPuller(w, nil)
			w.Break(tc.fault(w))
			tc.check(t, p.pull(t.Context()))
			require.NoError(t, w.Heal())
			require.NoError(t, p.pull(t.Context()))
			assert.Empty(t, w.Violations())
		})
	}
}

func TestBlockedMethods(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	w.Break(lab.HeadBlocked(http.StatusMethodNotAllowed), lab.PingBlocked(http.StatusForbidden))
	p := newPuller(w, nil)
	require.NoError(t, p.pull(t.Context()))
	base := "https://" + w.Registry.Address() + "/v2/"
	resp, err := p.client.Head(base + "team/app/manifests/v1")
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 405, resp.StatusCode)
	got, _, _, err := p.get(t.Context(), base, "")
	require.NoError(t, err)
	assert.Equal(t, 403, got)
}

// One kept-alive connection must not carry a pull past a broken listener.
func TestABreakEndsOpenConnections(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	p := newPuller(w, nil)
	p.client.Transport.(*http.Transport).DisableKeepAlives = false
	require.NoError(t, p.pull(t.Context()))
	w.Break(lab.UntrustedCA(w.Blobs))
	errorAs[x509.UnknownAuthorityError](t, p.pull(t.Context()))
	p.client.CloseIdleConnections()
}

func TestALayerThatIsNotThere(t *testing.T) {
	t.Parallel()
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	defer w.Close()
	assert.Panics(t, func() { w.Break(lab.CorruptLayer(3)) })
	assert.NoError(t, w.Heal())
}

func TestRangesAndHeadersOfBlobs(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	p := newPuller(w, nil)
	registry := "https://" + w.Registry.Address()
	_, header, _, err := p.get(t.Context(), registry+"/v2/team/app/manifests/v1", "")
	require.NoError(t, err)
	assert.Equal(t, `Bearer realm="https://`+w.Token.Address()+`/token",service="registry.corp.test",scope="repository:team/app:pull"`,
		header.Get("Www-Authenticate"))
	token, err := p.token(t.Context(), header.Get("Www-Authenticate"))
	require.NoError(t, err)
	assert.Contains(t, token, lab.TokenMark)

	layer := w.Manifest("linux/amd64").Layers[2]
	req, err := http.NewRequestWithContext(t.Context(), "GET", registry+"/v2/team/app/blobs/"+layer.Digest.String(), nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", token)
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := p.client.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	location := resp.Header.Get("Location")
	assert.True(t, strings.HasPrefix(location, "https://"+w.Blobs.Address()+"/data/sha256/"))
	assert.Contains(t, location, "sig="+lab.SignatureMark)

	get := func(address, authorization, ranges string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", address, nil)
		require.NoError(t, err)
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		if ranges != "" {
			req.Header.Set("Range", ranges)
		}
		resp, err := p.client.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		return resp
	}
	resp = get(location, "", "bytes=5-9")
	assert.Equal(t, http.StatusPartialContent, resp.StatusCode)
	assert.Equal(t, int64(5), resp.ContentLength)
	assert.Equal(t, layer.Size, get(location, "", "").ContentLength)
	assert.Equal(t, 403, get(strings.Split(location, "?")[0], "", "").StatusCode)
	assert.Equal(t, 403, get(location+"0", "", "").StatusCode)
	assert.Empty(t, w.Violations())
	assert.Equal(t, 400, get(location, token, "").StatusCode)
	assert.Equal(t, []string{"blobs.corp.test got Bearer credentials with GET /data/sha256/" + layer.Digest.Hex}, w.Violations())
}

func TestViolations(t *testing.T) {
	t.Parallel()
	t.Run("password for the registry", func(t *testing.T) {
		t.Parallel()
		w := start(t, lab.Options{})
		req, _ := http.NewRequestWithContext(t.Context(), "GET", "https://"+w.Registry.Address()+"/v2/", nil)
		req.SetBasicAuth(lab.Username, lab.Password)
		_, _, _, err := newPuller(w, nil).do(req)
		require.NoError(t, err)
		assert.Equal(t, []string{"registry.corp.test got Basic credentials with GET /v2/"}, w.Violations())
	})
	t.Run("password in the clear", func(t *testing.T) {
		t.Parallel()
		w := start(t, lab.Options{})
		w.Break(lab.RealmTo("http://" + w.Token.Address() + "/token"))
		p := newPuller(w, nil)
		assertStatus(t, p.pull(t.Context()), lab.TokenName, 400, "")
		assert.Equal(t, []string{"auth.corp.test got credentials in the clear"}, w.Violations())
	})
	t.Run("secret in an address", func(t *testing.T) {
		t.Parallel()
		w := start(t, lab.Options{})
		_, _, _, err := newPuller(w, nil).get(t.Context(), "https://"+w.Token.Address()+"/token?password="+lab.Password, "")
		require.NoError(t, err)
		assert.Equal(t, []string{"auth.corp.test got a secret in the address of GET /token"}, w.Violations())
	})
}

func TestDNS(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	for _, network := range []string{"udp", "tcp"} {
		a, err := ask(t.Context(), w, network, lab.BlobsName, "A")
		require.NoError(t, err)
		assert.Len(t, a.Addresses, 1)
		a, err = ask(t.Context(), w, network, lab.BlobsName, "AAAA")
		require.NoError(t, err)
		assert.Equal(t, "NOERROR", a.RCode)
		assert.Empty(t, a.Addresses)
		assert.Equal(t, "corp.test", a.SOA)
		a, err = ask(t.Context(), w, network, "nobody.corp.test", "A")
		require.NoError(t, err)
		assert.Equal(t, "NXDOMAIN", a.RCode)
	}
	w.Break(lab.TruncatedDNS())
	a, err := ask(t.Context(), w, "udp", lab.BlobsName, "A")
	require.NoError(t, err)
	assert.True(t, a.Truncated)

	w.Break(lab.SilentDNS())
	for _, network := range []string{"udp", "tcp"} {
		// The client gives up as soon as the nameserver has the question.
		ctx, cancel := context.WithCancel(t.Context())
		seen := len(w.Queries())
		done := make(chan error, 1)
		go func() {
			_, err := ask(ctx, w, network, lab.BlobsName, "A")
			done <- err
		}()
		for len(w.Queries()) == seen {
			runtime.Gosched()
		}
		assert.Empty(t, done)
		cancel()
		assert.Error(t, <-done)
	}
}

func TestNodeFiles(t *testing.T) {
	t.Parallel()
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, fstest.TestFS(w.FS(), "etc/resolv.conf", "etc/hosts", "etc/nsswitch.conf", "etc/ssl/certs/ca-certificates.crt"))
	bundle, err := fs.ReadFile(w.FS(), "etc/ssl/certs/ca-certificates.crt")
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(bundle))
	assert.True(t, pool.Equal(w.TrustedPool()))

	assert.JSONEq(t, `{"auths":{"registry.corp.test":{"username":"reader","password":"reader-secret-for-tests","auth":"cmVhZGVyOnJlYWRlci1zZWNyZXQtZm9yLXRlc3Rz"}}}`,
		string(w.DockerConfig()))
	assert.Equal(t, "registry.corp.test/team/app:v1", w.Image())
}

// memory is a network in memory for one world: it shows that hosts serve any
// listener, and lets stalls be tested on synctest's clock.
type memory map[string]chan net.Conn

type memoryListener struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l memoryListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 20, 0, 4), Port: 443} }
func (l memoryListener) Close() error {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	return nil
}

func (m memory) dial(ctx context.Context, _, address string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case m[address] <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func inMemory(t *testing.T) (*lab.World, memory) {
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	m := memory{}
	for _, h := range []*lab.Host{w.Registry, w.Token, w.Blobs} {
		l := memoryListener{make(chan net.Conn), make(chan struct{})}
		m[h.Name+":443"] = l.conns
		h.Serve(l)
	}
	return w, m
}

func TestAnyListenerInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, m := inMemory(t)
		defer w.Close()
		require.NoError(t, newPuller(w, m.dial).pull(t.Context()))
		assert.Empty(t, w.Violations())
	})
}

// A stall lasts until the client gives up, the fault is healed or the world
// closes; afterwards nothing is left (the bubble would not end otherwise).
func TestStalls(t *testing.T) {
	t.Parallel()
	faults := map[string]func(*lab.Host) lab.Fault{
		"silent": lab.Silent, "tls": lab.TLSStall, "header": lab.HeaderStall, "body": lab.BodyStall,
	}
	for name, fault := range faults {
		for i, host := range []string{lab.RegistryName, lab.TokenName, lab.BlobsName} {
			t.Run(name+" "+host, func(t *testing.T) {
				t.Parallel()
				stalled := func(t *testing.T) (*lab.World, *puller, *lab.Host) {
					w, m := inMemory(t)
					h := []*lab.Host{w.Registry, w.Token, w.Blobs}[i]
					w.Break(fault(h))
					return w, newPuller(w, m.dial), h
				}
				t.Run("the client gives up", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w, p, h := stalled(t)
						ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
						defer cancel()
						before := time.Now()
						assert.ErrorIs(t, p.pull(ctx), context.DeadlineExceeded)
						assert.GreaterOrEqual(t, time.Since(before), time.Minute)
						connections := 1
						if name == "body" && h == w.Registry {
							connections = 2 // the 401 before it is whole
						}
						assert.Equal(t, connections, h.Connections())
						if name == "silent" || name == "tls" {
							assert.Empty(t, h.Requests())
						}
						require.NoError(t, w.Heal())
						assert.NoError(t, p.pull(t.Context()))
						w.Close()
					})
				})
				t.Run("healed", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w, p, _ := stalled(t)
						done := make(chan error, 1)
						go func() { done <- p.pull(context.WithoutCancel(t.Context())) }()
						time.Sleep(time.Hour)
						require.Empty(t, done)
						require.NoError(t, w.Heal())
						assert.Error(t, <-done)
						w.Close()
					})
				})
				t.Run("closed", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w, p, _ := stalled(t)
						done := make(chan error, 1)
						go func() { done <- p.pull(context.WithoutCancel(t.Context())) }()
						time.Sleep(time.Hour)
						require.Empty(t, done)
						w.Close()
						assert.Error(t, <-done)
					})
				})
			})
		}
	}
}

func TestTokensAndAddressesExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, m := inMemory(t)
		defer w.Close()
		p := newPuller(w, m.dial)
		manifest := "https://registry.corp.test/v2/team/app/manifests/v1"
		_, header, _, err := p.get(t.Context(), manifest, "")
		require.NoError(t, err)
		token, err := p.token(t.Context(), header.Get("Www-Authenticate"))
		require.NoError(t, err)
		got, _, _, err := p.get(t.Context(), manifest, token)
		require.NoError(t, err)
		assert.Equal(t, 200, got)
		time.Sleep(6 * time.Minute)
		got, header, _, err = p.get(t.Context(), manifest, token)
		require.NoError(t, err)
		assert.Equal(t, 401, got)
		assert.Contains(t, header.Get("Www-Authenticate"), `error="invalid_token"`)
	})
}

func TestOwnCertificate(t *testing.T) {
	t.Parallel()
	w := start(t, lab.Options{})
	w.Registry.SetCertificate(w.Certificate("alias.corp.test"))
	c, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", portOf(w.Registry)), &tls.Config{RootCAs: w.TrustedPool(), ServerName: "alias.corp.test"})
	require.NoError(t, err)
	c.Close()
}

// BenchmarkLayer is the making and hashing of one layer: the floor under every
// benchmark of a complete download from this world.
func BenchmarkLayer(b *testing.B) {
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		_, err := lab.New(lab.Options{LayerSizes: []int{size}, Platforms: []string{"linux/amd64"}})
		require.NoError(b, err)
	}
}

func portOf(h *lab.Host) string {
	_, port, _ := net.SplitHostPort(h.Address())
	return port
}

// A large layer comes whole; that it is not held shows in BenchmarkLayer.
func TestALargeLayer(t *testing.T) {
	t.Parallel()
	const size = 24 << 20
	w := start(t, lab.Options{LayerSizes: []int{size}, Platforms: []string{"linux/amd64"}})
	p := newPuller(w, nil)
	base := "https://" + w.Registry.Address() + "/v2/team/app/"
	_, header, _, err := p.get(t.Context(), base+"manifests/v1", "")
	require.NoError(t, err)
	token, err := p.token(t.Context(), header.Get("Www-Authenticate"))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "GET", base+"blobs/"+w.Manifest("linux/amd64").Layers[0].Digest.String(), nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", token)
	resp, err := p.client.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	assert.Equal(t, int64(size), n)
}

// When Close returns, all goroutines that the world ever started have ended,
// also those of requests that nobody answered.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	// Not parallel: it looks at the goroutines of the whole process.
	for name, fault := range map[string]func(*lab.Host) lab.Fault{
		"silent": lab.Silent, "header": lab.HeaderStall, "body": lab.BodyStall, "headers": lab.EndlessHeaders,
	} {
		w := start(t, lab.Options{})
		w.Break(fault(w.Token))
		p := newPuller(w, nil)
		done := make(chan error, 1)
		go func() { done <- p.pull(t.Context()) }()
		for w.Token.Connections() == 0 || name != "silent" && len(w.Token.Requests()) == 0 {
			runtime.Gosched()
		}
		w.Break(lab.SilentDNS())
		question, err := net.Dial("tcp", w.Nameserver().String())
		require.NoError(t, err, name)
		w.Close()
		assert.Error(t, <-done, name)
		question.Close()

		// A goroutine that has said it is done may still need a moment to go.
		left := ""
		for range 10_000 {
			stacks := make([]byte, 1<<20)
			left = string(stacks[:runtime.Stack(stacks, true)])
			if !strings.Contains(left, "internal/lab.(*") {
				left = ""
				break
			}
			runtime.Gosched()
		}
		assert.Empty(t, left, name)
	}
}

func TestCloseBeforeStart(t *testing.T) {
	t.Parallel()
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	w.Close()
	w.Close()
	_, err = ask(t.Context(), w, "udp", lab.RegistryName, "A")
	assert.Error(t, err)
	assert.False(t, errors.Is(err, context.Canceled))
}
