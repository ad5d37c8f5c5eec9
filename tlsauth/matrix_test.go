package tlsauth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// chainCase is one chain with the verdict that a person wrote down for it.
type chainCase struct {
	name  string
	chain []*authority // as sent, the leaf first
	roots []*authority
	ask   string
	want  []classify.Cause // nil = trusted; the first fails
	// openssl says where OpenSSL's verdict is another one than Go's, which is the
	// runtime's: "accepts" or "refuses"; "" = the same.
	openssl string
}

func chainOf(leaf *authority, rest ...*authority) []*authority {
	return append([]*authority{leaf}, rest...)
}

// matrix builds every case. Only the keys differ from run to run.
func matrix(t *testing.T) []chainCase {
	t.Helper()
	who := func(organization, cn string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.Subject = pkix.Name{CommonName: cn, Organization: []string{organization}}
		}
	}
	span := func(from, to time.Duration) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = noon.Add(from), noon.Add(to) }
	}
	both := func(a, b func(*x509.Certificate)) func(*x509.Certificate) {
		return func(c *x509.Certificate) { a(c); b(c) }
	}
	eku := func(usages ...x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = usages }
	}
	aia := func(c *x509.Certificate) { c.IssuingCertificateURL = []string{"http://pki.corp.test/issuing.crt"} }
	critical := func(c *x509.Certificate) {
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, Critical: true, Value: []byte{5, 0}})
	}
	const hour = time.Hour
	issueKey := func(parent *authority, key crypto.Signer, change func(*x509.Certificate)) *authority {
		return issueWith(t, parent, key, registryHost, change)
	}

	root := issue(t, nil, "Corp Test Root", ca(nil))
	rotated := issue(t, nil, "Corp Test Root", ca(nil))
	elsewhere := issue(t, nil, "", ca(who("Elsewhere Ltd", "Elsewhere Root CA")))
	between := issue(t, root, "Corp Test Issuing", ca(nil))
	betweenAgain := issue(t, root, "Corp Test Issuing", ca(nil))
	second := issue(t, between, "Corp Test Issuing 2", ca(nil))
	good := issue(t, between, registryHost, server(nil, registryHost))
	deep := issue(t, second, registryHost, server(nil, registryHost))
	leaf := func(parent *authority, change func(*x509.Certificate), names ...string) *authority {
		return issue(t, parent, registryHost, server(change, names...))
	}
	foreign := issue(t, elsewhere, "", ca(who("Elsewhere Ltd", "Elsewhere Issuing CA")))
	plain := issue(t, nil, "", ca(who("Plain Vendor", "Plain Vendor Services")))
	oldRoot := issue(t, nil, "Old Test Root", ca(span(-96*hour, -hour)))
	youngRoot := issue(t, nil, "Young Test Root", ca(span(hour, 96*hour)))
	oldBetween := issue(t, root, "Corp Test Issuing Old", ca(span(-96*hour, -hour)))
	youngBetween := issue(t, root, "Corp Test Issuing Young", ca(span(hour, 96*hour)))
	mail := issue(t, root, "Corp Test Mail CA", ca(eku(x509.ExtKeyUsageEmailProtection)))
	forClients := issue(t, root, "Corp Test Client CA", ca(eku(x509.ExtKeyUsageClientAuth)))
	noCA := issue(t, root, "Corp Test Web", server(nil, "web.corp.test"))
	noSign := issue(t, root, "Corp Test No Sign", ca(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }))
	short := issue(t, nil, "Short Root", ca(func(c *x509.Certificate) { c.MaxPathLenZero = true }))
	belowShort := issue(t, short, "Corp Test Below Short", ca(nil))
	only := func(permitted, excluded []string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.PermittedDNSDomainsCritical, c.PermittedDNSDomains, c.ExcludedDNSDomains = true, permitted, excluded
		}
	}
	permitting := issue(t, root, "Corp Test Permitting", ca(only([]string{"corp.test"}, nil)))
	otherNames := issue(t, root, "Corp Test Other Names", ca(only([]string{"partner.test"}, nil)))
	excluding := issue(t, root, "Corp Test Excluding", ca(only(nil, []string{"registry.corp.test"})))
	strange := issue(t, root, "Corp Test Strange", ca(critical))
	rsaRoot := issueWith(t, nil, newRSA(t), "RSA Root", ca(func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA1WithRSA }))
	weakBetween := issueWith(t, rsaRoot, newRSA(t), "RSA Issuing", ca(func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA1WithRSA }))
	inspecting := issue(t, nil, "", ca(who("Fortinet", "FG100F Deep Inspection")))
	own := leaf(nil, nil, registryHost)
	ownCA := issue(t, nil, registryHost, ca(func(c *x509.Certificate) { c.DNSNames = []string{registryHost} }))
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	bigKey, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	require.NoError(t, err)
	crossed := issueWith(t, elsewhere, between.key, "Corp Test Issuing", ca(nil))
	expiredCross := issueWith(t, elsewhere, between.key, "Corp Test Issuing", ca(span(-96*hour, -hour)))
	spiffe, _ := url.Parse("spiffe://corp.test/registry")
	loopA := issue(t, nil, "Loop A", ca(nil))
	loopB := issueWith(t, loopA, newKey(t), "Loop B", ca(nil))
	loopBack := issueWith(t, loopB, loopA.key, "Loop A", ca(nil))
	many := make([]*authority, 60)
	for i := range many {
		many[i] = between
	}

	const (
		unknown  = classify.TLSUnknownAuthority
		missing  = classify.TLSMissingIntermediate
		mismatch = classify.TLSHostnameMismatch
		expired  = classify.TLSExpired
		notYet   = classify.TLSNotYetValid
		usage    = classify.TLSWrongKeyUsage
		noSAN    = classify.TLSNoSAN
		noIP     = classify.TLSNoIPSAN
		weak     = classify.TLSWeakSignature
		self     = classify.TLSSelfSigned
		inspects = classify.TLSIntercepted
	)
	one := func(c classify.Cause, more ...classify.Cause) []classify.Cause {
		return append([]classify.Cause{c}, more...)
	}
	trust := []*authority{root}
	anchors := func(a ...*authority) []*authority { return a }

	return []chainCase{
		// What is right.
		{"chain of three", chainOf(good, between), trust, registryHost, nil, ""},
		{"root sent as well", chainOf(good, between, root), trust, registryHost, nil, ""},
		{"chain of four", chainOf(deep, second, between), trust, registryHost, nil, ""},
		{"intermediates in the wrong order", chainOf(deep, between, second), trust, registryHost, nil, ""},
		{"an unrelated certificate sent as well", chainOf(good, foreign, between), trust, registryHost, nil, ""},
		{"the intermediate sent sixty times", chainOf(good, many...), trust, registryHost, nil, ""},
		{"leaf signed by the root", chainOf(leaf(root, nil, registryHost)), trust, registryHost, nil, ""},
		{"wildcard", chainOf(leaf(root, nil, "*.corp.test")), trust, registryHost, nil, ""},
		{"name in capitals", chainOf(leaf(root, nil, "REGISTRY.Corp.Test")), trust, registryHost, nil, ""},
		{"asked with a trailing dot", chainOf(good, between), trust, registryHost + ".", nil, "refuses"},
		{"name with an underscore", chainOf(leaf(root, nil, "my_registry.corp.test")), trust, "my_registry.corp.test", nil, ""},
		{"IPv4 address", chainOf(leaf(root, nil, "10.20.0.4")), trust, "10.20.0.4", nil, ""},
		{"IPv6 address", chainOf(leaf(root, nil, "2001:db8::4")), trust, "2001:db8::4", nil, ""},
		{"IPv6 address in brackets", chainOf(leaf(root, nil, "2001:db8::4")), trust, "[2001:db8::4]", nil, ""},
		{"empty subject", chainOf(leaf(root, func(c *x509.Certificate) { c.Subject = pkix.Name{} }, registryHost)), trust, registryHost, nil, ""},
		{"valid up to this second", chainOf(leaf(root, span(-hour, 0), registryHost)), trust, registryHost, nil, "refuses"},
		{"valid from this second on", chainOf(leaf(root, span(0, hour), registryHost)), trust, registryHost, nil, ""},
		{"any extended usage", chainOf(leaf(root, eku(x509.ExtKeyUsageAny), registryHost)), trust, registryHost, nil, "refuses"},
		{"no extended usage", chainOf(leaf(root, eku(), registryHost)), trust, registryHost, nil, ""},
		{"server and client usage", chainOf(leaf(root, eku(x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth), registryHost)), trust, registryHost, nil, ""},
		{"Ed25519 key", chainOf(issueKey(root, edKey, server(nil, registryHost))), trust, registryHost, nil, ""},
		{"P-521 key", chainOf(issueKey(root, bigKey, server(nil, registryHost))), trust, registryHost, nil, ""},
		{"root signed with SHA-1 by itself", chainOf(issueWith(t, rsaRoot, newKey(t), registryHost, server(nil, registryHost))), anchors(rsaRoot), registryHost, nil, ""},
		{"self-signed and a root of the node", chainOf(own), anchors(own), registryHost, nil, ""},
		{"self-signed CA and a root of the node", chainOf(ownCA), anchors(ownCA), registryHost, nil, "refuses"},
		{"leaf of an unknown CA that is itself a root", chainOf(good), anchors(good), registryHost, nil, "refuses"},
		{"intermediate that is a root of the node", chainOf(good), anchors(between), registryHost, nil, "refuses"},
		{"one of two crossed paths is known", chainOf(good, crossed, between), trust, registryHost, nil, "refuses"},
		{"one of two crossed paths expired", chainOf(good, expiredCross, between), trust, registryHost, nil, ""},
		{"constraint that permits the name", chainOf(leaf(permitting, nil, registryHost), permitting), trust, registryHost, nil, ""},
		{"leaf that is a CA", chainOf(issue(t, root, registryHost, ca(func(c *x509.Certificate) { c.DNSNames = []string{registryHost} }))), trust, registryHost, nil, "refuses"},

		// Names.
		{"another name", chainOf(leaf(root, nil, "gateway.corp.test")), trust, registryHost, one(mismatch), ""},
		{"wildcard for one label only", chainOf(leaf(root, nil, "*.test")), trust, registryHost, one(mismatch), ""},
		{"wildcard does not cover its parent", chainOf(leaf(root, nil, "*.registry.corp.test")), trust, registryHost, one(mismatch), ""},
		{"wildcard within a label", chainOf(leaf(root, nil, "reg*.corp.test")), trust, registryHost, one(mismatch), "accepts"},
		{"private-link alias in the reference", chainOf(leaf(root, nil, "*.azurecr.test")), trust, "corp.privatelink.azurecr.test", one(mismatch), ""},
		{"address as a DNS name", chainOf(leaf(root, func(c *x509.Certificate) { c.DNSNames = []string{"10.20.0.4"} })), trust, "10.20.0.4", one(noIP), ""},
		{"another address", chainOf(leaf(root, nil, "10.20.0.5")), trust, "10.20.0.4", one(mismatch), ""},
		{"name, asked by address", chainOf(good, between), trust, "10.20.0.4", one(noIP), ""},
		{"common name only", chainOf(leaf(root, nil)), trust, registryHost, one(noSAN), "accepts"},
		{"only an e-mail address", chainOf(leaf(root, func(c *x509.Certificate) { c.EmailAddresses = []string{"ops@corp.test"} })), trust, registryHost, one(noSAN), "accepts"},
		{"only a URI", chainOf(leaf(root, func(c *x509.Certificate) { c.URIs = []*url.URL{spiffe} })), trust, registryHost, one(noSAN), "accepts"},
		{"address in the common name", chainOf(issue(t, root, "10.20.0.4", server(nil))), trust, "10.20.0.4", one(noSAN), ""},

		// Dates.
		{"expired a second ago", chainOf(leaf(root, span(-hour, -time.Second), registryHost)), trust, registryHost, one(expired), ""},
		{"expired long ago", chainOf(leaf(between, span(-47*hour, -46*hour), registryHost), between), trust, registryHost, one(expired), ""},
		{"valid from the next second on", chainOf(leaf(root, span(time.Second, hour), registryHost)), trust, registryHost, one(notYet), ""},
		{"expired intermediate", chainOf(leaf(oldBetween, nil, registryHost), oldBetween), trust, registryHost, one(expired), ""},
		{"intermediate of tomorrow", chainOf(leaf(youngBetween, span(-hour, 48*hour), registryHost), youngBetween), trust, registryHost, one(notYet), ""},
		{"leaf and intermediate expired", chainOf(leaf(oldBetween, span(-47*hour, -2*hour), registryHost), oldBetween), trust, registryHost, one(expired, expired), ""},
		{"expired root of the node", chainOf(leaf(oldRoot, nil, registryHost)), anchors(oldRoot), registryHost, one(expired), ""},
		{"root of the node from tomorrow", chainOf(leaf(youngRoot, span(-hour, 24*hour), registryHost)), anchors(youngRoot), registryHost, one(notYet), ""},
		{"expired and for another name", chainOf(leaf(root, span(-2*hour, -hour), "gateway.corp.test")), trust, registryHost, one(expired, mismatch), ""},

		// Trust.
		{"unknown root, chain sent", chainOf(good, between), anchors(elsewhere), registryHost, one(unknown), ""},
		{"unknown root, sent as well", chainOf(good, between, root), anchors(elsewhere), registryHost, one(unknown), ""},
		{"unknown root signed the leaf", chainOf(leaf(root, nil, registryHost)), anchors(elsewhere), registryHost, one(unknown), ""},
		{"unknown root with an AIA address", chainOf(leaf(root, aia, registryHost)), anchors(elsewhere), registryHost, one(unknown), ""},
		{"no root at all", chainOf(good, between), nil, registryHost, one(unknown), ""},
		{"root of the same name with another key", chainOf(good, between), anchors(rotated), registryHost, one(unknown), ""},
		{"issuer of a name that says nothing", chainOf(leaf(plain, nil, registryHost)), trust, registryHost, one(unknown), ""},
		{"certificates that sign each other", chainOf(leaf(loopB, nil, registryHost), loopB, loopBack), trust, registryHost, one(unknown), ""},
		{"self-signed", chainOf(own), trust, registryHost, one(self), ""},
		{"self-signed CA", chainOf(ownCA), trust, registryHost, one(self), ""},
		{"self-signed for another name", chainOf(leaf(nil, nil, "ingress.local")), trust, registryHost, one(mismatch, self), ""},
		{"self-signed and expired", chainOf(leaf(nil, span(-2*hour, -hour), registryHost)), trust, registryHost, one(expired, self), ""},
		{"leaf alone, AIA", chainOf(leaf(between, aia, registryHost)), trust, registryHost, one(missing), ""},
		{"leaf alone, root of the same owner", chainOf(good), trust, registryHost, one(missing), ""},
		{"leaf alone, AIA, no root of the owner", chainOf(leaf(foreign, aia, registryHost)), trust, registryHost, one(missing), ""},
		{"leaf alone, no hint", chainOf(leaf(foreign, nil, registryHost)), trust, registryHost, one(unknown), ""},
		{"leaf and root, no intermediate", chainOf(good, root), trust, registryHost, one(missing), ""},
		{"the upper intermediate is missing", chainOf(deep, second), trust, registryHost, one(missing), ""},
		{"the lower intermediate is missing", chainOf(deep, between), trust, registryHost, one(missing), ""},
		{"intermediate of the same name with another key", chainOf(good, betweenAgain), trust, registryHost, one(missing), ""},
		{"expired, another name, unknown", chainOf(leaf(foreign, span(-2*hour, -hour), "gateway.corp.test"), foreign), trust, registryHost, one(expired, mismatch, unknown), ""},
		{"inspection device", chainOf(leaf(inspecting, nil, registryHost)), trust, registryHost, one(inspects), ""},
		{"public service with a private issuer", chainOf(leaf(foreign, nil, "registry-1.docker.io"), foreign), trust, "registry-1.docker.io", one(inspects), ""},

		// What a certificate may be used for.
		{"for clients only", chainOf(leaf(root, eku(x509.ExtKeyUsageClientAuth), registryHost)), trust, registryHost, one(usage), ""},
		{"for code only", chainOf(leaf(root, eku(x509.ExtKeyUsageCodeSigning), registryHost)), trust, registryHost, one(usage), ""},
		{"CA for mail", chainOf(leaf(mail, nil, registryHost), mail), trust, registryHost, one(usage), ""},
		{"CA for clients", chainOf(leaf(forClients, nil, registryHost), forClients), trust, registryHost, one(usage), ""},
		{"signed by a server's certificate", chainOf(leaf(noCA, nil, registryHost), noCA), trust, registryHost, one(usage), ""},
		{"CA that may not sign", chainOf(leaf(noSign, nil, registryHost), noSign), trust, registryHost, one(usage), ""},
		{"longer than the root allows", chainOf(leaf(belowShort, nil, registryHost), belowShort), anchors(short), registryHost, one(usage), ""},
		{"constraint to other names", chainOf(leaf(otherNames, nil, registryHost), otherNames), trust, registryHost, one(usage), ""},
		{"constraint that excludes the name", chainOf(leaf(excluding, nil, registryHost), excluding), trust, registryHost, one(usage), ""},
		{"unknown critical extension in the leaf", chainOf(leaf(root, critical, registryHost)), trust, registryHost, one(usage), ""},
		{"unknown critical extension in the CA", chainOf(leaf(strange, nil, registryHost), strange), trust, registryHost, one(usage), ""},
		{"for clients and for another name", chainOf(leaf(root, eku(x509.ExtKeyUsageClientAuth), "gateway.corp.test")), trust, registryHost, one(mismatch, usage), ""},
		{"for clients and expired", chainOf(leaf(root, both(eku(x509.ExtKeyUsageClientAuth), span(-2*hour, -hour)), registryHost)), trust, registryHost, one(expired, usage), ""},

		// More than one thing at once, the runtime's first word first.
		{"unknown root and another name", chainOf(leaf(foreign, nil, "gateway.corp.test"), foreign), trust, registryHost, one(mismatch, unknown), ""},
		{"leaf alone and another name", chainOf(leaf(between, nil, "gateway.corp.test")), trust, registryHost, one(mismatch, missing), ""},
		{"expired root and another name", chainOf(leaf(oldRoot, nil, "gateway.corp.test")), anchors(oldRoot), registryHost, one(mismatch, expired), ""},
		{"inspection device, expired, another name", chainOf(leaf(inspecting, span(-2*hour, -hour), "gateway.corp.test")), trust, registryHost, one(expired, mismatch, inspects), ""},
		{"another IPv6 address", chainOf(leaf(root, nil, "2001:db8::5")), trust, "2001:db8::4", one(mismatch), ""},
		{"name, asked by IPv6 address", chainOf(good, between), trust, "2001:db8::4", one(noIP), ""},
		{"leaf alone and expired", chainOf(leaf(between, span(-2*hour, -hour), registryHost)), trust, registryHost, one(expired, missing), ""},

		// Signatures.
		{"leaf signed with SHA-1", chainOf(issueWith(t, rsaRoot, newKey(t), registryHost, server(func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA1WithRSA }, registryHost))), anchors(rsaRoot), registryHost, one(weak), "accepts"},
		{"intermediate signed with SHA-1", chainOf(issueWith(t, weakBetween, newKey(t), registryHost, server(nil, registryHost)), weakBetween), anchors(rsaRoot), registryHost, one(weak), "accepts"},
	}
}

// Every verdict was written by hand. Go decides, because the runtimes are
// written in it; what OpenSSL, and so curl, would say is noted.
func TestChainMatrix(t *testing.T) {
	t.Parallel()
	cases := matrix(t)
	bad := 0
	for _, c := range cases {
		if c.want != nil {
			bad++
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var certs []*x509.Certificate
			for _, a := range c.chain {
				certs = append(certs, a.cert)
			}
			judged := &trial{ctx: context.Background(), certs: certs, name: c.ask, port: "443", roots: &Roots{Pool: pool(c.roots...), name: "caller's pool"}, now: noon}
			if c.roots == nil {
				judged.roots.name = ""
			}
			chains, problems := judged.judge()
			var got []classify.Cause
			for _, p := range problems {
				got = append(got, p.cause)
				assert.NotEmpty(t, p.summary)
				assert.Less(t, len(p.summary), 1000)
			}
			assert.Equal(t, c.want, got)
			assert.Equal(t, c.want == nil, chains != nil)
			if c.want != nil {
				assert.Error(t, problems[0].err, "the runtime's own words are kept")
			}
		})
	}
	t.Logf("%d chains, of which %d are bad", len(cases), bad)
	assert.GreaterOrEqual(t, bad, 60, "the promise of this matrix")
}

// Where the note says nothing, OpenSSL agrees whether the chain is good.
func TestChainMatrixAgainstOpenSSL(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl here to compare with")
	}
	version, err := exec.CommandContext(t.Context(), openssl, "version").Output()
	if err != nil || !strings.HasPrefix(string(version), "OpenSSL 3.0.") {
		t.Skipf("the notes are about OpenSSL 3.0, and this is %q", version)
	}
	write := func(dir, name string, certs []*authority) string {
		var b strings.Builder
		for _, a := range certs {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
		}
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
		return file
	}
	for _, c := range matrix(t) {
		if c.roots == nil {
			continue
		}
		dir := t.TempDir()
		args := []string{"verify", "-purpose", "sslserver", "-no-CApath", "-attime", fmt.Sprint(noon.Unix()), "-CAfile", write(dir, "roots", c.roots)}
		if len(c.chain) > 1 {
			args = append(args, "-untrusted", write(dir, "sent", c.chain[1:]))
		}
		how := "-verify_hostname"
		if strings.ContainsAny(bare(c.ask), ":") || strings.Trim(c.ask, "0123456789.") == "" {
			how = "-verify_ip"
		}
		args = append(args, how, bare(c.ask), write(dir, "leaf", c.chain[:1]))
		out, err := exec.CommandContext(t.Context(), openssl, args...).CombinedOutput()
		got := ""
		switch {
		case err == nil && c.want != nil:
			got = "accepts"
		case err != nil && c.want == nil:
			got = "refuses"
		}
		assert.Equal(t, c.openssl, got, "%s: %s", c.name, out)
	}
}
