package pullwalk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// section is one question that a report answers.
type section struct {
	title string
	lines []string
}

// String returns the whole report as text: the verdict and what it holds for, the
// first broken layer with host and operation, what was seen, who owns it, where to
// look, what helps and what does not, what is blocked behind it, what else is
// wrong, what would prove the repair, and who looked. [Result.Summary] is short
// enough for a chat.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.headline())
	for _, s := range r.sections() {
		for i, line := range s.lines {
			title := ""
			if i == 0 {
				title = s.title + ":"
			}
			fmt.Fprintf(&b, "  %-16s %s\n", title, line)
		}
	}
	return b.String()
}

// Markdown returns the same report for an issue or a chat. Text of other parties
// is quoted as code, so that it cannot format or mention anything.
func (r *Result) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n", escape(r.headline()))
	for _, s := range r.sections() {
		if len(s.lines) == 1 {
			fmt.Fprintf(&b, "- **%s**: %s\n", s.title, escape(s.lines[0]))
			continue
		}
		fmt.Fprintf(&b, "- **%s**:\n", s.title)
		for _, line := range s.lines {
			fmt.Fprintf(&b, "  - %s\n", escape(line))
		}
	}
	return b.String()
}

// escape keeps what others wrote from becoming markup.
func escape(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune("\\`*_{}[]<>#|~@!", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func (r *Result) headline() string {
	what := fmt.Sprintf("%s (%s): ", r.Image.Reference, r.Image.Platform)
	switch {
	case r.onlyOwnFailed():
		return what + "every hop held, and a check of the caller's own fails"
	case r.Verdict == StatusFailed:
		return what + "the pull fails"
	case r.Verdict == StatusInconclusive:
		return what + "not known"
	case r.Proof != nil && len(r.Proof.HandEdits) > 0:
		return what + "downloaded completely, and worth nothing as proof for the pool"
	case r.Proof != nil && r.Verdict == StatusDegraded:
		return what + "downloaded completely, with warnings"
	case r.Proof != nil:
		return what + "downloaded completely"
	case r.Pull == Connect:
		return what + "registry and token server answer; no identity was used and nothing was pulled"
	case r.Verdict == StatusDegraded:
		return what + "every hop held, with warnings; not a complete pull"
	}
	return what + "every hop held; not a complete pull"
}

func (r *Result) sections() []section {
	var out []section
	add := func(title string, lines ...string) {
		var kept []string
		for _, l := range lines {
			if l != "" {
				kept = append(kept, l)
			}
		}
		if len(kept) > 0 {
			out = append(out, section{title, kept})
		}
	}
	add("Holds for", r.key())
	if p := r.Primary; p != nil {
		info, _ := classify.Lookup(p.Cause)
		add("First broken", firstBroken(p))
		add("Seen", seen(p))
		add("Other readings", readings(p.Alternatives)...)
		add("Owner", string(p.Owner))
		add("Where to look", info.Look)
		add("Remedy", p.Remedy)
		add("Will not help", p.NotFixedBy)
	}
	add("Not known", r.Inconclusive)
	add("Blocked behind", r.blocked()...)
	add("Repeated", r.repeats()...)
	var also, warnings, notes []string
	for i, f := range r.Findings {
		line := fmt.Sprintf("[%s] %s", f.Layer, f.Error())
		switch {
		case f.Severity == classify.SeverityWarn:
			warnings = append(warnings, line)
		case f.Severity != classify.SeverityFail:
			notes = append(notes, line)
		case i > 0:
			also = append(also, line+" (owner "+string(f.Owner)+")")
		}
	}
	add("Also broken", also...)
	add("Warnings", warnings...)
	add("Notes", notes...)
	add("Reported", r.reported()...)
	add("Sandbox image", r.Sandbox.said())
	add("Proof", r.proof()...)
	add("Hosts", r.hosts()...)
	add("Looked from", r.lookedFrom())
	return out
}

// readings names causes that what was seen would fit as well, best first.
func readings(causes []classify.Cause) []string {
	var out []string
	for _, c := range causes {
		line := string(c)
		if info, ok := classify.Lookup(c); ok {
			line += ": " + info.Title
		}
		out = append(out, line)
	}
	return out
}

// firstBroken is layer, host and operation of the root cause.
func firstBroken(p *classify.Finding) string {
	where, doing := "", ""
	if p.Endpoint != "" {
		where = " at " + p.Endpoint
	}
	if p.Operation != "" && p.Operation != classify.OperationUnknown {
		doing = ", during " + string(p.Operation)
	}
	return fmt.Sprintf("layer %s%s (%s%s)", p.Layer, where, p.Cause, doing)
}

// seen is what the root cause says, and of a download how far it came.
func seen(p *classify.Finding) string {
	got := p.Fact(classify.FactGot)
	if got == "" || p.Cause != classify.EndpointDownloadStalled && p.Cause != classify.EndpointDownloadInterrupted {
		return p.Summary
	}
	how := got
	if size := p.Fact(classify.FactSize); size != "" {
		how += " of " + size
	}
	if rate := p.Fact(classify.FactRate); rate != "" {
		how += ", " + rate + " per second until then"
	}
	return p.Summary + " (" + how + ")"
}

// key is what the verdict holds for, and nothing else.
func (r *Result) key() string {
	v := r.Vantage
	digest := r.Image.Digest
	if digest == "" {
		digest = "digest not known"
	}
	parts := []string{digest, "node " + r.node()}
	if v.ResolverFile != "" {
		parts = append(parts, fmt.Sprintf("nameservers %s of %s", strings.Join(v.Nameservers, " "), v.ResolverFile))
	}
	parts = append(parts, "identity "+v.Identity, r.Started.Format(time.RFC3339))
	return strings.Join(parts, ", ")
}

// node is the cluster's name of the node, else the host's.
func (r *Result) node() string {
	return cmp.Or(r.Vantage.label(LabelNode), r.Vantage.HostName, "not known")
}

// blocked lists what could not be tried, each obstacle and each host behind it
// once.
func (r *Result) blocked() []string {
	type place struct{ by, host string }
	var order []place
	behind := map[place][]string{}
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			if e.Hint && pull.Passes(r.Verdict) {
				continue // the pull did not come there
			}
			for _, st := range e.Steps {
				if st.Status != StatusBlocked || st.Addr.IsValid() {
					continue
				}
				at := place{st.BlockedBy, e.HostPort()}
				if behind[at] == nil {
					order = append(order, at)
				}
				if !slices.Contains(behind[at], string(st.ID)) {
					behind[at] = append(behind[at], string(st.ID))
				}
			}
		}
	}
	var out []string
	for _, at := range order {
		out = append(out, fmt.Sprintf("%s: %s at %s", at.by, strings.Join(behind[at], ", "), at.host))
	}
	return out
}

// repeats lists what the runtime does by itself after what failed, each kind once.
func (r *Result) repeats() []string {
	var out []string
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				if st.Retry != nil && !slices.Contains(out, st.Retry.What) {
					out = append(out, st.Retry.What)
				}
			}
		}
	}
	return out
}

// proof says what was proved, or what would prove the repair.
func (r *Result) proof() []string {
	p := r.Proof
	if p == nil {
		open := "open: "
		if step := r.brokenStep(); step != "" {
			open += step + " holds here, then "
		}
		return []string{open + "a complete download of every layer, from a fresh node of each pool that nobody repaired by hand"}
	}
	lines := []string{fmt.Sprintf("%d layers, %d bytes, every digest checked, nothing unpacked, %s", p.Layers, p.Bytes, p.Digest)}
	for _, e := range p.HandEdits {
		lines = append(lines, "worth nothing for the pool, since this node was changed: "+e)
	}
	return lines
}

// brokenStep names the step that found the root cause, "" if there is none.
func (r *Result) brokenStep() string {
	if r.Primary == nil {
		return ""
	}
	for _, s := range r.Sources {
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				for _, f := range st.Findings {
					if f.Cause == r.Primary.Cause && f.Endpoint == r.Primary.Endpoint && f.Summary == r.Primary.Summary {
						return pull.StepName(st.ID, e.HostPort(), st.Addr)
					}
				}
			}
		}
	}
	return ""
}

func (r *Result) hosts() []string {
	var out []string
	for _, h := range r.Hosts() {
		roles := make([]string, len(h.Roles))
		for i, role := range h.Roles {
			roles[i] = string(role)
		}
		line := h.Host + " (" + strings.Join(roles, ", ") + ")"
		for _, a := range h.Addresses {
			line += " " + a.String()
		}
		if h.Via != "" {
			line += " via proxy " + h.Via
		}
		if h.Hint {
			line += ", not seen in this pull"
		}
		out = append(out, line)
	}
	return out
}

func (r *Result) lookedFrom() string {
	v := r.Vantage
	parts := []string{"network namespace " + v.NetworkNamespace}
	if v.HostName != "" {
		parts = append([]string{"host " + v.HostName}, parts...)
	}
	switch {
	case v.Runtime != "" && v.RuntimePID == 0:
		parts = append(parts, "runtime "+v.Runtime+" (as the caller says, its process was not seen)")
	case v.Runtime != "":
		parts = append(parts, fmt.Sprintf("runtime %s (pid %d)", v.Runtime, v.RuntimePID))
	default:
		parts = append(parts, "no runtime found")
	}
	if v.Proxy != "" {
		parts = append(parts, "proxy settings of the "+v.Proxy)
	}
	return fmt.Sprintf("%s; in %d ms", strings.Join(parts, ", "), r.ElapsedMS)
}

// Bounds of a summary: what a chat shows without folding it.
const (
	maxSummaryLine  = 320 // bytes
	maxSummaryCodes = 4   // other findings that are named; the rest is counted
)

// Summary returns the report in at most ten lines of at most some 300 bytes, for a
// chat or a condition of a cluster: the verdict with node and time, the first
// broken layer with host and owner, what was seen, where to look, the remedy, what
// will not help, what else is wrong, what the events say, and what would prove the
// repair. Longer texts are cut and end in an ellipsis; [Result.String] has them
// whole. Like that, it is plain text and holds words of other parties: quote it
// where markup means something.
func (r *Result) Summary() string {
	var lines []string
	add := func(title, text string) {
		if text == "" {
			return
		}
		if title != "" {
			text = title + ": " + text
		}
		lines = append(lines, classify.Redact(text, maxSummaryLine))
	}
	add("", fmt.Sprintf("%s, on %s at %s", r.headline(), r.node(), r.Started.Format(time.RFC3339)))
	if p := r.Primary; p != nil {
		info, _ := classify.Lookup(p.Cause)
		add("First broken", firstBroken(p)+", owner "+string(p.Owner))
		add("Seen", seen(p))
		add("Look", info.Look)
		add("Remedy", p.Remedy)
		add("Will not help", p.NotFixedBy)
	}
	add("Not known", r.Inconclusive)
	add("Besides", r.besides())
	if events := r.reported(); len(events) > 0 {
		add("Events", strings.Join(events, "; "))
	}
	add("Proof", strings.Join(r.proof(), "; "))
	return strings.Join(lines, "\n") + "\n"
}

// besides names what else is wrong, and counts what is blocked.
func (r *Result) besides() string {
	var parts []string
	named, more := 0, 0
	for i, f := range r.Findings {
		switch {
		case i == 0 && r.Primary != nil, f.Severity == classify.SeverityInfo:
		case named == maxSummaryCodes:
			more++
		default:
			named++
			word := "warning "
			if f.Severity == classify.SeverityFail {
				word = "broken too: "
			}
			where := ""
			if f.Endpoint != "" {
				where = " at " + f.Endpoint
			}
			parts = append(parts, word+string(f.Cause)+where)
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("%d more findings", more))
	}
	if n := len(r.blocked()); n > 0 {
		parts = append(parts, fmt.Sprintf("steps at %s not tried", hostsBlocked(n)))
	}
	return strings.Join(parts, "; ")
}

func hostsBlocked(n int) string {
	if n == 1 {
		return "one host"
	}
	return fmt.Sprintf("%d places", n)
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
