package tlsauth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

// A healthy endpoint: two hellos, two connections, at once.
func BenchmarkCheckTLS(b *testing.B) {
	root := issue(b, nil, "Corp Test Root", ca(nil))
	ap := serveTLS(b, &tls.Config{Certificates: []tls.Certificate{present(issue(b, root, registryHost, server(nil, registryHost)))}})
	c := &Checker{Roots: pool(root), Now: func() time.Time { return noon }}
	b.ReportAllocs()
	for b.Loop() {
		rep, err := c.CheckTLS(b.Context(), ap, registryHost)
		if err != nil || !rep.Held() {
			b.Fatal(err, rep.Findings())
		}
	}
}

func BenchmarkCheckAccess(b *testing.B) {
	w := newWorld(b)
	w.host(b, registryHost, registryHost, demand(bearer, func(string) int { return http.StatusOK }))
	w.host(b, "auth.corp.test", "auth.corp.test", login("robot", "s3cr3t", jwt("pull")))
	c := w.checker(passwordKeys(b, "s3cr3t"))
	b.ReportAllocs()
	for b.Loop() {
		r, err := c.CheckAccess(b.Context(), image)
		if err != nil || !r.Held() {
			b.Fatal(err, r.Findings())
		}
	}
	b.ReportMetric(float64(len(w.log))/float64(b.N), "requests/op")
}

// A chain that is wrong is looked at several times.
func BenchmarkJudgeBadChain(b *testing.B) {
	root := issue(b, nil, "Corp Test Root", ca(nil))
	between := issue(b, root, "Corp Test Issuing", ca(nil))
	leaf := issue(b, between, registryHost, server(nil, "gateway.corp.test"))
	judged := &trial{ctx: context.Background(), certs: []*x509.Certificate{leaf.cert, between.cert}, name: registryHost, port: "443", roots: &Roots{Pool: pool(issue(b, nil, "Other Root", ca(nil))), name: "pool"}, now: noon}
	b.ReportAllocs()
	for b.Loop() {
		if _, problems := judged.judge(); len(problems) != 2 {
			b.Fatal(problems)
		}
	}
}

// As many roots as a distribution has, in the bundle and in single files.
func BenchmarkReadRoots(b *testing.B) {
	node := fstest.MapFS{}
	var bundle []byte
	for i := range 140 {
		pem := issue(b, nil, "Root", ca(nil)).pem()
		bundle = append(bundle, pem...)
		node["etc/ssl/certs/root"+string(rune('a'+i%26))+string(rune('a'+i/26))+".pem"] = &fstest.MapFile{Data: pem}
	}
	node["etc/ssl/certs/ca-certificates.crt"] = &fstest.MapFile{Data: bundle}
	b.ReportAllocs()
	for b.Loop() {
		r, err := ReadRoots(node, "", "")
		if err != nil || len(r.origin) != 140 {
			b.Fatal(err)
		}
	}
}

func BenchmarkKubeletPlan(b *testing.B) {
	k := &Kubelet{
		Secrets:   []PullSecret{pullSecret("s", auths("registry.corp.test", "registry.corp.test/team", "*.corp.test", "other.corp.test:5000"))},
		providers: parseProviderConfig([]byte(providerYAML)),
	}
	b.ReportAllocs()
	for b.Loop() {
		p, err := k.Plan(b.Context(), image)
		require.NoError(b, err)
		if len(p.Offered) != 3 {
			b.Fatal(p.Offered)
		}
	}
}
