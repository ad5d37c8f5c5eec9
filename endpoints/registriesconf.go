package endpoints

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

const (
	registriesConf    = "/etc/containers/registries.conf"
	registriesConfDir = "/etc/containers/registries.conf.d"
	// shortNameCache is where podman and CRI-O, as root, keep aliases that they
	// wrote themselves (containers-registries.conf(5)); it goes before the files.
	shortNameCache = "/var/cache/containers/short-name-aliases.conf"
)

// registryEntry is one [[registry]] table of registries.conf, version 2.
type registryEntry struct {
	Prefix             string `toml:"prefix"`
	Location           string `toml:"location"`
	Insecure           bool   `toml:"insecure"`
	Blocked            bool   `toml:"blocked"`
	MirrorByDigestOnly bool   `toml:"mirror-by-digest-only"`
	Mirrors            []struct {
		Location       string `toml:"location"`
		Insecure       bool   `toml:"insecure"`
		PullFromMirror string `toml:"pull-from-mirror"`
	} `toml:"mirror"`

	file string
}

// registriesFile is a registries.conf or a drop-in.
type registriesFile struct {
	Unqualified *[]string       `toml:"unqualified-search-registries"`
	Registries  []registryEntry `toml:"registry"`
	// Aliases give short names a place; "" takes an alias of an earlier file away.
	Aliases map[string]string `toml:"aliases"`
	// The older form, which the same files may have instead.
	V1 struct {
		Insecure struct {
			Registries []string `toml:"registries"`
		} `toml:"insecure"`
		Block struct {
			Registries []string `toml:"registries"`
		} `toml:"block"`
	} `toml:"registries"`
}

// registriesConf reads where CRI-O and podman look: the table with the longest
// prefix of the image, its mirrors in order, and always the location itself last
// (containers-registries.conf(5)). Drop-ins are read in the order of their names,
// and a later table with the same prefix takes the place of an earlier one.
func (rd *reader) registriesConf() []Source {
	if rd.fsys == nil {
		return nil
	}
	var search []string
	var entries []registryEntry
	aliases := map[string]string{}
	files := append([]string{strings.TrimPrefix(registriesConf, "/")}, rd.glob(registriesConfDir+"/*.conf")...)
	for _, name := range append(files, strings.TrimPrefix(shortNameCache, "/")) {
		file, ok := rd.registriesFile("/" + name)
		if !ok {
			continue
		}
		maps.Copy(aliases, file.Aliases)
		if "/"+name == shortNameCache {
			break // holds nothing else
		}
		if file.Unqualified != nil {
			search = *file.Unqualified
		}
		for _, e := range file.entries("/" + name) {
			if i := slices.IndexFunc(entries, func(o registryEntry) bool { return o.Prefix == e.Prefix }); i >= 0 {
				entries[i] = e
			} else {
				entries = append(entries, e)
			}
		}
	}
	rd.shortName(search, aliases)
	image := rd.ref.Registry + "/" + rd.ref.Repository
	best, cut := -1, 0
	for i, e := range entries {
		if n := prefixOf(e.Prefix, image); n > 0 && (best < 0 || len(e.Prefix) > len(entries[best].Prefix)) {
			best, cut = i, n
		}
	}
	if best < 0 {
		s := Source{}.upstream(rd.ref)
		s.SkipVerify, s.HTTPSFirst = false, false // loopback is nothing special here
		s.Scheme, s.Base = "https", &url.URL{Scheme: "https", Host: s.Host, Path: "/v2"}
		return []Source{rd.perHost(s)}
	}
	e := entries[best]
	if e.Blocked {
		f := classify.New(classify.NodeRegistryBlocked, fmt.Sprintf("%s blocks %s on this node, so no packet is sent for %s", e.file, e.Prefix, rd.ref),
			classify.Fact{Key: classify.FactFile, Value: e.file})
		f.Endpoint, f.Operation = rd.ref.Host, classify.OperationResolveManifest
		rd.findings = append(rd.findings, f)
	}
	return rd.entrySources(e, image, cut)
}

func (rd *reader) registriesFile(name string) (registriesFile, bool) {
	var file registriesFile
	data, ok := rd.read(name)
	if !ok {
		return file, false
	}
	if err := toml.Unmarshal(data, &file); err != nil {
		// CRI-O keeps what it read last until it is told to read again; podman and
		// a restarted CRI-O refuse every pull.
		f := classify.New(classify.NodeRuntimeConfigInvalid, fmt.Sprintf("%s does not parse (%s): CRI-O and podman refuse every pull once they read it", name, positioned(err)),
			classify.Fact{Key: classify.FactFile, Value: name})
		f.Certainty, f.Endpoint = classify.CertaintyLikely, rd.ref.Host
		rd.findings = append(rd.findings, f)
		return file, false
	}
	return file, true
}

// entries returns the tables of a file, those of the older form turned into the
// newer one, with the prefix always filled in.
func (f registriesFile) entries(name string) []registryEntry {
	out := f.Registries[:min(len(f.Registries), maxSources*8)]
	for _, r := range f.V1.Insecure.Registries[:min(len(f.V1.Insecure.Registries), maxSources)] {
		out = append(out, registryEntry{Location: r, Insecure: true})
	}
	for _, r := range f.V1.Block.Registries[:min(len(f.V1.Block.Registries), maxSources)] {
		out = append(out, registryEntry{Location: r, Blocked: true})
	}
	for i := range out {
		e := &out[i]
		e.Location, e.Prefix, e.file = strings.TrimSuffix(e.Location, "/"), strings.TrimSuffix(e.Prefix, "/"), name
		if e.Prefix == "" {
			e.Prefix = e.Location
		}
	}
	return out
}

// prefixOf returns how much of image the prefix covers, 0 if it does not match: a
// host, a host and a path, or "*.domain" for what lies below a domain.
func prefixOf(prefix, image string) int {
	if rest, ok := strings.CutPrefix(prefix, "*."); ok {
		host, _, _ := strings.Cut(image, "/")
		if domain, sub, _ := strings.Cut(rest, "/"); sub == "" && strings.HasSuffix(host, "."+domain) {
			return len(host)
		}
		return 0
	}
	if prefix == "" || !strings.HasPrefix(image, prefix) {
		return 0
	}
	if len(image) == len(prefix) || strings.ContainsRune("/:@", rune(image[len(prefix)])) {
		return len(prefix)
	}
	return 0
}

// entrySources turns one table into sources: its mirrors, and the location.
func (rd *reader) entrySources(e registryEntry, image string, cut int) []Source {
	var out []Source
	rest := image[cut:]
	for _, m := range e.Mirrors[:min(len(e.Mirrors), maxSources)] {
		s, ok := rd.location(m.Location+rest, e.file, m.Insecure)
		if !ok {
			continue
		}
		switch {
		case m.PullFromMirror == "digest-only", m.PullFromMirror == "" && e.MirrorByDigestOnly:
			s.Capabilities = []string{CapabilityPull}
		case m.PullFromMirror == "tag-only" && rd.ref.Digest != "":
			s.Capabilities = nil
		}
		s.Kind = KindMirror
		out = append(out, s)
	}
	location := e.Location
	if location == "" { // a wildcard without one leaves the name as it is
		location = image[:cut]
	}
	if s, ok := rd.location(location+rest, e.file, e.Insecure); ok {
		s.Kind = KindUpstream
		out = append(out, s)
	}
	return out
}

// location is the source that a rewritten image name leads to.
func (rd *reader) location(name, file string, insecure bool) (Source, bool) {
	at, repository := registry.SplitRegistry(name)
	if !registry.ValidRegistry(at) || !registry.ValidRepository(repository) {
		rd.ignored(file, fmt.Sprintf("%q, made from the name of the image, names no repository, and the pull fails of it", classify.Redact(name, 128)), classify.NodeRuntimeConfigInvalid)
		return Source{}, false
	}
	host := at
	if at == registry.DockerHub {
		host = registry.DockerHubHost
	}
	s := Source{
		Host: host, Scheme: "https", File: file, Capabilities: []string{CapabilityPull, CapabilityResolve},
		Credential: CredentialNone,
	}
	if at == rd.ref.Registry {
		s.Credential = CredentialOfImage
	}
	if repository != rd.ref.Repository {
		s.Repository = repository
	}
	if insecure { // https without verification, then plain http
		s.Scheme, s.HTTPSFirst, s.SkipVerify = "http", true, true
	}
	s.Base = &url.URL{Scheme: s.Scheme, Host: host, Path: "/v2"}
	return rd.perHost(s), true
}

// certDirs are where CRI-O, podman and docker keep certificates per host:port;
// the first directory that is there counts.
var certDirs = map[Way][]string{
	WayCRIO:   {"/etc/containers/certs.d", "/etc/docker/certs.d"},
	WayDocker: {"/etc/docker/certs.d"},
}

// perHost adds the certificates of the host's own directory. They hold for the
// registry named so, and for the token server and stores that it leads to.
func (rd *reader) perHost(s Source) Source {
	host := s.Host
	if host == registry.DockerHubHost {
		host = registry.DockerHub
	}
	for _, root := range certDirs[rd.way] {
		dir := path.Join(root, host)
		if _, err := fs.Stat(rd.fsys, inFS(dir)); err == nil {
			rd.addCertFiles(&s, dir)
			if s.File == "" {
				s.File = dir
			}
			break
		}
	}
	return s
}

// shortName judges an image without a registry: CRI-O and podman do not take it
// for one of Docker Hub, but look for an alias, and then through the search list.
// Which of several places serves it is not decided here.
func (rd *reader) shortName(search []string, aliases map[string]string) {
	first, _, ok := strings.Cut(rd.ref.Given, "/")
	if rd.ref.Registry != registry.DockerHub || ok && (strings.ContainsAny(first, ".:") || first == "localhost") {
		return
	}
	given := classify.Redact(rd.ref.Given, 256)
	name, _, _ := strings.Cut(rd.ref.Given, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	f := classify.New(classify.ImageShortNameUnresolved, "", classify.Fact{Key: classify.FactImage, Value: given})
	f.Endpoint, f.Operation = rd.ref.Host, classify.OperationResolveManifest
	switch alias := aliases[name]; {
	case alias == registry.DockerHub+"/"+rd.ref.Repository, alias == "" && slices.Equal(search, []string{registry.DockerHub}):
		return
	case alias != "":
		f.Summary = fmt.Sprintf("%s names no registry, and an alias of this node makes %s of it; only %s is looked at here", given, classify.Redact(alias, 200), registry.DockerHub)
	case len(search) == 0:
		f.Summary = fmt.Sprintf("%s names no registry, no alias of this node knows it, and %s has no unqualified-search-registries: CRI-O and podman refuse it", given, registriesConf)
	default:
		f.Summary = fmt.Sprintf("%s names no registry, and CRI-O and podman look for it at %s; only %s is looked at here", given, classify.Redact(strings.Join(search, ", "), 200), registry.DockerHub)
	}
	if aliases[name] != "" || len(search) > 0 {
		f.Severity = classify.SeverityWarn
		rd.errs = append(rd.errs, errors.New(f.Summary))
	}
	rd.findings = append(rd.findings, f)
}

// glob lists files by an absolute pattern, sorted, at most maxGlob of them.
func (rd *reader) glob(pattern string) []string {
	names, err := fs.Glob(rd.fsys, inFS(pattern))
	if err != nil {
		rd.errs = append(rd.errs, fmt.Errorf("list %s: %w", pattern, err))
	}
	slices.Sort(names)
	return names[:min(len(names), maxGlob)]
}

// inPrefixes says whether host[:port] is named by a list of hosts and networks,
// as docker's insecure-registries is. Networks match addresses only: names are
// not resolved here, though docker does.
func inPrefixes(hostport string, list []string) bool {
	host := hostport
	if u, err := url.Parse("//" + hostport); err == nil {
		host = u.Hostname()
	}
	for _, entry := range list {
		if entry == hostport {
			return true
		}
		p, err := netip.ParsePrefix(entry)
		if err != nil {
			continue
		}
		if addr, err := netip.ParseAddr(host); err == nil && p.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}
