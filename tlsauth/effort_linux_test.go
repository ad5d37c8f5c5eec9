package tlsauth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// cpuTime is what this process has computed so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// entangled is a chain of CAs of one name and one key, each of which signed all
// others: whoever looks for a path has to try them all. The key is one of the
// slowest that crypto/tls takes.
func entangled(t *testing.T, bytes int) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	require.NoError(t, err)
	from := issueWith(t, nil, key, "Entangled CA", ca(nil))
	leaf := issue(t, from, registryHost, server(nil, registryHost))
	chain := []*authority{}
	for size := len(leaf.cert.Raw); ; {
		next := issueWith(t, from, key, "Entangled CA", ca(func(c *x509.Certificate) {
			c.DNSNames = []string{fmt.Sprintf("%d.corp.test", len(chain))} // else they count as one
		}))
		if size += len(next.cert.Raw) + 8; size > bytes {
			return present(leaf, chain...)
		}
		chain = append(chain, next)
	}
}

// A server that sends as many certificates as TLS lets it costs no more than one
// that sends some, and nothing is computed after the check has returned, however
// many addresses it has. The test runs alone: it measures the whole process.
func TestEffortForAHostileChain(t *testing.T) {
	for _, size := range []int{8 << 10, 60 << 10, 250 << 10} {
		t.Run(fmt.Sprintf("%d KiB", size>>10), func(t *testing.T) {
			ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{entangled(t, size)}})
			c := &Checker{Roots: pool(issue(t, nil, "Other Root", ca(nil))), Now: func() time.Time { return noon }}
			before := cpuTime(t)
			rep, err := c.CheckTLS(t.Context(), ap, registryHost)
			require.NoError(t, err)
			assert.Less(t, cpuTime(t)-before, 8*time.Second)
			got, failing := causes(rep.Findings())
			assert.Equal(t, 1, failing, "%v", got)
			assert.Contains(t, got, classify.TLSUnknownAuthority)
			if size > maxChainBytes {
				assert.Contains(t, rep.Findings()[0].Summary, "the first 16 were looked at")
				assert.Equal(t, classify.CertaintyLikely, rep.Findings()[0].Certainty, "a path may lead through the others")
			}

			base := runtime.NumGoroutine()
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			c.Seen = &Seen{}
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() {
					rep, err := c.CheckTLS(ctx, ap, registryHost)
					assert.NoError(t, err)
					assert.False(t, rep.Held())
					assert.True(t, rep.Inconclusive != "" || len(rep.Findings()) > 0, "an answer says something")
				})
			}
			all.Wait()
			late := time.Now()
			if end, ok := ctx.Deadline(); ok {
				assert.Less(t, late.Sub(end), 10*time.Second)
			}
			after := cpuTime(t)
			require.Eventually(t, func() bool { return runtime.NumGoroutine() <= base+4 }, 10*time.Second, 10*time.Millisecond)
			assert.Less(t, cpuTime(t)-after, time.Second)
		})
	}
}

// A name of very many attributes is printed in part, and quickly.
func TestEffortForAHostileName(t *testing.T) {
	var n pkix.Name
	for i := range 20000 {
		n.Names = append(n.Names, pkix.AttributeTypeAndValue{Type: []int{2, 5, 4, 11}, Value: fmt.Sprint(i)})
		n.OrganizationalUnit = append(n.OrganizationalUnit, fmt.Sprint(i))
	}
	before := cpuTime(t)
	for range 100 {
		got := printName(n, 4096)
		require.LessOrEqual(t, len(got), 4096)
		require.True(t, strings.HasSuffix(got, "…"))
	}
	assert.Less(t, cpuTime(t)-before, 2*time.Second)
}

// What may not be computed any more is not known; it is never an accusation.
func TestEffortIsOver(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	leaf := issue(t, root, registryHost, server(nil, registryHost))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	judged := &trial{ctx: ctx, certs: []*x509.Certificate{leaf.cert}, name: registryHost, port: "443", roots: &Roots{Pool: pool(root)}, now: noon, seen: &Seen{}}
	_, err := judged.verify(registryHost, noon, serverUse)
	require.ErrorIs(t, err, context.Canceled)
	judged.ctx, judged.verified = t.Context(), maxVerify
	_, err = judged.verify(registryHost, noon, serverUse)
	require.ErrorIs(t, err, errEffort)
	assert.True(t, (&trial{ctx: t.Context()}).signs(root.cert, leaf.cert))
	assert.False(t, (&trial{ctx: t.Context(), signed: maxSignatures}).signs(root.cert, leaf.cert))
}
