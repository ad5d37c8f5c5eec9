package pullwalk

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/reach"
)

// Check is a step of the caller's own: something that the caller's pulls need and that
// nobody else knows of. It starts as soon as what it needs holds, beside everything else,
// and is blocked by what it needs. A pull with a failed Check has failed.
//
// What a runtime would do is decided without it: a Check that fails at a mirror does not
// make the walk go on to the next source. At a host that the pull was not seen to come to
// it can only warn, as any step there.
type Check struct {
	// ID names it, "corp/egress-tag": words of letters, digits, dots, hyphens and
	// underscores with slashes between, at least one, which ours never have. At most
	// 100 bytes.
	ID StepID
	// Layer is where a failure belongs: it decides what is the root cause. Any but
	// [classify.LayerUnknown].
	Layer classify.Layer
	// Roles says at which endpoints it runs, once at each. Empty = where manifests
	// are asked for: the registry, and mirrors before it. A role that this pull does
	// not come to is told as a skipped step of the registry. The sandbox image has none.
	Roles []endpoints.Role
	// Needs names steps of the same endpoint: other Checks, and of ours dns, route,
	// connect, tunnel, tls, ping, challenge, token, resolve, manifest, config and layer.
	// Of a step that is taken several times (addresses, credentials, layers) one that
	// holds is enough. One that is not taken at this endpoint, such as tls over plain
	// http, skips the Check. Empty = it starts at once.
	Needs []StepID
	// Timeout bounds Run; 0 = 10 s, and never more than a quarter of the budget.
	Timeout time.Duration
	// Run looks, and returns what it found: no finding and no error = it holds; a
	// finding of [classify.SeverityFail] fails the pull, one of SeverityWarn degrades
	// it. An error means that the question could not be asked, and leaves it open; one
	// that is [errors.ErrUnsupported] means that it does not apply here, and skips it.
	// What is said after ctx has ended decides nothing.
	//
	// A finding of a cause of ours has that cause's layer, owner and remedy. All others
	// get the Layer of the Check and a code that begins with "x.", as in
	// classify.New("x.egress-tag", "…"). A severity that does not exist counts as
	// SeverityFail. Texts are redacted and cut at 500 bytes, findings beyond the 16th
	// are only counted, and the Go error behind a finding is not kept.
	//
	// Run is called from several goroutines when several endpoints have the role, and
	// for each image of a [DiagnoseAll]. It must return soon after ctx ends, and may
	// panic: that leaves the question open, too. One that ignores its context is left
	// behind, and the step says so.
	Run func(ctx context.Context, in Input) ([]classify.Finding, error)
}

// Input is what a [Check] is given: which endpoint it stands at, and the node's
// own means to look at it. It holds no credential.
type Input struct {
	Image  ImageRef // Digest only if the reference has one
	Scheme string   // "https", "http"; "dns" for a nameserver
	Host   string
	Port   uint16
	Roles  []endpoints.Role // the roles so far
	Via    string           // the proxy in between, host:port; "" = none
	// Addresses are those of Host that the node got, those that accepted a connection
	// first. Empty unless the Check needs dns or what comes after it, and with Via.
	Addresses []netip.Addr
	// Dialer is the node's. It connects to Host, at any port, by its Addresses and no
	// other name; to literal addresses; with Via to Host and Port alone, in a tunnel.
	// Options.AllowAddr is asked each time; where that refuses, a failure of the Check
	// is inconclusive. It ends with the Check.
	Dialer reach.Dialer
	// Roots are what the runtime trusts here, a copy. Never nil.
	Roots *x509.CertPool
	// Now is the node's clock. Never nil.
	Now func() time.Time
}

// The bounds of checks, each far beyond what a caller needs.
const (
	maxChecks  = 64
	maxCheckID = 100
)

var ownID = regexp.MustCompile(`^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)+$`)

func validateChecks(checks []Check) error {
	if len(checks) > maxChecks {
		return fmt.Errorf("pullwalk: %d checks, at most %d are run", len(checks), maxChecks)
	}
	byID := map[StepID]*Check{}
	for i := range checks {
		c := &checks[i]
		if err := c.validate(); err != nil {
			return fmt.Errorf("pullwalk: check %q: %w", classify.Redact(string(c.ID), maxCheckID), err)
		}
		if byID[c.ID] != nil {
			return fmt.Errorf("pullwalk: there are two checks %q", c.ID)
		}
		byID[c.ID] = c
	}
	for i := range checks {
		for _, need := range checks[i].Needs {
			if byID[need] == nil && !pull.Needable(need) {
				return fmt.Errorf("pullwalk: check %q needs %q, which is no step to wait for", checks[i].ID, classify.Redact(string(need), maxCheckID))
			}
		}
	}
	return refuseCycle(checks, byID)
}

func (c *Check) validate() error {
	switch {
	case len(c.ID) > maxCheckID || !ownID.MatchString(string(c.ID)):
		return errors.New("an ID is words with a slash between, as in corp/egress-tag")
	case c.Run == nil:
		return errors.New("it has no Run")
	case c.Layer == classify.LayerUnknown || !slices.Contains(classify.Order(), c.Layer):
		return fmt.Errorf("%q is no layer that can fail", classify.Redact(string(c.Layer), maxCheckID))
	case c.Timeout < 0:
		return fmt.Errorf("the timeout %v is negative", c.Timeout)
	}
	for _, r := range c.Roles {
		if !slices.Contains(roles, r) {
			return fmt.Errorf("%q is no role", classify.Redact(string(r), maxCheckID))
		}
	}
	return nil
}

// roles are those that an endpoint can have.
var roles = []endpoints.Role{
	endpoints.RoleManifest, endpoints.RoleMirror, endpoints.RoleToken, endpoints.RoleBlob,
	endpoints.RoleProxy, endpoints.RoleResolver, endpoints.RoleExpected, endpoints.RoleCredential, endpoints.RoleSandbox,
}

// refuseCycle finds checks that wait for each other.
func refuseCycle(checks []Check, byID map[StepID]*Check) error {
	done := map[StepID]bool{}
	var path []StepID
	var visit func(c *Check) error
	visit = func(c *Check) error {
		if i := slices.Index(path, c.ID); i >= 0 {
			var names []string
			for _, id := range append(path[i:], c.ID) {
				names = append(names, string(id))
			}
			return fmt.Errorf("pullwalk: checks need each other: %s", strings.Join(names, " -> "))
		}
		if done[c.ID] {
			return nil
		}
		path = append(path, c.ID)
		for _, need := range c.Needs {
			if next := byID[need]; next != nil {
				if err := visit(next); err != nil {
					return err
				}
			}
		}
		path = path[:len(path)-1]
		done[c.ID] = true
		return nil
	}
	for i := range checks {
		if err := visit(&checks[i]); err != nil {
			return err
		}
	}
	return nil
}
