package pullwalk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"github.com/pullwalk/pullwalk/internal/pull"
	"slices"
	"strings"
)

// Fingerprint returns 32 hexadecimal digits that change when something changed
// that is worth telling: a controller that looks again every minute updates its
// condition only then. A Result that was stored as JSON keeps its fingerprint.
// Compare only those that one version of this module made.
//
// In it are the image, its platform and digest, how much of the pull was asked
// for, the verdict, whether a [Proof] is there and what makes it worthless, the
// verdict of each source and of the sandbox image, severity, cause and endpoint of every finding, and what
// did not hold: each endpoint-wide step that is degraded, failed, blocked or
// inconclusive.
//
// Not in it are times, rates and bytes; who looked (two nodes that share a cause
// share the fingerprint, so keep it per node); the words of summaries and
// reasons; and what rotates while nothing is wrong: steps that held or were
// skipped, whatever host they were at, and single addresses. One dead address of
// two still counts, because the endpoint-wide step is then degraded; which of the
// two it is does not. A nameserver is named by its address and is no such lane.
func (r *Result) Fingerprint() string {
	var lines []string
	// Quoted, so that no text can pass for another line.
	add := func(parts ...string) { lines = append(lines, fmt.Sprintf("%q", parts)) }
	add("image", r.Image.Reference, r.Image.Platform, r.Image.Digest, string(r.Pull), string(r.Verdict))
	if p := r.Primary; p != nil {
		add("primary", string(p.Cause), p.Endpoint)
	}
	for _, f := range r.Findings {
		add("finding", string(f.Severity), string(f.Cause), f.Endpoint)
	}
	if p := r.Proof; p != nil {
		add(append([]string{"proof", p.Digest}, p.HandEdits...)...)
	}
	if s := r.Sandbox; s != nil {
		add("sandbox", s.Image, string(s.Verdict))
	}
	for _, s := range r.Sources {
		add("source", s.Kind, s.Host, string(s.Verdict))
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				lane := st.Addr.IsValid() && e.Scheme != pull.SchemeDNS
				if !lane && st.Status != StatusOK && st.Status != StatusSkipped {
					add("step", s.Host, e.Scheme, e.HostPort(), string(st.ID), string(st.Status))
				}
			}
		}
	}
	// Requests run side by side: their order says nothing, nor how many layers met
	// the same obstacle at one host.
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "\n")))
	return hex.EncodeToString(sum[:16]) // short enough for the value of a label
}
