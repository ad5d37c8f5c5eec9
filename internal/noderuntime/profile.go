package noderuntime

import (
	"cmp"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Profile has every way in which one container runtime differs from the others. A
// test demands each field of each profile, and no other file of this module
// compares a runtime's name.
type Profile struct {
	Name string // as a caller, an event and a result name it; "" = not known which
	// Processes are the names of its processes (proc_pid_comm(5)), the one first that
	// a kubelet talks to; nil = it has none that stays.
	Processes []string
	// Sockets are parts of the endpoint by which the kubelet names it.
	Sockets []string
	// Marks are parts of the path of the configuration file by which a containerd is
	// told to be the one inside it.
	Marks []string
	// Wraps says that its process starts another that pulls: its command line and its
	// release are not the runtime's.
	Wraps bool
	// Kubelet says that its process is the kubelet, too.
	Kubelet bool
	// Runner ends the path of the configuration of a containerd that it keeps for
	// running containers, and that pulls nothing; "" = it keeps none.
	Runner string

	Client   registry.Client // how it asks
	HeadOnly bool            // a HEAD that is refused ends the pull; others ask again by GET
	Parallel int             // blobs that are fetched at once by default
	Product  string          // what it calls itself in User-Agent
	PlainTag bool            // its release stands there without "v"
	Dial     time.Duration   // connect limit of one request, unless configured
	// DialOnce says that a source that does not answer is given up for the whole pull,
	// and not tried anew for each request.
	DialOnce bool

	// IdentityToken and RegistryToken say which kinds of credentials are sent besides
	// user and password.
	IdentityToken, RegistryToken bool
	// MirrorCredential says that a mirror on another host is offered the credential of
	// the image, since the kubelet names no server in it.
	MirrorCredential bool

	Config        string   // its configuration file, unless it was started with another
	CertDirs      []string // where it keeps certificates per host
	KeyInCertFile bool     // without a *.key beside it, a *.cert has the key, too
	Rewrites      bool     // hosts.toml may have rewrite tables
	// Vetoes are the causes for which its configuration ends a pull before a packet is
	// sent.
	Vetoes []classify.Cause

	sources func(*reader) []Source
	sandbox func(*reader) Sandbox
	// login is what its own files offer at a host; authFile "" = none is configured
	// for this image alone.
	login func(rd *reader, host, repository, authFile string) (authn.AuthConfig, string)
	// stored reports whether it has an image of this name already.
	stored func(*reader, registry.Reference) (bool, error)
	store  func(*reader) (*ContentStore, error) // of its blobs, by digest
	// proxy has the variables that its configuration sets in the place of the
	// environment's.
	proxy func(*reader) map[string]string
}

// containerd: https://github.com/containerd/containerd. Its rules of repeating are
// those of 2.x, core/remotes/docker/resolver.go.
var containerd = Profile{
	Name: "containerd", Processes: []string{"containerd"}, Sockets: []string{"containerd"},
	Client: registry.Client{
		Name: "containerd", Resolves: http.MethodHead, Token: registry.WayPostGet,
		Retries: []registry.RetryRule{
			{Statuses: []int{http.StatusRequestTimeout, http.StatusTooManyRequests}, Retry: retry(6, 0, "containerd asks up to 6 times at once, without a pause and whatever Retry-After says", "")},
			{Statuses: []int{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, Retry: retry(2, 0, "containerd since 2.1 asks once more", "2.1.0")},
			{Broken: true, Retry: retry(5, 200*time.Millisecond, "containerd since 2.3.2 asks up to 5 times, 50 ms apart, after a timeout or a connection that ended", "2.3.2")},
		},
	},
	HeadOnly: true, Parallel: 3, Product: "containerd", Dial: 30 * time.Second,
	IdentityToken: true, MirrorCredential: true,
	Config: "/etc/containerd/config.toml", KeyInCertFile: true,
	Vetoes:  []classify.Cause{classify.NodeRuntimeConfigInvalid},
	sources: containerdSources, sandbox: containerdSandbox, login: containerdLogin, stored: containerdStored, store: storeOf,
}

// crio: https://github.com/cri-o/cri-o, with https://github.com/containers/image
// (docker_client.go) as its client.
var crio = Profile{
	Name: "crio", Processes: []string{"crio"}, Sockets: []string{"crio"},
	Client: registry.Client{
		Name: "CRI-O", Pings: true, Resolves: http.MethodGet, Token: registry.WayGet,
		Returns: registry.ReturnsNever, IgnoresTargets: true, ForeignSettings: true, ResumesResets: true,
		Retries: []registry.RetryRule{
			{Statuses: []int{http.StatusTooManyRequests}, Retry: retry(5, 30*time.Second, "CRI-O asks up to 5 times, with pauses from 2 s that double, or as long as Retry-After says", "")},
		},
	},
	Parallel: 6, Product: "cri-o", PlainTag: true, Dial: 30 * time.Second, DialOnce: true,
	Config: "/etc/crio/crio.conf", CertDirs: []string{"/etc/containers/certs.d", "/etc/docker/certs.d"},
	Vetoes:  []classify.Cause{classify.NodeRegistryBlocked, classify.NodeRuntimeConfigInvalid, classify.ImageShortNameUnresolved},
	sources: crioSources, sandbox: crioSandbox, login: crioLogin, stored: crioStored,
}

// docker: https://github.com/moby/moby with its own store, asked by cri-dockerd.
var docker = Profile{
	Name: "dockerd", Processes: []string{"dockerd"}, Sockets: []string{"docker"}, Runner: "/docker/containerd/containerd.toml",
	Client: registry.Client{
		Name: "the docker engine", Pings: true, Resolves: http.MethodHead, Token: registry.WayGet,
		Returns: registry.ReturnsAPI, IgnoresTargets: true, ForeignSettings: true, ResumesResets: true,
		Retries: []registry.RetryRule{
			{Blobs: true, Retry: retry(5, 50*time.Second, "docker asks 5 times for a blob, with pauses of 5, 10, 15 and 20 s", "")},
		},
	},
	Parallel: 3, Product: "docker", PlainTag: true, Dial: 30 * time.Second, DialOnce: true,
	IdentityToken: true, RegistryToken: true,
	Config: daemonJSON, CertDirs: []string{"/etc/docker/certs.d"},
	Vetoes:  []classify.Cause{classify.NodeRuntimeConfigInvalid},
	sources: dockerSources, proxy: dockerProxy,
}

// rancher is containerd inside k3s or RKE2, which start it with files of their own.
func rancher(name string, kubelet bool, processes []string, marks ...string) Profile {
	p := containerd
	p.Name, p.Processes, p.Marks, p.Sockets, p.Wraps, p.Rewrites, p.Kubelet = name, processes, marks, nil, true, true, kubelet
	p.Config = "/var/lib/rancher/" + name + "/agent/etc/containerd/config.toml"
	p.sources = rancherSources
	return p
}

// podman pulls as CRI-O does, with the same library and files, and is no daemon.
func podmanOf(p Profile) Profile {
	p.Name, p.Processes, p.Sockets = "podman", nil, nil
	p.sandbox, p.stored = nil, nil // its pods have none
	return p
}

// profiles are those of all known runtimes; of several on a node the one that
// stands first is taken, unless the kubelet names another.
func profiles() []Profile {
	return []Profile{
		containerd, crio, docker,
		rancher("k3s", true, []string{"k3s-server", "k3s-agent"}, "/k3s/", "/rancher/"),
		rancher("rke2", false, []string{"rke2"}, "/rke2/"),
		podmanOf(crio),
	}
}

// Of returns the profile of a runtime, by its name or that of its process, and by
// the configuration file that it was started with, "" = its own: a containerd may
// be the one inside k3s. Where nothing is known it walks as containerd does, and
// sends every kind of credential.
func Of(name, config string) *Profile {
	unknown := containerd
	unknown.Name, unknown.HeadOnly = "", false
	unknown.RegistryToken = true
	out := &unknown
	for _, p := range profiles() {
		if name == p.Name || slices.Contains(p.Processes, name) {
			out = &p
		}
	}
	if out.store == nil || out.Wraps {
		return out
	}
	at := -1
	for _, p := range profiles() {
		for _, mark := range p.Marks {
			if i := strings.LastIndex(config, mark); i > at {
				at, out = i, &p
			}
		}
	}
	return out
}

// Names are the runtimes that are found on a node.
func Names() (names []string) {
	for _, p := range profiles() {
		if p.Processes != nil {
			names = append(names, p.Name)
		}
	}
	return names
}

func retry(n int, wait time.Duration, what, since string) registry.Retry {
	return registry.Retry{Requests: n, WaitMS: wait.Milliseconds(), What: what, Since: since}
}

// Agent is what a runtime of a release calls itself; "" = not known.
func (p *Profile) Agent(release string) string {
	switch {
	case p.Name == "":
		return ""
	case p.PlainTag:
		release = strings.TrimPrefix(release, "v")
	}
	if release == "" || strings.ContainsFunc(release, func(r rune) bool { return r <= ' ' || r > '~' || r == '(' }) {
		return p.Product
	}
	return p.Product + "/" + release
}

// Delay is how long a pull of an image with so many layers waits for a source
// that answers nothing, before it comes to the next one: a dead mirror costs time
// and no error. Containerd tries a source anew for every request that it makes,
// CRI-O and docker once for the pull (core/remotes/docker/fetcher.go;
// containers/image, docker_image_src.go). It is the least that is to be
// expected: each further address of the host costs the same once more. A source
// that refuses costs nothing worth mentioning.
func (p *Profile) Delay(s Source, layers int) time.Duration {
	dial := time.Duration(s.DialTimeoutMS) * time.Millisecond
	if dial <= 0 {
		dial = p.Dial
	}
	if p.DialOnce {
		return dial
	}
	// Resolve, index, manifest of the platform, config, and the layers in rounds.
	rounds := 1 + 3 + (max(layers, 0)+p.Parallel-1)/p.Parallel
	return time.Duration(rounds) * dial
}

// Stops reports whether findings about the configuration end the pull.
func (p *Profile) Stops(findings []classify.Finding) bool {
	return slices.ContainsFunc(findings, func(f classify.Finding) bool {
		return f.Severity == classify.SeverityFail && slices.Contains(p.Vetoes, f.Cause)
	})
}

// Sandbox is the image that the runtime pulls for every pod before any container,
// the pause image. If it cannot be pulled, no pod starts on the node, and no
// container's event says so.
type Sandbox struct {
	Image string
	File  string // the file that names it
	// AuthFile is the credential file that CRI-O's configuration names for it, or for
	// all images; "" = none named.
	AuthFile string
}

// Files reads a node's files as one runtime does. What it returns as an error is
// that a file could not be read from here, usually for lack of permission, or not be
// understood: the rest is then what is known, not what is true.
type Files struct {
	*Profile
	FS     fs.FS  // the node's tree; nil = none, which has nothing configured
	Config string // the configuration file; "" = the profile's
}

// Open returns the files of the runtime that [Of] gives.
func Open(fsys fs.FS, name, config string) Files {
	p := Of(name, config)
	return Files{p, fsys, cmp.Or(config, p.Config)}
}

func (f Files) reader() *reader { return &reader{Profile: f.Profile, fsys: f.FS, config: f.Config} }

// Sources returns where the runtime would look for ref, in its order; without
// configuration, the registry itself. Findings are about the configuration.
func (f Files) Sources(ref registry.Reference) ([]Source, []classify.Finding, error) {
	rd := f.reader()
	rd.ref = ref
	if f.FS == nil {
		return rd.finish(nil)
	}
	return rd.finish(f.sources(rd))
}

// Sandbox reads which sandbox image the runtime is configured with; Image "" = no
// file names one, and the default that it was built with is not known from here.
func (f Files) Sandbox() (Sandbox, error) {
	if f.FS == nil || f.sandbox == nil {
		return Sandbox{}, nil
	}
	rd := f.reader()
	out := f.sandbox(rd)
	return out, errors.Join(rd.errs...)
}

// Login is what the runtime's own files offer at a host for an image for which the
// kubelet hands over no credential, and which file it is from; "" = they have
// nothing. authFile is [Sandbox].AuthFile, "" for any other image. The value holds a
// secret: never print it.
func (f Files) Login(host, repository, authFile string) (login authn.AuthConfig, file string, err error) {
	if f.FS == nil || f.login == nil {
		return login, "", nil
	}
	rd := f.reader()
	login, file = f.login(rd, host, repository, authFile)
	return login, file, errors.Join(rd.errs...)
}

// Stored reports whether the node has an image of this name already: a runtime that
// has one asks no registry for its sandbox image, whatever the tag means there now.
// The error means that it is not known.
func (f Files) Stored(ref registry.Reference) (bool, error) {
	if f.FS == nil || f.stored == nil {
		return false, errors.New("no list of images was given")
	}
	return f.stored(f.reader(), ref)
}

// Store returns the store of blobs by digest; nil = this runtime has none that can be
// read by file.
func (f Files) Store() (*ContentStore, error) {
	if f.FS == nil || f.store == nil {
		return nil, nil
	}
	return f.store(f.reader())
}

// Proxy returns the variables that the runtime's configuration sets in the place of
// its environment's; nil = none.
func (f Files) Proxy() (map[string]string, error) {
	if f.FS == nil || f.proxy == nil {
		return nil, nil
	}
	rd := f.reader()
	env := f.proxy(rd)
	return env, errors.Join(rd.errs...)
}
