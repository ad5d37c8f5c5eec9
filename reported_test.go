package pullwalk_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

const asked = "registry.corp.test/team/app:v1"

// failedPull is the kubelet's event for a pull that ended with cause.
func failedPull(image, cause string) classify.EventRecord {
	return classify.EventRecord{
		Reason: "Failed", Node: "node-1", Pod: "app-1",
		Message: fmt.Sprintf("Failed to pull image %q: failed to resolve reference %q: failed to do request: Head \"https://registry.corp.test/v2/team/app/manifests/v1\": %s", image, image, cause),
	}
}

const (
	saysTimeout    = "dial tcp 10.20.0.4:443: i/o timeout"
	saysNoSuchHost = "dial tcp: lookup registry.corp.test on 10.20.0.2:53: no such host"
	saysDNSSilent  = "dial tcp: lookup registry.corp.test on 10.20.0.2:53: read udp 10.10.0.7:41234->10.20.0.2:53: i/o timeout"
)

// What events say is compared, and never more is claimed than can be.
func TestEventsBesideProbes(t *testing.T) {
	t.Parallel()
	at := func(e classify.EventRecord, ago time.Duration) classify.EventRecord {
		e.Time = time.Now().Add(-ago)
		return e
	}
	on := func(e classify.EventRecord, node string) classify.EventRecord {
		e.Node, e.Pod = node, "app-"+node
		return e
	}
	pulled := func(image string) classify.EventRecord {
		return classify.EventRecord{Reason: "Pulled", Node: "node-1", Pod: "app-1", Message: fmt.Sprintf("Successfully pulled image %q in 812ms (812ms including waiting). Image size: 5123456 bytes.", image)}
	}
	cached := func(image string) classify.EventRecord {
		return classify.EventRecord{Reason: "Pulled", Node: "node-1", Pod: "app-1", Message: fmt.Sprintf("Container image %q already present on machine", image)}
	}
	type events = []classify.EventRecord
	for name, tt := range map[string]struct {
		world  string
		events func() events
		agrees string
		cause  classify.Cause // of the reading
		notes  []string
		not    string // that the note must not say
	}{
		"the same": {"zone 10.20.0.2 registry.corp.test none", func() events { return events{failedPull(asked, saysNoSuchHost)} }, "yes", classify.DNSNXDOMAIN, nil, ""},
		"repaired since": {"", func() events { return events{at(failedPull(asked, saysTimeout), 3*time.Hour)} }, "no", classify.RouteConnectTimeout,
			[]string{"may have been repaired since (the event is 3h0m0s old)", "may come and go"}, "consequence"},
		"age of a table": {"", func() events { e := failedPull(asked, saysTimeout); e.AgeMS = 90_000; return events{e} }, "no", classify.RouteConnectTimeout,
			[]string{"1m30s old"}, ""},
		"several rounds": {"option rounds 3", func() events { return events{failedPull(asked, saysTimeout)} }, "no", classify.RouteConnectTimeout, []string{"was not met in 3 rounds"}, "looked once"},
		"no date":        {"", func() events { return events{failedPull(asked, saysTimeout)} }, "no", classify.RouteConnectTimeout, []string{"may have been repaired since (the event has no date)"}, ""},
		"dated ahead":    {"", func() events { return events{at(failedPull(asked, saysTimeout), -time.Hour)} }, "no", classify.RouteConnectTimeout, []string{"ahead of this clock"}, ""},
		"another image":  {"zone 10.20.0.2 registry.corp.test none", func() events { return events{failedPull("registry.corp.test/team/other:v1", saysNoSuchHost)} }, "unknown", "", []string{"no event names a failure"}, ""},
		"another tag":    {"zone 10.20.0.2 registry.corp.test none", func() events { return events{failedPull("registry.corp.test/team/app:v2", saysNoSuchHost)} }, "unknown", "", []string{"no event names a failure"}, ""},
		"no image named": {"net silent 10.20.0.4:443", func() events { return events{{Reason: "Failed", Message: saysTimeout, Node: "node-1"}} }, "yes", classify.RouteConnectTimeout, nil, ""},
		"only copies": {"net silent 10.20.0.4:443", func() events { return events{cached(asked)} }, "unknown", "",
			[]string{"own copy"}, ""},
		"only back-off": {"net silent 10.20.0.4:443", func() events {
			return events{{Reason: "BackOff", Message: "Back-off pulling image \"" + asked + "\"", Node: "node-1"}}
		}, "unknown", "", []string{"not why"}, ""},
		"pulled since": {"", func() events {
			return events{at(failedPull(asked, saysTimeout), time.Hour), at(pulled(asked), time.Minute)}
		}, "yes", classify.RouteConnectTimeout,
			[]string{"a later event tells of a pull that worked"}, ""},
		"pulled before": {"", func() events {
			return events{at(pulled(asked), time.Hour), at(failedPull(asked, saysTimeout), time.Minute)}
		}, "no", classify.RouteConnectTimeout,
			[]string{"1m0s old"}, ""},
		"the resolver of the registry": {"route 10.20.0.2/32 unreachable", func() events { return events{failedPull(asked, saysDNSSilent)} }, "yes", classify.DNSResolverTimeout,
			[]string{"the lookup of registry.corp.test", "nameserver 10.20.0.2 is not reached"}, ""},
		"a finer cause": {"net mute 10.20.0.4:443", func() events { return events{failedPull(asked, "net/http: TLS handshake timeout")} }, "yes", classify.EndpointTLSHandshakeTimeout, nil, ""},
		"another node": {"", func() events { return events{on(failedPull(asked, saysTimeout), "node-2")} }, "unknown", classify.RouteConnectTimeout,
			[]string{"of the node node-2", "looked from node-1", "not seen here"}, ""},
		"another node that fails alike": {"net silent 10.20.0.4:443", func() events { return events{on(failedPull(asked, saysTimeout), "node-2")} }, "unknown", classify.RouteConnectTimeout,
			[]string{"the same was seen here"}, ""},
		"this node before others": {"net silent 10.20.0.4:443", func() events {
			return events{failedPull(asked, saysTimeout), on(failedPull(asked, saysNoSuchHost), "node-2")}
		}, "yes", classify.RouteConnectTimeout, nil, ""},
		"this node with its domain": {"net silent 10.20.0.4:443", func() events { return events{on(failedPull(asked, saysTimeout), "Node-1.corp.test")} }, "yes", classify.RouteConnectTimeout, nil, ""},
		"a name like it":            {"net silent 10.20.0.4:443", func() events { return events{on(failedPull(asked, saysTimeout), "node-10")} }, "unknown", classify.RouteConnectTimeout, []string{"node-10"}, ""},
		"a consequence": {"net silent 10.20.0.4:443", func() events {
			return events{failedPull(asked, "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed")}
		}, "no", classify.IdentityInsufficientScope, []string{"consequence"}, ""},
		"the same at another host": {"net silent 10.20.0.5:443", func() events { return events{failedPull(asked, saysTimeout)} }, "no", classify.RouteConnectTimeout, []string{"seen at another host"}, ""},
		"one address of two": {"zone 10.20.0.2 registry.corp.test 10.20.0.4 10.20.0.8\nnet silent 10.20.0.8:443", func() events { return events{failedPull(asked, "dial tcp 10.20.0.8:443: i/o timeout")} }, "no", classify.RouteConnectTimeout,
			[]string{"a warning here"}, ""},
		"not the first": {"net silent 10.20.0.4:443\noption also data.corp.test:443", func() events { return events{failedPull(asked, saysTimeout)} }, "yes", classify.RouteConnectTimeout, nil, "first"},
		"no verdict":    {"option budget 1s\nnet silent 10.20.0.4:443", func() events { return events{failedPull(asked, saysTimeout)} }, "unknown", classify.RouteConnectTimeout, []string{"no verdict"}, ""},
		"why before that": {"net silent 10.20.0.4:443", func() events {
			return events{failedPull(asked, saysTimeout), {Reason: "Failed", Message: "Failed to pull image \"" + asked + "\": something went wrong", Node: "node-1"}}
		}, "yes", classify.RouteConnectTimeout, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				w.opts.Events = tt.events()
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkLeaks(t)
				got.checkEncoding(t)
				p := got.result.Reported
				require.NotNil(t, p)
				assert.Equal(t, tt.agrees, p.Agrees, p.Note)
				assert.Equal(t, tt.cause, p.Reading.Best.Cause)
				for _, n := range tt.notes {
					assert.Contains(t, p.Note, n)
				}
				if tt.not != "" {
					assert.NotContains(t, p.Note, tt.not)
				}
			})
		})
	}
}

// A result for one node must not be taken for an answer about another.
func TestVantageOfAnotherNode(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		label, node string // ours by the cluster, and that of the event
		want        classify.Certainty
	}{
		"by the host name":                                   {"", "node-2", classify.CertaintyLikely},
		"by the cluster's own name":                          {"aks-a-1", "aks-a-2", classify.CertaintyProven},
		"the host is called otherwise, the node is this one": {"aks-a-1", "aks-a-1", ""},
		"this one":  {"", "node-1", ""},
		"not named": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "", func(t *testing.T, w *world) {
				e := failedPull(asked, saysTimeout)
				e.Node = tt.node
				w.opts.Events = []classify.EventRecord{e}
				if tt.label != "" {
					w.opts.Node.Labels = map[string]string{pullwalk.LabelNode: tt.label}
				}
				got := w.diagnose(t, t.Context(), scenario{})
				got.checkShape(t)
				var found *classify.Finding
				for i, f := range got.result.Findings {
					if f.Cause == classify.NodeVantageOtherNode {
						found = &got.result.Findings[i]
					}
				}
				if tt.want == "" {
					require.Nil(t, found)
					require.Equal(t, pullwalk.StatusOK, got.result.Verdict)
					return
				}
				require.NotNil(t, found)
				require.Equal(t, tt.want, found.Certainty)
				require.Equal(t, classify.SeverityWarn, found.Severity)
				require.Equal(t, pullwalk.StatusDegraded, got.result.Verdict)
				require.Contains(t, found.Summary, tt.node)
				require.Equal(t, "unknown", got.result.Reported.Agrees)
			})
		})
	}
}

// What brought the fault to light stands beside its cause, and starts from a copy
// are counted as what they are.
func TestTriggerAgainstCause(t *testing.T) {
	t.Parallel()
	inWorld(t, "net silent 10.20.0.4:443", func(t *testing.T, w *world) {
		now := time.Now()
		record := func(ago time.Duration, node, reason, message string) classify.EventRecord {
			return classify.EventRecord{Time: now.Add(-ago), Node: node, Pod: "app-" + node, Reason: reason, Message: message}
		}
		fail := failedPull(asked, saysTimeout)
		w.opts.Events = []classify.EventRecord{
			record(5*time.Hour, "node-0", "Pulled", "Successfully pulled image \""+asked+"\" in 812ms (812ms including waiting). Image size: 5123456 bytes."),
			record(2*time.Hour, "node-0", "Pulled", "Container image \""+asked+"\" already present on machine"),
			record(time.Hour, "node-1", "Failed", fail.Message),
			record(time.Minute, "node-1", "Failed", fail.Message),
			record(time.Minute, "node-1", "Killing", "Stopping container app"),
		}
		got := w.diagnose(t, t.Context(), scenario{})
		p := got.result.Reported
		require.Equal(t, "yes", p.Agrees, p.Note)
		require.Equal(t, classify.TriggerNewNodes, p.Trigger)
		require.Equal(t, 1, p.Pulls)
		require.Equal(t, 1, p.CachedStarts)
		require.Equal(t, 1, p.Unrelated)
		require.Equal(t, now.Add(-time.Hour).UTC(), p.FirstFailure)
		require.Equal(t, now.Add(-time.Minute).UTC(), p.LastFailure)
		require.GreaterOrEqual(t, p.LastFailureAgeMS, int64(60_000))
		require.Contains(t, got.result.String(), "trigger")
		require.Contains(t, got.result.String(), "route.connect-timeout")
		got.checkEncoding(t)
	})
}
