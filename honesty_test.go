package pullwalk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/reach"
)

// checkHonesty looks for what every step that says ok needs: that the world
// served it. The counters of the servers and of the network decide, not what the
// reports say.
func (g *seen) checkHonesty(t *testing.T) {
	t.Helper()
	for _, src := range allSources(g.result) {
		for _, e := range src.Endpoints {
			for _, st := range e.Steps {
				if st.Status == pullwalk.StatusOK || st.Status == pullwalk.StatusDegraded && !superseded(st) {
					g.checkServed(t, e, st)
				}
			}
		}
	}
	if p := g.result.Proof; p != nil {
		g.checkProof(t, p)
	}
	assert.Empty(t, g.lab.Violations(), "credentials where they must not go")
	for _, d := range g.net.Dials() {
		assert.True(t, pullwalk.DenyPlatformAddrs(d.Address) == nil || g.namesCredentials(d.Address.Addr()), "dialled %v", d.Address)
	}
	if g.result.Verdict == pullwalk.StatusOK || g.result.Verdict == pullwalk.StatusDegraded {
		assert.NotZero(t, len(g.served(lab.RegistryName)), "a pull that holds reached the registry")
	}
}

// namesCredentials says that the node's own settings lead to an address for
// credentials: that may be one to which no registry may lead.
func (g *seen) namesCredentials(a netip.Addr) bool {
	return slices.ContainsFunc(g.result.Sources, func(s pullwalk.Source) bool {
		return slices.ContainsFunc(s.Endpoints, func(e pullwalk.Endpoint) bool {
			return slices.Contains(e.Roles, endpoints.RoleCredential) && e.Host == a.String()
		})
	})
}

// superseded steps are degraded because a later one made up for them, or because
// not every runtime asks: they did not hold themselves.
func superseded(st pullwalk.Step) bool {
	return st.ID == pullwalk.StepToken || st.ID == pullwalk.StepResolve || st.ID == pullwalk.StepPing
}

func (g *seen) checkServed(t *testing.T, e pullwalk.Endpoint, st pullwalk.Step) {
	t.Helper()
	what := fmt.Sprintf("%s@%s[%v] is %s", st.ID, e.HostPort(), st.Addr, st.Status)
	switch st.ID {
	case pullwalk.StepDNS:
		require.NotNil(t, st.DNS, what)
		if st.DNS.From == "hosts" {
			assert.Contains(t, string(g.files["etc/hosts"].Data), e.Host, what)
			return
		}
		asked := false
		for _, q := range g.net.Questions() {
			asked = asked || strings.TrimSuffix(q.Name, ".") == e.Host && q.RCode == "NOERROR"
		}
		assert.True(t, asked, "%s, and no nameserver answered", what)
	case pullwalk.StepRoute:
		addrs := []netip.Addr{st.Addr}
		if !st.Addr.IsValid() {
			addrs = g.addressesOf(e)
		}
		assert.True(t, slices.ContainsFunc(addrs, func(a netip.Addr) bool {
			r, err := g.net.Router().RouteTo(t.Context(), a)
			return err == nil && (r.Kind == reach.RouteUnicast || r.Kind == reach.RouteLocal)
		}), what)
	case pullwalk.StepConnect, pullwalk.StepTLS:
		assert.True(t, g.connected(e, st.Addr), "%s, and no dial connected", what)
	case pullwalk.StepTunnel:
		assert.True(t, slices.ContainsFunc(g.proxies, func(p *proxy) bool {
			return p.kind != "refuses" && slices.Contains(p.targets(), e.HostPort())
		}), "%s, and no proxy was asked", what)
	case pullwalk.StepRights:
		assert.NotZero(t, g.lab.Token.Count("", "/token", 200), what)
	case pullwalk.StepToken:
		require.NotNil(t, st.Access, what)
		assert.NotZero(t, g.lab.Token.Count("", "/token", 200), what)
	case pullwalk.StepSettings, pullwalk.StepStore, pullwalk.StepSecrets: // files of the node
	case pullwalk.StepPing, pullwalk.StepChallenge, pullwalk.StepResolve, pullwalk.StepManifest, pullwalk.StepConfig, pullwalk.StepLayer:
		g.checkRequest(t, what, e, st)
	case pullwalk.StepRounds:
		g.checkRounds(t, what, e, st)
	default:
		if strings.Contains(string(st.ID), "/") {
			return // the caller's own word
		}
		t.Errorf("%s: no rule says what it needs", what)
	}
}

// checkRequest wants the very request in the log of the host.
func (g *seen) checkRequest(t *testing.T, what string, e pullwalk.Endpoint, st pullwalk.Step) {
	t.Helper()
	r := st.Request
	require.NotNil(t, r, what)
	u, err := url.Parse(r.URL)
	require.NoError(t, err)
	served := slices.ContainsFunc(g.served(e.Host), func(have lab.Request) bool {
		implicit := have.Status == 0 && r.Method == http.MethodHead && r.Status == 200                                                                                      // not counted by the lab
		return have.Method == r.Method && have.Path == u.Path && (have.Status == r.Status || implicit) && (have.Bytes >= r.Bytes || r.Outcome == endpoints.OutcomeRedirect) // a resumed blob carries what came before
	})
	assert.True(t, served, "%s, and %s never served %s %s with %d and %d bytes", what, e.Host, r.Method, u.Path, r.Status, r.Bytes)
	if st.ID == pullwalk.StepChallenge {
		assert.Equal(t, 401, r.Status, what)
	}
}

// served are the requests that a host of the world has read.
func (g *seen) served(host string) []lab.Request {
	if h := g.names[host]; h != nil {
		return h.Requests()
	}
	switch host {
	case lab.TokenName:
		return g.lab.Token.Requests()
	case lab.BlobsName:
		return g.lab.Blobs.Requests()
	case lab.RegistryName, "127.0.0.1", "store.corp.test":
		if g.basic != nil {
			return g.basic.requests()
		}
		return g.lab.Registry.Requests()
	}
	return nil
}

func (g *seen) addressesOf(e pullwalk.Endpoint) []netip.Addr {
	if a, err := netip.ParseAddr(e.Host); err == nil {
		return []netip.Addr{a}
	}
	for _, st := range e.Steps {
		if st.DNS != nil {
			return st.DNS.Addresses
		}
	}
	return nil
}

// connected says whether a dial to the endpoint, at one address or at any,
// connected; behind a proxy it is the proxy's.
func (g *seen) connected(e pullwalk.Endpoint, addr netip.Addr) bool {
	addrs := []netip.Addr{addr}
	if !addr.IsValid() {
		addrs = g.addressesOf(e)
	}
	for _, d := range g.net.Dials() {
		if d.Connected && d.Address.Port() == e.Port && (e.Via != "" || slices.Contains(addrs, d.Address.Addr())) {
			return true
		}
	}
	return false
}

// checkProof wants every byte of configuration and layers to have left the world.
func (g *seen) checkProof(t *testing.T, p *pullwalk.Proof) {
	t.Helper()
	host := g.lab.Blobs.Requests()
	if g.basic != nil {
		host = g.basic.requests()
	}
	var served int64
	for _, r := range host {
		if r.Status == 200 && (g.basic == nil || strings.Contains(r.Path, "/blobs/")) {
			served += r.Bytes
		}
	}
	assert.Equal(t, served, p.Bytes)
	if g.basic == nil {
		m := g.lab.Manifest(g.result.Image.Platform)
		want := m.Config.Size
		for _, l := range m.Layers {
			want += l.Size
		}
		assert.Equal(t, want, p.Bytes)
		assert.Equal(t, len(m.Layers), p.Layers)
		assert.Equal(t, g.lab.Digest().String(), p.Digest)
	}
	assert.Equal(t, g.result.Image.Digest, p.Digest)
}

// checkLeaks searches everything that leaves the diagnosis for secrets.
func (g *seen) checkLeaks(t *testing.T) {
	t.Helper()
	outputs := map[string]string{
		"JSON": string(g.json), "text": g.result.String(), "Markdown": g.result.Markdown(), "values": fmt.Sprintf("%+v %#v", *g.result, g.result.Findings),
	}
	if err := g.result.Err(); err != nil {
		outputs["error"] = strings.Join(errorTexts(err), "\n")
	}
	for i, st := range g.steps {
		text, err := json.Marshal(st)
		require.NoError(t, err)
		outputs[fmt.Sprintf("step %d", i)] = string(text) + fmt.Sprintf("%+v", st)
		for _, f := range st.Findings {
			outputs[fmt.Sprintf("step %d", i)] += strings.Join(errorTexts(f), "\n")
		}
	}
	for i, p := range g.progress {
		outputs[fmt.Sprintf("progress %d", i)] = p.String() + fmt.Sprintf("%+v", p.Progress)
	}
	for _, name := range []string{"text", "Markdown"} {
		for _, r := range outputs[name] {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Errorf("%s holds the character %U", name, r)
			}
		}
	}
	for name, out := range outputs {
		for _, secret := range g.secrets() {
			if i := strings.Index(out, secret); i >= 0 {
				t.Errorf("%s holds a secret: …%s…", name, out[max(0, i-60):min(len(out), i+60)])
			}
		}
	}
}

// errorTexts are the texts of an error and of all that it wraps.
func errorTexts(err error) []string {
	if err == nil {
		return nil
	}
	out := []string{err.Error()}
	switch x := err.(type) {
	case interface{ Unwrap() error }:
		out = append(out, errorTexts(x.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, e := range x.Unwrap() {
			out = append(out, errorTexts(e)...)
		}
	}
	return out
}

// checkEncoding wants the JSON to lose nothing that it shows.
func (g *seen) checkEncoding(t *testing.T) {
	t.Helper()
	var decoded pullwalk.Result
	require.NoError(t, json.Unmarshal(g.json, &decoded))
	again, err := json.Marshal(&decoded)
	require.NoError(t, err)
	require.Equal(t, string(g.json), string(again), "decode and encode again")
	require.Equal(t, g.result.String(), decoded.String(), "a stored result reads like a fresh one")
	require.Equal(t, g.result.Hosts(), decoded.Hosts())
	require.Equal(t, g.result.Fingerprint(), decoded.Fingerprint())
	for _, problem := range resultSchema(t).validate(g.json) {
		t.Errorf("the schema: %s", problem)
	}
}

// checkShape wants what is promised of every result, however it came about.
func (g *seen) checkShape(t *testing.T) {
	t.Helper()
	checkResult(t, g.result)
	assert.Len(t, g.steps, countSteps(g.result), "OnStep is told of every step once")
}

// allSources are those of the image, and those of the sandbox image.
func allSources(r *pullwalk.Result) []pullwalk.Source {
	if r.Sandbox == nil {
		return r.Sources
	}
	return slices.Concat(r.Sources, r.Sandbox.Sources)
}

func countSteps(r *pullwalk.Result) int {
	n := 0
	for _, s := range allSources(r) {
		for _, e := range s.Endpoints {
			n += len(e.Steps)
		}
	}
	return n
}

// checkResult wants a result that is valid by itself.
func checkResult(t testing.TB, r *pullwalk.Result) {
	t.Helper()
	assert.Equal(t, pullwalk.Schema, r.Schema)
	names := map[string]bool{}
	for _, s := range allSources(r) {
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				name := string(st.ID) + "@" + e.HostPort()
				names[name] = true
				if st.Addr.IsValid() {
					names[name+"["+st.Addr.String()+"]"] = true
				}
			}
		}
	}
	var needed bool
	for _, s := range allSources(r) {
		assert.NotEmpty(t, s.Verdict)
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				what := fmt.Sprintf("%s@%s[%v]", st.ID, e.HostPort(), st.Addr)
				failing := slices.ContainsFunc(st.Findings, func(f classify.Finding) bool { return f.Severity == classify.SeverityFail })
				assert.NotEmpty(t, st.Layer, what)
				switch st.Status {
				case pullwalk.StatusOK:
					assert.False(t, slices.ContainsFunc(st.Findings, func(f classify.Finding) bool { return f.Severity != classify.SeverityInfo }), "%s is ok with a finding", what)
				case pullwalk.StatusDegraded:
					assert.NotEmpty(t, st.Findings, "%s is degraded without a finding", what)
				case pullwalk.StatusFailed:
					assert.NotEmpty(t, st.Findings, "%s failed without a finding", what)
				case pullwalk.StatusBlocked:
					assert.True(t, names[st.BlockedBy], "%s is blocked by %q, which is no step", what, st.BlockedBy)
				case pullwalk.StatusSkipped:
					assert.NotEmpty(t, st.Reason, "%s is skipped without a reason", what)
				case pullwalk.StatusInconclusive:
					assert.NotEmpty(t, st.Reason, "%s is inconclusive without a reason", what)
				default:
					t.Errorf("%s has status %q", what, st.Status)
				}
				if failing {
					assert.Equal(t, pullwalk.StatusFailed, st.Status, "%s has a failing finding", what)
				}
				if st.Status != pullwalk.StatusBlocked {
					assert.Empty(t, st.BlockedBy, what)
				}
				needed = needed || st.Status != pullwalk.StatusSkipped
				for _, f := range st.Findings {
					info, known := classify.Lookup(f.Cause)
					own := strings.Contains(string(st.ID), "/") && strings.HasPrefix(string(f.Cause), "x.")
					assert.True(t, known != own, "%s: cause %s is not in the catalogue", what, f.Cause)
					assert.True(t, own || info.Owner == f.Owner, what)
					assert.NotEmpty(t, f.Endpoint, "%s: %s says no endpoint", what, f.Cause)
					assert.NotEmpty(t, f.Summary, what)
				}
			}
		}
	}
	switch r.Verdict {
	case pullwalk.StatusFailed:
		require.NotNil(t, r.Primary)
		require.NotEmpty(t, r.Findings)
		assert.Equal(t, r.Findings[0].Cause, r.Primary.Cause)
		assert.Error(t, r.Err())
	case pullwalk.StatusInconclusive:
		assert.Nil(t, r.Primary)
		assert.NotEmpty(t, r.Inconclusive)
		assert.Error(t, r.Err())
	case pullwalk.StatusOK, pullwalk.StatusDegraded:
		assert.Nil(t, r.Primary)
		assert.True(t, needed)
		assert.NoError(t, r.Err())
	default:
		t.Errorf("verdict %q", r.Verdict)
	}
	var diagnosis *pullwalk.DiagnosisError
	if err := r.Err(); err != nil {
		require.True(t, errors.As(err, &diagnosis))
	}
}
