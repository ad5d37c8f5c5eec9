package noderuntime

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

const defaultHostsDir = "/etc/containerd/certs.d"

// The plugins whose registry table counts, by the version of the file: 3, 2, 1.
// Pulls go through the image plugin of the CRI in all of them.
var criPlugins = []string{"io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri", "cri"}

// configDoc is a configuration file of containerd, or one that it imports.
type configDoc struct {
	name string
	doc  map[string]any
}

// configFiles reads containerd's configuration with everything that it imports.
// Imported files come later and win.
func (rd *reader) configFiles() []configDoc {
	var main map[string]any
	if !rd.toml(rd.config, &main) {
		return nil
	}
	out := []configDoc{{rd.config, main}}
	imports, _ := main["imports"].([]any)
	if len(imports) > maxImports {
		rd.problem("%s imports more than %d files", rd.config, maxImports)
	}
	for _, v := range imports[:min(len(imports), maxImports)] {
		pattern, _ := v.(string)
		if pattern == "" {
			continue
		}
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(rd.config), pattern)
		}
		for _, name := range rd.glob(pattern, maxImports) {
			var doc map[string]any
			if rd.toml(name, &doc) {
				out = append(out, configDoc{name, doc})
			}
		}
	}
	return out
}

// table returns a table inside another one, nil if there is none.
func table(from map[string]any, keys ...string) map[string]any {
	for _, key := range keys {
		from, _ = from[key].(map[string]any)
	}
	return from
}

func text(from map[string]any, keys ...string) string {
	for _, key := range keys {
		if v, _ := from[key].(string); v != "" {
			return v
		}
	}
	return ""
}

// registryTable is what containerd's configuration says of registries, after its
// imports.
type registryTable struct {
	configPath string
	mirrors    map[string]any // the tables that config_path replaced
	configs    map[string]any
	file       string // where the older tables stand
	// v2 says that the tables stand where only containerd 2 looks.
	v2 bool
}

// registry reads the registry tables of containerd's configuration.
func (rd *reader) registry() registryTable {
	var out registryTable
	for _, f := range rd.configFiles() {
		for i, name := range criPlugins {
			t := table(f.doc, "plugins", name, "registry")
			if t == nil {
				continue
			}
			if p := text(t, "config_path"); p != "" {
				out.configPath = p
			}
			if headers := table(t, "headers"); len(headers) > 0 {
				rd.headers = map[string][]string{}
				for name, v := range headers {
					if list, ok := stringList(v); ok {
						rd.headers[name] = list
					}
				}
			}
			if mirrors := table(t, "mirrors"); len(mirrors) > 0 {
				out.mirrors, out.file, out.v2 = mirrors, f.name, i == 0
			}
			if configs := table(t, "configs"); len(configs) > 0 {
				out.configs, out.file, out.v2 = configs, f.name, i == 0
			}
			break
		}
	}
	return out
}

// containerdSources reads config_path of config.toml with its imports, and
// hosts.toml or the certificate files in the directory of the registry; without
// config_path, the older tables registry.mirrors and registry.configs.
func containerdSources(rd *reader) []Source {
	t := rd.registry()
	roots, configured := t.roots()
	if !configured {
		if sources := rd.legacy(t); sources != nil {
			return sources
		}
	} else if len(t.mirrors) > 0 {
		rd.ignored(t.file, "registry.mirrors stands beside config_path: containerd never uses both, and its CRI plugin refuses such a file at the next start")
	}
	dir, root := rd.hostDir(roots)
	if dir == "" {
		return nil
	}
	sources := rd.load(dir)
	rd.judgeRoots(root, roots, configured)
	return sources
}

// roots returns the directories that config_path names, in order, and whether it
// was found at all. Without it the usual directory is taken, see judgeRoots.
func (t registryTable) roots() (roots []string, configured bool) {
	if t.configPath == "" {
		return []string{defaultHostsDir}, false
	}
	for _, dir := range splitList(t.configPath) {
		if dir != "" {
			roots = append(roots, dir)
		}
	}
	return roots, true
}

// splitList takes a list of directories apart. A colon after a drive letter is
// no separator; Windows nodes separate by semicolons.
func splitList(value string) []string {
	if strings.Contains(value, ";") || len(value) > 2 && value[1] == ':' && (value[2] == '\\' || value[2] == '/') {
		return strings.Split(value, ";")
	}
	return strings.Split(value, ":")
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
			if !absent(err) {
				rd.problem("look for %s: %w", p, err)
				return "", ""
			}
		}
	}
	return "", ""
}

// judgeRoots warns of directories that are there and that the runtime may not
// look at. Without config_path, containerd before 2.2 reads no hosts directory.
// With several directories, which is also the built-in default since 2.2, the
// transfer service takes the whole list for the name of one.
func (rd *reader) judgeRoots(root string, roots []string, configured bool) {
	var why string
	switch {
	case !configured:
		why = "no config_path names it: containerd before 2.2 reads no such directory then, and later ones only when they pull without the transfer service"
	case len(roots) > 1:
		why = "config_path names several directories, which containerd's transfer service (2.1 and later) takes for the name of one"
	default:
		return
	}
	f := rd.found(classify.NodeRuntimeConfigIgnored, rd.config, fmt.Sprintf("the settings for %s under %s may not be in force: %s", rd.ref.Registry, root, why))
	f.Severity, f.Certainty = classify.SeverityWarn, classify.CertaintyPossible
}

// legacy returns the sources by the tables registry.mirrors and registry.configs,
// which containerd uses where config_path is not set (pkg/cri/server/image_pull.go
// of 1.7, registryHosts), and which k3s and RKE2 write in YAML. It returns nil if
// they have nothing for this registry.
func (rd *reader) legacy(t registryTable) []Source {
	entry, named := t.mirrors[rd.ref.Registry].(map[string]any)
	if !named {
		entry, named = t.mirrors["*"].(map[string]any)
	}
	var list []string
	if named {
		list, _ = stringList(entry["endpoint"])
	}
	host, scheme := registry.Upstream(rd.ref.Registry)
	if _, ok := t.configs[host]; !ok && !named {
		return nil
	}
	var out []Source
	own := false
	for _, raw := range list[:min(len(list), maxSources)] {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			rd.found(classify.NodeRuntimeConfigInvalid, t.file, fmt.Sprintf("%s: the mirror %q for %s is no URL with http or https, and every pull from %s fails of it", t.file, classify.Redact(raw, 128), rd.ref.Registry, rd.ref.Registry))
			continue
		}
		own = own || u.Host == host
		out = append(out, rd.legacySource(t, u))
	}
	if !own {
		out = append(out, rd.legacySource(t, &url.URL{Scheme: scheme, Host: host}))
	}
	return out
}

// legacySource is one endpoint with the settings of its own configs entry.
func (rd *reader) legacySource(t registryTable, u *url.URL) Source {
	p := strings.TrimSuffix(u.Path, "/")
	if p == "" {
		p = "/v2"
	}
	s := Source{File: t.file}.at(&url.URL{Scheme: u.Scheme, Host: u.Host, Path: p}, KindMirror)
	s.Namespace = rd.ref.Registry
	if u.Host == rd.ref.Registry || u.Host == rd.ref.Host {
		s.Kind, s.Namespace = KindUpstream, ""
	}
	entry := table(t.configs, u.Host)
	if len(table(entry, "auth")) > 0 {
		s.Credential = CredentialOwn
	}
	tls := table(entry, "tls")
	switch {
	case len(tls) == 0:
		if s.Kind == KindUpstream && registry.IsLoopback(u.Host) && registry.PortOf(u.Host) != "80" {
			s.SkipVerify, s.HTTPSFirst = true, u.Scheme == "http"
		}
		return s
	case t.v2: // the table of containerd 2 knows auth only
		rd.ignored(t.file, fmt.Sprintf("the TLS settings for %s in registry.configs are not read by containerd 2, only hosts.toml is", u.Host))
		return s
	}
	s.SkipVerify, _ = tls["insecure_skip_verify"].(bool)
	if ca := text(tls, "ca_file"); ca != "" {
		s.CAFiles = []string{ca}
	}
	if cert := text(tls, "cert_file"); cert != "" {
		s.ClientFiles = [][2]string{{cert, text(tls, "key_file")}}
	}
	return s
}

// containerdSandbox: pinned_images.sandbox of 2.x, sandbox_image of 1.x.
func containerdSandbox(rd *reader) Sandbox {
	var out Sandbox
	for _, f := range rd.configFiles() {
		for _, name := range criPlugins {
			plugin := table(f.doc, "plugins", name)
			image := text(table(plugin, "pinned_images"), "sandbox")
			if image == "" {
				image = text(plugin, "sandbox_image")
			}
			if image != "" {
				out = Sandbox{Image: classify.Redact(image, 512), File: f.name}
				break
			}
		}
	}
	return out
}

// containerdLogin is registry.configs, by the host that is asked, and
// registry.auths, its older form, which has the host in a URL
// (internal/cri/server/images, PullImage without credentials).
func containerdLogin(rd *reader, host, _, _ string) (login authn.AuthConfig, file string) {
	take := func(auth map[string]any, f configDoc) {
		if len(auth) > 0 {
			login = authn.AuthConfig{Username: text(auth, "username"), Password: text(auth, "password"), Auth: text(auth, "auth"), IdentityToken: text(auth, "identitytoken")}
			file = f.name
		}
	}
	for _, f := range rd.configFiles() {
		for _, name := range criPlugins {
			t := table(f.doc, "plugins", name, "registry")
			for key := range table(t, "auths") {
				if u, err := url.Parse(key); err == nil && u.Host == host {
					take(table(t, "auths", key), f)
				}
			}
			take(table(t, "configs", host, "auth"), f)
		}
	}
	if login == (authn.AuthConfig{}) {
		file = ""
	}
	return login, file
}

// containerdStored looks for the name of the image in containerd's list of images,
// a bolt database: what its bytes do not have is not in it. What they have may be
// left from before.
func containerdStored(rd *reader, ref registry.Reference) (bool, error) {
	store, err := storeOf(rd)
	if err != nil {
		return false, err
	}
	// Containerd makes the file when it starts: without one it keeps its images
	// elsewhere.
	name := path.Join(store.Dir, "io.containerd.metadata.v1.bolt/meta.db")
	found, err := mentions(rd.fsys, inFS(name), ref.String())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%s, containerd's list of images, is not there", name)
	case err != nil:
		return false, fmt.Errorf("read %s: %w", name, err)
	case found:
		return false, fmt.Errorf("%s, containerd's list of images, names %s now or did before", name, ref)
	}
	return false, nil
}
