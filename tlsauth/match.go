package tlsauth

import (
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/pullwalk/pullwalk/classify"
)

// dockerHubKey is the key that images of docker.io fall back to.
const dockerHubKey = "index.docker.io"

// ofDockerHub reports whether a repository belongs to the default registry.
func ofDockerHub(repository string) bool {
	host, _, ok := strings.Cut(repository, "/")
	if !ok {
		return repository != "" && !strings.ContainsAny(host, ".:")
	}
	if host == "docker.io" || host == dockerHubKey {
		return true
	}
	return host != "" && !strings.ContainsAny(host, ".:")
}

// kubeletName is the repository of image as the kubelet looks it up: complete,
// without tag and digest, docker.io under that name.
func kubeletName(image string) (string, error) {
	ref, err := parseImage(image)
	if err != nil {
		return "", err
	}
	return dockerName(ref.Context().Name()), nil
}

func parseImage(image string) (name.Reference, error) {
	ref, err := name.ParseReference(image, name.WeakValidation)
	if err != nil {
		return nil, fmt.Errorf("tlsauth: %q is no image reference", classify.Redact(image, 128))
	}
	return ref, nil
}

// dockerName undoes the renaming of docker.io by the reference parser.
func dockerName(repository string) string {
	if rest, ok := strings.CutPrefix(repository, name.DefaultRegistry); ok && (rest == "" || rest[0] == '/') {
		return "docker.io" + rest
	}
	return repository
}

// effectiveKey is host[:port][/path] of a key as it is written, "" if it is no
// URL: the kubelet passes over such a key.
func effectiveKey(written string) string {
	if !strings.HasPrefix(written, "https://") && !strings.HasPrefix(written, "http://") {
		written = "https://" + written
	}
	u, err := url.Parse(written)
	if err != nil {
		return ""
	}
	path := u.Path
	if strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v2/") {
		path = path[len("/v1"):]
	}
	if path == "/" {
		path = ""
	}
	return u.Host + path
}

// pattern is a key or a repository taken apart.
type pattern struct {
	labels []string // of the host
	port   string
	path   string
}

func takeApart(s string) (pattern, bool) {
	u, err := url.Parse("https://" + s)
	if err != nil {
		return pattern{}, false
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		host, port = u.Host, ""
	}
	return pattern{labels: strings.Split(host, "."), port: port, path: u.Path}, true
}

func (p pattern) host() string { return strings.Join(p.labels, ".") }

// matches reports whether a key of a pull secret applies to a repository: equal
// ports, equally many host labels that match one by one as shell patterns, and
// the key's path as a plain string prefix, which may end within a component.
func matches(key, repository string) bool {
	k, ok := takeApart(key)
	if !ok {
		return false
	}
	r, ok := takeApart(repository)
	return ok && k.port == r.port && strings.HasPrefix(r.path, k.path) && k.hostMatches(r)
}

func (p pattern) hostMatches(r pattern) bool {
	if len(p.labels) != len(r.labels) {
		return false
	}
	for i, label := range p.labels {
		if ok, err := path.Match(label, r.labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// nearestOf returns which of several patterns, as they are written, comes nearest
// to a repository, and what separates it; what is the word for a pattern.
func nearestOf(written []string, what, repository string) string {
	want, ok := takeApart(repository)
	if !ok {
		return ""
	}
	best, why := -1, ""
	for _, w := range written {
		key := w
		if what == "key" {
			key = effectiveKey(w)
		}
		have, ok := takeApart(key)
		if !ok {
			continue
		}
		if near, reason := distance(have, want); near > best {
			best, why = near, fmt.Sprintf("%s %q %s", what, classify.Redact(w, 128), reason)
		}
	}
	return why
}

// distance rates how near a key that does not match comes, higher is nearer,
// and says what separates it.
func distance(have, want pattern) (near int, reason string) {
	host := classify.Redact(want.host(), 128)
	switch {
	case have.hostMatches(want) && have.port == want.port && strings.ContainsAny(have.path, "*?["):
		return 1000, fmt.Sprintf("takes the path %q letter by letter: patterns count in host names only", classify.Redact(have.path, 128))
	case have.hostMatches(want) && have.port == want.port:
		return 1000, fmt.Sprintf("is for paths that begin with %q, and the image's is %q", classify.Redact(have.path, 128), classify.Redact(want.path, 128))
	case have.hostMatches(want):
		return 900, fmt.Sprintf("has %s and the image names %s; the kubelet compares ports as text", port(have.port), port(want.port))
	case strings.EqualFold(have.host(), want.host()):
		return 800, fmt.Sprintf("differs from %s in upper and lower case", host)
	case len(have.labels) != len(want.labels) && strings.Contains(have.host(), "*"):
		return 100 + tail(have, want), fmt.Sprintf("has %d host labels and %s has %d; a * stands for one label only", len(have.labels), host, len(want.labels))
	}
	return tail(have, want), fmt.Sprintf("is for another host than %s", host)
}

func port(p string) string {
	if p == "" {
		return "no port"
	}
	return "port " + classify.Redact(p, 16)
}

// tail counts the labels that two hosts share at their end.
func tail(have, want pattern) int {
	n := 0
	for n < min(len(have.labels), len(want.labels)) && have.labels[len(have.labels)-1-n] == want.labels[len(want.labels)-1-n] {
		n++
	}
	return n
}
