package noderuntime

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/pelletier/go-toml/v2"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

const (
	registriesConf = "/etc/containers/registries.conf"
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

// crioSources reads where CRI-O and podman look: the table with the longest
// prefix of the image, its mirrors in order, and always the location itself last
// (containers-registries.conf(5)). Drop-ins are read in the order of their names,
// and a later table with the same prefix takes the place of an earlier one.
func crioSources(rd *reader) []Source {
	var search []string
	var entries []registryEntry
	aliases := map[string]string{}
	files := append([]string{registriesConf}, rd.glob("/etc/containers/registries.conf.d/*.conf", maxGlob)...)
	for _, name := range append(files, shortNameCache) {
		file, ok := rd.registriesFile(name)
		if !ok {
			continue
		}
		maps.Copy(aliases, file.Aliases)
		if name == shortNameCache {
			break // holds nothing else
		}
		if file.Unqualified != nil {
			search = *file.Unqualified
		}
		for _, e := range file.entries(name) {
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
		f := rd.found(classify.NodeRegistryBlocked, e.file, fmt.Sprintf("%s blocks %s on this node, so no packet is sent for %s", e.file, e.Prefix, rd.ref))
		f.Operation = classify.OperationResolveManifest
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
		rd.found(classify.NodeRuntimeConfigInvalid, name, fmt.Sprintf("%s does not parse (%s): CRI-O and podman refuse every pull once they read it", name, positioned(err))).Certainty = classify.CertaintyLikely
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
		rd.found(classify.NodeRuntimeConfigInvalid, file, fmt.Sprintf("%s: %q, made from the name of the image, names no repository, and the pull fails of it", file, classify.Redact(name, 128)))
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

// crioFile is what of crio.conf and its drop-ins a pull depends on.
type crioFile struct {
	name string
	Crio struct {
		Root  string `toml:"root"`
		Image struct {
			Pause      string `toml:"pause_image"`
			Auth       string `toml:"pause_image_auth_file"`
			GlobalAuth string `toml:"global_auth_file"`
		} `toml:"image"`
	} `toml:"crio"`
}

// crioFiles reads crio.conf, then its drop-ins in the order of their names; what
// comes later wins.
func (rd *reader) crioFiles() []crioFile {
	var out []crioFile
	for _, name := range append([]string{rd.config}, rd.glob("/etc/crio/crio.conf.d/*", maxImports)...) {
		f := crioFile{name: name}
		if rd.toml(name, &f) {
			out = append(out, f)
		}
	}
	return out
}

// crioSandbox: pause_image, with the file that its credential is in.
func crioSandbox(rd *reader) Sandbox {
	var out Sandbox
	global := ""
	for _, f := range rd.crioFiles() {
		if image := f.Crio.Image.Pause; image != "" {
			out.Image, out.File = classify.Redact(image, 512), f.name
		}
		out.AuthFile = cmp.Or(f.Crio.Image.Auth, out.AuthFile)
		global = cmp.Or(f.Crio.Image.GlobalAuth, global)
	}
	out.AuthFile = cmp.Or(out.AuthFile, global)
	return out
}

// crioLogin takes authFile, else global_auth_file, else the files of the user that
// CRI-O runs as, the first that has something (containers-auth.json(5)), by the
// longest key that is the host and a part of the repository.
func crioLogin(rd *reader, host, repository, authFile string) (authn.AuthConfig, string) {
	if authFile == "" {
		for _, f := range rd.crioFiles() {
			authFile = cmp.Or(f.Crio.Image.GlobalAuth, authFile)
		}
	}
	files := []string{authFile}
	if authFile == "" {
		files = []string{"/run/containers/0/auth.json", "/root/.config/containers/auth.json", "/root/.docker/config.json"}
	}
	if len(rd.errs) > 0 {
		return authn.AuthConfig{}, ""
	}
	for _, name := range files {
		data, ok := rd.read(name)
		if !ok {
			continue
		}
		var doc struct {
			Auths map[string]struct {
				Auth          string `json:"auth"`
				IdentityToken string `json:"identitytoken"`
			} `json:"auths"`
		}
		if json.Unmarshal(data, &doc) != nil { // its error may quote a secret
			rd.problem("read %s: it is not the JSON that is expected", classify.Redact(name, 200))
			continue
		}
		for key := host + "/" + repository; key != ""; {
			if a, ok := doc.Auths[key]; ok {
				return authn.AuthConfig{Auth: a.Auth, IdentityToken: a.IdentityToken}, name
			}
			key = key[:max(strings.LastIndexByte(key, '/'), 0)]
		}
	}
	return authn.AuthConfig{}, ""
}

// crioStored looks into the lists of images that containers/storage keeps: root of
// crio.conf, else graphroot of storage.conf, else the default; and the additional
// stores.
func crioStored(rd *reader, ref registry.Reference) (bool, error) {
	var conf struct {
		Storage struct {
			Root    string `toml:"graphroot"`
			Options struct {
				More []string `toml:"additionalimagestores"`
			} `toml:"options"`
		} `toml:"storage"`
	}
	for _, name := range []string{"/etc/containers/storage.conf", "/usr/share/containers/storage.conf"} {
		if _, ok := rd.read(name); ok {
			rd.toml(name, &conf)
			break
		}
	}
	root := cmp.Or(conf.Storage.Root, "/var/lib/containers/storage")
	for _, f := range rd.crioFiles() {
		root = cmp.Or(f.Crio.Root, root)
	}
	more := conf.Storage.Options.More
	read := 0
	for _, root := range append([]string{root}, more[:min(len(more), maxImports)]...) {
		data, ok := rd.read(path.Join(root, "overlay-images/images.json"))
		if !ok {
			continue
		}
		var images []struct {
			Names []string `json:"names"`
		}
		if err := json.Unmarshal(data, &images); err != nil {
			rd.problem("%s: the list of images is no JSON", root)
			continue
		}
		read++
		for _, image := range images {
			if slices.Contains(image.Names, ref.String()) {
				return true, nil
			}
		}
	}
	if read == 0 && len(rd.errs) == 0 {
		return false, errors.New("the list of images of containers/storage is not there")
	}
	return false, errors.Join(rd.errs...)
}
