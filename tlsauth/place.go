package tlsauth

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"io/fs"
	"net"
	"path"
	"slices"
	"strings"
	"time"
)

// Bounds of the search for a CA that is on the node without being trusted: files,
// and bytes of each. A bundle of every public root has a quarter of that.
const (
	maxPlaced     = 1024
	maxPlacedFile = 1 << 20
)

// place is a directory in which people put CA certificates, and what that is
// worth to a runtime.
type place struct {
	dir     string
	source  bool // the distribution's tool makes the bundle from it
	perHost bool // it has a directory for each registry host
	flat    bool // what lies in its subdirectories does not count
	why     func(file string, isPEM bool) string
}

// places are where distributions, container tools and people put CAs.
var places = []place{
	// Debian, Ubuntu, Alpine: update-ca-certificates(8).
	{dir: "usr/local/share/ca-certificates", source: true, why: debianSource},
	{dir: "usr/share/ca-certificates", source: true, why: because("/etc/ca-certificates.conf does not enable it, or update-ca-certificates was not run since")},
	// RHEL family, Azure Linux, Amazon Linux: update-ca-trust(8).
	{dir: "etc/pki/ca-trust/source/anchors", source: true, why: because("update-ca-trust was not run since it is there")},
	{dir: "etc/pki/ca-trust/source", source: true, flat: true, why: because("it belongs into the directory anchors, and update-ca-trust has to be run")},
	{dir: "usr/share/pki/ca-trust-source/anchors", source: true, why: because("update-ca-trust was not run since it is there")},
	// SUSE and Arch.
	{dir: "etc/pki/trust/anchors", source: true, why: because("update-ca-certificates was not run since it is there")},
	{dir: "etc/ca-certificates/trust-source/anchors", source: true, why: because("update-ca-trust was not run since it is there")},
	// The directories of the container tools.
	{dir: "etc/docker/certs.d", perHost: true, why: because("that directory is Docker's and CRI-O's, and containerd does not read it")},
	{dir: "etc/containers/certs.d", perHost: true, why: because("that directory is CRI-O's and podman's, and containerd does not read it")},
	{dir: "etc/containerd/certs.d", perHost: true, why: because("containerd reads such a file only if config_path names the directory and no hosts.toml lies beside it")},
	// In the right directory and in a form that crypto/x509 passes over.
	{dir: "etc/ssl/certs", flat: true, why: wrongForm},
	{dir: "etc/pki/tls/certs", flat: true, why: wrongForm},
	{dir: "etc/ssl", flat: true, why: because("it is not one of the files that Go reads")},
}

// shipped are where distributions keep the roots of their own package. Its files
// carry the time at which the package was built, and the roots in it are years
// older: an update of the package says nothing about any one of them.
var shipped = []place{
	{dir: "usr/share/ca-certificates/mozilla", flat: true, why: because("")},
	{dir: "usr/share/pki/ca-trust-source", flat: true, why: because("")}, // RHEL family, in the form of p11-kit, which holds PEM
	{dir: "usr/share/pki/trust", flat: true, why: because("")},           // SUSE
}

func because(why string) func(string, bool) string {
	return func(string, bool) string { return why }
}

func debianSource(file string, isPEM bool) string {
	switch {
	case !isPEM:
		return "it is not in PEM form"
	case !strings.HasSuffix(file, ".crt"):
		return "update-ca-certificates takes only files that end in .crt"
	}
	return "update-ca-certificates was not run since it is there"
}

func wrongForm(_ string, isPEM bool) string {
	if isPEM {
		return "it was not there, or not readable, when the roots were read"
	}
	return "it is not in the PEM form that Go reads (it is DER, or OpenSSL's TRUSTED CERTIFICATE)"
}

// ofHost reports whether a directory is the one of the endpoint asked: host,
// host:port, or containerd's host_port_.
func ofHost(name string, ask *trial) bool {
	host := bare(ask.name)
	return name == host || name == "_default" || name == net.JoinHostPort(host, ask.port) || name == host+"_"+ask.port+"_"
}

// placed is a certificate found in a place.
type placed struct {
	cert *x509.Certificate
	file string
	why  string
	time time.Time
}

// walk calls f for every certificate of a place, until f returns false or left
// files were looked at.
func (p *place) walk(fsys fs.FS, ask *trial, left *int, f func(placed) bool) bool {
	entries, _ := fs.ReadDir(fsys, p.dir)
	for _, e := range entries {
		name := path.Join(p.dir, e.Name())
		info, err := fs.Stat(fsys, name)
		switch {
		case err != nil || !info.IsDir() && p.perHost:
		case !info.IsDir():
			if !p.look(fsys, name, left, f) {
				return false
			}
		case p.flat || p.perHost && !ofHost(e.Name(), ask):
		default:
			below, _ := fs.ReadDir(fsys, name)
			for _, e := range below {
				if !p.look(fsys, path.Join(name, e.Name()), left, f) {
					return false
				}
			}
		}
	}
	return true
}

// look calls f for every certificate of one file.
func (p *place) look(fsys fs.FS, name string, left *int, f func(placed) bool) bool {
	if *left--; *left < 0 {
		return false
	}
	data, modified, err := readAtMost(fsys, name, maxPlacedFile)
	if err != nil {
		return true
	}
	certs, isPEM := anyForm(data)
	for _, cert := range certs {
		if !f(placed{cert, "/" + name, p.why(path.Base(name), isPEM), modified}) {
			return false
		}
	}
	return true
}

// anyForm reads certificates in whatever form people store them, and says
// whether it is the one that crypto/x509 reads.
func anyForm(data []byte) (certs []*x509.Certificate, isPEM bool) {
	eachCertificate(data, func(c *x509.Certificate) { certs = append(certs, c) })
	if len(certs) > 0 {
		return certs, true
	}
	if cert, err := x509.ParseCertificate(data); err == nil {
		return []*x509.Certificate{cert}, false
	}
	if !bytes.Contains(data, []byte("-----BEGIN TRUSTED CERTIFICATE-----")) {
		return nil, false
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		var der asn1.RawValue // the certificate; OpenSSL's own settings follow it
		if _, err := asn1.Unmarshal(block.Bytes, &der); err != nil {
			continue
		}
		if cert, err := x509.ParseCertificate(der.FullBytes); err == nil {
			certs = append(certs, cert)
		}
	}
	return certs, false
}

// misplaced looks for a CA that lies on the node and would make the chain hold.
func (t *trial) misplaced() *placed {
	if t.roots.fsys == nil {
		return nil
	}
	left := maxPlaced
	var found *placed
	for i := range places {
		if !places[i].walk(t.roots.fsys, t, &left, func(c placed) bool {
			if t.carries(c) {
				found = &c
			}
			return found == nil && !t.over() && t.verified < maxVerify
		}) {
			break
		}
	}
	return found
}

// carries reports whether the chain would verify, were this certificate a root.
func (t *trial) carries(c placed) bool {
	if _, known := t.roots.origin[sha256.Sum256(c.cert.Raw)]; known {
		return false
	}
	if !slices.ContainsFunc(t.certs, func(sent *x509.Certificate) bool {
		return bytes.Equal(sent.RawIssuer, c.cert.RawSubject) || bytes.Equal(sent.Raw, c.cert.Raw)
	}) {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.cert)
	own := *t
	own.roots = &Roots{Pool: roots}
	_, err := own.verify("", t.leaf().NotAfter, x509.ExtKeyUsageAny)
	t.verified = own.verified
	return err == nil
}

// installed says since when a root is on the node: the oldest file of the store
// or of the directories that the store is made from. The bundle alone would
// mislead, since it is written anew whenever any CA changes. The zero time says
// that it cannot be told.
func (t *trial) installed(root *x509.Certificate) (since time.Time, file string) {
	sum := sha256.Sum256(root.Raw)
	o := t.roots.origin[sum]
	if since, file = o.since, o.file; since.IsZero() || t.roots.fsys == nil {
		return since, file
	}
	left := maxPlaced
	each := func(all []place, f func(placed)) {
		for i := range all {
			all[i].walk(t.roots.fsys, t, &left, func(c placed) bool {
				if sha256.Sum256(c.cert.Raw) == sum {
					f(c)
				}
				return true
			})
		}
	}
	var sources []place
	for _, p := range places {
		if p.source {
			sources = append(sources, p)
		}
	}
	each(sources, func(c placed) {
		if c.time.Before(since) {
			since = c.time
		}
	})
	each(shipped, func(placed) { since = time.Time{} })
	return since, file
}
