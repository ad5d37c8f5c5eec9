package pullwalk_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// silent is how long one source takes at most, whatever keeps silent there.
const silent = 15 * time.Second

// manyLayers are more than are asked for at once.
var manyLayers = "option layers" + strings.Repeat(" 100", 12)

// bounded diagnoses the world of statements and wants it to end in time, with a
// result that blames silence.
func bounded(t *testing.T, statements string, within time.Duration) *pullwalk.Result {
	t.Helper()
	var res *pullwalk.Result
	inWorld(t, statements, func(t *testing.T, w *world) {
		start := time.Now()
		got := w.diagnose(t, t.Context(), scenario{})
		assert.LessOrEqual(t, time.Since(start), within, statements)
		checkResult(t, got.result)
		res = got.result
	})
	return res
}

// Every host silent in every way, in every combination and mode: fifteen seconds
// are enough to say so.
func TestEverythingSilentIsDecidedInTime(t *testing.T) {
	t.Parallel()
	none := hop{name: "works", statement: func(string, int) string { return "" }}
	all := append([]hop{none}, hops...)
	for _, mode := range []string{"touch", "complete", "connect"} {
		for _, registry := range all {
			t.Run(mode+", registry "+registry.name, func(t *testing.T) {
				t.Parallel()
				for _, token := range all {
					for _, blobs := range all {
						statements := []string{"option " + mode, manyLayers}
						if mode == "touch" {
							statements = statements[1:]
						}
						broken := false
						for i, h := range []hop{registry, token, blobs} {
							statements = append(statements, h.statement(hosts[i].name, hosts[i].n))
							broken = broken || h.name != "works" && (i == 0 || mode != "connect")
						}
						res := bounded(t, strings.Join(statements, "\n"), silent)
						if broken && !(mode == "connect" && registry.name == "body stops") { // which has no body
							assert.Equal(t, pullwalk.StatusFailed, res.Verdict, "%v: %s", statements, res)
						}
					}
				}
			})
		}
	}
}

// The same where there are alternatives that are silent, too, and where something
// stands in between.
func TestSilentAlternativesAreDecidedInTime(t *testing.T) {
	t.Parallel()
	proxied := func(fault string) string {
		return "zone 10.20.0.2 proxy.corp.test 10.20.0.7\n" + fault + "\nruntime containerd HTTPS_PROXY=http://proxy.corp.test:3128"
	}
	for name, statements := range map[string]string{
		"one of two nameservers":            "nameserver 10.20.0.2 10.20.0.3\nzone 10.20.0.3 silent",
		"the first of two nameservers":      "nameserver 10.20.0.3 10.20.0.2\nzone 10.20.0.3 silent",
		"every nameserver":                  "nameserver 10.20.0.2 10.20.0.3 10.20.0.1\nzone 10.20.0.2 silent\nzone 10.20.0.3 silent\nzone 10.20.0.1 silent",
		"three addresses":                   "zone 10.20.0.2 registry.corp.test 10.20.0.21 10.20.0.22 10.20.0.23",
		"two of three addresses":            "zone 10.20.0.2 registry.corp.test 10.20.0.21 10.20.0.4 10.20.0.23",
		"addresses of the blob host":        "zone 10.20.0.2 blobs.corp.test 10.20.0.21 10.20.0.22 10.20.0.23",
		"the proxy":                         proxied("net silent 10.20.0.7:3128"),
		"the proxy, accepting":              proxied("net mute 10.20.0.7:3128"),
		"what is behind the proxy":          proxied("proxy 10.20.0.7:3128 works\nnet silent 10.20.0.4:443"),
		"blobs behind the proxy":            proxied("proxy 10.20.0.7:3128 works\nbreak header-stall blobs"),
		"the token server, with two logins": "login registry.corp.test/team reader wrong\nlogin registry.corp.test reader right\nbreak header-stall token",
		"CRI-O's registry":                  "runtime crio\nbreak header-stall registry",
		"CRI-O's blobs":                     "runtime crio\nbreak header-stall blobs",
		"docker's registry":                 "runtime dockerd\nbreak header-stall registry",
		"docker's manifests":                "runtime dockerd\nbreak body-stall registry",
		"hosts that are expected, too":      "option also a.corp.test:443\noption also b.corp.test:443\nzone 10.20.0.2 a.corp.test 10.20.0.31\nzone 10.20.0.2 b.corp.test 10.20.0.32\nnet mute 10.20.0.32:443\nbreak header-stall registry",
	} {
		for _, mode := range []string{"", "option complete\n", "option connect\n"} {
			t.Run(name+" "+strings.TrimSpace(mode), func(t *testing.T) {
				t.Parallel()
				bounded(t, mode+manyLayers+"\n"+statements, silent)
			})
		}
	}
}

// A blob that stalls stands for those that were not begun: they are blocked by
// it, and nothing is claimed of them.
func TestBlobsBehindAStalledOne(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"header-stall", "body-stall"} {
		for _, mode := range []string{"", "option complete\n"} {
			t.Run(fault+" "+strings.TrimSpace(mode), func(t *testing.T) {
				t.Parallel()
				res := bounded(t, mode+manyLayers+"\nbreak "+fault+" blobs", silent)
				require.Equal(t, pullwalk.StatusFailed, res.Verdict)
				require.Equal(t, "blobs.corp.test:443", res.Primary.Endpoint)
				var failed, blocked int
				for _, st := range slices.Concat(steps(res, pullwalk.StepConfig), steps(res, pullwalk.StepLayer)) {
					switch st.Status {
					case pullwalk.StatusFailed:
						failed++
					case pullwalk.StatusBlocked:
						blocked++
						require.Contains(t, []string{"config@blobs.corp.test:443", "layer@blobs.corp.test:443"}, st.BlockedBy)
					}
				}
				require.Equal(t, 3, failed, "as many as are asked for at once")
				require.Equal(t, 13-3, blocked)
			})
		}
	}
}

// With several credentials one silent token server is waited for once.
func TestCredentialsBehindASilentTokenServer(t *testing.T) {
	t.Parallel()
	res := bounded(t, "login registry.corp.test/team reader wrong\nlogin registry.corp.test reader right\nbreak header-stall token", silent)
	require.Equal(t, pullwalk.StatusFailed, res.Verdict)
	var got []string
	for _, st := range steps(res, pullwalk.StepToken) {
		got = append(got, fmt.Sprintf("%s by %q", st.Status, st.BlockedBy))
	}
	require.ElementsMatch(t, []string{`failed by ""`, `blocked by "token@auth.corp.test:443"`}, got)
}

// mirrors are three before the registry.
const mirrors = `zone 10.20.0.2 m1.corp.test 10.20.0.11
zone 10.20.0.2 m2.corp.test 10.20.0.12
zone 10.20.0.2 m3.corp.test 10.20.0.13
`

func inMirrors(t *testing.T, first, statements string, run func(*testing.T, *world)) {
	t.Helper()
	s := scenario{archive: parseArchive("-- world --\n" + mirrors + statements + `
-- node/etc/containerd/config.toml --
version = 3
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = '/etc/containerd/certs.d'
-- node/etc/containerd/certs.d/registry.corp.test/hosts.toml --
server = 'https://registry.corp.test'
[host.'https://` + first + `']
[host.'https://m2.corp.test']
[host.'https://m3.corp.test']
`)}
	s.inBubble(t, run)
}

// Sources are asked one after the other, as the runtime does. Silence below HTTP
// is waited for at all of them at once; a server that takes the request and never
// answers costs its fifteen seconds each.
func TestSilentMirrorsInARow(t *testing.T) {
	t.Parallel()
	each := func(fault string, hosts ...int) string {
		var b strings.Builder
		for _, n := range hosts {
			fmt.Fprintf(&b, "net %s 10.20.0.%d:443\n", fault, n)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		statements string
		within     time.Duration
		verdict    pullwalk.Status
	}{
		"SYN dropped":                  {each("silent", 11, 12, 13, 4), 8 * time.Second, pullwalk.StatusFailed},
		"accepted and silent":          {each("mute", 11, 12, 13, 4), 13 * time.Second, pullwalk.StatusFailed},
		"one and the other":            {each("silent", 11, 13) + each("mute", 12, 4), 13 * time.Second, pullwalk.StatusFailed},
		"the registry works":           {each("silent", 11, 12, 13), 8 * time.Second, pullwalk.StatusDegraded},
		"the registry takes and waits": {each("mute", 11, 12, 13) + "break header-stall registry", 13*time.Second + silent, pullwalk.StatusFailed},
		"the resolver":                 {"zone 10.20.0.2 silent", 8 * time.Second, pullwalk.StatusFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inMirrors(t, "m1.corp.test", tt.statements, func(t *testing.T, w *world) {
				start := time.Now()
				got := w.diagnose(t, t.Context(), scenario{})
				require.LessOrEqual(t, time.Since(start), tt.within)
				require.Equal(t, tt.verdict, got.result.Verdict, got.result.String())
				got.checkShape(t)
				got.checkHonesty(t)
			})
		})
	}
}

// A mirror that answers after all leaves those behind it unasked: what was seen of
// their ladders is only told, and nothing was requested there.
func TestALookAheadJudgesNobody(t *testing.T) {
	t.Parallel()
	const first = "registry.corp.test:5000"
	inMirrors(t, first, "serve registry 10.20.0.4:5000\nnet silent 10.20.0.12:443\nnet silent 10.20.0.13:443\nnet silent 10.20.0.4:443", func(t *testing.T, w *world) {
		w.net.Delay(netip.MustParseAddrPort("10.20.0.4:5000"), 2*time.Second)
		got := w.diagnose(t, t.Context(), scenario{})
		got.checkShape(t)
		require.True(t, got.result.Verdict == pullwalk.StatusOK || got.result.Verdict == pullwalk.StatusDegraded, got.result.String())
		require.Len(t, got.result.Sources, 4)
		for _, s := range got.result.Sources[1:] {
			require.Equal(t, pullwalk.StatusSkipped, s.Verdict)
			seen := 0
			for _, e := range s.Endpoints {
				if e.Scheme == "dns" {
					continue
				}
				seen++
				for _, st := range e.Steps {
					require.Nil(t, st.Request)
					for _, f := range st.Findings {
						require.Equal(t, classify.SeverityInfo, f.Severity, f.Summary)
					}
				}
			}
			require.Equal(t, 1, seen, "its ladder was looked at")
		}
		for _, f := range got.result.Findings {
			require.True(t, f.Severity == classify.SeverityInfo || f.Endpoint == first || f.Endpoint == "registry.corp.test", "%s at %s", f.Cause, f.Endpoint)
		}
	})
}
