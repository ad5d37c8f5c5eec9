package tlsauth

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"io/fs"
	"path"
	"strings"
)

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

// Unmanaged says that a root, by its fingerprint as in [TLSReport.RootSHA256],
// stands in the node's trust store and in none of the files that the
// distribution's tool builds the store from. It names the tool, and is "" where
// the root is accounted for, did not come from the store's files, or where the
// tool's inputs are not understood: they must account for at least half of the
// store. A root that was given to the tool by hand looks like any other.
//
// It reads some hundred small files at every call.
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
