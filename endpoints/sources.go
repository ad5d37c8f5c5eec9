package endpoints

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
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

// Source is one place where the runtime looks for an image, with the settings
// that its configuration gives for it. The same settings hold for the token
// server and the blob hosts that this source leads to: the runtime keeps using
// the source's client for them.
type Source struct {
	Host   string   `json:"host"`   // host[:port]
	Scheme string   `json:"scheme"` // "https" or "http"
	Base   *url.URL `json:"-"`      // for [Walk].Base
	Kind   string   `json:"kind"`   // KindUpstream or KindMirror
	// Namespace is what Walk.Namespace needs for this source.
	Namespace string `json:"namespace,omitempty"`
	// Capabilities lists what the source is used for. Without "resolve" it is
	// not asked what a tag means; without "pull" it is used for nothing by itself.
	Capabilities []string `json:"capabilities"`
	// HTTPSFirst says that Scheme is http but containerd tries https before it,
	// and http only if no TLS is spoken there.
	HTTPSFirst bool `json:"httpsFirst,omitempty"`
	// CA is PEM content that is trusted beside the system's roots, CAFiles where
	// each came from, in the same order.
	CA           [][]byte    `json:"-"`
	CAFiles      []string    `json:"caFiles,omitempty"`
	ClientFiles  [][2]string `json:"clientFiles,omitempty"`  // certificate, key; key "" = in the same file
	SkipVerify   bool        `json:"skipVerify,omitempty"`   // the runtime does not verify certificates here
	OverridePath bool        `json:"overridePath,omitempty"` // Base's path is used as it is
	HeaderNames  []string    `json:"headerNames,omitempty"`  // fields that the runtime adds; this walk does not send them
	// DialTimeoutMS is the runtime's own connect limit; 0 = its default, 30 s.
	DialTimeoutMS int64  `json:"dialTimeoutMs,omitempty"`
	File          string `json:"file,omitempty"` // hosts.toml or directory that says so; "" = nothing configured
}

// Can says whether the source has a capability.
func (s Source) Can(capability string) bool { return slices.Contains(s.Capabilities, capability) }

// Sources returns where containerd would look for ref, in its order, by the
// hosts directories of the node's file tree. config is the configuration file
// that it was started with, "" is etc/containerd/config.toml. nil as fsys, or no
// configuration, gives the one upstream source.
//
// Findings are about the configuration: a hosts.toml that does not parse is
// passed over by the runtime (node.runtime-config-ignored, a warning), a file
// named in it that cannot be used stops every pull from that registry
// (node.runtime-config-invalid). The error means that a file could not be read
// from here, usually for lack of permission, or not be understood: the sources
// are then what is known, not what is true.
//
// Read are config_path of that file with its imports, and
// hosts.toml or the certificate files in the directory of the registry. The
// older registry.mirrors and registry.configs tables are not read: where they
// have something for this registry, the error is [errors.ErrUnsupported]. No
// other runtime's configuration is looked at.
func Sources(fsys fs.FS, config string, ref Reference) ([]Source, []classify.Finding, error) {
	if fsys == nil {
		return []Source{defaultSource(ref)}, nil, nil
	}
	rd := &reader{fsys: fsys, ref: ref, config: cmp.Or(config, containerdConfig)}
	roots, configured := rd.roots()
	dir, root := rd.hostDir(roots)
	if dir == "" {
		return []Source{defaultSource(ref)}, rd.findings, errors.Join(rd.errs...)
	}
	sources := rd.load(dir)
	rd.judgeRoots(root, roots, configured)
	for _, s := range sources {
		rd.checkFiles(s)
	}
	for i := range sources {
		rd.readCA(&sources[i])
	}
	return sources, rd.findings, errors.Join(rd.errs...)
}

// defaultSource is what containerd does without configuration.
func defaultSource(ref Reference) Source {
	return Source{}.upstream(ref)
}

// upstream makes s the registry itself, keeping its TLS settings. What a root
// entry without "server" says of capabilities is not used by containerd.
func (s Source) upstream(ref Reference) Source {
	s.Host, s.Scheme = upstream(ref.Registry)
	s.Kind = KindUpstream
	s.Base = &url.URL{Scheme: s.Scheme, Host: s.Host, Path: "/v2"}
	s.Capabilities = []string{CapabilityPull, CapabilityResolve}
	if isLoopback(ref.Registry) && portOf(ref.Registry) != "80" {
		s.SkipVerify = true
		s.HTTPSFirst = s.Scheme == "http"
	}
	return s
}

// reader collects what the configuration says, what is wrong with it, and what
// could not be read.
type reader struct {
	fsys     fs.FS
	config   string // containerd's own configuration file
	ref      Reference
	findings []classify.Finding
	errs     []error
}

// maxConfigFile bounds a configuration file or a CA bundle.
const maxConfigFile = 4 << 20

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
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			rd.errs = append(rd.errs, fmt.Errorf("read %s: %w", name, err))
		}
		return nil, false
	}
	return data, true
}

// inFS turns an absolute path into one of io/fs.
func inFS(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, "\\", "/")), "/")
	if name == "" {
		return "."
	}
	return name
}

// hostDir returns the directory for the registry and the root that holds it:
// host_port_, host:port, _default, in each root in turn
// (core/remotes/docker/config, HostDirFromRoot and hostPaths).
func (rd *reader) hostDir(roots []string) (dir, root string) {
	host := rd.ref.Registry
	names := []string{host, "_default"}
	if i := strings.LastIndexByte(host, ':'); i > 0 {
		names = append([]string{host[:i] + "_" + host[i+1:] + "_"}, names...)
	}
	for _, root := range roots {
		for _, name := range names {
			p := path.Join(root, name)
			_, err := fs.Stat(rd.fsys, inFS(p))
			if err == nil {
				return p, root
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
				rd.errs = append(rd.errs, fmt.Errorf("look for %s: %w", p, err))
				return "", ""
			}
		}
	}
	return "", ""
}

// load reads a host directory. Certificate files count only where there is no
// hosts.toml that can be used.
func (rd *reader) load(dir string) []Source {
	file := path.Join(dir, "hosts.toml")
	data, ok := rd.read(file)
	if ok && len(data) > 0 {
		sources, err := parseHosts(data, dir, rd.ref)
		if err == nil {
			return sources
		}
		f := classify.New(classify.NodeRuntimeConfigIgnored,
			fmt.Sprintf("%s does not parse (%s), so containerd logs that and goes to %s itself, without mirrors and settings", file, err, rd.ref.Host),
			classify.Fact{Key: classify.FactFile, Value: file})
		f.Severity, f.Endpoint = classify.SeverityWarn, rd.ref.Host
		rd.findings = append(rd.findings, f)
	}
	return []Source{rd.certFiles(dir)}
}

// certFiles reads a directory in docker's layout: *.crt are roots, *.cert and
// *.key a client's pair.
func (rd *reader) certFiles(dir string) Source {
	s := Source{File: dir}
	entries, err := fs.ReadDir(rd.fsys, inFS(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		rd.errs = append(rd.errs, fmt.Errorf("list %s: %w", dir, err))
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir():
		case strings.HasSuffix(name, ".crt"):
			s.CAFiles = append(s.CAFiles, name)
		case strings.HasSuffix(name, ".cert"):
			pair := [2]string{name, strings.TrimSuffix(name, ".cert") + ".key"}
			if _, err := fs.Stat(rd.fsys, inFS(pair[1])); err != nil {
				pair[1] = ""
			}
			s.ClientFiles = append(s.ClientFiles, pair)
		}
	}
	return s.upstream(rd.ref)
}

func (rd *reader) invalid(s Source, file, why string) {
	f := classify.New(classify.NodeRuntimeConfigInvalid,
		fmt.Sprintf("%s, which the settings for %s in %s name, %s; containerd refuses every pull from %s because of it", file, s.Host, s.File, why, rd.ref.Registry),
		classify.Fact{Key: classify.FactFile, Value: file})
	f.Endpoint = s.Host
	rd.findings = append(rd.findings, f)
}

// checkFiles looks whether the client's pairs are there. The key's content is
// not read: nothing here presents it.
func (rd *reader) checkFiles(s Source) {
	for _, pair := range s.ClientFiles {
		for _, name := range pair {
			if name == "" {
				continue
			}
			if _, err := fs.Stat(rd.fsys, inFS(name)); errors.Is(err, fs.ErrNotExist) {
				rd.invalid(s, name, "does not exist")
			}
		}
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
