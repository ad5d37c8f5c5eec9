// Package engine looks at what a pull needs before it is pulled: for each host that
// package pull comes to, it probes the name, every address, the connection and TLS, once
// for all images of a call. It knows the node, the runtime's configuration, what the
// kubelet offers, the caller's checks and the limits. What was seen is handed back as
// logs; what it amounts to is for package judge to say.
package engine

import (
	"context"
	"net/netip"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/node"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
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
	Limits                      Limits
	Concurrency                 int
	UserAgent                   string // "" = the runtime's
	AllowAddr                   func(netip.AddrPort) error

	// Reported are findings about what the cluster said of an image; nil = there are none.
	Reported func(v *node.View, image string) []classify.Finding
	// OnStep is told of each step, judged by itself, as it ends. Calls never overlap.
	OnStep     func(s pull.Step, hostPort, image string)
	OnProgress func(Progress)
	// Recorded is told of each step as it is kept in the log, from any goroutine.
	Recorded func(pull.Step)
}

// Limits bound single steps.
type Limits struct{ DNS, Connect, TLS, Header, Idle time.Duration }

// BudgetShare is the part of the budget that no step gets more than.
const BudgetShare = 4

const (
	maxHosts    = 32 // more than any registry uses
	maxRounds   = 20
	maxKeychain = 10 * time.Second // a credential helper that hangs is not waited for
)

// Progress tells what is going on inside of a step that runs, as of pullwalk.
type Progress struct {
	Step        pull.StepID
	Endpoint    string
	Addr        netip.Addr
	Subject     string
	Layer       classify.Layer
	Silent      time.Duration
	Bytes, Rate int64
}

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

// Look walks the pull of every image. The error is about a node view that cannot be
// looked at.
func Look(ctx context.Context, images []registry.Reference, o Options) (*Call, error) {
	return newCall(images, o).run(ctx)
}
