package tlsauth

import (
	"crypto/tls"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The rules of crypto/x509 on Linux: the first bundle that can be read, then
// every file of the directories.
// rootFiles are SSL_CERT_FILE and SSL_CERT_DIR.
type rootFiles struct{ file, dir string }

func TestReadRoots(t *testing.T) {
	t.Parallel()
	a, b, c := issue(t, nil, "A", ca(nil)), issue(t, nil, "B", ca(nil)), issue(t, nil, "C", ca(nil))
	file := func(data []byte) *fstest.MapFile { return &fstest.MapFile{Data: data} }
	dir := func(fs.FileMode) *fstest.MapFile { return &fstest.MapFile{Mode: fs.ModeDir | 0o755} }
	for _, tt := range []struct {
		name  string
		files rootFiles
		tree  fstest.MapFS
		want  []string
		roots []*authority
	}{
		{"Debian before Alpine", rootFiles{}, fstest.MapFS{"etc/ssl/certs/ca-certificates.crt": file(a.pem()), "etc/ssl/cert.pem": file(b.pem())},
			[]string{"/etc/ssl/certs/ca-certificates.crt"}, []*authority{a}},
		{"Red Hat", rootFiles{}, fstest.MapFS{"etc/pki/tls/certs/ca-bundle.crt": file(a.pem())}, []string{"/etc/pki/tls/certs/ca-bundle.crt"}, []*authority{a}},
		{"a bundle that holds nothing ends the search", rootFiles{}, fstest.MapFS{"etc/ssl/certs/ca-certificates.crt": file([]byte("none")), "etc/ssl/cert.pem": file(b.pem())}, nil, nil},
		{"a directory in the bundle's place does not", rootFiles{}, fstest.MapFS{"etc/ssl/ca-bundle.pem": dir(0), "etc/ssl/cert.pem": file(b.pem())}, []string{"/etc/ssl/cert.pem"}, []*authority{b}},
		{"bundle and directories", rootFiles{}, fstest.MapFS{"etc/ssl/cert.pem": file(a.pem()), "etc/ssl/certs/corp.crt": file(b.pem()), "etc/pki/tls/certs/x.pem": file(c.pem()), "etc/ssl/certs/deeper/y.pem": file(c.pem())},
			[]string{"/etc/ssl/cert.pem", "/etc/ssl/certs/corp.crt", "/etc/pki/tls/certs/x.pem"}, []*authority{a, b, c}},
		{"link to a neighbour", rootFiles{}, fstest.MapFS{"etc/ssl/certs/corp.pem": file(a.pem()), "etc/ssl/certs/1234abcd.0": {Mode: fs.ModeSymlink, Data: []byte("corp.pem")}},
			[]string{"/etc/ssl/certs/corp.pem"}, []*authority{a}},
		{"file and directory of the environment", rootFiles{"/opt/ca.pem", "/opt/a:/opt/b"}, fstest.MapFS{"etc/ssl/cert.pem": file(a.pem()), "opt/ca.pem": file(b.pem()), "opt/b/c.pem": file(c.pem())},
			[]string{"/opt/ca.pem", "/opt/b/c.pem"}, []*authority{b, c}},
		{"nothing there", rootFiles{}, fstest.MapFS{}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := ReadRoots(tt.tree, tt.files.file, tt.files.dir)
			require.NoError(t, err)
			assert.Equal(t, tt.want, r.Files)
			assert.True(t, r.Pool.Equal(pool(tt.roots...)))
		})
	}
}

// deny is a tree whose files exist and cannot be read.
type deny struct{ fs.FS }

func (deny) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestUnreadableRootsAreAnError(t *testing.T) {
	t.Parallel()
	_, err := ReadRoots(deny{}, "", "")
	require.ErrorContains(t, err, "/etc/ssl/certs/ca-certificates.crt")
}

// The finding and the report name the file, so that one knows what to repair.
func TestRootsAreNamed(t *testing.T) {
	t.Parallel()
	root, other := issue(t, nil, "Corp Test Root", ca(nil)), issue(t, nil, "Other", ca(nil))
	tree := fstest.MapFS{"etc/ssl/cert.pem": {Data: other.pem()}, "etc/ssl/certs/corp.crt": {Data: root.pem()}}
	ap := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{present(issue(t, root, registryHost, server(nil, registryHost)))}})
	now := func() time.Time { return noon }
	rep, err := (&Checker{FS: tree, Now: now}).CheckTLS(t.Context(), ap, registryHost)
	require.NoError(t, err)
	assert.True(t, rep.Held())
	assert.Equal(t, "/etc/ssl/certs/corp.crt", rep.TrustedBy)

	delete(tree, "etc/ssl/certs/corp.crt")
	read, err := ReadRoots(tree, "", "")
	require.NoError(t, err)
	rep, err = (&Checker{Trust: read, Now: now}).CheckTLS(t.Context(), ap, registryHost)
	require.NoError(t, err)
	assert.False(t, rep.Held())
	assert.Equal(t, "/etc/ssl/cert.pem", rep.Findings()[0].Fact("roots"))

	rep, err = (&Checker{FS: fstest.MapFS{}, Now: now}).CheckTLS(t.Context(), ap, registryHost)
	require.NoError(t, err)
	assert.Contains(t, rep.Findings()[0].Summary, "no trusted root at all")
}

func TestThisMachinesRoots(t *testing.T) {
	t.Parallel()
	r, err := ReadRoots(nil, "", "")
	if err != nil {
		t.Skip("no readable roots here: ", err)
	}
	assert.NotNil(t, r.Pool)
}

func FuzzRoots(f *testing.F) {
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----BEGIN CERTIFICATE-----"))
	f.Add([]byte{0x30, 0x82, 0xff, 0xff})
	f.Add(issue(f, nil, "A", ca(nil)).pem())
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadRoots(fstest.MapFS{"etc/ssl/cert.pem": {Data: data}}, "", "")
		if err != nil {
			t.Fatal("a readable file is no error, whatever it holds: ", err)
		}
		if (len(r.Files) > 0) != (len(r.origin) > 0) {
			t.Fatal("a file is named if and only if it gave a root")
		}
		_ = r.describe()
		_ = r.knows(data)
	})
}
