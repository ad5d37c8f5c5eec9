package pullwalk

import (
	"fmt"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// Sandbox is what became of the sandbox image (the pause image). The runtime pulls
// it by itself when the first pod comes to a node: without it no pod starts there,
// no container's event says so, and pull secrets do not count for it. A pull of the
// image in question works without it all the same; that is why what is wrong here
// never is the Primary of a [Result], and stands among its warnings, with the
// operation sandbox-image.
//
// Not proved is that pods start: a runtime class may need no such image.
type Sandbox struct {
	Image string `json:"image,omitempty"` // as configured; "" = no file names one
	File  string `json:"file,omitempty"`  // the file that names it
	// Verdict is skipped where nothing was asked, for Reason: the node has the image,
	// or no file names one and what the runtime was built with is not known. Else it
	// is the verdict of a walk like the image's own, in the same [PullMode].
	Verdict Status `json:"verdict"`
	Reason  string `json:"reason,omitempty"` // why it is skipped or inconclusive
	// Primary is the root cause if the verdict is failed.
	Primary  *classify.Finding `json:"primary,omitempty"`
	Identity string            `json:"identity,omitempty"` // source of the credential that was used
	Sources  []Source          `json:"sources,omitempty"`  // as those of the image
}

// compareSandbox holds an event about the sandbox image against what was seen of it.
func (r *Result) compareSandbox() {
	p, s := r.Reported, r.Sandbox
	if p == nil || p.Reading.Best.Operation != classify.OperationSandboxImage {
		return
	}
	p.Agrees, p.Note = "unknown", "the event is about the sandbox image"
	switch {
	case s.Primary != nil && related(p.Reading.Best.Cause, s.Primary.Cause):
		p.Agrees, p.Note = "yes", ""
	case s.Verdict == StatusSkipped:
		p.Note += ", which was not walked: " + s.Reason
	case s.Primary != nil || pull.Passes(s.Verdict):
		p.Agrees = "no"
		p.Note += ": repaired or intermittent since, another node, or the text names a consequence"
	}
}

// said is the sandbox image's line of the report; "" if there is nothing to say.
func (s *Sandbox) said() string {
	switch {
	case s == nil || s.Image == "":
		return ""
	case s.Verdict == StatusSkipped:
		return s.Image + ": " + s.Reason
	case s.Verdict == StatusFailed:
		where := ""
		if s.Primary.Endpoint != "" {
			where = " at " + s.Primary.Endpoint
		}
		return fmt.Sprintf("%s: cannot be pulled (%s%s, owner %s), so no pod starts on a node that does not have it", s.Image, s.Primary.Cause, where, s.Primary.Owner)
	case s.Verdict == StatusInconclusive:
		return s.Image + ": not known: " + s.Reason
	}
	return fmt.Sprintf("%s: every hop held; asked as %s", s.Image, s.Identity)
}
