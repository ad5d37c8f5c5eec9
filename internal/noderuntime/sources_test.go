package noderuntime

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net/url"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func testRoot(t testing.TB) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "corp root"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// testPair is a client's certificate and its key.
func testPair(t testing.TB) (cert, key []byte) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	require.NoError(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func sourcesOf(t *testing.T, fsys fs.FS, image string) ([]Source, []classify.Finding) {
	ref, err := registry.ParseReference(image)
	require.NoError(t, err)
	sources, findings, err := Open(fsys, "containerd", "").Sources(ref)
	require.NoError(t, err)
	return sources, findings
}

const (
	conf2 = "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".registry]\nconfig_path = \"/etc/containerd/certs.d\"\n"
	conf3 = "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/etc/containerd/certs.d'\n"
)

func bases(sources []Source) (out []string) {
	for _, s := range sources {
		out = append(out, s.Base.String())
	}
	return out
}

func TestSourcesWithoutConfiguration(t *testing.T) {
	t.Parallel()
	for _, fsys := range []fs.FS{nil, fstest.MapFS{}, fstest.MapFS{"etc/containerd/config.toml": file(conf3)}} {
		s, f := sourcesOf(t, fsys, "busybox")
		assert.Empty(t, f)
		require.Equal(t, []string{"https://registry-1.docker.io/v2"}, bases(s))
		assert.Equal(t, KindUpstream, s[0].Kind)
		assert.True(t, s[0].Can(CapabilityPull) && s[0].Can(CapabilityResolve))
	}
	s, _ := sourcesOf(t, nil, "localhost:5000/app")
	assert.Equal(t, []string{"http://localhost:5000/v2"}, bases(s))
	assert.True(t, s[0].HTTPSFirst && s[0].SkipVerify)
}

func TestHostsInFileOrder(t *testing.T) {
	t.Parallel()
	ca := testRoot(t)
	cert, key := testPair(t)
	hosts := `
server = "https://registry.corp.test"
ca = "root.crt"
[host."https://zeta.corp.test"]
  capabilities = ["pull"]
  ca = ["/etc/ssl/corp.pem"]
  dial_timeout = "2s"
[host."https://zeta.corp.test".header]
  X-Secret = "hunter2"
[host."alpha.corp.test:8443/hub"]
  override_path = true
  client = [["c.pem", "c.key"], "both.pem"]
[host."http://plain.corp.test:5000"]
  skip_verify = true
`
	for dir, conf := range map[string]string{"registry.corp.test": conf2, "_default": conf3} {
		s, f := sourcesOf(t, fstest.MapFS{
			"etc/containerd/config.toml":                    file(conf),
			"etc/containerd/certs.d/" + dir + "/hosts.toml": file(hosts),
			"etc/containerd/certs.d/" + dir + "/root.crt":   {Data: ca},
			"etc/containerd/certs.d/" + dir + "/c.pem":      {Data: cert},
			"etc/containerd/certs.d/" + dir + "/c.key":      {Data: key},
			"etc/containerd/certs.d/" + dir + "/both.pem":   {Data: bytes.Join([][]byte{cert, key}, nil)},
			"etc/ssl/corp.pem":                              {Data: ca},
		}, "registry.corp.test/app")
		assert.Empty(t, f)
		require.Equal(t, []string{"https://zeta.corp.test/v2", "https://alpha.corp.test:8443/hub", "http://plain.corp.test:5000/v2", "https://registry.corp.test/v2"}, bases(s))
		assert.Equal(t, []string{CapabilityPull}, s[0].Capabilities)
		assert.Equal(t, int64(2000), s[0].DialTimeoutMS)
		assert.Equal(t, []string{"X-Secret"}, s[0].Fields.Names())
		assert.Equal(t, [][]byte{ca}, s[0].CA)
		assert.Equal(t, "registry.corp.test", s[0].Namespace)
		assert.Equal(t, KindMirror, s[0].Kind)
		assert.Len(t, s[1].ClientFiles, 2)
		assert.Len(t, s[1].Certificates, 2)
		assert.Equal(t, []bool{false, false, false, true}, []bool{s[0].Last, s[1].Last, s[2].Last, s[3].Last})
		assert.EqualValues(t, 10_000, s[0].DeadMS, "resolve, index, manifest, config and one layer, 2 s each")
		assert.True(t, s[2].HTTPSFirst && s[2].SkipVerify)
		assert.Equal(t, KindUpstream, s[3].Kind)
		assert.Empty(t, s[3].Namespace)
		assert.Equal(t, [][]byte{ca}, s[3].CA)
	}
}

func TestHostDirectories(t *testing.T) {
	t.Parallel()
	hosts := func(h string) *fstest.MapFile { return file("[host.\"https://" + h + "\"]\n") }
	s, _ := sourcesOf(t, fstest.MapFS{
		"etc/containerd/config.toml":                                 file(conf2),
		"etc/containerd/certs.d/registry.corp.test_5000_/hosts.toml": hosts("one.corp.test"),
		"etc/containerd/certs.d/registry.corp.test:5000/hosts.toml":  hosts("two.corp.test"),
		"etc/containerd/certs.d/_default/hosts.toml":                 hosts("three.corp.test"),
	}, "registry.corp.test:5000/app")
	assert.Equal(t, []string{"https://one.corp.test/v2", "https://registry.corp.test:5000/v2"}, bases(s))

	// docker.io goes by its own name, and by the host that serves it when there is no server.
	s, _ = sourcesOf(t, fstest.MapFS{
		"etc/containerd/config.toml":                  file(conf2),
		"etc/containerd/certs.d/docker.io/hosts.toml": hosts("hub.corp.test"),
	}, "busybox")
	assert.Equal(t, []string{"https://hub.corp.test/v2", "https://registry-1.docker.io/v2"}, bases(s))
	assert.Equal(t, "docker.io", s[0].Namespace)

	// A server elsewhere keeps the registry itself from being asked.
	s, _ = sourcesOf(t, fstest.MapFS{
		"etc/containerd/config.toml":                  file(conf2),
		"etc/containerd/certs.d/docker.io/hosts.toml": file("server = 'https://hub.corp.test'\n"),
	}, "busybox")
	assert.Equal(t, []string{"https://hub.corp.test/v2"}, bases(s))
	assert.Equal(t, KindMirror, s[0].Kind)
}

func TestConfigurationThatIsNotInForce(t *testing.T) {
	t.Parallel()
	dir := "etc/containerd/certs.d/registry.corp.test/"
	for _, tt := range []struct {
		name  string
		fsys  fstest.MapFS
		bases []string
		cause classify.Cause
		sev   classify.Severity
	}{
		{"syntax", fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "hosts.toml": file("[host.\"https://m.corp.test\"\n")},
			[]string{"https://registry.corp.test/v2"}, classify.NodeRuntimeConfigIgnored, classify.SeverityWarn},
		{"type", fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "hosts.toml": file("[host.\"https://m.corp.test\"]\nskip_verify = \"yes\"\n")},
			[]string{"https://registry.corp.test/v2"}, classify.NodeRuntimeConfigIgnored, classify.SeverityWarn},
		{"capability", fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "hosts.toml": file("[host.\"https://m.corp.test\"]\ncapabilities = [\"read\"]\n")},
			[]string{"https://registry.corp.test/v2"}, classify.NodeRuntimeConfigIgnored, classify.SeverityWarn},
		{"ca missing", fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "hosts.toml": file("ca = 'gone.crt'\n")},
			[]string{"https://registry.corp.test/v2"}, classify.NodeRuntimeConfigInvalid, classify.SeverityFail},
		{"ca empty", fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "hosts.toml": file("ca = 'x.crt'\n"), dir + "x.crt": file("nothing")},
			[]string{"https://registry.corp.test/v2"}, classify.NodeRuntimeConfigInvalid, classify.SeverityFail},
		{"client missing", fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "hosts.toml": file("client = 'x.pem'\n")},
			[]string{"https://registry.corp.test/v2"}, classify.NodeRuntimeConfigInvalid, classify.SeverityFail},
		{"no config_path", fstest.MapFS{dir + "hosts.toml": file("[host.\"https://m.corp.test\"]\n")},
			[]string{"https://m.corp.test/v2", "https://registry.corp.test/v2"}, classify.NodeRuntimeConfigIgnored, classify.SeverityWarn},
		{"list of directories", fstest.MapFS{
			"etc/containerd/config.toml": file("[plugins.cri.registry]\nconfig_path = '/etc/a:/etc/containerd/certs.d'\n"), dir + "hosts.toml": file("[host.\"https://m.corp.test\"]\n")},
			[]string{"https://m.corp.test/v2", "https://registry.corp.test/v2"}, classify.NodeRuntimeConfigIgnored, classify.SeverityWarn},
	} {
		s, f := sourcesOf(t, tt.fsys, "registry.corp.test/app")
		assert.Equal(t, tt.bases, bases(s), tt.name)
		require.Equal(t, []classify.Cause{tt.cause}, causes(f), tt.name)
		assert.Equal(t, tt.sev, f[0].Severity, tt.name)
	}
}

func TestCertificateFilesWithoutHostsFile(t *testing.T) {
	t.Parallel()
	ca := testRoot(t)
	dir := "etc/containerd/certs.d/registry.corp.test/"
	fsys := fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "ca.crt": {Data: ca}, dir + "c.cert": file(""), dir + "c.key": file("")}
	_, f := sourcesOf(t, fsys, "registry.corp.test/app")
	require.Equal(t, []classify.Cause{classify.NodeRuntimeConfigInvalid}, causes(f), "an empty pair is loaded and refused")
	cert, key := testPair(t)
	fsys[dir+"c.cert"], fsys[dir+"c.key"] = &fstest.MapFile{Data: cert}, &fstest.MapFile{Data: key}
	s, f := sourcesOf(t, fsys, "registry.corp.test/app")
	assert.Empty(t, f)
	assert.Len(t, s[0].Certificates, 1)
	assert.Equal(t, [][]byte{ca}, s[0].CA)
	assert.Equal(t, [][2]string{{"/" + dir + "c.cert", "/" + dir + "c.key"}}, s[0].ClientFiles)
	fsys[dir+"hosts.toml"] = file("server = 'https://registry.corp.test'\n")
	s, _ = sourcesOf(t, fsys, "registry.corp.test/app")
	assert.Empty(t, s[0].CA, "with a hosts.toml they are not read")
}

func TestWhatAHostsFilePassesOver(t *testing.T) {
	t.Parallel()
	ca := testRoot(t)
	dir := "etc/containerd/certs.d/registry.corp.test/"
	hosts := "host = { 'https://inline.corp.test' = { skip_verify = true } }\n"
	s, f := sourcesOf(t, fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "hosts.toml": file(hosts), dir + "ca.crt": {Data: ca}}, "registry.corp.test/app")
	assert.Equal(t, []string{"https://registry.corp.test/v2"}, bases(s))
	require.Equal(t, []classify.Cause{classify.NodeRuntimeConfigIgnored, classify.NodeRuntimeConfigIgnored}, causes(f))
	assert.Contains(t, f[0].Summary, "inline.corp.test")
	assert.Equal(t, classify.SeverityWarn, f[0].Severity)
	assert.Contains(t, f[1].Summary, "ca.crt")
	assert.Equal(t, classify.SeverityInfo, f[1].Severity)
	_, f = sourcesOf(t, fstest.MapFS{"etc/containerd/config.toml": file(conf2), dir + "hosts.toml": file("ca = 'ca.crt'\n"), dir + "ca.crt": {Data: ca}}, "registry.corp.test/app")
	assert.Empty(t, f)
}

func TestConfigImports(t *testing.T) {
	t.Parallel()
	s, f := sourcesOf(t, fstest.MapFS{
		"etc/containerd/config.toml":                file("version = 3\nimports = ['/etc/containerd/conf.d/*.toml']\n"),
		"etc/containerd/conf.d/10-hosts.toml":       file("[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/etc/hosts.d'\n"),
		"etc/hosts.d/registry.corp.test/hosts.toml": file("[host.'https://m.corp.test']\n"),
	}, "registry.corp.test/app")
	assert.Empty(t, f)
	assert.Equal(t, []string{"https://m.corp.test/v2", "https://registry.corp.test/v2"}, bases(s))
}

// locked refuses to open anything, as a file system does without the right.
type locked struct{ fstest.MapFS }

func (l locked) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}
func (l locked) Stat(name string) (fs.FileInfo, error) { return l.MapFS.Stat(name) }
func (l locked) ReadFile(name string) ([]byte, error)  { _, err := l.Open(name); return nil, err }

func TestUnreadableIsNotAbsent(t *testing.T) {
	t.Parallel()
	ref, err := registry.ParseReference("registry.corp.test/app")
	require.NoError(t, err)
	s, f, err := Open(locked{fstest.MapFS{"etc/containerd/config.toml": file(conf2)}}, "containerd", "").Sources(ref)
	assert.ErrorIs(t, err, fs.ErrPermission)
	assert.Empty(t, f)
	assert.Len(t, s, 1)
}

func TestLegacyTables(t *testing.T) {
	t.Parallel()
	ca := testRoot(t)
	v1 := `version = 2
[plugins.'io.containerd.grpc.v1.cri'.registry.mirrors.'docker.io']
endpoint = ['https://m.corp.test', 'http://10.20.0.4:5000/cache']
[plugins.'io.containerd.grpc.v1.cri'.registry.mirrors.'*']
endpoint = ['https://all.corp.test/v2']
[plugins.'io.containerd.grpc.v1.cri'.registry.configs.'m.corp.test'.tls]
ca_file = '/etc/ssl/corp.pem'
[plugins.'io.containerd.grpc.v1.cri'.registry.configs.'m.corp.test'.auth]
username = 'u'
password = 'secret'
[plugins.'io.containerd.grpc.v1.cri'.registry.configs.'registry.corp.test'.tls]
insecure_skip_verify = true
`
	fsys := fstest.MapFS{"etc/containerd/config.toml": file(v1), "etc/ssl/corp.pem": {Data: ca}}
	s, f := sourcesOf(t, fsys, "busybox")
	assert.Empty(t, f)
	assert.Equal(t, []string{"https://m.corp.test/v2", "http://10.20.0.4:5000/cache", "https://registry-1.docker.io/v2"}, bases(s))
	assert.Equal(t, "docker.io", s[0].Namespace)
	assert.Equal(t, [][]byte{ca}, s[0].CA)
	assert.Equal(t, CredentialOwn, s[0].Credential)
	assert.Equal(t, CredentialOfImage, s[2].Credential)
	s, _ = sourcesOf(t, fsys, "registry.corp.test/app")
	assert.Equal(t, []string{"https://all.corp.test/v2", "https://registry.corp.test/v2"}, bases(s), "the wildcard serves every registry without an entry")
	assert.True(t, s[1].SkipVerify)

	// What containerd 2 does not read any more, and what stands beside config_path.
	v3 := "version = 3\n[plugins.'io.containerd.cri.v1.images'.registry.configs.'registry.corp.test'.tls]\nca_file = '/etc/ssl/corp.pem'\n"
	s, f = sourcesOf(t, fstest.MapFS{"etc/containerd/config.toml": file(v3)}, "registry.corp.test/app")
	require.Equal(t, []classify.Cause{classify.NodeRuntimeConfigIgnored}, causes(f))
	assert.Empty(t, s[0].CAFiles)
	both := v1 + "[plugins.'io.containerd.grpc.v1.cri'.registry]\nconfig_path = '/etc/containerd/certs.d'\n"
	s, f = sourcesOf(t, fstest.MapFS{"etc/containerd/config.toml": file(both)}, "busybox")
	require.Equal(t, []classify.Cause{classify.NodeRuntimeConfigIgnored}, causes(f))
	assert.Len(t, s, 1)
}

func FuzzParseHosts(f *testing.F) {
	for _, s := range []string{
		"server = 'x'\n[host.'https://a.test']\ncapabilities = ['pull']\n[host.'https://a.test'.header]\nx = ['y']\n",
		"[host]\n[host.'http://b.test:5000']\nca = ['a', 'b']\nclient = [['a', 'b'], 'c']\nskip_verify = true\ndial_timeout = '3s'\n",
		"host = {}\n", "[[host]]\n", "[host.'0']\n[host.'']\n", "[host.\"\\u0000\"]\n", "server = 'http://['\n",
	} {
		f.Add([]byte(s))
	}
	ref, _ := registry.ParseReference("registry.corp.test/app")
	f.Fuzz(func(t *testing.T, data []byte) {
		sources, err := parseHosts(bytes.Clone(data), "/etc/containerd/certs.d/x", ref)
		if err != nil {
			return
		}
		if len(sources) == 0 || len(sources) > maxSources {
			t.Fatalf("%d sources", len(sources))
		}
		for _, s := range sources {
			if s.Base == nil || s.Scheme != "https" && s.Scheme != "http" {
				t.Fatalf("%+v", s)
			}
		}
	})
}

func TestProxyFor(t *testing.T) {
	t.Parallel()
	proxy := ProxyFor(map[string]string{"https_proxy": "http://user:pw@proxy.corp.test:3128", "NO_PROXY": ".corp.test,10.0.0.0/8"})
	for in, want := range map[string]string{
		"https://registry-1.docker.io/v2/": "proxy.corp.test:3128", "https://registry.corp.test/": "", "https://10.20.0.4/": "",
		"http://plain.example.test/": "", "https://localhost/": "",
	} {
		u, _ := url.Parse(in)
		got, err := proxy(u)
		require.NoError(t, err)
		if want == "" {
			assert.Nil(t, got, in)
		} else {
			assert.Equal(t, want, got.Host, in)
		}
	}
	got, err := ProxyFor(nil)(&url.URL{Scheme: "https", Host: "x.test"})
	assert.NoError(t, err)
	assert.Nil(t, got)
}

// A runtime that was started with another configuration file reads that one.
func TestSourcesOfAnotherConfigurationFile(t *testing.T) {
	t.Parallel()
	ref, err := registry.ParseReference("registry.corp.test/team/app:v1")
	require.NoError(t, err)
	fsys := fstest.MapFS{
		"etc/containerd/config.toml":                        file(conf2),
		"opt/runtime/config.toml":                           file("version = 3\n[plugins.'io.containerd.cri.v1.images'.registry]\nconfig_path = '/opt/runtime/certs.d'\n"),
		"opt/runtime/certs.d/registry.corp.test/hosts.toml": file("[host.'https://mirror.corp.test']\n"),
	}
	sources, _, err := Open(fsys, "containerd", "/opt/runtime/config.toml").Sources(ref)
	require.NoError(t, err)
	require.Len(t, sources, 2)
	require.Equal(t, "mirror.corp.test", sources[0].Host)
}
