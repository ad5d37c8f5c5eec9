package pullwalk_test

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// The same world asked twice gives one fingerprint, another world another. That a
// stored result keeps it is asked of every scenario, see checkEncoding.
func TestFingerprintOfScenarios(t *testing.T) {
	t.Parallel()
	names := []string{
		"healthy-touch", "healthy-complete", "healthy-connect", "dns-nxdomain-blobs", "dns-nxdomain-registry", "connect-silent-blobs",
		"connect-one-address-dead", "mirror-refused", "identity-wrong-password", "image-missing-blob", "hosts-override", "budget-short", "proxy-down",
	}
	seen := map[string]string{}
	for _, name := range names {
		var prints []string
		for range 2 {
			s := scenarioNamed(t, name)
			s.inBubble(t, func(t *testing.T, w *world) {
				r := w.diagnose(t, t.Context(), s)
				prints = append(prints, r.result.Fingerprint())
			})
		}
		assert.Equal(t, prints[0], prints[1], name)
		assert.Regexp(t, `^[0-9a-f]{32}$`, prints[0])
		assert.Empty(t, seen[prints[0]], "%s and another scenario have one fingerprint", name)
		seen[prints[0]] = name
	}
}

// broken is a small result with everything that a fingerprint looks at, and what
// it must not look at.
func broken() *pullwalk.Result {
	missing := classify.New(classify.DNSNXDOMAIN, "blobs.corp.test does not exist, says 10.20.0.2.")
	missing.Endpoint = "blobs.corp.test"
	limited := classify.New(classify.RegistryRateLimited, "17 requests are left.")
	limited.Endpoint, limited.Severity = "registry.corp.test:443", classify.SeverityWarn
	return &pullwalk.Result{
		Schema: pullwalk.Schema, Verdict: pullwalk.StatusFailed, Pull: pullwalk.Touch, Primary: &missing, Findings: []classify.Finding{missing, limited},
		Image:   pullwalk.ImageRef{Given: "registry.corp.test/team/app:v1", Reference: "registry.corp.test/team/app:v1", Platform: "linux/amd64", Digest: "sha256:" + strings.Repeat("a", 64)},
		Vantage: pullwalk.Vantage{HostName: "node-1", Runtime: "containerd", NetworkNamespace: "host"},
		Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), ElapsedMS: 312, ManifestRequests: 4,
		Proof: &pullwalk.Proof{Digest: "sha256:" + strings.Repeat("a", 64), Layers: 2, Bytes: 100},
		Sources: []pullwalk.Source{{Host: "registry.corp.test", Kind: "upstream", Verdict: pullwalk.StatusFailed, Endpoints: []pullwalk.Endpoint{
			{Scheme: "https", Host: "registry.corp.test", Port: 443, Steps: []pullwalk.Step{
				{ID: pullwalk.StepConnect, Status: pullwalk.StatusDegraded},
				{ID: pullwalk.StepConnect, Status: pullwalk.StatusFailed, Addr: netip.MustParseAddr("10.20.0.4")},
				{ID: pullwalk.StepConnect, Status: pullwalk.StatusOK, Addr: netip.MustParseAddr("10.20.0.5")},
				{ID: pullwalk.StepLayer, Status: pullwalk.StatusOK, Subject: "sha256:1"},
			}},
			{Scheme: "https", Host: "blobs.corp.test", Port: 443, Steps: []pullwalk.Step{
				{ID: pullwalk.StepDNS, Status: pullwalk.StatusFailed, ElapsedMS: 3},
				{ID: pullwalk.StepLayer, Status: pullwalk.StatusBlocked, BlockedBy: "dns@blobs.corp.test:443"},
			}},
			{Scheme: "dns", Host: "10.20.0.2", Port: 53, Steps: []pullwalk.Step{
				{ID: pullwalk.StepRoute, Status: pullwalk.StatusFailed, Addr: netip.MustParseAddr("10.20.0.2")},
			}},
		}}},
	}
}

func TestFingerprintKeeps(t *testing.T) {
	t.Parallel()
	want := broken().Fingerprint()
	for name, change := range map[string]func(*pullwalk.Result){
		"times":             func(r *pullwalk.Result) { r.Started, r.ElapsedMS = r.Started.Add(time.Hour), 7 },
		"a step's time":     func(r *pullwalk.Result) { r.Sources[0].Endpoints[1].Steps[0].ElapsedMS = 900 },
		"a number in words": func(r *pullwalk.Result) { r.Findings[1].Summary = "19 requests are left." },
		"bytes":             func(r *pullwalk.Result) { r.Proof.Bytes++ },
		"requests":          func(r *pullwalk.Result) { r.ManifestRequests++ },
		"who looked":        func(r *pullwalk.Result) { r.Vantage.HostName, r.Vantage.RuntimePID = "node-2", 9 },
		"given form":        func(r *pullwalk.Result) { r.Image.Given = "docker://" + r.Image.Given },
		"which is dead": func(r *pullwalk.Result) {
			s := r.Sources[0].Endpoints[0].Steps
			s[1].Addr, s[2].Addr = s[2].Addr, s[1].Addr
		},
		"order": func(r *pullwalk.Result) { slices.Reverse(r.Sources[0].Endpoints); slices.Reverse(r.Findings) },
		"another good host": func(r *pullwalk.Result) {
			e := &r.Sources[0].Endpoints
			*e = append(*e, pullwalk.Endpoint{Scheme: "https", Host: "blobs7.corp.test", Port: 443, Steps: []pullwalk.Step{{ID: pullwalk.StepLayer, Status: pullwalk.StatusOK}}})
		},
		"one more layer behind the same obstacle": func(r *pullwalk.Result) {
			s := &r.Sources[0].Endpoints[1].Steps
			*s = append(*s, pullwalk.Step{ID: pullwalk.StepLayer, Status: pullwalk.StatusBlocked, Subject: "sha256:2"})
		},
		"a ping that nobody needs": func(r *pullwalk.Result) {
			s := &r.Sources[0].Endpoints[0].Steps
			*s = append(*s, pullwalk.Step{ID: pullwalk.StepPing, Status: pullwalk.StatusSkipped})
		},
	} {
		r := broken()
		change(r)
		assert.Equal(t, want, r.Fingerprint(), name)
	}
}

func TestFingerprintChanges(t *testing.T) {
	t.Parallel()
	seen := map[string]string{broken().Fingerprint(): "nothing"}
	for name, change := range map[string]func(*pullwalk.Result){
		"cause":           func(r *pullwalk.Result) { r.Primary.Cause = classify.DNSServFail },
		"endpoint":        func(r *pullwalk.Result) { r.Primary.Endpoint = "auth.corp.test" },
		"another finding": func(r *pullwalk.Result) { r.Findings[1].Cause = classify.DNSFirstServerDead },
		"its endpoint":    func(r *pullwalk.Result) { r.Findings[1].Endpoint = "auth.corp.test:443" },
		"its severity":    func(r *pullwalk.Result) { r.Findings[1].Severity = classify.SeverityFail },
		"no finding":      func(r *pullwalk.Result) { r.Findings = r.Findings[:1] },
		"verdict":         func(r *pullwalk.Result) { r.Verdict = pullwalk.StatusInconclusive },
		"step":            func(r *pullwalk.Result) { r.Sources[0].Endpoints[1].Steps[0].Status = pullwalk.StatusInconclusive },
		"host of a step":  func(r *pullwalk.Result) { r.Sources[0].Endpoints[1].Host = "store.corp.test" },
		"its port":        func(r *pullwalk.Result) { r.Sources[0].Endpoints[1].Port = 8443 },
		"all addresses":   func(r *pullwalk.Result) { r.Sources[0].Endpoints[0].Steps[0].Status = pullwalk.StatusFailed },
		"a nameserver":    func(r *pullwalk.Result) { r.Sources[0].Endpoints[2].Steps[0].Status = pullwalk.StatusOK },
		"source":          func(r *pullwalk.Result) { r.Sources[0].Verdict = pullwalk.StatusSkipped },
		"tag":             func(r *pullwalk.Result) { r.Image.Reference = "registry.corp.test/team/app:v2" },
		"platform":        func(r *pullwalk.Result) { r.Image.Platform = "linux/arm64" },
		"digest":          func(r *pullwalk.Result) { r.Image.Digest = "sha256:" + strings.Repeat("b", 64) },
		"mode":            func(r *pullwalk.Result) { r.Pull = pullwalk.Complete },
		"no proof":        func(r *pullwalk.Result) { r.Proof = nil },
		"hand edit":       func(r *pullwalk.Result) { r.Proof.HandEdits = []string{"/etc/hosts: entry for blobs.corp.test"} },
		"sandbox image": func(r *pullwalk.Result) {
			r.Sandbox = &pullwalk.Sandbox{Image: "registry.corp.test/pause:3.9", Verdict: pullwalk.StatusFailed}
		},
		"its verdict": func(r *pullwalk.Result) {
			r.Sandbox = &pullwalk.Sandbox{Image: "registry.corp.test/pause:3.9", Verdict: pullwalk.StatusSkipped}
		},
		"two hand edits": func(r *pullwalk.Result) { r.Proof.HandEdits = []string{"/etc/hosts: entry for", "blobs.corp.test"} },
	} {
		r := broken()
		change(r)
		print := r.Fingerprint()
		assert.Empty(t, seen[print], "%s has the fingerprint of another change", name)
		seen[print] = name
	}
}

// conditionReason is what the API server of Kubernetes demands of a reason.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func TestCondition(t *testing.T) {
	t.Parallel()
	with := func(change func(*pullwalk.Result)) *pullwalk.Result {
		r := broken()
		change(r)
		return r
	}
	passing := func(change func(*pullwalk.Result)) *pullwalk.Result {
		return with(func(r *pullwalk.Result) {
			r.Verdict, r.Primary, r.Findings, r.Proof = pullwalk.StatusOK, nil, nil, nil
			change(r)
		})
	}
	for _, tt := range []struct {
		name, reason, message string
		result                *pullwalk.Result
	}{
		{"root cause", "DnsNxdomain", "owner dns: dns.nxdomain at blobs.corp.test: blobs.corp.test does not exist, says 10.20.0.2. Look: ", broken()},
		{"warning", "RegistryRateLimited", "it works, with a warning: owner ", passing(func(r *pullwalk.Result) {
			r.Verdict, r.Findings = pullwalk.StatusDegraded, broken().Findings[1:]
		})},
		{"degraded without a finding", "EveryHopHeld", "registry.corp.test/team/app:v1 (linux/amd64): every hop held, with warnings; not a complete pull", passing(func(r *pullwalk.Result) { r.Verdict = pullwalk.StatusDegraded })},
		{"touched", "EveryHopHeld", "registry.corp.test/team/app:v1 (linux/amd64): every hop held; not a complete pull", passing(func(*pullwalk.Result) {})},
		{"downloaded", "ImageDownloaded", "registry.corp.test/team/app:v1 (linux/amd64): downloaded completely", passing(func(r *pullwalk.Result) { r.Proof = &pullwalk.Proof{} })},
		{"connected", "RegistryAnswers", "registry.corp.test/team/app:v1 (linux/amd64): registry and token server answer", passing(func(r *pullwalk.Result) { r.Pull = pullwalk.Connect })},
		{"not known", "Inconclusive", "not known: the budget ended", passing(func(r *pullwalk.Result) {
			r.Verdict, r.Inconclusive = pullwalk.StatusInconclusive, "the budget ended"
		})},
		{"a verdict from elsewhere", "Inconclusive", "not known: ", passing(func(r *pullwalk.Result) { r.Verdict = "great" })},
		{"failed without a cause", "Failed", "the pull fails; ", with(func(r *pullwalk.Result) { r.Primary = nil })},
		{"own cause", "XCorpEgressTag2", "dns.nxdomain", with(func(r *pullwalk.Result) { r.Primary.Cause = "x.corp/egress_tag--2 \x1b[31m" })},
		{"hostile cause", "Failed", "owner dns: ", with(func(r *pullwalk.Result) { r.Primary.Cause = "12 é,:_" })},
		{"long", "D" + strings.Repeat("x", 127), "owner dns: ", with(func(r *pullwalk.Result) {
			r.Primary.Cause = "d" + classify.Cause(strings.Repeat("x", 10_000))
			r.Primary.Summary = strings.Repeat("password=secret\n", 10_000)
		})},
	} {
		reason, message := tt.result.Condition()
		if tt.name == "own cause" {
			assert.True(t, strings.HasPrefix(reason, tt.reason), reason)
		} else {
			assert.Equal(t, tt.reason, reason, tt.name)
			assert.True(t, strings.HasPrefix(message, tt.message), "%s: %s", tt.name, message)
		}
		assert.Regexp(t, conditionReason, reason, tt.name)
		assert.LessOrEqual(t, len(message), 512, tt.name)
		assert.NotContains(t, message, "\n", tt.name)
		assert.NotContains(t, message, "secret", tt.name)
	}
}

// Every code of the catalogue becomes a reason, and no two the same.
func TestConditionOfEveryCause(t *testing.T) {
	t.Parallel()
	seen := map[string]classify.Cause{}
	for _, info := range classify.Catalogue() {
		f := classify.New(info.Cause, "")
		r := pullwalk.Result{Verdict: pullwalk.StatusFailed, Primary: &f}
		reason, message := r.Condition()
		assert.Regexp(t, conditionReason, reason)
		assert.Empty(t, seen[reason], "%s has the reason of another", info.Cause)
		seen[reason] = info.Cause
		assert.Contains(t, message, "owner "+string(info.Owner))
		assert.LessOrEqual(t, len(message), 512)
	}
}
