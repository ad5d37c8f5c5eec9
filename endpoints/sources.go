package endpoints

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

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
	CA          [][]byte    `json:"-"`
	CAFiles     []string    `json:"caFiles,omitempty"`
	ClientFiles [][2]string `json:"clientFiles,omitempty"` // certificate, key; key "" = in the same file
	// Certificates are the client's pairs of ClientFiles that could be read, to
	// present where the server asks for one. They hold private keys: never print
	// them.
	Certificates []tls.Certificate `json:"-"`
	SkipVerify   bool              `json:"skipVerify,omitempty"`   // the runtime does not verify certificates here
	OverridePath bool              `json:"overridePath,omitempty"` // Base's path is used as it is
	// HeaderNames are the header fields that the runtime adds to its requests here and
	// at the token server. [Source.Walk] sends them to the source itself, over verified
	// TLS only where the name sounds like a credential; their values are secrets and
	// never shown.
	HeaderNames []string `json:"headerNames,omitempty"`
	// DialTimeoutMS is the runtime's own connect limit; 0 = its default, 30 s.
	DialTimeoutMS int64  `json:"dialTimeoutMs,omitempty"`
	File          string `json:"file,omitempty"` // hosts.toml or directory that says so; "" = nothing configured
	// Repository is what the image's repository is called here, where the
	// configuration rewrites it; "" = as in the image. See [Source.Walk].
	Repository string `json:"repository,omitempty"`
	// Credential says which credential the runtime offers here; one of the
	// Credential constants.
	Credential string `json:"credential"`
	// Last says that the runtime has no further source after this one. After any
	// other it goes on to the next when this one fails, in whatever way.
	Last bool `json:"last"`
	// DeadMS is what a pull of an image with one layer waits here if nothing
	// answers at all; [Source.Delay] tells it for other images.
	DeadMS int64 `json:"deadMs"`

	rewrite map[string]any  // as in the file
	fields  registry.Fields // for requests here
	token   registry.Fields // for those to the token server, where they are others
}

// Fields are the header fields of HeaderNames with their values, and TokenFields those
// of them that go to the token server: what hosts.toml says of the source, else what
// registry.headers says of all. They have no printable form; none after a Source was
// decoded from JSON.
func (s Source) Fields() registry.Fields { return s.fields }

// TokenFields are the fields for the token server, see [Source.Fields].
func (s Source) TokenFields() registry.Fields {
	if !s.token.IsZero() {
		return s.token
	}
	return s.fields
}

// addHeaders adds registry.headers, which containerd sends to every source of every
// registry, before the source's own.
func (rd *reader) addHeaders(s *Source) {
	all := map[string][]string{}
	for name, v := range rd.headers {
		if list, ok := stringList(v); ok {
			all[name] = list
		}
	}
	if len(all) == 0 {
		return
	}
	s.token = s.fields
	s.fields = registry.NewFields(all).With(s.fields)
	s.HeaderNames = s.fields.Names()
}

// The values of [Source].Credential. The runtimes choose a credential by the
// name in the image, never by the host that is asked.
const (
	// CredentialOfImage: what the kubelet hands over for the image is offered here.
	CredentialOfImage = "image"
	// CredentialOwn: the runtime's own file has one for this host, which is used
	// when the kubelet hands over none. See [OwnLogin].
	CredentialOwn = "own"
	// CredentialNone: none is sent here, because this is another host than the
	// image names.
	CredentialNone = "none"
)

// Walk returns a walk at this source with everything that the source says filled
// in. The base of a source that is tried by https first is its http one.
func (s Source) Walk(ref Reference, way Way) *Walk {
	if s.Repository != "" {
		ref.Repository = s.Repository
	}
	return &Walk{Reference: ref, Base: s.Base, Namespace: s.Namespace, Client: way.Client(), Fields: s.fields}
}

// runtimeDial is the connect limit of all runtimes, unless configured.
const runtimeDial = 30 * time.Second

// Delay is how long a pull of an image with so many layers waits for a source
// that answers nothing, before it comes to the next one: a dead mirror costs time
// and no error. Containerd tries a source anew for every request that it makes,
// CRI-O and docker once for the pull (core/remotes/docker/fetcher.go;
// containers/image, docker_image_src.go). It is the least that is to be
// expected: each further address of the host costs the same once more. A source
// that refuses costs nothing worth mentioning.
func (s Source) Delay(way Way, layers int) time.Duration {
	dial := time.Duration(s.DialTimeoutMS) * time.Millisecond
	if dial <= 0 {
		dial = runtimeDial
	}
	if way.Pings() {
		return dial
	}
	// Resolve, index, manifest of the platform, config, and the layers in rounds.
	rounds := 1 + 3 + (max(layers, 0)+way.Parallel()-1)/way.Parallel()
	return time.Duration(rounds) * dial
}

// Can says whether the source has a capability.
func (s Source) Can(capability string) bool { return slices.Contains(s.Capabilities, capability) }

// Sources returns where containerd would look for ref, in its order, by the
// node's file tree. config is the configuration file that it was started with, ""
// is etc/containerd/config.toml. nil as fsys, or no configuration, gives the one
// upstream source.
//
// Findings are about the configuration: a hosts.toml that does not parse is
// passed over by the runtime (node.runtime-config-ignored, a warning), a file
// named in it that cannot be used stops every pull from that registry
// (node.runtime-config-invalid). The error means that a file could not be read
// from here, usually for lack of permission, or not be understood: the sources
// are then what is known, not what is true.
//
// Read are config_path of that file with its imports, and hosts.toml or the
// certificate files in the directory of the registry; without config_path, the
// older tables registry.mirrors and registry.configs. [SourcesOf] reads other
// runtimes' files too.
func Sources(fsys fs.FS, config string, ref Reference) ([]Source, []classify.Finding, error) {
	rd := &reader{fsys: fsys, ref: ref, config: cmp.Or(config, containerdConfig), way: WayContainerd}
	return rd.finish(rd.containerd())
}

// SourcesOf is [Sources] for the runtime whose process has this name: hosts.toml
// and config.toml for containerd, and for "" because nothing else is known;
// what k3s and RKE2 generate, and registries.yaml where they have not yet;
// registries.conf with its drop-ins for crio; daemon.json for dockerd.
func SourcesOf(fsys fs.FS, runtime, config string, ref Reference) ([]Source, []classify.Finding, error) {
	rd := &reader{fsys: fsys, ref: ref, config: cmp.Or(config, containerdConfig), way: cmp.Or(WayOf(runtime), WayContainerd)}
	switch {
	case rd.way == WayCRIO:
		return rd.finish(rd.registriesConf())
	case rd.way == WayDocker:
		return rd.finish(rd.daemonJSON())
	case fsys != nil && (strings.HasPrefix(runtime, "k3s") || strings.HasPrefix(runtime, "rke2") || strings.Contains(config, "/rancher/")):
		return rd.finish(rd.rancher(runtime, config))
	}
	return rd.finish(rd.containerd())
}

// containerd reads containerd's own configuration.
func (rd *reader) containerd() []Source {
	if rd.fsys == nil {
		return nil
	}
	table := rd.registry()
	roots, configured := table.roots()
	if !configured {
		if sources := rd.legacy(table); sources != nil {
			return sources
		}
	} else if len(table.mirrors) > 0 {
		rd.ignored(table.file, "registry.mirrors stands beside config_path: containerd never uses both, and its CRI plugin refuses such a file at the next start", classify.NodeRuntimeConfigIgnored)
	}
	dir, root := rd.hostDir(roots)
	if dir == "" {
		return nil
	}
	sources := rd.load(dir)
	rd.judgeRoots(root, roots, configured)
	return sources
}

// finish reads the files that the sources name and fills in what follows from
// their order. No sources means the registry itself.
func (rd *reader) finish(sources []Source) ([]Source, []classify.Finding, error) {
	if len(sources) == 0 {
		sources = []Source{defaultSource(rd.ref)}
	}
	for i := range sources {
		s := &sources[i]
		if rd.fsys != nil {
			rd.checkFiles(s)
			rd.readCA(s)
		}
		rd.addHeaders(s)
		s.Credential = cmp.Or(s.Credential, CredentialOfImage)
		s.Last = i == len(sources)-1
		s.DeadMS = s.Delay(rd.way, 1).Milliseconds()
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
	s.Host, s.Scheme = registry.Upstream(ref.Registry)
	s.Kind = KindUpstream
	s.Base = &url.URL{Scheme: s.Scheme, Host: s.Host, Path: "/v2"}
	s.Capabilities = []string{CapabilityPull, CapabilityResolve}
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
	fsys     fs.FS
	config   string // containerd's own configuration file
	ref      Reference
	way      Way
	headers  map[string]any // registry.headers of containerd's configuration
	rewrites bool           // the runtime knows rewrite tables in hosts.toml: k3s and RKE2
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
			for i := range sources {
				sources[i] = rd.rewritten(sources[i])
			}
			rd.passedOver(dir, file, data, sources)
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
