package registry

import (
	"cmp"
	"net/http"
)

// Client is how a runtime asks, as far as a registry can tell one from the other. The zero
// Client asks as containerd does, and claims nothing about which runtime there is: what
// only another one needs is a warning then too.
type Client struct {
	Name string // in a sentence; "" = containerd
	// Pings says that GET of /v2/ comes before anything else, without a credential, and
	// that its challenge holds for everything after it.
	Pings bool
	// Resolves is the method by which a tag is resolved; "" = HEAD. After a HEAD that does
	// not say enough, all ask by GET.
	Resolves string
	// Token is how a token is asked for with a password, a value for the Way field of a
	// [TokenRequest].
	Token string
	// Returns says where Authorization is sent again after a redirect led to a host to
	// which net/http does not send it.
	Returns Returns
	// IgnoresTargets says that the challenge of a redirect's target is not answered.
	IgnoresTargets bool
	// ForeignSettings says that the registry's own settings hold at the places that a layer
	// names for itself, and that the next place is asked whatever the failure. false = the
	// node's roots hold there, and only a 404 leads to the next place.
	ForeignSettings bool
	// ResumesResets says that a download goes on after a reset, and not only after an end
	// that came too early.
	ResumesResets bool
	// Retries are what it does by itself after a failure; the first that fits counts.
	Retries []RetryRule
}

// Returns says where a runtime sends Authorization again.
type Returns string

// The values of [Client].Returns.
const (
	ReturnsHost  Returns = ""      // at the registry's own host: containerd's hook adds it (core/remotes/docker, request.do)
	ReturnsAPI   Returns = "api"   // at the registry's own API: docker's transport
	ReturnsNever Returns = "never" // CRI-O
)

// Method is the method by which a tag is resolved.
func (c Client) Method() string { return cmp.Or(c.Resolves, http.MethodHead) }

func (c Client) name() string { return cmp.Or(c.Name, "containerd") }
