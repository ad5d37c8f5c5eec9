package tlsauth

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// file is a file of a node, modified at a time relative to noon.
func file(data []byte, at time.Duration) *fstest.MapFile {
	return &fstest.MapFile{Data: data, ModTime: noon.Add(at)}
}

// A root that came after the runtime's start is not in its memory. The bundle
// alone does not say when a root came: it is written anew for every change.
func TestRuntimeOlderThanTheRoot(t *testing.T) {
	t.Parallel()
	root, other := issue(t, nil, "Corp Test Root", ca(nil)), issue(t, nil, "Other", ca(nil))
	both := append(root.pem(), other.pem()...)
	ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}})
	const bundle = "etc/ssl/certs/ca-certificates.crt"
	started := noon.Add(-time.Hour)
	for _, tt := range []struct {
		name    string
		node    fstest.MapFS
		own     []byte
		started time.Time
		late    bool
	}{
		{"bundle older than the runtime", fstest.MapFS{bundle: file(both, -2*time.Hour)}, nil, started, false},
		{"bundle younger than the runtime", fstest.MapFS{bundle: file(both, -time.Minute)}, nil, started, true},
		{"start not known", fstest.MapFS{bundle: file(both, -time.Minute)}, nil, time.Time{}, false},
		{"bundle rewritten, the root's own file is old", fstest.MapFS{
			bundle: file(both, -time.Minute), "etc/ssl/certs/corp.pem": file(root.pem(), -48*time.Hour)}, nil, started, false},
		{"bundle rewritten, the root's source is old", fstest.MapFS{
			bundle: file(both, -time.Minute), "usr/local/share/ca-certificates/corp.crt": file(root.pem(), -48*time.Hour)}, nil, started, false},
		{"bundle rewritten, the anchor is old", fstest.MapFS{
			"etc/pki/tls/certs/ca-bundle.crt": file(both, -time.Minute), "etc/pki/ca-trust/source/anchors/corp.pem": file(root.pem(), -48*time.Hour)}, nil, started, false},
		{"a root of the distribution's own package, updated", fstest.MapFS{
			bundle: file(both, -time.Minute), "usr/share/ca-certificates/mozilla/corp.crt": file(root.pem(), -2*time.Minute)}, nil, started, false},
		{"the same in the form of p11-kit", fstest.MapFS{
			"etc/pki/tls/certs/ca-bundle.crt":                       file(both, -time.Minute),
			"usr/share/pki/ca-trust-source/ca-bundle.trust.p11-kit": file(append([]byte("[p11-kit-object-v1]\nlabel: \"Corp\"\ntrusted: true\n"), root.pem()...), -2*time.Minute)}, nil, started, false},
		{"both are new", fstest.MapFS{
			bundle: file(both, -time.Minute), "usr/local/share/ca-certificates/corp.crt": file(root.pem(), -2*time.Minute)}, nil, started, true},
		{"the entry's own CA is read at each pull", fstest.MapFS{bundle: file(other.pem(), -time.Minute)}, root.pem(), started, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &Checker{FS: tt.node, CA: tt.own, RuntimeStarted: tt.started, Now: func() time.Time { return noon }}
			rep, conn, err := c.Dial(t.Context(), ap, registryHost)
			require.NoError(t, err)
			require.NotNil(t, conn, "the chain is verified, whatever the runtime knows")
			_ = conn.Close()
			assert.True(t, rep.Verified)
			assert.Equal(t, !tt.late, rep.Held())
			if !tt.late {
				assert.Empty(t, rep.Findings())
				return
			}
			require.Len(t, rep.Findings(), 1)
			f := rep.Findings()[0]
			assert.Equal(t, classify.TLSRuntimeNotRestarted, f.Cause)
			assert.Equal(t, classify.SeverityWarn, f.Severity, "nothing was seen to fail")
			assert.Equal(t, classify.CertaintyLikely, f.Certainty)
			assert.Equal(t, "/"+bundle, f.Fact(classify.FactFile))
			assert.Contains(t, rep.Inconclusive, "2026-05-04T11:00:00Z")
		})
	}
}

// A store that changed after the runtime's start may have lost what the runtime
// still knows.
func TestUnknownAuthorityOfAChangedStore(t *testing.T) {
	t.Parallel()
	root, other := issue(t, nil, "Corp Test Root", ca(nil)), issue(t, nil, "Other Root", ca(nil))
	ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}})
	node := fstest.MapFS{"etc/ssl/certs/ca-certificates.crt": file(other.pem(), -time.Minute)}
	for _, changed := range []bool{false, true} {
		c := &Checker{FS: node, Now: func() time.Time { return noon }, RuntimeStarted: noon}
		if changed {
			c.RuntimeStarted = noon.Add(-time.Hour)
		}
		rep, err := c.CheckTLS(t.Context(), ap, registryHost)
		require.NoError(t, err)
		require.Len(t, rep.Findings(), 1)
		f := rep.Findings()[0]
		assert.Equal(t, classify.TLSUnknownAuthority, f.Cause)
		assert.Equal(t, changed, f.Certainty == classify.CertaintyLikely)
		if changed {
			assert.Contains(t, f.Summary, "/etc/ssl/certs/ca-certificates.crt was changed after the runtime's start")
		}
	}
}

// A CA that somebody put on the node, where nobody reads it.
func TestMisplacedCA(t *testing.T) {
	t.Parallel()
	root, other := issue(t, nil, "Corp Test Root", ca(nil)), issue(t, nil, "Other Root", ca(nil))
	between := issue(t, root, "Corp Test Issuing", ca(nil))
	good := present(issue(t, between, registryHost, server(nil, registryHost)), between)
	self := issue(t, nil, registryHost, server(nil, registryHost))
	trusted := pem.EncodeToMemory(&pem.Block{Type: "TRUSTED CERTIFICATE", Bytes: append(append([]byte{}, root.cert.Raw...), 0x30, 0x00)})
	for _, tt := range []struct {
		name string
		send tls.Certificate
		path string
		data []byte
		says string // "" = not found, the plain verdict stands
	}{
		{"tool not run", good, "usr/local/share/ca-certificates/corp.crt", root.pem(), "update-ca-certificates was not run"},
		{"wrong ending", good, "usr/local/share/ca-certificates/corp.pem", root.pem(), "only files that end in .crt"},
		{"in a subdirectory", good, "usr/local/share/ca-certificates/corp/root.crt", root.pem(), "update-ca-certificates was not run"},
		{"DER as source", good, "usr/local/share/ca-certificates/corp.crt", root.cert.Raw, "not in PEM form"},
		{"not enabled", good, "usr/share/ca-certificates/corp/root.crt", root.pem(), "ca-certificates.conf"},
		{"RHEL, tool not run", good, "etc/pki/ca-trust/source/anchors/corp.pem", root.pem(), "update-ca-trust was not run"},
		{"RHEL, beside the directory", good, "etc/pki/ca-trust/source/corp.pem", root.pem(), "anchors"},
		{"SUSE", good, "etc/pki/trust/anchors/corp.pem", root.pem(), "update-ca-certificates was not run"},
		{"Docker's directory", good, "etc/docker/certs.d/registry.corp.test/ca.crt", root.pem(), "containerd does not read it"},
		{"CRI-O's directory", good, "etc/containers/certs.d/registry.corp.test/ca.crt", root.pem(), "containerd does not read it"},
		{"containerd's directory", good, "etc/containerd/certs.d/registry.corp.test/ca.crt", root.pem(), "hosts.toml"},
		{"containerd's default directory", good, "etc/containerd/certs.d/_default/ca.crt", root.pem(), "hosts.toml"},
		{"directory of another host", good, "etc/docker/certs.d/other.corp.test/ca.crt", root.pem(), ""},
		{"DER among the roots", good, "etc/ssl/certs/corp.der", root.cert.Raw, "not in the PEM form"},
		{"OpenSSL's own form", good, "etc/ssl/certs/corp.pem", trusted, "TRUSTED CERTIFICATE"},
		{"beside the roots", good, "etc/ssl/corp.crt", root.pem(), "not one of the files"},
		{"the intermediate only", good, "usr/local/share/ca-certificates/corp.crt", between.pem(), "update-ca-certificates was not run"},
		{"self-signed server", present(self), "usr/local/share/ca-certificates/corp.crt", self.pem(), "update-ca-certificates was not run"},
		{"another CA", good, "usr/local/share/ca-certificates/corp.crt", other.pem(), ""},
		{"garbage", good, "usr/local/share/ca-certificates/corp.crt", []byte("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----\n"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{tt.send}})
			node := fstest.MapFS{"etc/ssl/certs/ca-certificates.crt": file(other.pem(), 0), tt.path: file(tt.data, 0)}
			trust, err := ReadRoots(node, "", "")
			require.NoError(t, err)
			rep, err := (&Checker{Trust: trust, Now: func() time.Time { return noon }}).CheckTLS(t.Context(), ap, registryHost)
			require.NoError(t, err)
			require.Len(t, rep.Findings(), 1)
			f := rep.Findings()[0]
			assert.Equal(t, classify.SeverityFail, f.Severity)
			if tt.says == "" {
				assert.Equal(t, classify.TLSUnknownAuthority, f.Cause)
				return
			}
			assert.Equal(t, classify.TLSCAMisplaced, f.Cause)
			assert.Equal(t, classify.CertaintyProven, f.Certainty)
			assert.Contains(t, f.Summary, tt.says)
			assert.Equal(t, "/"+tt.path, f.Fact(classify.FactFile))
		})
	}
}

// What one host forgot to send, another host of the same pull sends.
func TestMissingIntermediateIsProvedByAnotherHost(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	between := issue(t, root, "Hidden Signer", ca(nil)) // a name that hints at nothing
	whole := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, between, "auth.corp.test", server(nil, "auth.corp.test")), between)}})
	alone := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, between, registryHost, server(nil, registryHost)))}})
	c := &Checker{Roots: pool(root), Now: func() time.Time { return noon }, Seen: &Seen{}}
	rep, err := c.CheckTLS(t.Context(), whole, "auth.corp.test")
	require.NoError(t, err)
	require.True(t, rep.Held())
	rep, conn, err := c.Dial(t.Context(), alone, registryHost)
	require.NoError(t, err)
	assert.Nil(t, conn, "what was not sent is not lent")
	require.Len(t, rep.Findings(), 1)
	f := rep.Findings()[0]
	assert.Equal(t, classify.TLSMissingIntermediate, f.Cause)
	assert.Equal(t, classify.CertaintyProven, f.Certainty)
	assert.Contains(t, f.Summary, "auth.corp.test does send")
	assert.Empty(t, f.Alternatives)
}

// Behind a balancer one instance may send what the other forgot.
func TestMissingIntermediateOfOneInstance(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	between := issue(t, root, "Hidden Signer", ca(nil))
	leaf := issue(t, between, registryHost, server(nil, registryHost))
	ap := serveTLS(t, &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert := present(leaf)
		if hello.SupportedCurves[0] != tls.X25519MLKEM768 {
			cert = present(leaf, between)
		}
		return &cert, nil
	}})
	rep, err := (&Checker{Roots: pool(root), Now: func() time.Time { return noon }}).CheckTLS(t.Context(), ap, registryHost)
	require.NoError(t, err)
	require.NotEmpty(t, rep.Findings())
	assert.Equal(t, classify.TLSMissingIntermediate, rep.Findings()[0].Cause)
	assert.Equal(t, classify.CertaintyProven, rep.Findings()[0].Certainty)
}

// Without the certificate in hand it is never proved.
func TestCertaintyOfAMissingIntermediate(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	for cn, want := range map[string]classify.Certainty{
		"Corp Test Issuing CA 3": classify.CertaintyLikely,   // says that it is none of the roots, and whose it is
		"Corp Test 3":            classify.CertaintyPossible, // may be a root of the same owner
	} {
		ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, issue(t, nil, cn, ca(nil)), registryHost, server(nil, registryHost)))}})
		rep, err := (&Checker{Roots: pool(root), Now: func() time.Time { return noon }}).CheckTLS(t.Context(), ap, registryHost)
		require.NoError(t, err)
		require.Len(t, rep.Findings(), 1)
		assert.Equal(t, classify.TLSMissingIntermediate, rep.Findings()[0].Cause)
		assert.Equal(t, want, rep.Findings()[0].Certainty, cn)
		assert.Equal(t, []classify.Cause{classify.TLSUnknownAuthority}, rep.Findings()[0].Alternatives)
	}
}

func TestInterception(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	box := issue(t, nil, "Zscaler Intermediate Root", ca(nil))
	private := issue(t, nil, "Site Gateway Authority", ca(func(c *x509.Certificate) { c.Subject.Organization = []string{"Site"} }))
	at := func() time.Time { return noon }
	ask := func(c *Checker, signer *authority, host string) *TLSReport {
		ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, signer, host, server(nil, host)))}})
		rep, err := c.CheckTLS(t.Context(), ap, host)
		require.NoError(t, err)
		return rep
	}
	t.Run("trusted", func(t *testing.T) {
		rep := ask(&Checker{Roots: pool(root, box), Now: at}, box, registryHost)
		assert.True(t, rep.Held(), "it works, and somebody reads along")
		require.Len(t, rep.Findings(), 1)
		assert.Equal(t, classify.TLSIntercepted, rep.Findings()[0].Cause)
		assert.Equal(t, classify.SeverityInfo, rep.Findings()[0].Severity)
	})
	t.Run("not trusted", func(t *testing.T) {
		rep := ask(&Checker{Roots: pool(root), Now: at}, box, registryHost)
		require.Len(t, rep.Findings(), 1)
		f := rep.Findings()[0]
		assert.Equal(t, classify.TLSIntercepted, f.Cause)
		assert.Equal(t, classify.CertaintyLikely, f.Certainty, "a name is no proof")
		assert.Equal(t, []classify.Cause{classify.TLSUnknownAuthority}, f.Alternatives)
	})
	t.Run("one issuer for hosts of two owners", func(t *testing.T) {
		c := &Checker{Roots: pool(root), Now: at, Seen: &Seen{}}
		first := ask(c, private, registryHost)
		assert.Equal(t, classify.TLSUnknownAuthority, first.Findings()[0].Cause)
		same := ask(c, private, "auth.corp.test")
		assert.Equal(t, classify.TLSUnknownAuthority, same.Findings()[0].Cause, "a private CA signs for its own hosts")
		other := ask(c, private, "blobs.partner.test")
		assert.Equal(t, classify.TLSIntercepted, other.Findings()[0].Cause)
		assert.Equal(t, classify.CertaintyPossible, other.Findings()[0].Certainty)
	})
}

func TestOwner(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"registry.corp.test": "corp.test", "CORP.test.": "corp.test", "localhost": "localhost", "10.20.0.4": "10.20.0.4",
		"2001:db8::4": "2001:db8::4", "": "", "a..": "a.",
	} {
		assert.Equal(t, want, owner(host), host)
	}
}

// The alias is resolvable, and stands in no certificate.
func TestPrivateLinkAlias(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, "x", server(nil, "*.azurecr.test")))}})
	rep, err := (&Checker{Roots: pool(root), Now: func() time.Time { return noon }}).CheckTLS(t.Context(), ap, "corp.privatelink.azurecr.test")
	require.NoError(t, err)
	assert.Contains(t, rep.Findings()[0].Summary, "corp.azurecr.test is the name that the certificate is for")
}
