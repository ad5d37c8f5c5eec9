package registry

import (
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Reference is an image name as the kubelet and the runtime read it.
//
// The zero Reference names no image; get one from [ParseReference].
type Reference struct {
	Given string `json:"given"` // as the caller wrote it
	// Registry is the registry as the image names it: "docker.io",
	// "registry.corp.test:5000". Credentials and the directories of hosts.toml go by this
	// name.
	Registry string `json:"registry"`
	// Host is the host[:port] that the runtime contacts when no configuration says
	// otherwise: docker.io is served by registry-1.docker.io.
	Host       string `json:"host"`
	Repository string `json:"repository"`       // "team/app", "library/busybox"
	Tag        string `json:"tag,omitempty"`    // "latest" if neither tag nor digest was given
	Digest     string `json:"digest,omitempty"` // wins over Tag, as in the runtimes
	// Scheme is "https", and "http" only for a loopback registry on a port of its own.
	// Containerd tries https there first, see [Source].HTTPSFirst.
	Scheme string `json:"scheme"`
}

const (
	DockerHub     = "docker.io"            // as images name it
	dockerHubOld  = "index.docker.io"      // the same, in old names
	DockerHubHost = "registry-1.docker.io" // where it is served
)

// The grammar is that of github.com/distribution/reference, which kubelet and containerd
// both use. The parser of go-containerregistry is not used: it refuses repositories of one
// letter, reads "localhost/app" as a repository of Docker Hub and renames docker.io.
var (
	registryRE   = regexp.MustCompile(`^(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::[0-9]{1,5})?$`)
	repositoryRE = regexp.MustCompile(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)
	tagRE        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	hexNameRE    = regexp.MustCompile(`^[a-f0-9]{64}$`)
)

const maxRepository = 255

// ValidRegistry reports whether s is host[:port] as an image may name it.
func ValidRegistry(s string) bool { return registryRE.MatchString(s) }

// ValidRepository reports whether s is a repository as an image may name it; the length is
// not looked at.
func ValidRepository(s string) bool { return repositoryRE.MatchString(s) }

// ParseReference reads image as the kubelet and containerd do: without a host it is on
// Docker Hub, without a path there it is in library/, without tag and digest it is :latest.
//
// The error is a [classify.Finding] with cause image.invalid-reference that names the
// input; nothing else is an error. Whether the image exists is not looked at.
func ParseReference(image string) (Reference, error) {
	ref := Reference{Given: image}
	bad := func(why string) (Reference, error) {
		shown := classify.Redact(image, 256)
		return Reference{}, classify.New(classify.ImageInvalidReference,
			fmt.Sprintf("%q is not an image reference: %s", shown, why),
			classify.Fact{Key: classify.FactImage, Value: shown})
	}
	rest := image
	switch {
	case rest == "":
		return bad("it is empty")
	case strings.Contains(rest, "://"):
		return bad("it has a URL scheme, which an image reference never has")
	case hexNameRE.MatchString(rest):
		return bad("64 hex digits are an image id and not a name")
	}
	if name, digest, ok := strings.Cut(rest, "@"); ok {
		if _, err := ParseDigest(digest); err != nil {
			return bad(err.Error())
		}
		rest, ref.Digest = name, digest
	}
	ref.Registry, rest = SplitRegistry(rest)
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		rest, ref.Tag = rest[:i], rest[i+1:]
		if !tagRE.MatchString(ref.Tag) {
			return bad("the tag may hold letters, digits, '_', '.', '-' only, at most 128, and must not begin with '.' or '-'")
		}
	}
	ref.Repository = rest
	if ref.Registry == DockerHub && !strings.Contains(rest, "/") {
		ref.Repository = "library/" + rest
	}
	switch {
	case !ValidRegistry(ref.Registry):
		return bad("the registry is not host[:port]")
	case rest != strings.ToLower(rest):
		return bad("the repository must be lower case")
	case !ValidRepository(rest):
		return bad("the repository must be path components of lower-case letters and digits, separated by '.', '_', '__' or '-'")
	case len(ref.Repository) > maxRepository:
		return bad("the repository is longer than 255 bytes")
	}
	if ref.Tag == "" && ref.Digest == "" {
		ref.Tag = "latest"
	}
	ref.Host, ref.Scheme = Upstream(ref.Registry)
	return ref, nil
}

// SplitRegistry takes the registry off a name. The first component is a registry if it
// could not be a path component: it has a dot, a colon or a capital letter, or is
// "localhost".
func SplitRegistry(name string) (registry, rest string) {
	first, after, ok := strings.Cut(name, "/")
	if !ok || (first != "localhost" && !strings.ContainsAny(first, ".:[") && strings.ToLower(first) == first) {
		return DockerHub, name
	}
	if first == dockerHubOld {
		first = DockerHub
	}
	return first, after
}

// Upstream returns where containerd finds a registry without any configuration
// (core/remotes/docker/config/hosts.go, ConfigureHosts).
func Upstream(registry string) (host, scheme string) {
	if registry == DockerHub {
		return DockerHubHost, "https"
	}
	if IsLoopback(registry) {
		if port := PortOf(registry); port != "" && port != "443" {
			return registry, "http"
		}
	}
	return registry, "https"
}

// IsLoopback reports whether containerd takes host[:port] for this machine itself: localhost,
// 127.0.0.0/8, ::1. A name that merely resolves to loopback is not.
func IsLoopback(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	return host == "localhost" || net.ParseIP(strings.Trim(host, "[]")).IsLoopback()
}

// PortOf returns the port of host[:port], "" if it has none.
func PortOf(hostport string) string {
	_, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return ""
	}
	return port
}

// Identifier returns the digest if there is one, else the tag: what the manifest is asked
// by.
func (r Reference) Identifier() string {
	if r.Digest != "" {
		return r.Digest
	}
	return r.Tag
}

// String returns the canonical form: registry/repository[:tag][@digest].
func (r Reference) String() string {
	if r.Registry == "" {
		return r.Given
	}
	s := r.Registry + "/" + r.Repository
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}
