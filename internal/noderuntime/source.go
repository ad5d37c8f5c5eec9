package noderuntime

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// The kinds of a [Source].
const (
	KindUpstream = "upstream" // the registry that the image names
	KindMirror   = "mirror"   // another host that stands in for it
)

// The capabilities of a [Source].
const (
	CapabilityPull    = "pull"    // content by digest
	CapabilityResolve = "resolve" // what a tag means
)

// The values of [Source].Credential. The runtimes choose a credential by the
// name in the image, never by the host that is asked.
const (
	// CredentialOfImage: what the kubelet hands over for the image is offered here.
	CredentialOfImage = "image"
	// CredentialOwn: the runtime's own file has one for this host, which is used
	// when the kubelet hands over none. See [Files.Login].
	CredentialOwn = "own"
	// CredentialNone: none is sent here, because this is another host than the
	// image names.
	CredentialNone = "none"
)

// Source is one place where the runtime looks for an image, with the settings
// that its configuration gives for it. The same settings hold for the token
// server and the blob hosts that this source leads to.
type Source struct {
	Host   string   // host[:port]
	Scheme string   // "https" or "http"
	Base   *url.URL // where its API is
	Kind   string   // KindUpstream or KindMirror
	// Namespace is the registry's name that a mirror is told (ns=), "" for none.
	Namespace string
	// Capabilities lists what the source is used for. Without "resolve" it is
	// not asked what a tag means; without "pull" it is used for nothing by itself.
	Capabilities []string
	// HTTPSFirst says that Scheme is http but https is tried before it, and http only
	// if no TLS is spoken there.
	HTTPSFirst bool
	// CA is PEM content that is trusted beside the system's roots, CAFiles where
	// each came from, in the same order.
	CA          [][]byte
	CAFiles     []string
	ClientFiles [][2]string // certificate, key; key "" = in the same file
	// Certificates are the client's pairs of ClientFiles that could be read. They hold
	// private keys: never print them.
	Certificates []tls.Certificate `json:"-"`
	SkipVerify   bool              // the runtime does not verify certificates here
	OverridePath bool              // Base's path is used as it is
	// Fields are the header fields that the runtime adds to its requests here, and
	// TokenFields those that go to the token server. Their values are secrets.
	Fields, TokenFields registry.Fields
	// DialTimeoutMS is the runtime's own connect limit; 0 = its default.
	DialTimeoutMS int64
	File          string // hosts.toml or directory that says so; "" = nothing configured
	// Repository is what the image's repository is called here, where the
	// configuration rewrites it; "" = as in the image.
	Repository string
	Credential string // one of the Credential constants
	// Last says that the runtime has no further source after this one. After any
	// other it goes on to the next when this one fails, in whatever way.
	Last bool
	// DeadMS is what a pull of an image with one layer waits here if nothing
	// answers at all; [Profile.Delay] tells it for other images.
	DeadMS int64

	rewrite map[string]any // as in the file
}

// Walk returns a walk at this source with everything that the source says filled
// in. The base of a source that is tried by https first is its http one.
func (s Source) Walk(ref registry.Reference, client registry.Client) *registry.Walk {
	ref.Repository = cmp.Or(s.Repository, ref.Repository)
	return &registry.Walk{Reference: ref, Base: s.Base, Namespace: s.Namespace, Client: client, Fields: s.Fields}
}

// Can reports whether the source has a capability.
func (s Source) Can(capability string) bool { return slices.Contains(s.Capabilities, capability) }

// at makes s a place at u that is asked for all that a pull needs.
func (s Source) at(u *url.URL, kind string) Source {
	s.Host, s.Scheme, s.Base, s.Kind = u.Host, u.Scheme, u, kind
	s.Capabilities = []string{CapabilityPull, CapabilityResolve}
	return s
}

// upstream makes s the registry itself, keeping its TLS settings. What a root
// entry without "server" says of capabilities is not used by containerd.
func (s Source) upstream(ref registry.Reference) Source {
	host, scheme := registry.Upstream(ref.Registry)
	s = s.at(&url.URL{Scheme: scheme, Host: host, Path: "/v2"}, KindUpstream)
	s.Credential = CredentialOfImage
	if registry.IsLoopback(ref.Registry) && registry.PortOf(ref.Registry) != "80" {
		s.SkipVerify = true
		s.HTTPSFirst = s.Scheme == "http"
	}
	return s
}

// reader collects what the configuration says, what is wrong with it, and what
// could not be read.
type reader struct {
	*Profile
	fsys     fs.FS
	config   string // the runtime's own configuration file
	ref      registry.Reference
	headers  map[string][]string // containerd sends them to every source of every registry
	findings []classify.Finding
	errs     []error
}

const (
	maxConfigFile = 4 << 20 // of a configuration file or a CA bundle
	maxSources    = 32      // that one file can make a walk ask
	maxGlob       = 256     // files of one directory
	maxImports    = 32      // files that one file names
)

func (rd *reader) problem(format string, args ...any) {
	rd.errs = append(rd.errs, fmt.Errorf(format, args...))
}

// read returns a file of the node by its absolute path. ok is false if it is not
// there; a file that is there and cannot be read is an error of ours.
func (rd *reader) read(name string) (data []byte, ok bool) {
	info, err := fs.Stat(rd.fsys, inFS(name))
	if err == nil && info.Size() > maxConfigFile {
		err = fmt.Errorf("%s: larger than 4 MiB", name)
	}
	if err == nil {
		data, err = fs.ReadFile(rd.fsys, inFS(name))
	}
	if err != nil {
		if !absent(err) {
			rd.problem("read %s: %w", name, err)
		}
		return nil, false
	}
	return data, true
}

func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) }

// toml reads a TOML file of the node into v. A file that does not parse is an error
// of ours: a runtime does not start with such a file; what runs was started with an
// earlier one, and what that said is not known.
func (rd *reader) toml(file string, v any) bool {
	data, ok := rd.read(file)
	if !ok {
		return false
	}
	if err := toml.Unmarshal(data, v); err != nil {
		rd.problem("read %s: %w", file, positioned(err))
		return false
	}
	return true
}

// positioned keeps the place of a TOML error and drops the excerpt, which may
// hold a secret.
func positioned(err error) error {
	var de *toml.DecodeError
	if errors.As(err, &de) {
		row, col := de.Position()
		return fmt.Errorf("line %d, column %d: %s", row, col, classify.Redact(de.Error(), 160))
	}
	return errors.New(classify.Redact(err.Error(), 160))
}

// inFS turns an absolute path into one of io/fs.
func inFS(name string) string {
	return cmp.Or(strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, "\\", "/")), "/"), ".")
}

// glob lists files by an absolute pattern, sorted, at most limit of them.
func (rd *reader) glob(pattern string, limit int) (names []string) {
	found, err := fs.Glob(rd.fsys, inFS(pattern))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		rd.problem("list %s: %w", pattern, err)
	}
	slices.Sort(found)
	for _, name := range found[:min(len(found), limit)] {
		names = append(names, "/"+name)
	}
	return names
}

// ignored records that a file is not in force: a warning.
func (rd *reader) ignored(file, why string) *classify.Finding {
	f := rd.found(classify.NodeRuntimeConfigIgnored, file, file+": "+why)
	f.Severity = classify.SeverityWarn
	return f
}

// found records what is wrong with a file.
func (rd *reader) found(cause classify.Cause, file, summary string) *classify.Finding {
	f := classify.New(cause, summary, classify.Fact{Key: classify.FactFile, Value: file})
	f.Endpoint = rd.ref.Host
	rd.findings = append(rd.findings, f)
	return &rd.findings[len(rd.findings)-1]
}

func (rd *reader) invalid(s Source, file, why string) {
	rd.found(classify.NodeRuntimeConfigInvalid, file, fmt.Sprintf("%s, which the settings for %s in %s name, %s; %s refuses every pull from %s because of it",
		file, s.Host, s.File, why, rd.Client.Name, rd.ref.Registry)).Endpoint = s.Host
}

// finish reads the files that the sources name and fills in what follows from
// their order. No sources means the registry itself.
func (rd *reader) finish(sources []Source) ([]Source, []classify.Finding, error) {
	if len(sources) == 0 {
		sources = []Source{Source{}.upstream(rd.ref)}
	}
	for i := range sources {
		s := &sources[i]
		if rd.fsys != nil {
			rd.readPairs(s)
			rd.readCA(s)
		}
		own := s.Fields
		if len(rd.headers) > 0 {
			s.Fields = registry.NewFields(rd.headers).With(own)
		}
		if s.TokenFields = own; own.IsZero() {
			s.TokenFields = s.Fields
		}
		if s.Credential == "" && s.Kind == KindMirror && !rd.MirrorCredential {
			s.Credential = CredentialNone
		}
		s.Credential = cmp.Or(s.Credential, CredentialOfImage)
		s.Last = i == len(sources)-1
		s.DeadMS = rd.Delay(*s, 1).Milliseconds()
	}
	return sources, rd.findings, errors.Join(rd.errs...)
}

// perHost adds the certificates of the host's own directory, as CRI-O, podman and
// docker keep them; the first directory that is there counts. They hold for the
// registry named so, and for the token server and stores that it leads to.
func (rd *reader) perHost(s Source) Source {
	host := s.Host
	if host == registry.DockerHubHost {
		host = registry.DockerHub
	}
	for _, root := range rd.CertDirs {
		dir := path.Join(root, host)
		if _, err := fs.Stat(rd.fsys, inFS(dir)); err == nil {
			rd.addCertFiles(&s, dir)
			s.File = cmp.Or(s.File, dir)
			break
		}
	}
	return s
}

// addCertFiles reads a directory in docker's layout: *.crt are roots, *.cert and
// *.key a client's pair.
func (rd *reader) addCertFiles(s *Source, dir string) {
	entries, err := fs.ReadDir(rd.fsys, inFS(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		rd.problem("list %s: %w", dir, err)
	}
	for _, e := range entries[:min(len(entries), maxGlob)] {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
		case strings.HasSuffix(name, ".crt"):
			s.CAFiles = append(s.CAFiles, name)
		case strings.HasSuffix(name, ".cert"):
			pair := [2]string{name, strings.TrimSuffix(name, ".cert") + ".key"}
			if _, err := fs.Stat(rd.fsys, inFS(pair[1])); err != nil && rd.KeyInCertFile {
				pair[1] = ""
			}
			s.ClientFiles = append(s.ClientFiles, pair)
		}
	}
}

// readPairs reads the client's pairs. A pair that does not fit together stops
// the pull like one that is missing: the runtime loads it before it connects.
func (rd *reader) readPairs(s *Source) {
	for _, pair := range s.ClientFiles {
		before := len(rd.errs)
		var parts [2][]byte
		missing := false
		for i, name := range pair {
			if name == "" {
				parts[i] = parts[0] // certificate and key in one file
				continue
			}
			data, ok := rd.read(name)
			if !ok && len(rd.errs) == before {
				rd.invalid(*s, name, "does not exist")
			}
			missing = missing || !ok
			parts[i] = data
		}
		if missing {
			continue
		}
		cert, err := tls.X509KeyPair(parts[0], parts[1])
		if err != nil {
			rd.invalid(*s, pair[0], "is with its key no usable pair ("+classify.Redact(err.Error(), 160)+")")
			continue
		}
		s.Certificates = append(s.Certificates, cert)
	}
}

// readCA reads the roots of one source.
func (rd *reader) readCA(s *Source) {
	for _, name := range s.CAFiles {
		before := len(rd.errs)
		data, ok := rd.read(name)
		switch {
		case !ok && len(rd.errs) > before: // unreadable from here, perhaps not for the runtime
		case !ok:
			rd.invalid(*s, name, "does not exist")
		case !hasCertificate(data):
			rd.invalid(*s, name, "holds no certificate")
		}
		s.CA = append(s.CA, data)
	}
}

// hasCertificate reports whether PEM data adds at least one root, which is what
// containerd insists on.
func hasCertificate(data []byte) bool {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return false
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			return true
		}
	}
}
