package pullwalk_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/reach"
)

var (
	noon      = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	oneDigest = "sha256:" + strings.Repeat("a", 64)
	oldDigest = "sha256:" + strings.Repeat("b", 64)
)

// change is one thing that makes a result another one.
type change func(*pullwalk.Result)

// provedOn is the result of a complete download on a node, with changes.
func provedOn(node string, changes ...change) *pullwalk.Result {
	r := &pullwalk.Result{
		Schema: pullwalk.Schema, Verdict: pullwalk.StatusOK, Pull: pullwalk.Complete, Started: noon,
		Image: pullwalk.ImageRef{Given: "registry.corp.test/team/app:v1", Reference: "registry.corp.test/team/app:v1", Registry: "registry.corp.test", Platform: "linux/amd64", Digest: oneDigest},
		Vantage: pullwalk.Vantage{
			HostName: node, NetworkNamespace: "host", ResolverFile: "/etc/resolv.conf", Nameservers: []string{"10.20.0.2:53"},
			Roots: []string{"/etc/ssl/certs/ca-certificates.crt"}, Runtime: "containerd", RuntimePID: 812, RuntimeVersion: "2.1.4", RuntimeGo: "go1.24.6", Identity: "anonymous",
		},
		Proof: &pullwalk.Proof{Digest: oneDigest, Layers: 3, Bytes: 103330},
	}
	for _, c := range changes {
		c(r)
	}
	return r
}

func failedOn(node string, cause classify.Cause, endpoint string, changes ...change) *pullwalk.Result {
	return provedOn(node, slices.Concat([]change{func(r *pullwalk.Result) {
		f := classify.New(cause, "Seen on "+node+".")
		f.Endpoint = endpoint
		r.Verdict, r.Proof, r.Primary, r.Findings = pullwalk.StatusFailed, nil, &f, []classify.Finding{f}
	}}, changes)...)
}

func touched(r *pullwalk.Result)   { r.Pull, r.Proof = pullwalk.Touch, nil }
func connected(r *pullwalk.Result) { r.Pull, r.Proof = pullwalk.Connect, nil }
func stored(r *pullwalk.Result) {
	f := classify.New(classify.NodeLayersAlreadyPresent, "")
	f.Severity = classify.SeverityInfo
	r.Findings = append(r.Findings, f)
	if r.Proof != nil {
		r.Proof.InNodeStore = 2
	}
}
func handRepaired(r *pullwalk.Result) {
	r.Proof.HandEdits = []string{"/etc/hosts: entry for blobs.corp.test"}
}
func degraded(r *pullwalk.Result) { r.Verdict = pullwalk.StatusDegraded }
func unknown(r *pullwalk.Result) {
	r.Verdict, r.Proof, r.Inconclusive = pullwalk.StatusInconclusive, nil, "the budget ended"
}
func at(t time.Time) change { return func(r *pullwalk.Result) { r.Started = t } }
func from(namespace, runtime string) change {
	return func(r *pullwalk.Result) {
		r.Vantage.NetworkNamespace, r.Vantage.Runtime = namespace, runtime
		if runtime == "" {
			r.Vantage.RuntimePID = 0
		}
	}
}
func unseen(r *pullwalk.Result) { r.Vantage.RuntimePID = 0 }
func labelled(key, value string) change {
	return func(r *pullwalk.Result) {
		r.Vantage.Labels = append(r.Vantage.Labels, pullwalk.Label{Key: key, Value: value})
	}
}
func ofContent(digest string) change {
	return func(r *pullwalk.Result) {
		r.Image.Digest = digest
		if r.Proof != nil {
			r.Proof.Digest = digest
		}
	}
}
func forPlatform(p string) change { return func(r *pullwalk.Result) { r.Image.Platform = p } }

func poolOf(name string, nodes ...string) pullwalk.Pool {
	p := pullwalk.Pool{Name: name}
	for _, n := range nodes {
		p.Nodes = append(p.Nodes, pullwalk.PoolNode{Name: n})
	}
	return p
}

func aged(name, node string, age time.Duration) pullwalk.Pool {
	return pullwalk.Pool{Name: name, Nodes: []pullwalk.PoolNode{{Name: node, Created: noon.Add(-age)}}}
}

// One pool "p", and what is proved of it.
func TestCoverageStates(t *testing.T) {
	t.Parallel()
	const dns = classify.DNSNXDOMAIN
	for _, tt := range []struct {
		name    string
		pool    pullwalk.Pool
		results []*pullwalk.Result
		state   pullwalk.CoverageState
		verdict pullwalk.Status
		reason  string // part of the pool's
	}{
		{"proved", poolOf("p", "n1", "n2"), []*pullwalk.Result{provedOn("n1")}, pullwalk.CoverageProved, pullwalk.StatusOK, "n1: 3 layers and 103330 bytes downloaded, every digest checked"},
		{"proved with warnings", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", degraded)}, pullwalk.CoverageProved, pullwalk.StatusOK, "with warnings"},
		{"proved although the store had layers", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", stored)}, pullwalk.CoverageProved, pullwalk.StatusOK, "every digest checked, although its store holds 2 of the blobs"},
		{"proved by label", poolOf("p"), []*pullwalk.Result{provedOn("n9", labelled(pullwalk.LabelPool, "p"))}, pullwalk.CoverageProved, pullwalk.StatusOK, "n9"},
		{"proved by node label", poolOf("p", "n1"), []*pullwalk.Result{provedOn("ip-10-0-0-7", labelled(pullwalk.LabelNode, "n1"))}, pullwalk.CoverageProved, pullwalk.StatusOK, "n1"},
		{"proved beside open ones", poolOf("p", "n1", "n2", "n3"), []*pullwalk.Result{provedOn("n1", touched), provedOn("n2"), provedOn("n3", handRepaired)}, pullwalk.CoverageProved, pullwalk.StatusOK, "n2: 3 layers and 103330 bytes downloaded, every digest checked; further nodes: 1 open, 1 hand-repaired"},
		{"not too old", aged("p", "n1", 30*24*time.Hour), []*pullwalk.Result{provedOn("n1")}, pullwalk.CoverageProved, pullwalk.StatusOK, ""},
		{"runtime in the same namespace", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", from("other", "containerd"))}, pullwalk.CoverageProved, pullwalk.StatusOK, ""},
		{"host without a runtime seen", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", from("host", ""))}, pullwalk.CoverageProved, pullwalk.StatusOK, ""},

		{"failed", poolOf("p", "n1", "n2"), []*pullwalk.Result{failedOn("n1", dns, "blobs.corp.test")}, pullwalk.CoverageFailed, pullwalk.StatusFailed, "1 of 1 probed node failed: dns.nxdomain at blobs.corp.test (owner dns) on n1"},
		{"one of them failed", poolOf("p", "n1", "n2"), []*pullwalk.Result{provedOn("n1"), failedOn("n2", dns, "blobs.corp.test")}, pullwalk.CoverageFailed, pullwalk.StatusFailed, "1 of 2 probed nodes failed: dns.nxdomain at blobs.corp.test (owner dns) on n2; 1 proved, but a pod may land on any"},
		{"most met cause", poolOf("p", "n1", "n2", "n3"), []*pullwalk.Result{failedOn("n1", classify.RouteConnectTimeout, "r:443"), failedOn("n2", dns, "b"), failedOn("n3", dns, "b")}, pullwalk.CoverageFailed, pullwalk.StatusFailed, "dns.nxdomain at b (owner dns) on n2, n3; 1 node failed otherwise"},
		{"lowest layer of equals", poolOf("p", "n1", "n2"), []*pullwalk.Result{failedOn("n1", dns, "b"), failedOn("n2", classify.RouteConnectTimeout, "r:443")}, pullwalk.CoverageFailed, pullwalk.StatusFailed, "route.connect-timeout at r:443 (owner network) on n2; 1 node failed otherwise"},
		{"failed without a cause", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", func(r *pullwalk.Result) { r.Verdict = pullwalk.StatusFailed })}, pullwalk.CoverageFailed, pullwalk.StatusFailed, "the result names no cause"},
		{"old and failed", aged("p", "n1", 400*24*time.Hour), []*pullwalk.Result{failedOn("n1", dns, "b")}, pullwalk.CoverageFailed, pullwalk.StatusFailed, ""},

		{"not probed", poolOf("p", "n1", "n2"), nil, pullwalk.CoverageNotProbed, pullwalk.StatusInconclusive, "no result from any of its 2 nodes"},
		{"scales from nothing", poolOf("p"), []*pullwalk.Result{provedOn("n1", labelled(pullwalk.LabelPool, "q"))}, pullwalk.CoverageNotProbed, pullwalk.StatusInconclusive, "it scales from nothing"},

		{"touched", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", touched)}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "n1: every hop held; not downloaded completely"},
		{"connected", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", connected)}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "nothing was pulled"},
		{"inconclusive", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", unknown)}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "n1: not known: the budget ended"},
		{"verdict from elsewhere", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", func(r *pullwalk.Result) { r.Verdict = "great" })}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "not known: the result does not say why"},
		{"runtime named by the caller, network not known", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", from("unknown", "containerd"), unseen)}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "not known whether"},
		{"runtime named by the caller, pod network", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", from("other", "containerd"), unseen)}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "another network namespace"},
		{"runtime named by the caller, host network", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", from("host", "containerd"), unseen)}, pullwalk.CoverageProved, pullwalk.StatusOK, ""},
		{"pod network", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", from("other", ""))}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "another network namespace"},
		{"pod network fails", poolOf("p", "n1"), []*pullwalk.Result{failedOn("n1", dns, "b", from("other", ""))}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "another network namespace"},
		{"vantage finding", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", func(r *pullwalk.Result) {
			r.Findings = []classify.Finding{classify.New(classify.NodeVantageNotNode, "")}
		})}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "another network namespace"},
		{"vantage not known", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", from("unknown", ""))}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "not known whether this was seen from the node's own network"},
		{"vantage not said", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", from("", ""))}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "not known whether"},
		{"no content", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", ofContent(""))}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "downloaded completely, but the content"},
		{"older than the node", aged("p", "n1", -time.Hour), []*pullwalk.Result{failedOn("n1", dns, "b")}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "the result is older than the node"},
		{"proof of no content", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", func(r *pullwalk.Result) { r.Proof.Digest = "" })}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "the content"},
		{"another platform", poolOf("p", "n1", "n2"), []*pullwalk.Result{provedOn("n1"), provedOn("n2", touched, forPlatform("linux/arm64"))}, pullwalk.CoverageOpen, pullwalk.StatusInconclusive, "n1 proved, but not for the platform linux/arm64"},
		{"both platforms", poolOf("p", "n1", "n2"), []*pullwalk.Result{provedOn("n1"), provedOn("n2", forPlatform("linux/arm64"))}, pullwalk.CoverageProved, pullwalk.StatusOK, ""},
		{"another platform seen from a pod", poolOf("p", "n1", "n2"), []*pullwalk.Result{provedOn("n1"), provedOn("n2", forPlatform("linux/arm64"), from("other", ""))}, pullwalk.CoverageProved, pullwalk.StatusOK, ""},

		{"hand-repaired", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", handRepaired)}, pullwalk.CoverageHandRepaired, pullwalk.StatusInconclusive, "n1: downloaded completely, only because of a change by hand: /etc/hosts: entry for blobs.corp.test"},
		{"hand-repaired and one failed", poolOf("p", "n1", "n2"), []*pullwalk.Result{provedOn("n1", handRepaired), failedOn("n2", dns, "blobs.corp.test")}, pullwalk.CoverageFailed, pullwalk.StatusFailed, ""},
		{"long-lived", aged("p", "n1", 30*24*time.Hour+time.Hour), []*pullwalk.Result{provedOn("n1")}, pullwalk.CoverageLongLived, pullwalk.StatusInconclusive, "30 days old"},
		{"long-lived tells more than hand-repaired", pullwalk.Pool{Name: "p", Nodes: []pullwalk.PoolNode{{Name: "n1"}, {Name: "n2", Created: noon.Add(-90 * 24 * time.Hour)}}}, []*pullwalk.Result{provedOn("n1", handRepaired), provedOn("n2")}, pullwalk.CoverageLongLived, pullwalk.StatusInconclusive, "n2: downloaded completely, on a node that is 90 days old (more than 30); further nodes: 1 hand-repaired"},
		{"stored", poolOf("p", "n1", "n2"), []*pullwalk.Result{provedOn("n1", touched, stored), provedOn("n2", touched)}, pullwalk.CoverageAlreadyStored, pullwalk.StatusInconclusive, "n1: not downloaded completely, and its store holds layers"},

		{"newest wins", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1", at(noon.Add(time.Hour))), failedOn("n1", dns, "b")}, pullwalk.CoverageProved, pullwalk.StatusOK, ""},
		{"newest wins, also when it fails", poolOf("p", "n1"), []*pullwalk.Result{provedOn("n1"), failedOn("n1", dns, "b", at(noon.Add(time.Hour)))}, pullwalk.CoverageFailed, pullwalk.StatusFailed, ""},
		{"nodes without a name are not one node", poolOf("p"), []*pullwalk.Result{
			failedOn("", dns, "b", labelled(pullwalk.LabelPool, "p")), provedOn("", labelled(pullwalk.LabelPool, "p"), at(noon.Add(time.Hour))),
		}, pullwalk.CoverageFailed, pullwalk.StatusFailed, "on a node without a name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := pullwalk.Coverage([]pullwalk.Pool{tt.pool}, tt.results)
			require.Len(t, c.Pools, 1)
			assert.Equal(t, tt.state, c.Pools[0].State, c.Pools[0].Reason)
			assert.Equal(t, tt.verdict, c.Verdict)
			assert.Contains(t, c.Pools[0].Reason, tt.reason)
			assert.Equal(t, tt.state == pullwalk.CoverageFailed && tt.name != "failed without a cause", c.Pools[0].Primary != nil)
			assert.Equal(t, tt.verdict == pullwalk.StatusOK, c.Err() == nil)
			checkCoverage(t, c)
		})
	}
}

// checkCoverage wants what is promised of every report.
func checkCoverage(t testing.TB, c pullwalk.CoverageReport) {
	t.Helper()
	doc, err := json.Marshal(c)
	require.NoError(t, err)
	for _, problem := range coverageSchema(t).validate(doc) {
		t.Errorf("the schema: %s", problem)
	}
	var decoded pullwalk.CoverageReport
	require.NoError(t, json.Unmarshal(doc, &decoded))
	again, err := json.Marshal(decoded)
	require.NoError(t, err)
	assert.Equal(t, string(doc), string(again), "decode and encode again")
	assert.Equal(t, c.String(), decoded.String())
	assert.Equal(t, c.Markdown(), decoded.Markdown())
	checkCoverageText(t, c)
	proved := 0
	for _, p := range c.Pools {
		assert.NotEmpty(t, p.Reason)
		if p.State == pullwalk.CoverageProved {
			proved++
			assert.True(t, slices.ContainsFunc(p.Nodes, func(n pullwalk.NodeCoverage) bool { return n.State == pullwalk.CoverageProved }), "a pool is green without a node that is")
		}
	}
	assert.Equal(t, len(c.Pools) > 0 && proved == len(c.Pools), c.Verdict == pullwalk.StatusOK)
}

// checkCoverageText wants texts that fit a terminal and a comment.
func checkCoverageText(t testing.TB, c pullwalk.CoverageReport) {
	t.Helper()
	text := c.String()
	for line := range strings.Lines(text) {
		assert.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
	}
	for _, out := range []string{text, c.Markdown()} {
		assert.LessOrEqual(t, len(out), 200_000)
		assert.True(t, utf8.ValidString(out))
		assert.False(t, strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }), "%q", out)
	}
}

// A fleet with everything in it, as text, Markdown and JSON.
func TestCoverageGolden(t *testing.T) {
	t.Parallel()
	const file = "testdata/coverage.txtar"
	c := pullwalk.Coverage(fleet())
	checkCoverage(t, c)
	doc, err := json.MarshalIndent(c, "", "  ")
	require.NoError(t, err)
	got := &txtar.Archive{Comment: []byte("What a report on many pools says, see fleet in coverage_test.go.\n\n"), Files: []txtar.File{
		txtarFile("report.txt", c.String()), txtarFile("report.md", c.Markdown()), txtarFile("report.json", string(doc)+"\n"),
	}}
	if *update {
		require.NoError(t, os.WriteFile(file, formatArchive(got), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Empty(t, difference(string(want), string(formatArchive(got))), "run with -update, and read the diff")
}

func fleet() ([]pullwalk.Pool, []*pullwalk.Result) {
	resolver := func(ns ...string) change { return func(r *pullwalk.Result) { r.Vantage.Nameservers = ns } }
	source := func(addr string) change {
		return func(r *pullwalk.Result) {
			r.Sources = []pullwalk.Source{{Endpoints: []pullwalk.Endpoint{{Scheme: "https", Host: "registry.corp.test", Port: 443, Steps: []pullwalk.Step{
				{ID: pullwalk.StepConnect, Reach: &reach.Report{Connect: &reach.Connect{Connected: true, Source: netip.AddrPortFrom(netip.MustParseAddr(addr), 40001)}}},
			}}}}}
		}
	}
	days := func(n int) time.Time { return noon.Add(-time.Duration(n) * 24 * time.Hour) }
	pools := []pullwalk.Pool{
		poolOf("system", "sys-1", "sys-2", "sys-3"),
		{Name: "gpu", Nodes: []pullwalk.PoolNode{{Name: "gpu-1", Created: days(3)}, {Name: "gpu-2", Created: days(12)}}},
		poolOf("batch", "batch-1"),
		{Name: "old", Nodes: []pullwalk.PoolNode{{Name: "old-1", Created: days(214)}}},
		poolOf("patched", "patched-1"),
		poolOf("web", "web-1", "web-2"),
		poolOf("stored", "stored-1"),
		poolOf("spot"),
		poolOf("arm", "arm-1", "arm-2"),
	}
	const nx = classify.DNSNXDOMAIN
	results := []*pullwalk.Result{
		provedOn("sys-1", source("10.1.0.11"), labelled("zone", "1")),
		provedOn("sys-2", touched, source("10.1.0.12"), labelled("zone", "2")),
		failedOn("gpu-1", nx, "blobs.corp.test", resolver("10.30.0.2:53"), source("10.3.0.7"), labelled("zone", "1")),
		provedOn("gpu-2", source("10.1.0.13"), labelled("zone", "2")),
		failedOn("gpu-2", nx, "blobs.corp.test", resolver("10.30.0.2:53"), at(noon.Add(-time.Hour))),
		failedOn("batch-1", nx, "blobs.corp.test", resolver("10.30.0.2:53"), source("10.3.0.8")),
		provedOn("old-1", source("10.1.0.14")),
		provedOn("patched-1", handRepaired),
		provedOn("web-1", ofContent(oldDigest), at(noon.Add(-2*time.Hour))),
		provedOn("stored-1", touched, stored),
		provedOn("pod-1", from("other", ""), labelled(pullwalk.LabelPool, "arm")),
		provedOn("laptop"),
		provedOn("sys-1", labelled(pullwalk.LabelPool, "edge")),
		nil,
		provedOn("sys-3", func(r *pullwalk.Result) { r.Image.Reference = "registry.corp.test/team/other:v1" }),
		provedOn("sys-3", func(r *pullwalk.Result) { r.Schema = "pullwalk.result/v2" }),
	}
	return pools, results
}

// The order of the results says nothing.
func TestCoverageInAnyOrder(t *testing.T) {
	t.Parallel()
	pools, results := fleet()
	want := pullwalk.Coverage(pools, results)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(results), func(i, j int) { results[i], results[j] = results[j], results[i] })
		got := pullwalk.Coverage(pools, results)
		slices.SortFunc(got.Unclaimed, func(a, b pullwalk.UnclaimedResult) int { return strings.Compare(a.Reason, b.Reason) })
		slices.SortFunc(want.Unclaimed, func(a, b pullwalk.UnclaimedResult) int { return strings.Compare(a.Reason, b.Reason) })
		require.Equal(t, want, got)
	}
}

// What diagnoses of real nodes say: four pools of one world each.
func TestCoverageOfScenarios(t *testing.T) {
	t.Parallel()
	const node = "option complete\nruntime containerd PATH=/usr/bin\n"
	worlds := []struct{ pool, world, hosts string }{
		{"good", node, ""},
		{"patched", node + "zone 10.20.0.2 blobs.corp.test none\n", "127.0.0.1 localhost\n10.20.0.6 blobs.corp.test\n"},
		{"broken", node + "nameserver 10.20.0.3\nzone 10.20.0.3 registry.corp.test 10.20.0.4\nzone 10.20.0.3 auth.corp.test 10.20.0.5\nzone 10.20.0.3 blobs.corp.test none\n", ""},
		{"pod", "option complete\n", ""},
		{"touched", strings.TrimPrefix(node, "option complete\n"), ""},
	}
	var pools []pullwalk.Pool
	var results []*pullwalk.Result
	for _, w := range worlds {
		pools = append(pools, pullwalk.Pool{Name: w.pool})
		text := "\n-- world --\n" + w.world
		if w.hosts != "" {
			text += "-- node/etc/hosts --\n" + w.hosts
		}
		s := scenario{name: w.pool, archive: parseArchive(text)}
		s.inBubble(t, func(t *testing.T, world *world) {
			world.opts.Node.Labels = map[string]string{pullwalk.LabelPool: w.pool, pullwalk.LabelNode: w.pool + "-1"}
			got := world.diagnose(t, t.Context(), s)
			var decoded pullwalk.Result // as an agent sends it
			require.NoError(t, json.Unmarshal(got.json, &decoded))
			results = append(results, &decoded)
		})
	}
	c := pullwalk.Coverage(pools, results)
	checkCoverage(t, c)
	var states []pullwalk.CoverageState
	for _, p := range c.Pools {
		states = append(states, p.State)
	}
	assert.Equal(t, []pullwalk.CoverageState{pullwalk.CoverageProved, pullwalk.CoverageHandRepaired, pullwalk.CoverageFailed, pullwalk.CoverageOpen, pullwalk.CoverageOpen}, states, c.String())
	assert.Equal(t, pullwalk.StatusFailed, c.Verdict)
	require.Len(t, c.Causes, 1)
	assert.Equal(t, []string{"broken"}, c.Causes[0].Pools)
	assert.Equal(t, "blobs.corp.test", c.Causes[0].Finding.Endpoint)
	assert.Contains(t, differs(c), "nameservers: 10.20.0.2:53 (1 proved, 3 other), 10.20.0.3:53 (1 failed); good and bad have no value in common")
}

func TestCoverageOfNothing(t *testing.T) {
	t.Parallel()
	c := pullwalk.Coverage(nil, nil)
	checkCoverage(t, c)
	assert.Equal(t, pullwalk.StatusInconclusive, c.Verdict, "nothing asked is nothing proved")
	require.Error(t, c.Err())
	require.Error(t, pullwalk.CoverageReport{}.Err())

	c = pullwalk.Coverage(nil, []*pullwalk.Result{provedOn("n1"), nil})
	checkCoverage(t, c)
	assert.Equal(t, pullwalk.StatusInconclusive, c.Verdict)
	assert.Len(t, c.Unclaimed, 1)
	assert.Equal(t, []string{"1 result left out: nil"}, c.Notes)
}

// Downloads of different contents are not one proof: the newest is in question.
func TestCoverageOfTwoContents(t *testing.T) {
	t.Parallel()
	pools := []pullwalk.Pool{poolOf("p", "n1"), poolOf("q", "n2")}
	results := []*pullwalk.Result{provedOn("n1", ofContent(oldDigest), at(noon.Add(-time.Minute))), provedOn("n2")}
	c := pullwalk.Coverage(pools, results)
	checkCoverage(t, c)
	assert.Equal(t, pullwalk.StatusInconclusive, c.Verdict)
	assert.Equal(t, oneDigest, c.Digest)
	assert.Equal(t, []string{oldDigest}, c.OtherDigests)
	assert.Equal(t, pullwalk.CoverageOpen, c.Pools[0].State)
	assert.Contains(t, c.Pools[0].Reason, "the content sha256:bbbbbbbbbbbb… and not sha256:aaaaaaaaaaaa…")
	assert.Equal(t, pullwalk.CoverageProved, c.Pools[1].State)
	assert.Contains(t, strings.Join(c.Notes, "\n"), "the reference led to 2 contents")

	// What a pod saw later elsewhere does not make the proofs worthless.
	results = []*pullwalk.Result{provedOn("n1"), provedOn("n2"), provedOn("n3", from("other", ""), ofContent(oldDigest), labelled(pullwalk.LabelPool, "q"), at(noon.Add(time.Hour)))}
	assert.Equal(t, pullwalk.StatusOK, pullwalk.Coverage(pools, results).Verdict)
}

// A node may stand in several pools, a pool may be given in two parts, and a label
// decides before a list.
func TestCoveragePlaces(t *testing.T) {
	t.Parallel()
	c := pullwalk.Coverage([]pullwalk.Pool{poolOf("p", "n1"), poolOf("q", "n1", "n2"), poolOf("p", "n3"), poolOf("r", "n4")}, []*pullwalk.Result{
		provedOn("n1"), provedOn("n4", labelled(pullwalk.LabelPool, "q")), provedOn("n5"), provedOn(""), provedOn("n1", labelled(pullwalk.LabelPool, "elsewhere")),
	})
	checkCoverage(t, c)
	require.Len(t, c.Pools, 3)
	type pool struct {
		name     string
		probed   int
		unprobed int
	}
	var got []pool
	for _, p := range c.Pools {
		got = append(got, pool{p.Name, len(p.Nodes), p.Unprobed})
	}
	assert.Equal(t, []pool{{"p", 1, 1}, {"q", 2, 1}, {"r", 0, 1}}, got)
	var why []string
	for _, u := range c.Unclaimed {
		why = append(why, u.Node+": "+u.Reason)
	}
	assert.Equal(t, []string{"n5: its node stands in no pool", ": it names no node and no pool", `n1: its label names the pool "elsewhere", which is not in question`}, why)
}

func TestCoverageCauses(t *testing.T) {
	t.Parallel()
	const nx = classify.DNSNXDOMAIN
	c := pullwalk.Coverage([]pullwalk.Pool{poolOf("p", "n1", "n2"), poolOf("q", "n3"), poolOf("r", "n4")}, []*pullwalk.Result{
		failedOn("n1", classify.RouteConnectTimeout, "registry.corp.test:443"), failedOn("n2", nx, "blobs.corp.test"),
		failedOn("n3", nx, "blobs.corp.test"), failedOn("n4", nx, "auth.corp.test"),
	})
	checkCoverage(t, c)
	var got []string
	for _, cause := range c.Causes {
		got = append(got, fmt.Sprintf("%s at %s: %v, %d", cause.Finding.Cause, cause.Finding.Endpoint, cause.Pools, cause.Nodes))
	}
	assert.Equal(t, []string{
		"dns.nxdomain at blobs.corp.test: [p q], 2", "route.connect-timeout at registry.corp.test:443: [p], 1", "dns.nxdomain at auth.corp.test: [r], 1",
	}, got)

	var report *pullwalk.CoverageError
	require.ErrorAs(t, c.Err(), &report)
	assert.Equal(t, strings.TrimSpace(c.String()), report.Error())
	var finding classify.Finding
	require.True(t, errors.As(c.Err(), &finding))
	assert.Equal(t, nx, finding.Cause)
}

func TestCoverageDifferences(t *testing.T) {
	t.Parallel()
	version := func(v string) change { return func(r *pullwalk.Result) { r.Vantage.RuntimeVersion = v } }
	proxy := func(r *pullwalk.Result) { r.Vantage.Proxy = "environment of containerd (pid 812)" }
	via := func(p string) change {
		return func(r *pullwalk.Result) { r.Sources = []pullwalk.Source{{Endpoints: []pullwalk.Endpoint{{Via: p}}}} }
	}
	route := func(addr string) change {
		return func(r *pullwalk.Result) {
			r.Sources = []pullwalk.Source{{Endpoints: []pullwalk.Endpoint{{Steps: []pullwalk.Step{
				{Reach: &reach.Report{Route: &reach.Route{Source: netip.MustParseAddr(addr)}}}, {Reach: &reach.Report{Route: &reach.Route{Source: netip.MustParseAddr("127.0.0.1")}}},
			}}}}}
		}
	}
	identity := func(who string, asked bool) change {
		return func(r *pullwalk.Result) {
			r.Vantage.Identity = who
			st := pullwalk.Step{ID: pullwalk.StepResolve}
			if asked {
				st.Request = &endpoints.RequestReport{}
			}
			r.Sources = []pullwalk.Source{{Endpoints: []pullwalk.Endpoint{{Steps: []pullwalk.Step{st}}}}}
		}
	}
	for _, tt := range []struct {
		name string
		good []change // on n1, which proved
		bad  []change // on n2, which failed
		want []string
	}{
		{"nothing", nil, nil, nil},
		{"a version", []change{version("2.1.4")}, []change{version("1.7.2")}, []string{"runtime version: 1.7.2 (1 failed), 2.1.4 (1 proved); good and bad have no value in common"}},
		{"one is not known", []change{version("2.1.4")}, []change{version("")}, nil},
		{"process numbers are no difference", []change{proxy}, []change{proxy, func(r *pullwalk.Result) {
			r.Vantage.Proxy, r.Vantage.RuntimePID = "environment of containerd (pid 7)", 7
		}}, nil},
		{"a proxy", []change{via("proxy.corp.test:3128")}, nil, []string{"proxy: none (1 failed), proxy.corp.test:3128 (1 proved); good and bad have no value in common"}},
		{"a proxy that is not used", []change{via("proxy.corp.test:3128")}, []change{proxy}, []string{"proxy: proxy.corp.test:3128 (1 proved), set, not used (1 failed); good and bad have no value in common"}},
		{"one network", []change{route("10.1.0.4")}, []change{route("10.1.0.200")}, nil},
		{"two networks", []change{route("10.1.0.4")}, []change{route("10.2.0.4")}, []string{"source network: 10.1.0.0/24 (1 proved), 10.2.0.0/24 (1 failed); good and bad have no value in common"}},
		{"one IPv6 network", []change{route("fd00::1:4")}, []change{route("fd00::2:4")}, nil},
		{"two identities", []change{identity("secret a", true)}, []change{identity("anonymous", true)}, []string{"identity: anonymous (1 failed), secret a (1 proved); good and bad have no value in common"}},
		{"nobody was there to show one to", []change{identity("secret a", true)}, []change{identity("anonymous", false)}, nil},
		{"a zone", []change{labelled("zone", "1")}, []change{labelled("zone", "2")}, []string{"label zone: 1 (1 proved), 2 (1 failed); good and bad have no value in common"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := pullwalk.Coverage([]pullwalk.Pool{poolOf("p", "n1", "n2")}, []*pullwalk.Result{provedOn("n1", tt.good...), failedOn("n2", classify.DNSNXDOMAIN, "b", tt.bad...)})
			checkCoverage(t, c)
			assert.Equal(t, tt.want, differs(c))
		})
	}
}

// differs are the lines of the report on differences, joined again.
func differs(c pullwalk.CoverageReport) []string {
	var out []string
	var inside bool
	for line := range strings.Lines(c.Markdown()) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\n"), `\`, "")
		if item, ok := strings.CutPrefix(line, "  - "); ok && inside {
			out = append(out, item)
		}
		if strings.HasPrefix(line, "- **") {
			inside = line == "- **Differs**:"
		}
	}
	return out
}

// Apart says that a property separates good from bad, and only that.
func TestCoverageApart(t *testing.T) {
	t.Parallel()
	go124 := func(r *pullwalk.Result) { r.Vantage.RuntimeGo = "go1.24.1" }
	go125 := func(r *pullwalk.Result) { r.Vantage.RuntimeGo = "go1.25.0" }
	noGo := func(r *pullwalk.Result) { r.Vantage.RuntimeGo = "" }
	bad := func(node string, c change) *pullwalk.Result { return failedOn(node, classify.DNSNXDOMAIN, "b", c) }
	zone := labelled("zone", "1")
	for name, tt := range map[string]struct {
		results []*pullwalk.Result
		apart   bool
	}{
		"good and bad differ":       {[]*pullwalk.Result{provedOn("n1", go124), bad("n2", go125), bad("n3", go125)}, true},
		"one bad is as the good":    {[]*pullwalk.Result{provedOn("n1", go124), bad("n2", go125), bad("n3", go124)}, false},
		"one bad is not known":      {[]*pullwalk.Result{provedOn("n1", go124), bad("n2", go125), bad("n3", noGo)}, false},
		"one good is not known":     {[]*pullwalk.Result{provedOn("n1", go124), provedOn("n3", noGo), bad("n2", go125)}, false},
		"nothing is good":           {[]*pullwalk.Result{bad("n1", go124), bad("n2", go125)}, false},
		"nothing is bad":            {[]*pullwalk.Result{provedOn("n1", go124), provedOn("n2", go125)}, false},
		"others do not count":       {[]*pullwalk.Result{provedOn("n1", go124), bad("n2", go125), provedOn("n3", touched, go124)}, true},
		"others count without bad":  {[]*pullwalk.Result{provedOn("n1", go124), provedOn("n2", handRepaired, go125)}, true},
		"others may be as the good": {[]*pullwalk.Result{provedOn("n1", go124), provedOn("n2", touched, go125), provedOn("n3", touched, go124)}, false},
	} {
		c := pullwalk.Coverage([]pullwalk.Pool{poolOf("p", "n1", "n2", "n3")}, tt.results)
		require.Len(t, c.Differences, 1, name)
		assert.Equal(t, "Go version of the runtime", c.Differences[0].What, name)
		assert.Equal(t, tt.apart, c.Differences[0].Apart, name)
	}
	// A label that a good or a bad node lacks cannot tell them apart.
	for _, third := range []*pullwalk.Result{bad("n3", go124), provedOn("n3")} {
		c := pullwalk.Coverage([]pullwalk.Pool{poolOf("p", "n1", "n2", "n3")}, []*pullwalk.Result{provedOn("n1", zone), bad("n2", labelled("zone", "2")), third})
		i := slices.IndexFunc(c.Differences, func(d pullwalk.CoverageDifference) bool { return d.What == "label zone" })
		require.GreaterOrEqual(t, i, 0)
		assert.False(t, c.Differences[i].Apart)
	}
}

// A report cuts what is long, says so, and keeps all of it in the JSON.
func TestCoverageBounds(t *testing.T) {
	t.Parallel()
	var pools []pullwalk.Pool
	var results []*pullwalk.Result
	for i := range 300 {
		name := fmt.Sprintf("pool-%03d", i)
		pools = append(pools, poolOf(name, "node-"+name))
		r := failedOn("node-"+name, classify.Cause(fmt.Sprintf("x.cause-%d", i)), "b")
		if i%2 == 0 {
			r = provedOn("node-" + name)
		}
		r.Vantage.RuntimeVersion = fmt.Sprint(i)
		results = append(results, r, provedOn(fmt.Sprintf("stranger-%d", i)))
	}
	results = append(results, provedOn("node-pool-000", at(noon.Add(time.Hour)), labelled("password", "x"), func(r *pullwalk.Result) {
		r.Vantage.RuntimeVersion = strings.Repeat("9", 1<<20)
	}))
	c := pullwalk.Coverage(pools, results)
	checkCoverage(t, c)
	text := c.String()
	assert.Contains(t, text, "and 200 pools more")
	assert.Contains(t, text, "and 140 more")
	assert.Contains(t, text, "and 290 more")
	assert.Contains(t, text, "292 more values")
	assert.Less(t, strings.Index(text, "pool-299"), strings.Index(text, "and 200 pools more"), "the worst come first")
	assert.NotContains(t, text, "pool-298")
	assert.Len(t, c.Pools, 300)
	assert.Len(t, c.Causes, 150)
	assert.Len(t, c.Unclaimed, 300)
}

// What nodes say of themselves is redacted, and can neither move a cursor nor
// format a page.
func TestCoverageOfHostileResults(t *testing.T) {
	t.Parallel()
	const evil = "\x1b[2J<img src=x>|@all **x** https://user:SECRET-1@h.test/p?sig=SECRET-2 password=SECRET-3\u202e\n# h"
	r := failedOn(evil, classify.Cause(evil), evil, labelled(pullwalk.LabelPool, evil), labelled(evil, evil))
	r.Image = pullwalk.ImageRef{Reference: evil, Digest: evil, Platform: evil}
	r.Primary.Owner, r.Primary.Summary = classify.Owner(evil), evil
	r.Vantage.Nameservers, r.Vantage.RuntimeVersion = []string{evil}, evil
	other := provedOn("n1", labelled(pullwalk.LabelPool, evil), labelled(evil, "1"))
	other.Image = r.Image
	stranger := provedOn(evil, labelled(pullwalk.LabelPool, evil+"2"))
	stranger.Image, stranger.Verdict = r.Image, evil
	c := pullwalk.Coverage([]pullwalk.Pool{poolOf(evil)}, []*pullwalk.Result{r, other, stranger})
	checkCoverageText(t, c)
	require.Len(t, c.Pools, 1)
	require.Len(t, c.Pools[0].Nodes, 2)
	for _, out := range []string{c.String(), c.Markdown(), c.Err().Error()} {
		assert.NotContains(t, out, "SECRET")
	}
	assert.NotRegexp(t, `[^\\](<|@|\*\*x|#)`, strings.TrimPrefix(c.Markdown(), "### "), "every mark is escaped")
	assert.Equal(t, 3, strings.Count(c.Markdown(), "\n| "), "no name opens another cell or row")
}

func FuzzCoverageReport(f *testing.F) {
	doc, err := json.Marshal(pullwalk.Coverage(fleet()))
	require.NoError(f, err)
	for _, seed := range []string{string(doc), `{}`, `null`, `{"pools":null,"causes":[{"pools":null}],"differences":[{"values":null,"more":-3}]}`,
		`{"verdict":"ok","pools":[{"unprobed":-7,"name":"\u001b[2J"}],"notes":["",""],"unclaimed":[{}]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var c pullwalk.CoverageReport
		if json.Unmarshal(doc, &c) != nil {
			return
		}
		checkCoverageText(t, c)
		_ = c.Err()
	})
}

// FuzzCoverage reads pools and results that anybody may have written.
func FuzzCoverage(f *testing.F) {
	pools, results := fleet()
	p, err := json.Marshal(pools)
	require.NoError(f, err)
	r, err := json.Marshal(results)
	require.NoError(f, err)
	f.Add(p, r)
	f.Add([]byte(`[{"name":"p","nodes":[{"name":""},{"name":""}]}]`), []byte(`[null,{},{"schema":"pullwalk.result/v1","verdict":"failed"},{"schema":"pullwalk.result/v1","sources":[{"endpoints":[{"steps":[{"reach":{}}]}]}]}]`))
	f.Fuzz(func(t *testing.T, p, r []byte) {
		var pools []pullwalk.Pool
		var results []*pullwalk.Result
		if json.Unmarshal(p, &pools) != nil || json.Unmarshal(r, &results) != nil {
			return
		}
		c := pullwalk.Coverage(pools, results)
		checkCoverageText(t, c)
		require.Equal(t, c, pullwalk.Coverage(pools, results), "the same question has the same answer")
		for _, r := range results {
			if r != nil {
				reason, message := r.Condition()
				require.Regexp(t, conditionReason, reason)
				require.LessOrEqual(t, len(message), 512)
				require.Len(t, r.Fingerprint(), 32)
			}
		}
	})
}

// BenchmarkCoverage is a large fleet: 5,000 nodes, each with a result of thirty
// steps, in 50 pools of which one fails, and in one pool where every second node
// fails in a way of its own.
func BenchmarkCoverage(b *testing.B) {
	b.Run("50 pools", func(b *testing.B) {
		benchmarkCoverage(b, 50, 100, func(pool, node int) (string, bool) { return "blobs.corp.test", pool == 7 })
	})
	b.Run("1 pool", func(b *testing.B) {
		benchmarkCoverage(b, 1, 5000, func(_, node int) (string, bool) { return fmt.Sprintf("blobs-%d.corp.test", node), node%2 == 0 })
	})
}

func benchmarkCoverage(b *testing.B, poolCount, nodeCount int, fails func(pool, node int) (string, bool)) {
	var pools []pullwalk.Pool
	var results []*pullwalk.Result
	for i := range poolCount {
		p := pullwalk.Pool{Name: fmt.Sprintf("pool-%d", i)}
		for j := range nodeCount {
			node := fmt.Sprintf("node-%d-%d", i, j)
			p.Nodes = append(p.Nodes, pullwalk.PoolNode{Name: node, Created: noon.Add(-time.Hour)})
			r := provedOn(node)
			if host, bad := fails(i, j); bad {
				r = failedOn(node, classify.DNSNXDOMAIN, host)
			}
			var steps []pullwalk.Step
			for k := range 30 {
				steps = append(steps, pullwalk.Step{ID: pullwalk.StepConnect, Reach: &reach.Report{Connect: &reach.Connect{Source: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), byte(k)}), 40000)}}})
			}
			r.Sources = []pullwalk.Source{{Endpoints: []pullwalk.Endpoint{{Steps: steps}}}}
			results = append(results, r)
		}
		pools = append(pools, p)
	}
	b.ReportAllocs()
	for b.Loop() {
		c := pullwalk.Coverage(pools, results)
		if c.Verdict != pullwalk.StatusFailed || len(c.String()) == 0 {
			b.Fatal(c.Reason)
		}
	}
}
