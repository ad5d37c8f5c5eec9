package pullwalk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

func txtarFile(name, content string) txtar.File { return txtar.File{Name: name, Data: []byte(content)} }

func formatArchive(a *txtar.Archive) []byte { return txtar.Format(a) }

// wholeTrees are the scenarios whose golden form keeps every step: each kind of step
// stands in one of them, and a new kind touches no other.
var wholeTrees = []string{"healthy-complete", "mirror-and-upstream-down", "proxy-works", "identity-second-credential", "rounds-connect-wavers"}

// The golden form of a result: verdict, findings, hosts and the steps that are not
// ok, one step per line. The probes' own reports are cut to what was seen in a few
// words, and what the catalogue says of a cause is in the text report.
type goldenResult struct {
	Verdict          pullwalk.Status `json:"verdict"`
	Primary          string          `json:"primary,omitempty"`
	Inconclusive     string          `json:"inconclusive,omitempty"`
	Digest           string          `json:"digest,omitempty"`
	Identity         string          `json:"identity"`
	Runtime          string          `json:"runtime,omitempty"`
	ManifestRequests int             `json:"manifestRequests"`
	ElapsedMS        int64           `json:"elapsedMs,omitempty"`
	Proof            *pullwalk.Proof `json:"proof,omitempty"`
	Reported         string          `json:"reported,omitempty"`
	Findings         []string        `json:"findings,omitempty"`
	Decisions        []string        `json:"decisions,omitempty"`
	Sources          []goldenSource  `json:"sources"`
	Sandbox          *goldenSandbox  `json:"sandbox,omitempty"`
}

type goldenSandbox struct {
	Image    string          `json:"image,omitempty"`
	File     string          `json:"file,omitempty"`
	Verdict  pullwalk.Status `json:"verdict"`
	Reason   string          `json:"reason,omitempty"`
	Primary  string          `json:"primary,omitempty"`
	Identity string          `json:"identity,omitempty"`
	Sources  []goldenSource  `json:"sources,omitempty"`
}

type goldenSource struct {
	Host      string           `json:"host"`
	Kind      string           `json:"kind"`
	Verdict   pullwalk.Status  `json:"verdict"`
	Reason    string           `json:"reason,omitempty"`
	Endpoints []goldenEndpoint `json:"endpoints"`
}

type goldenEndpoint struct {
	Endpoint string            `json:"endpoint"`
	Roles    string            `json:"roles"`
	Via      string            `json:"via,omitempty"`
	FoundBy  string            `json:"foundBy"`
	Hint     bool              `json:"hint,omitempty"`
	Steps    []json.RawMessage `json:"steps,omitempty"`
}

type goldenStep struct {
	ID        pullwalk.StepID `json:"id"`
	Addr      netip.Addr      `json:"addr,omitzero"`
	Subject   string          `json:"subject,omitempty"`
	Layer     classify.Layer  `json:"layer,omitempty"` // where it is not the usual one
	Status    pullwalk.Status `json:"status"`
	BlockedBy string          `json:"blockedBy,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	ElapsedMS int64           `json:"elapsedMs,omitempty"`
	Saw       string          `json:"saw,omitempty"`
	Rounds    string          `json:"rounds,omitempty"` // see rates
	Retry     string          `json:"retry,omitempty"`
	Findings  []goldenFinding `json:"findings,omitempty"`
}

type goldenFinding struct {
	Cause        classify.Cause   `json:"cause"`
	Severity     string           `json:"severity"` // with the certainty, where it is not proven
	Endpoint     string           `json:"endpoint"`
	Operation    string           `json:"operation,omitempty"`
	Summary      string           `json:"summary"`
	Facts        string           `json:"facts,omitempty"`
	Alternatives []classify.Cause `json:"alternatives,omitempty"`
}

func golden(t testing.TB, scenario string, r *pullwalk.Result) string {
	t.Helper()
	whole := slices.Contains(wholeTrees, scenario)
	g := goldenResult{
		Verdict: r.Verdict, Inconclusive: r.Inconclusive, Digest: r.Image.Digest, Identity: r.Vantage.Identity, Runtime: r.Vantage.Runtime,
		ManifestRequests: r.ManifestRequests, ElapsedMS: r.ElapsedMS, Proof: r.Proof,
	}
	if p := r.Reported; p != nil {
		g.Reported = fmt.Sprintf("%d events on %s, the last failure reads %s; agrees: %s %s", p.Events, p.Node, p.Reading.Best.Cause, p.Agrees, p.Note)
	}
	if p := r.Primary; p != nil {
		g.Primary = fmt.Sprintf("%s at %s, owner %s", p.Cause, p.Endpoint, p.Owner)
	}
	for _, f := range r.Findings {
		g.Findings = append(g.Findings, fmt.Sprintf("%s %s at %s", f.Severity, f.Cause, f.Endpoint))
	}
	for _, d := range r.Decisions {
		g.Decisions = append(g.Decisions, fmt.Sprintf("%s: %s: %s to %s, since %s", d.Rule, d.Subject, d.From, d.To, d.Why))
	}
	g.Sources = goldenSources(t, r.Sources, whole)
	if s := r.Sandbox; s != nil {
		g.Sandbox = &goldenSandbox{Image: s.Image, File: s.File, Verdict: s.Verdict, Reason: s.Reason, Identity: s.Identity, Sources: goldenSources(t, s.Sources, whole)}
		if s.Primary != nil {
			g.Sandbox.Primary = fmt.Sprintf("%s at %s", s.Primary.Cause, s.Primary.Endpoint)
		}
	}
	return indentSteps(t, g)
}

func goldenSources(t testing.TB, sources []pullwalk.Source, whole bool) (out []goldenSource) {
	t.Helper()
	for _, s := range sources {
		gs := goldenSource{Host: s.Host, Kind: s.Kind, Verdict: s.Verdict, Reason: s.Reason, Endpoints: []goldenEndpoint{}}
		for _, e := range s.Endpoints {
			var roles []string
			for _, role := range e.Roles {
				roles = append(roles, string(role))
			}
			ge := goldenEndpoint{Endpoint: e.Scheme + "://" + e.HostPort(), Roles: strings.Join(roles, " "), Via: e.Via, FoundBy: e.FoundBy, Hint: e.Hint}
			for _, st := range e.Steps {
				if whole || st.Status != pullwalk.StatusOK {
					ge.Steps = append(ge.Steps, line(t, goldenOf(st)))
				}
			}
			gs.Endpoints = append(gs.Endpoints, ge)
		}
		out = append(out, gs)
	}
	return out
}

func goldenOf(st pullwalk.Step) goldenStep {
	out := goldenStep{
		ID: st.ID, Addr: st.Addr, Subject: short(st.Subject), Status: st.Status, BlockedBy: st.BlockedBy, Reason: st.Reason,
		ElapsedMS: st.ElapsedMS, Saw: saw(st), Rounds: rates(st.Rounds),
	}
	if r := st.Retry; r != nil {
		out.Retry = fmt.Sprintf("%d requests, %d ms apart in all: %s", r.Requests, r.WaitMS, r.What)
	}
	for _, f := range st.Findings {
		gf := goldenFinding{Cause: f.Cause, Severity: string(f.Severity), Endpoint: f.Endpoint, Operation: string(f.Operation), Summary: f.Summary, Alternatives: f.Alternatives}
		if f.Certainty != classify.CertaintyProven {
			gf.Severity += " " + string(f.Certainty)
		}
		var facts []string
		for _, fact := range f.Facts {
			facts = append(facts, fact.Key+"="+fact.Value)
		}
		gf.Facts = strings.Join(facts, ", ")
		out.Findings = append(out.Findings, gf)
	}
	return out
}

// short cuts digests: the whole one is in the summaries that need it.
func short(subject string) string {
	if len(subject) > 19 && strings.HasPrefix(subject, "sha256:") {
		return subject[:19]
	}
	return subject
}

// saw is a probe's report in a few words.
func saw(st pullwalk.Step) string {
	var words []string
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case st.Reach != nil && st.Reach.Route != nil:
		r := st.Reach.Route
		add("%s", r.Kind)
		if r.Gateway.IsValid() {
			add("via %s dev %s src %s", r.Gateway, r.Interface, r.Source)
		}
	case st.Reach != nil && st.Reach.Connect != nil:
		c := st.Reach.Connect
		switch {
		case c.Connected:
			add("connected")
		case c.TimedOut:
			add("nothing")
		default:
			add("%s", c.Errno)
		}
	case st.DNS != nil:
		add("%s %v", st.DNS.From, st.DNS.Addresses)
	case st.TLS != nil:
		for _, h := range st.TLS.Handshakes {
			add("%s hello %s", h.Hello, map[bool]string{true: h.Version, false: "not done"}[h.Done])
		}
		if st.TLS.Verified {
			add("trusted by %s", st.TLS.TrustedBy)
		}
	case st.Access != nil:
		a := st.Access
		add("%s", a.Credential.Source)
		for _, try := range a.Attempts {
			add("%s %s %d", try.Method, try.URL, try.Status)
		}
		if a.TokenIssued {
			add("token grants %v", a.Granted)
		}
	case st.Request != nil:
		r := st.Request
		add("%s %s %d %s", r.Method, shortURL(r.URL), r.Status, r.Outcome)
		if r.Credentialed {
			add("with credentials")
		}
		if r.Location != "" {
			add("to %s", shortURL(r.Location))
		}
		if r.Bytes > 0 {
			add("%d bytes", r.Bytes)
		}
		if r.Complete {
			add("digest checked")
		}
	}
	return strings.Join(words, ", ")
}

func shortURL(u string) string {
	if i := strings.Index(u, "sha256"); i >= 0 && len(u) > i+19 {
		return u[:i+19]
	}
	return u
}

func line(t testing.TB, v any) json.RawMessage {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	require.NoError(t, enc.Encode(v))
	return bytes.TrimSpace(b.Bytes())
}

// indentSteps indents the document and leaves each step on one line, with its
// findings on lines of their own.
func indentSteps(t testing.TB, g goldenResult) string {
	t.Helper()
	kept := map[string]string{}
	sources := g.Sources
	if g.Sandbox != nil {
		sources = slices.Concat(sources, g.Sandbox.Sources)
	}
	for i := range sources {
		for j := range sources[i].Endpoints {
			steps := sources[i].Endpoints[j].Steps
			for k := range steps {
				mark := fmt.Sprintf(`"step %d %d %d"`, i, j, k)
				kept[mark] = strings.ReplaceAll(string(steps[k]), `{"cause"`, "\n          {\"cause\"")
				steps[k] = json.RawMessage(mark)
			}
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	require.NoError(t, enc.Encode(g))
	out := b.String()
	for mark, step := range kept {
		out = strings.ReplaceAll(out, mark, step)
	}
	require.True(t, json.Valid([]byte(out)))
	return out
}

func parseArchive(text string) *txtar.Archive { return txtar.Parse([]byte(text)) }

// difference shows the lines that only one of two texts has.
func difference(want, got string) string {
	var b strings.Builder
	show := func(mark, text, other string) {
		for line := range strings.SplitSeq(text, "\n") {
			if !strings.Contains("\n"+other+"\n", "\n"+line+"\n") {
				fmt.Fprintf(&b, "%s %s\n", mark, line)
			}
		}
	}
	show("-", want, got)
	show("+", got, want)
	return b.String()
}
