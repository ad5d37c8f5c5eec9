package pullwalk_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/reach"
)

const roundTrip = 100 * time.Millisecond

// far is the healthy world with every host one round trip away, and nothing else
// taking time: elapsed time counts sequential round trips.
func far(t *testing.T, layers int, statements ...string) *world {
	t.Helper()
	w := newWorld(t, strings.Join(append(statements, "option layers"+strings.Repeat(" 200000", layers)), "\n"), nil, nil)
	w.opts.Node.Dialer, w.opts.Node.DNS = farDialer{w.net.Dialer()}, farDNS{w.net.Exchanger()}
	return w
}

type farDNS struct{ dnscheck.Exchanger }

func (d farDNS) Exchange(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
	time.Sleep(roundTrip)
	return d.Exchanger.Exchange(ctx, server, network, q)
}

type farDialer struct{ reach.Dialer }

func (d farDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if _, err := netip.ParseAddrPort(address); err != nil { // a name: A and AAAA are asked at once
		time.Sleep(roundTrip)
	}
	time.Sleep(roundTrip)
	conn, err := d.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &farConn{Conn: conn}, nil
}

// farConn takes one round trip for every answer to what was written, whatever its
// size: how wide the way is, is another question.
type farConn struct {
	net.Conn
	wrote atomic.Bool
}

func (c *farConn) Write(p []byte) (int, error) {
	c.wrote.Store(true)
	return c.Conn.Write(p)
}

func (c *farConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // net/http reads before it writes
	if c.wrote.Swap(false) && err == nil {
		time.Sleep(roundTrip)
	}
	return n, err
}

// touch says how many round trips a healthy Touch takes.
func (w *world) touch(t *testing.T, concurrency int) int {
	t.Helper()
	opts := w.opts
	opts.Concurrency = concurrency
	start := time.Now()
	r, err := pullwalk.Diagnose(t.Context(), w.image, &opts)
	require.NoError(t, err)
	require.Equal(t, pullwalk.StatusOK, r.Verdict, "%s", r)
	trips := int(time.Since(start) / roundTrip)
	time.Sleep(roundTrip) // a read of farConn does not end with its connection
	return trips
}

// pull makes the requests of containerd 2 with an ordinary client, up to the first
// byte of the last layer: HEAD, token, HEAD, GET, token, GET, GET, config, and the
// layers three at a time.
func (w *world) pull(t *testing.T) int {
	t.Helper()
	w.net.Nameservers(nameserverAddr)
	start := time.Now()
	client := &http.Client{Transport: &http.Transport{DialContext: farDialer{w.net.Dialer()}.DialContext, TLSClientConfig: &tls.Config{RootCAs: w.lab.TrustedPool()}}}
	defer func() {
		client.CloseIdleConnections()
		time.Sleep(time.Minute) // net/http may be dialling connections that nobody needs any more
	}()
	do := func(req *http.Request, err error, authorization string) []byte {
		require.NoError(t, err)
		if authorization != "" {
			req.Header.Set("Authorization", authorization)
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		require.NoError(t, err)
		return body
	}
	base := "https://" + lab.RegistryName + "/v2/" + lab.Repository + "/"
	ask := func(method, path, authorization string) []byte {
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
		return do(req, err, authorization)
	}
	token := func() string {
		form := url.Values{"grant_type": {"password"}, "client_id": {"containerd-client"}, "service": {lab.RegistryName}, "scope": {"repository:" + lab.Repository + ":pull"}, "username": {lab.Username}, "password": {lab.Password}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+lab.TokenName+"/token", strings.NewReader(form.Encode()))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		var answer struct {
			Token string `json:"access_token"`
		}
		require.NoError(t, json.Unmarshal(do(req, err, ""), &answer))
		require.NotEmpty(t, answer.Token)
		return "Bearer " + answer.Token
	}
	index := "manifests/" + w.lab.Digest().String()
	ask(http.MethodHead, "manifests/v1", "")
	ask(http.MethodHead, "manifests/v1", token())
	ask(http.MethodGet, index, "")
	bearer := token()
	var list struct {
		Manifests []struct{ Digest string } `json:"manifests"`
	}
	require.NoError(t, json.Unmarshal(ask(http.MethodGet, index, bearer), &list))
	var manifest struct {
		Config struct{ Digest string }   `json:"config"`
		Layers []struct{ Digest string } `json:"layers"`
	}
	require.NoError(t, json.Unmarshal(ask(http.MethodGet, "manifests/"+list.Manifests[0].Digest, bearer), &manifest))
	ask(http.MethodGet, "blobs/"+manifest.Config.Digest, bearer)
	require.NotEmpty(t, manifest.Layers)
	slots := make(chan struct{}, 3)
	var wg sync.WaitGroup
	for _, l := range manifest.Layers {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			ask(http.MethodGet, "blobs/"+l.Digest, bearer)
		})
	}
	wg.Wait()
	return int(time.Since(start) / roundTrip)
}

// A diagnosis may not take longer than the pull that it stands for, although it
// looks at each host closer than a runtime does.
func TestNoMoreRoundTripsThanTheRuntime(t *testing.T) {
	t.Parallel()
	for _, layers := range []int{1, 8, 24} {
		for _, option := range []string{"", "option connect", "runtime crio"} {
			t.Run(fmt.Sprintf("%d layers, %s", layers, option), func(t *testing.T) {
				t.Parallel()
				var ours, runtime int
				synctest.Test(t, func(t *testing.T) {
					w := far(t, layers, option)
					defer w.close()
					ours = w.touch(t, 3)
				})
				synctest.Test(t, func(t *testing.T) {
					w := far(t, layers)
					defer w.close()
					runtime = w.pull(t)
				})
				t.Logf("%d round trips, containerd's order %d", ours, runtime)
				assert.LessOrEqual(t, ours, runtime)
				assert.NotZero(t, ours)
			})
		}
	}
}

// Many images from afar cost little more time than one: the ladders are shared, and
// the rest runs side by side.
func TestManyFromAfar(t *testing.T) {
	t.Parallel()
	trips := func(images int) (n int) {
		synctest.Test(t, func(t *testing.T) {
			w := far(t, 3)
			defer w.close()
			start := time.Now()
			all, err := pullwalk.DiagnoseAll(t.Context(), w.variants(images), &w.opts)
			require.NoError(t, err)
			require.Equal(t, pullwalk.StatusOK, all[0].Verdict)
			n = int(time.Since(start) / roundTrip)
		})
		return n
	}
	one, eight := trips(1), trips(8)
	t.Logf("one image %d round trips, eight %d", one, eight)
	assert.Less(t, eight, one+one/2)
}

// Many layers may not cost many round trips, nor be asked for in a burst.
func TestRoundTripsOfATouch(t *testing.T) {
	t.Parallel()
	for _, c := range []int{1, 3, 6} {
		t.Run(fmt.Sprintf("%d at once", c), func(t *testing.T) {
			t.Parallel()
			count := func(layers int) (n int) {
				synctest.Test(t, func(t *testing.T) {
					w := far(t, layers)
					defer w.close()
					n = w.touch(t, c)
					assert.LessOrEqual(t, w.lab.Blobs.MostAtOnce(), c)
					assert.LessOrEqual(t, w.lab.Registry.MostAtOnce(), c+1, "and the ping of /v2/")
				})
				return n
			}
			one := count(1)
			for _, layers := range []int{6, 24} {
				many := count(layers)
				t.Logf("%d layers over %d connections: %d round trips, one layer %d", layers, c, many, one)
				assert.LessOrEqual(t, many, one+(layers+c-1)/c+3)
			}
		})
	}
}
