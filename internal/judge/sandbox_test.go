package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

func TestJoinSandbox(t *testing.T) {
	t.Parallel()
	missing, note := fail(classify.DNSNXDOMAIN), finding(classify.DNSStaleRecord, classify.SeverityInfo)
	for name, tt := range map[string]struct {
		image     Result
		sandbox   Sandbox
		verdict   pull.Status
		findings  []string
		decisions [][4]string
	}{
		"it fails": {
			Result{Verdict: pull.StatusOK, Findings: []classify.Finding{note}}, Sandbox{Verdict: pull.StatusFailed, Findings: []classify.Finding{missing, note}},
			pull.StatusDegraded, []string{"warn dns.nxdomain", "info dns.stale-record"}, [][4]string{
				{"sandbox-image-only-warns", "dns.nxdomain of the sandbox image", "fail", "warn"}, {"sandbox-image-only-warns", "verdict", "ok", "degraded"},
			},
		},
		"it warns": {
			Result{Verdict: pull.StatusOK}, Sandbox{Verdict: pull.StatusDegraded, Findings: []classify.Finding{warn(classify.DNSNXDOMAIN)}},
			pull.StatusDegraded, []string{"warn dns.nxdomain"}, [][4]string{{"sandbox-image-only-warns", "verdict", "ok", "degraded"}},
		},
		"it holds": {Result{Verdict: pull.StatusOK}, Sandbox{Verdict: pull.StatusOK, Findings: []classify.Finding{note}}, pull.StatusOK, nil, nil},
		"it is not known": {
			Result{Verdict: pull.StatusOK, Findings: []classify.Finding{note}}, Sandbox{Verdict: pull.StatusInconclusive, Findings: []classify.Finding{missing}},
			pull.StatusOK, []string{"info dns.stale-record", "info dns.nxdomain"}, [][4]string{{"sandbox-image-only-warns", "dns.nxdomain of the sandbox image", "fail", "info"}},
		},
		"the image fails, too": {
			Result{Verdict: pull.StatusFailed, Findings: []classify.Finding{refused}}, Sandbox{Verdict: pull.StatusFailed, Findings: []classify.Finding{missing}},
			pull.StatusFailed, []string{"fail endpoint.connection-refused", "warn dns.nxdomain"}, [][4]string{{"sandbox-image-only-warns", "dns.nxdomain of the sandbox image", "fail", "warn"}},
		},
		"at the same": {
			Result{Verdict: pull.StatusFailed, Findings: []classify.Finding{missing}}, Sandbox{Verdict: pull.StatusFailed, Findings: []classify.Finding{missing}},
			pull.StatusFailed, []string{"fail dns.nxdomain"}, nil,
		},
		"the image degrades by itself": {Result{Verdict: pull.StatusDegraded}, Sandbox{Verdict: pull.StatusFailed, Findings: []classify.Finding{warn(classify.DNSNXDOMAIN)}}, pull.StatusDegraded, []string{"warn dns.nxdomain"}, nil},
		"a failure that the image warns of": {
			Result{Verdict: pull.StatusOK, Findings: []classify.Finding{warn(classify.DNSNXDOMAIN)}}, Sandbox{Verdict: pull.StatusFailed, Findings: []classify.Finding{missing}},
			pull.StatusDegraded, []string{"warn dns.nxdomain"}, [][4]string{{"sandbox-image-only-warns", "verdict", "ok", "degraded"}},
		},
		"the same as a note": {
			Result{Verdict: pull.StatusOK, Findings: []classify.Finding{finding(classify.DNSNXDOMAIN, classify.SeverityInfo)}}, Sandbox{Verdict: pull.StatusDegraded, Findings: []classify.Finding{warn(classify.DNSNXDOMAIN)}},
			pull.StatusDegraded, []string{"warn dns.nxdomain", "info dns.nxdomain"}, [][4]string{{"sandbox-image-only-warns", "verdict", "ok", "degraded"}},
		},
	} {
		got := tt.image
		if got.Verdict == pull.StatusFailed {
			got.Primary = &got.Findings[0]
		}
		tt.sandbox.Image = "pause"
		JoinSandbox(&got, tt.sandbox)
		require.Equal(t, tt.verdict, got.Verdict, name)
		require.Equal(t, tt.findings, codes(got.Findings), name)
		require.Equal(t, tt.decisions, told(got.Decisions), name)
		if got.Primary != nil {
			require.Same(t, &got.Findings[0], got.Primary, name)
		}
	}
	got := Result{Verdict: pull.StatusOK}
	other := missing
	other.Endpoint = "b:443"
	got.Findings = []classify.Finding{other}
	JoinSandbox(&got, Sandbox{Image: "pause", Verdict: pull.StatusFailed, Findings: []classify.Finding{missing}, Decisions: []Decision{{Rule: "lowest-layer-first", Subject: "root cause", To: "dns.nxdomain"}}})
	require.Equal(t, "For the sandbox image pause: it is dns.nxdomain", got.Findings[1].Summary, "at another host")
	require.Equal(t, classify.OperationSandboxImage, got.Findings[1].Operation)
	require.Equal(t, "sandbox image: root cause", got.Decisions[0].Subject)

	got = Result{Verdict: pull.StatusOK}
	JoinSandbox(&got, Sandbox{Image: "pause", Verdict: pull.StatusInconclusive, Doubt: "the node may have it"})
	require.Equal(t, []Decision{{"node-may-have-the-sandbox-image", "sandbox image: verdict", "failed", "inconclusive", "the node may have it"}}, got.Decisions)
}
