package endpoints

import (
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Reference is an image name as the kubelet and the runtime read it.
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
	Scheme     string `json:"scheme"`           // "https"; "http" for a loopback registry on a port of its own
}

// String returns the reference in full, as the runtime reads it.
func (r Reference) String() string { return registry.Reference(r).String() }

// ParseReference reads image as the kubelet and containerd do: without a host it is on
// Docker Hub, without a path there it is in library/, without tag and digest it is :latest.
// The grammar is that of github.com/distribution/reference. Whether the image exists is
// not looked at.
//
// The error is a [classify.Finding] with cause image.invalid-reference that names the
// input.
func ParseReference(image string) (Reference, error) {
	ref, err := registry.ParseReference(image)
	return Reference(ref), err
}

// Platform is what an image was built for.
type Platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant,omitempty"` // "" = the usual one of this architecture
}

// Role is what a host is needed for in a pull.
type Role = registry.Role

// The roles.
const (
	RoleManifest   = registry.RoleManifest   // the registry: manifests, and blobs unless it redirects
	RoleToken      = registry.RoleToken      // the token server that the registry names
	RoleBlob       = registry.RoleBlob       // where a blob is asked for, wherever that is
	RoleMirror     = registry.RoleMirror     // a host that the runtime asks before the registry
	RoleProxy      = registry.RoleProxy      // a forward proxy
	RoleResolver   = registry.RoleResolver   // a nameserver
	RoleExpected   = registry.RoleExpected   // named by the caller, not seen in this pull
	RoleSandbox    = registry.RoleSandbox    // of the image that every pod needs before any of its own
	RoleCredential = registry.RoleCredential // where credentials come from before any registry is asked
)

// Outcome is what one request settled.
type Outcome = registry.Outcome

// The outcomes.
const (
	OutcomeHeld         = registry.OutcomeHeld         // what was asked for was seen
	OutcomeRedirect     = registry.OutcomeRedirect     // a usable redirect: the content is elsewhere
	OutcomeNeedsToken   = registry.OutcomeNeedsToken   // an anonymous request was challenged
	OutcomeNeedsGet     = registry.OutcomeNeedsGet     // a HEAD did not say enough, the runtime asks by GET
	OutcomeNotNeeded    = registry.OutcomeNotNeeded    // refused, and this runtime does not need it
	OutcomeFailed       = registry.OutcomeFailed       // a finding says why
	OutcomeInconclusive = registry.OutcomeInconclusive // see RequestReport.Inconclusive
)

// RequestReport is one HTTP request of a pull and what came of it. It holds no header, no
// query and no credential.
type RequestReport struct {
	Operation classify.Operation `json:"operation"`
	Role      Role               `json:"role"`
	Outcome   Outcome            `json:"outcome"`
	Method    string             `json:"method"`
	URL       string             `json:"url"`                 // without query and user information
	Host      string             `json:"host"`                // host:port, the port always there
	Hop       int                `json:"hop"`                 // 1 = the first request, 2 = after one redirect
	Status    int                `json:"status,omitempty"`    // 0 = no answer came
	MediaType string             `json:"mediaType,omitempty"` // of the answer
	Digest    string             `json:"digest,omitempty"`    // expected, else as the server announced it
	Size      int64              `json:"size,omitempty"`      // bytes, expected or announced; 0 = not known
	Bytes     int64              `json:"bytes,omitempty"`     // bytes of content that arrived, those before Offset included
	Offset    int64              `json:"offset,omitempty"`    // where a resumed download went on; 0 = the start
	// BytesPerSecond is the rate of a blob that took at least a second; 0 = not measured.
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	// Complete says that every byte was read and that the digest was checked. It is false
	// after a HEAD, and after the first bytes of a larger blob.
	Complete   bool                 `json:"complete,omitempty"`
	Challenges []classify.Challenge `json:"challenges,omitempty"`
	Location   string               `json:"location,omitempty"` // without query
	// Answerer, Codes and Message say who refused and in which words; see
	// [classify.HTTPAnswer].
	Answerer    string   `json:"answerer,omitempty"`
	Codes       []string `json:"codes,omitempty"`
	Message     string   `json:"message,omitempty"`
	Correlation string   `json:"correlation,omitempty"` // the server's own id of the request
	// Product is the software or service that wrote the answer, by its own fields; "" = it
	// does not show.
	Product      string              `json:"product,omitempty"`
	RateLimit    *classify.RateLimit `json:"rateLimit,omitempty"`    // nil = none was announced
	Credentialed bool                `json:"credentialed,omitempty"` // the request carried a credential or a token
	FirstByteMS  int64               `json:"firstByteMs,omitempty"`  // until the headers had arrived
	ElapsedMS    int64               `json:"elapsedMs"`
	Inconclusive string              `json:"inconclusive,omitempty"` // why nothing can be said; "" = something can
}

// Retry is what a runtime does by itself after a request that failed, before the failure
// shows in its pull.
type Retry struct {
	Requests int    `json:"requests"`        // there are in all at most, the first included
	WaitMS   int64  `json:"waitMs"`          // all pauses together; 0 = it asks again at once
	What     string `json:"what"`            // in a sentence
	Since    string `json:"since,omitempty"` // the runtime's release that began with it, "2.1.0"; "" = older than any that is met
}
