package tlsauth

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Bounds of what is read of a store: the largest bundles in use have well under
// 1 MiB and a few hundred files.
const (
	maxBundle    = 16 << 20
	maxRootFiles = 4096
)

// bundles and directories are the lists of crypto/x509 on Linux (root_linux.go),
// in its order: the first bundle that can be read is taken, and all directories.
var (
	bundles = []string{
		"etc/ssl/certs/ca-certificates.crt",
		"etc/pki/tls/certs/ca-bundle.crt",
		"etc/ssl/ca-bundle.pem",
		"etc/pki/tls/cacert.pem",
		"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"etc/ssl/cert.pem",
	}
	directories = []string{"etc/ssl/certs", "etc/pki/tls/certs"}
)

// Roots are trusted root certificates with the files they came from.
type Roots struct {
	// Pool holds them; nil trusts nothing.
	Pool *x509.CertPool
	// Files are the files that were read and held at least one certificate, in
	// the order of reading, with a leading slash. Empty for a system store.
	Files []string
	// Unreadable are files and directories that exist and could not be read,
	// each with the reason. The runtime skips them silently, and so do we.
	Unreadable []string

	origin map[[sha256.Size]byte]origin
	name   string // of a pool without files
	fsys   fs.FS  // the tree that was read, nil if none was
	// modified says when each of Files was.
	modified map[string]time.Time
}

// origin is where a root came from, and since when it is there at the latest.
type origin struct {
	file  string    // the first that held it
	since time.Time // the oldest modification of a file that holds it; zero = not from a file
}

// ReadRoots reads the roots of a node as a runtime written in Go reads them on
// Linux: the first bundle that can be read, then every file of the known
// directories (root_linux.go of crypto/x509). fsys is the node's file tree; nil =
// this machine, where it is the system store on anything but Linux.
//
// file and dir are SSL_CERT_FILE and SSL_CERT_DIR of the runtime's process, which
// replace Go's bundles and directories; dir is separated by colons. "" = Go's own.
//
// A node without any root is no error: then no certificate verifies. An error means
// that files exist and that none of them could be read.
func ReadRoots(fsys fs.FS, file, dir string) (*Roots, error) {
	if fsys == nil {
		if runtime.GOOS != "linux" {
			pool, err := x509.SystemCertPool()
			if err != nil {
				return nil, fmt.Errorf("tlsauth: system roots: %w", err)
			}
			return &Roots{Pool: pool, name: "system store"}, nil
		}
		fsys = os.DirFS("/")
	}
	r := &Roots{Pool: x509.NewCertPool(), origin: make(map[[sha256.Size]byte]origin), modified: make(map[string]time.Time), fsys: fsys}
	files, dirs := bundles, directories
	if file != "" {
		files = []string{file}
	}
	if dir != "" {
		dirs = strings.Split(dir, ":")
	}
	for _, file := range files {
		if r.readFile(fsys, inTree(file)) {
			break // also when it holds nothing: the runtime looks no further
		}
	}
	for _, dir := range dirs[:min(len(dirs), 64)] {
		r.readDir(fsys, inTree(dir))
	}
	if len(r.origin) == 0 && len(r.Unreadable) > 0 {
		return nil, fmt.Errorf("tlsauth: no roots could be read: %s", r.Unreadable[0])
	}
	return r, nil
}

// readFile adds the certificates of one file; false if it cannot be read.
func (r *Roots) readFile(fsys fs.FS, name string) bool {
	data, modified, err := readBounded(fsys, name)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.Unreadable = append(r.Unreadable, fmt.Sprintf("/%s: %s", name, reason(err)))
		}
		return false
	}
	r.add(data, origin{"/" + name, modified})
	return true
}

// readDir adds all files of a directory. Links to a neighbour are passed over,
// as crypto/x509 does: OpenSSL's hashed names would read each file twice.
func (r *Roots) readDir(fsys fs.FS, dir string) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.Unreadable = append(r.Unreadable, fmt.Sprintf("/%s: %s", dir, reason(err)))
		}
		return
	}
	for _, e := range entries[:min(len(entries), maxRootFiles)] {
		name := path.Join(dir, e.Name())
		if e.IsDir() || slices.Contains(r.Files, "/"+name) {
			continue
		}
		if e.Type()&fs.ModeSymlink != 0 {
			if target, err := fs.ReadLink(fsys, name); err == nil && !strings.Contains(target, "/") {
				continue
			}
		}
		// An unreadable entry of a directory says nothing: links to nowhere and
		// private key directories are common there.
		if data, modified, err := readBounded(fsys, name); err == nil {
			r.add(data, origin{"/" + name, modified})
		}
	}
}

// readBounded reads one regular file of at most maxBundle bytes, and says when it
// was modified.
func readBounded(fsys fs.FS, name string) ([]byte, time.Time, error) {
	return readAtMost(fsys, name, maxBundle)
}

// add takes the certificates of PEM data into the pool and returns how many
// there were. Blocks that crypto/x509 would pass over are passed over.
func (r *Roots) add(data []byte, from origin) int {
	n := 0
	eachCertificate(data, func(cert *x509.Certificate) {
		n++
		r.Pool.AddCert(cert)
		sum := sha256.Sum256(cert.Raw)
		known, ok := r.origin[sum]
		switch {
		case !ok:
			r.origin[sum] = from
		case from.since.Before(known.since): // includes the zero time of a certificate from no file
			known.since = from.since
			r.origin[sum] = known
		}
	})
	if n > 0 {
		r.Files = append(r.Files, from.file)
		if !from.since.IsZero() {
			r.modified[from.file] = from.since
		}
	}
	return n
}

// eachCertificate calls add for every certificate of PEM data, each once, by the
// rules of [x509.CertPool.AppendCertsFromPEM]: other block types, blocks with
// headers and certificates that do not parse are passed over.
func eachCertificate(data []byte, add func(*x509.Certificate)) {
	if !bytes.Contains(data, []byte("-----BEGIN")) {
		return // a search for the next block in binary data costs much
	}
	seen := make(map[[sha256.Size]byte]bool)
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		sum := sha256.Sum256(block.Bytes)
		if seen[sum] {
			continue
		}
		seen[sum] = true
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			add(cert)
		}
	}
}

// with returns r and the certificates of more, which file names.
func (r *Roots) with(more []byte, file string) (*Roots, error) {
	out := *r
	out.Pool, out.Files, out.origin = r.Pool.Clone(), slices.Clone(r.Files), maps.Clone(r.origin)
	if out.origin == nil {
		out.origin = map[[sha256.Size]byte]origin{}
	}
	if out.add(more, origin{file: file}) == 0 {
		return nil, fmt.Errorf("tlsauth: %s holds no certificate in PEM", file)
	}
	return &out, nil
}

// file returns where a root came from.
func (r *Roots) file(root *x509.Certificate) string {
	if o := r.origin[sha256.Sum256(root.Raw)]; o.file != "" {
		return o.file
	}
	return r.name
}

// describe names the sources in one line, for a finding.
func (r *Roots) describe() string {
	names := r.Files
	if r.name != "" {
		names = append([]string{r.name}, names...)
	}
	switch {
	case len(names) == 0:
		return "none found"
	case len(names) > 3:
		return fmt.Sprintf("%s and %d more files", strings.Join(names[:2], ", "), len(names)-2)
	}
	return strings.Join(names, ", ")
}

// knows reports whether a root has this subject, whatever its key. Subjects is
// deprecated because it leaves out a system store; then "no" only makes a
// finding less specific.
func (r *Roots) knows(subject []byte) bool {
	//lint:ignore SA1019 the pool of a caller can be searched in no other way
	return slices.ContainsFunc(r.Pool.Subjects(), func(s []byte) bool { return bytes.Equal(s, subject) })
}

// ofOwner returns the subject of a trusted root of the same owner as issuer, "" if
// there is none.
func (r *Roots) ofOwner(issuer named) string {
	//lint:ignore SA1019 the pool of a caller can be searched in no other way
	for _, raw := range r.Pool.Subjects() {
		var rdn pkix.RDNSequence
		if rest, err := asn1.Unmarshal(raw, &rdn); err != nil || len(rest) > 0 {
			continue
		}
		var n pkix.Name
		n.FillFromRDNSequence(&rdn)
		if issuer.sameOwner(nameOf(n)) {
			return n.String()
		}
	}
	return ""
}

// trustTool is a distribution's program that builds the trust store of a machine
// out of files in directories of its own. What is written into its product by
// hand is gone with its next run, and was never on a fresh node.
type trustTool struct {
	name    string
	program string   // where it is, in the tree
	inputs  []string // directories, with everything below
	product string   // what it builds
}

// The tools, by update-ca-certificates(8) of Debian and Alpine, update-ca-trust(8)
// of Fedora, and update-ca-certificates(8) of SUSE.
var trustTools = []trustTool{
	{"update-ca-certificates", "usr/sbin/update-ca-certificates", []string{"usr/share/ca-certificates", "usr/local/share/ca-certificates"}, "/etc/ssl/certs/"},
	{"update-ca-trust", "usr/bin/update-ca-trust", []string{"usr/share/pki/ca-trust-source", "etc/pki/ca-trust/source"}, "/etc/pki/"},
	{"update-ca-certificates", "usr/sbin/update-ca-certificates", []string{"usr/share/pki/trust", "etc/pki/trust"}, "/etc/ssl/"},
}

// Unmanaged returns the distribution's tool that builds the node's trust store, if a
// root stands in the store and in none of the tool's inputs: its next run takes the
// root away. rootSHA256 is the fingerprint as in [TLSReport.RootSHA256]. "" = the root
// is accounted for, is not from the store, or nothing is known: the inputs must
// account for at least half of the store.
//
// Each call reads some hundred small files.
func (r *Roots) Unmanaged(rootSHA256 string) (tool string) {
	sum, ok := fingerprint(rootSHA256)
	if r == nil || r.fsys == nil || !ok {
		return ""
	}
	from, ok := r.origin[sum]
	if !ok {
		return ""
	}
	for _, t := range trustTools {
		if !strings.HasPrefix(from.file, t.product) || !isFile(r.fsys, t.program) {
			continue
		}
		known := t.certificates(r.fsys)
		accounted := 0
		for have := range r.origin {
			if known[have] {
				accounted++
			}
		}
		if known[sum] || accounted == 0 || accounted*2 < len(r.origin) {
			continue
		}
		return t.name
	}
	return ""
}

func fingerprint(text string) (sum [sha256.Size]byte, ok bool) {
	raw, err := hex.DecodeString(text)
	return sum, err == nil && copy(sum[:], raw) == sha256.Size && len(raw) == sha256.Size
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

// maxTrustDepth bounds how deep inputs are looked for.
const maxTrustDepth = 8

// certificates are the fingerprints of all that the tool is given.
func (t trustTool) certificates(fsys fs.FS) map[[sha256.Size]byte]bool {
	known := map[[sha256.Size]byte]bool{}
	files := 0
	for _, dir := range t.inputs {
		_ = fs.WalkDir(fsys, dir, func(name string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return fs.SkipDir // what cannot be read accounts for nothing
			case e.IsDir() && strings.Count(name, "/") > strings.Count(dir, "/")+maxTrustDepth:
				return fs.SkipDir
			case e.IsDir():
				return nil
			case files >= maxRootFiles:
				return fs.SkipAll
			}
			files++
			if data, _, err := readBounded(fsys, path.Clean(name)); err == nil {
				eachCertificate(data, func(cert *x509.Certificate) { known[sha256.Sum256(cert.Raw)] = true })
			}
			return nil
		})
	}
	return known
}
