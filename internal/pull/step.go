package pull

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Status is the outcome of a step, of a source and of a whole pull.
type Status string

// The statuses, see package pullwalk.
const (
	StatusOK           Status = "ok"
	StatusDegraded     Status = "degraded"
	StatusFailed       Status = "failed"
	StatusBlocked      Status = "blocked"
	StatusSkipped      Status = "skipped"
	StatusInconclusive Status = "inconclusive"
)

// Passes reports whether a step lets its dependants start.
func Passes(s Status) bool { return s == StatusOK || s == StatusDegraded || s == StatusSkipped }

// StepID names a kind of step. Those of a caller's own checks have a slash.
type StepID string

// The steps, see package pullwalk.
const (
	StepSettings  StepID = "settings"
	StepDNS       StepID = "dns"
	StepRoute     StepID = "route"
	StepConnect   StepID = "connect"
	StepTunnel    StepID = "tunnel"
	StepTLS       StepID = "tls"
	StepRounds    StepID = "rounds"
	StepPing      StepID = "ping"
	StepChallenge StepID = "challenge"
	StepSecrets   StepID = "secrets"
	StepToken     StepID = "token"
	StepResolve   StepID = "resolve"
	StepRights    StepID = "rights"
	StepManifest  StepID = "manifest"
	StepStore     StepID = "store"
	StepConfig    StepID = "config"
	StepLayer     StepID = "layer"
)

// IsOwn reports whether a step is a check of the caller's.
func IsOwn(id StepID) bool { return strings.Contains(string(id), "/") }

// kind is what is known of all steps of one ID.
type kind struct {
	id       StepID
	layer    classify.Layer // where a failure belongs whose finding does not say
	silence  classify.Layer // where it belongs that no answer comes
	needable bool           // every pull takes it where it applies
}

// kinds stand in the order in which steps are reported.
var kinds = []kind{
	{StepSettings, classify.LayerNode, classify.LayerNode, false},
	{StepDNS, classify.LayerDNS, classify.LayerDNS, true},
	{StepRoute, classify.LayerRoute, classify.LayerRoute, true},
	{StepConnect, classify.LayerEndpoint, classify.LayerRoute, true},
	{StepTunnel, classify.LayerEndpoint, classify.LayerEndpoint, true},
	{StepTLS, classify.LayerTLS, classify.LayerEndpoint, true},
	{StepRounds, classify.LayerEndpoint, classify.LayerEndpoint, false},
	{StepPing, classify.LayerEndpoint, classify.LayerEndpoint, true},
	{StepChallenge, classify.LayerEndpoint, classify.LayerEndpoint, true},
	{StepSecrets, classify.LayerIdentity, classify.LayerEndpoint, false},
	{StepToken, classify.LayerIdentity, classify.LayerEndpoint, true},
	{StepResolve, classify.LayerImage, classify.LayerEndpoint, true},
	{StepRights, classify.LayerIdentity, classify.LayerEndpoint, false},
	{StepManifest, classify.LayerImage, classify.LayerEndpoint, true},
	{StepStore, classify.LayerNode, classify.LayerEndpoint, false},
	{StepConfig, classify.LayerImage, classify.LayerEndpoint, true},
	{StepLayer, classify.LayerImage, classify.LayerEndpoint, true},
}

func kindOf(id StepID) kind {
	if i := Place(id); i < len(kinds) {
		return kinds[i]
	}
	return kind{id, classify.LayerEndpoint, classify.LayerEndpoint, false}
}

// Place is the place of a step among the others of its endpoint: the caller's own
// come last.
func Place(id StepID) int {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.id == id }); i >= 0 {
		return i
	}
	return len(kinds)
}

// LayerOf is the layer of a step. A finding in it may have another one: a 401 is
// identity.
func LayerOf(id StepID) classify.Layer { return kindOf(id).layer }

// SilenceOf is the layer that silence in a step points to: what was sent got lost,
// or something answers and then does not go on, whatever is asked for.
func SilenceOf(id StepID) classify.Layer { return kindOf(id).silence }

// Needable reports whether a caller's check can wait for a step.
func Needable(id StepID) bool { return kindOf(id).needable }

// PerAddress reports whether each address of an endpoint takes the step.
func PerAddress(id StepID) bool { return id == StepRoute || id == StepConnect || id == StepTLS }

// Step is one thing that was tried, or could not be, as it was seen.
type Step struct {
	ID        StepID
	Subject   string // a tag or digest; "" = none
	Layer     classify.Layer
	Status    Status
	Addr      netip.Addr // zero = of no single address
	BlockedBy string     // as StepName
	Reason    string     // why it is skipped or inconclusive
	Retry     *registry.Retry
	ElapsedMS int64
	Findings  []classify.Finding

	Request *registry.Report
	Access  *registry.Access
	Rounds  []Round
	Report  any // of the probe: route, connect, dns or tls

	// Index is the order among steps of one ID: of addresses, credentials, layers.
	Index int
	// Sum stands where every address has taken a step: the outcome of all of them is
	// for the judge to say, and nothing but ID is set.
	Sum bool
	// Hurried says that limits were shorter than a runtime's, to fit a small budget.
	Hurried bool
	// Stalled is the longest time near the step for which this process did not run.
	Stalled time.Duration
	// Panicked is how the caller's code failed that the step depends on; "" = it did not.
	Panicked string
}

// Round is one of several lookups of a name, or connects to an address.
type Round struct {
	Held      bool
	Cause     classify.Cause
	Addresses []netip.Addr
	Reason    string
	ElapsedMS int64
}

// StepName is how a step is named in texts and in BlockedBy.
func StepName(id StepID, hostPort string, addr netip.Addr) string {
	name := string(id) + "@" + hostPort
	if addr.IsValid() {
		name += "[" + addr.String() + "]"
	}
	return name
}

// HasSeverity reports whether one of the findings has a severity.
func HasSeverity(findings []classify.Finding, s classify.Severity) bool {
	return slices.ContainsFunc(findings, func(f classify.Finding) bool { return f.Severity == s })
}

// StatusOf sets the status of a step by what its report says. Nothing is ok that
// was not seen to hold.
func StatusOf(s Step, held bool, inconclusive string, findings []classify.Finding) Step {
	s.Findings = findings
	switch {
	case HasSeverity(findings, classify.SeverityFail):
		s.Status = StatusFailed
	case inconclusive != "":
		s.Status, s.Reason = StatusInconclusive, inconclusive
	case !held:
		s.Status, s.Reason = StatusInconclusive, "nothing was seen that decides"
	case HasSeverity(findings, classify.SeverityWarn):
		s.Status = StatusDegraded
	default:
		s.Status = StatusOK
	}
	return s
}

// Warned is a copy of findings of which none fails.
func Warned(findings []classify.Finding) []classify.Finding {
	out := slices.Clone(findings)
	for i := range out {
		if out[i].Severity == classify.SeverityFail {
			out[i].Severity = classify.SeverityWarn
		}
	}
	return out
}

// Waited is the time that passed before a finding was made of it; 0 = it is not
// about time.
func Waited(f classify.Finding) time.Duration {
	text := f.Fact(classify.FactLimit)
	if text == "" && f.Cause == classify.DNSResolverTimeout { // an answer that came too late
		text = f.Fact(classify.FactElapsed)
	}
	d, err := time.ParseDuration(text)
	if err != nil { // a limit of size
		return 0
	}
	return d
}
