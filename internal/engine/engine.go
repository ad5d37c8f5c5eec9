// Package engine looks at what a pull needs before it is pulled: for each host that
// package pull comes to, it probes the name, every address, the connection and TLS, once
// for all images of a call. It knows the node, the runtime's configuration, what the
// kubelet offers, the caller's checks and the limits. What was seen is handed back as
// logs; what it amounts to is for package judge to say.
package engine

import (
	"context"
	"crypto/x509"
	"net/netip"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/probe"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/reach"
)

// Options say how to look, as those of pullwalk. Budget, Limits and AllowAddr must be
// set; all else may be zero.
type Options struct {
	Node                        node.Node
	Runtime                     node.Hint
	Keychain                    authn.Keychain
	NodeCredentials, RunPlugins bool
	Platform                    registry.Platform
	Depth                       pull.Depth
	Also                        []pull.Target
	Expect                      []netip.Prefix
	AuditRights                 bool
	Checks                      []Check
	Rounds                      int
	Budget                      time.Duration
	Hurried                     bool // the budget cuts limits below what the runtimes would wait
	Limits                      probe.Limits
	Concurrency                 int
	UserAgent                   string // "" = the runtime's
	AllowAddr                   func(netip.AddrPort) error

	// Reported are findings about what the cluster said of an image; nil = there are none.
	Reported func(v *node.View, image string) []classify.Finding
	// OnStep is told of each step, judged by itself, as it ends. Calls never overlap.
	OnStep     func(s pull.Step, hostPort, image string)
	OnProgress func(notify.Progress)
	// Recorded is told of each step as it is kept in the log, from any goroutine.
	Recorded func(pull.Step)
}

// BudgetShare is the part of the budget that no step gets more than.
const BudgetShare = 4

const (
	maxHosts    = 32               // more than any registry uses
	maxKeychain = 10 * time.Second // a credential helper that hangs is not waited for
)

// Call is what a call saw.
type Call struct {
	View     *node.View
	Settings dnscheck.Settings
	Images   []Image  // in the order of the references
	Sandbox  *Sandbox // nil = the node has none
}

// Image is what was seen of one image.
type Image struct {
	Log      pull.Log
	Proofs   []*Proof                // of each source; nil = there is none
	Identity registry.CredentialInfo // of the credential that was used last; zero = none was
	// ManifestRequests are all that were sent for it.
	ManifestRequests int
	Elapsed          time.Duration // since the beginning of the call
}

// Proof is a complete download: every layer, every digest.
type Proof struct {
	Digest  string
	Layers  int
	Bytes   int64
	InStore int // layers and configuration that the node's store holds already
}

// Check is a check of the caller's, as of pullwalk.
type Check struct {
	ID      pull.StepID
	Layer   classify.Layer
	Roles   []registry.Role // empty = where manifests are asked for
	Needs   []pull.StepID
	Timeout time.Duration // 0 = 10 s
	Run     func(ctx context.Context, in Input) ([]classify.Finding, error)
}

// at reports whether the check runs at hosts with a role.
func (c *Check) at(role registry.Role) bool {
	if len(c.Roles) == 0 {
		return role == registry.RoleManifest || role == registry.RoleMirror
	}
	return slices.Contains(c.Roles, role)
}

// Input is what a check is given, as of pullwalk.
type Input struct {
	Reference registry.Reference
	Scheme    string
	Host      string
	Port      uint16
	Roles     []registry.Role
	Via       string
	Addresses []netip.Addr
	Dialer    reach.Dialer
	Roots     *x509.CertPool
	Now       func() time.Time
}

// Sandbox is what became of the sandbox image.
type Sandbox struct {
	Image string // as configured; "" = no file names one
	File  string // the file that names it
	// Verdict, Reason and Primary say what became of it without a packet, where Seen is
	// nil.
	Verdict   pull.Status
	Reason    string
	Primary   *classify.Finding
	Reference registry.Reference
	Seen      *Image
	StoredErr error // why it is not known whether the node has the image; nil = it is
}
