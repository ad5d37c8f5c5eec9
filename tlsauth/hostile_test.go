package tlsauth

import (
	"bytes"
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Bundles as they are found: large, full of repetitions, cut off, with anything
// in between.
func TestHostileBundles(t *testing.T) {
	t.Parallel()
	root := issue(t, nil, "Corp Test Root", ca(nil))
	one := root.pem()
	many := bytes.Repeat(one, 10<<20/len(one))
	noise := bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\n"), 10<<20/28)
	binary := bytes.Repeat([]byte{0x30, 0x82, 0xff, 0xff}, 10<<20/4)
	for _, tt := range []struct {
		name  string
		data  []byte
		roots int
		files int
	}{
		{"10 MiB of one root", many, 1, 1},
		{"10 MiB of beginnings", noise, 0, 0},
		{"10 MiB of nothing", binary, 0, 0},
		{"cut off in the second", append(append([]byte{}, one...), one[:len(one)/2]...), 1, 1},
		{"text before and after", []byte("# Corp\r\n" + string(one) + "trailing\n"), 1, 1},
		{"byte order mark", append([]byte("\ufeff"), one...), 0, 0}, // Go does not find a block that begins within a line
		{"a key first", append([]byte("-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"), one...), 1, 1},
		{"over the bound", append(bytes.Repeat([]byte("#\n"), maxBundle/2), one...), 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := ReadRoots(fstest.MapFS{"etc/ssl/certs/ca-certificates.crt": {Data: tt.data}}, "", "")
			if tt.name == "over the bound" {
				require.Error(t, err, "nothing is known of this store")
				return
			}
			require.NoError(t, err)
			assert.Len(t, r.origin, tt.roots)
			assert.Len(t, r.Files, tt.files)
		})
	}
}

// What a certificate says is a stranger's text: it is bounded, and carries no
// control characters into a terminal or a log.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	evil := "\x1b[31mCorp\nFAILED: \x00\u202e" + strings.Repeat("x", 20000)
	name := pkix.Name{CommonName: evil, Organization: []string{evil, evil}}
	root := issue(t, nil, "", ca(func(c *x509.Certificate) { c.Subject = name }))
	leaf := issue(t, root, "", server(func(c *x509.Certificate) {
		c.Subject = name
		c.IssuingCertificateURL = []string{"http://u:s3cr3t@pki.corp.test/" + strings.Repeat("y", 5000) + "?token=s3cr3t"}
		for range 500 {
			c.DNSNames = append(c.DNSNames, strings.Repeat("a", 60)+".corp.test")
		}
	}))
	other := issue(t, nil, "Other", ca(nil))
	judged := &trial{ctx: context.Background(), certs: []*x509.Certificate{leaf.cert}, name: registryHost, port: "443", roots: &Roots{Pool: pool(other), name: "caller's pool"}, now: noon}
	_, problems := judged.judge()
	require.NotEmpty(t, problems)
	raw, err := json.Marshal(judged.describe())
	require.NoError(t, err)
	text := string(raw)
	for _, p := range problems {
		assert.Less(t, len(p.summary), 1500)
		text += p.summary
		for _, f := range p.facts {
			assert.Less(t, len(f.Value), 3000)
			text += f.Value
		}
	}
	assert.Less(t, len(raw), 16<<10)
	assert.NotContains(t, text, "\x1b")
	assert.NotContains(t, text, "\n")
	assert.NotContains(t, text, "s3cr3t")
	assert.True(t, utf8.ValidString(text))
}

func FuzzCertificate(f *testing.F) {
	root := issue(f, nil, "Corp Test Root", ca(nil))
	between := issue(f, root, "Corp Test Issuing", ca(nil))
	leaf := issue(f, between, registryHost, server(nil, registryHost, "10.20.0.4"))
	f.Add(leaf.cert.Raw, between.cert.Raw, registryHost)
	f.Add(root.cert.Raw, leaf.cert.Raw, "10.20.0.4")
	f.Add(leaf.cert.Raw, leaf.cert.Raw, "[2001:db8::4]")
	f.Add(root.cert.Raw, root.cert.Raw, "corp.privatelink.azurecr.test")
	f.Fuzz(func(t *testing.T, a, b []byte, name string) {
		first, err := x509.ParseCertificate(a)
		if err != nil || checkName(name) != nil {
			return
		}
		certs := []*x509.Certificate{first}
		if second, err := x509.ParseCertificate(b); err == nil {
			certs = append(certs, second)
		}
		seen := &Seen{}
		seen.chain(name, certs)
		for _, now := range []time.Time{noon, {}} {
			judged := &trial{ctx: context.Background(), certs: certs, name: name, port: "443", roots: &Roots{Pool: pool(root), name: "pool"}, now: now, seen: seen}
			chains, problems := judged.judge()
			if (chains == nil) != (len(problems) > 0) {
				t.Fatal("neither trusted nor wrong")
			}
			for _, p := range problems {
				if p.cause == "" || p.summary == "" || len(p.summary) > 4000 {
					t.Fatalf("%+v", p)
				}
			}
		}
		if _, err := json.Marshal((&trial{ctx: context.Background(), certs: certs}).describe()); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzProviderConfig(f *testing.F) {
	f.Add([]byte(providerYAML), image)
	f.Add([]byte("{"), "a")
	f.Add([]byte("a: &a [*a]"), "x/y")
	f.Add([]byte("apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: [{matchImages: ['%zz', '[', '*.*']}]"), "a.b/c")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		c := parseProviderConfig(data)
		for _, p := range c.plugins {
			if by, nearest := matchOf(p, image); by != "" && nearest != "" {
				t.Fatalf("%q matches, and yet %q", by, nearest)
			}
		}
	})
}

func FuzzPluginAnswer(f *testing.F) {
	f.Add([]byte(pluginAnswer(registryHost)))
	f.Add([]byte(`{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image","cacheDuration":"1h","auth":{"%zz":null}}`))
	f.Add([]byte("not JSON: s3cr3t"))
	p := pluginConfig{Name: "p", APIVersion: pluginV1}
	f.Fuzz(func(t *testing.T, raw []byte) {
		entries, _, err := p.answer(raw)
		if err != nil && len(entries) > 0 {
			t.Fatal("an answer that does not count gives nothing")
		}
		(&Keychain{entries: entries}).sort()
	})
}

func FuzzAnyForm(f *testing.F) {
	root := issue(f, nil, "Corp Test Root", ca(nil))
	f.Add(root.pem())
	f.Add(root.cert.Raw)
	f.Add([]byte("-----BEGIN TRUSTED CERTIFICATE-----\nMAA=\n-----END TRUSTED CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		certs, isPEM := anyForm(data)
		if isPEM && len(certs) == 0 {
			t.Fatal("nothing cannot be in a form")
		}
	})
}

var (
	_ CredentialLister = (*Kubelet)(nil)
	_ authn.Keychain   = (*Kubelet)(nil)
)
