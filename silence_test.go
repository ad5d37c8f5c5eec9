package pullwalk_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// hop is one place of a pull that can fall silent, the step that meets it, and
// how long it is waited for.
type hop struct {
	name      string
	statement func(host string, n int) string // n: the last byte of the host's address
	step      pullwalk.StepID
	limit     time.Duration
}

var hops = []hop{
	{"SYN dropped", func(_ string, n int) string { return fmt.Sprintf("net silent 10.20.0.%d:443", n) }, pullwalk.StepConnect, 5 * time.Second},
	{"accepted and silent", func(_ string, n int) string { return fmt.Sprintf("net mute 10.20.0.%d:443", n) }, pullwalk.StepTLS, 10 * time.Second},
	{"hello cut off", func(host string, _ int) string { return "break tls-stall " + host }, pullwalk.StepTLS, 10 * time.Second},
	{"no headers", func(host string, _ int) string { return "break header-stall " + host }, "", 15 * time.Second},
	{"body stops", func(host string, _ int) string { return "break body-stall " + host }, "", 15 * time.Second},
}

var hosts = []struct {
	name string // as statements name it
	dns  string
	n    int
	step pullwalk.StepID // the request that is made there first; with a body, body
	body pullwalk.StepID
}{
	{"registry", "registry.corp.test", 4, pullwalk.StepResolve, pullwalk.StepManifest},
	{"token", "auth.corp.test", 5, pullwalk.StepToken, pullwalk.StepToken},
	{"blobs", "blobs.corp.test", 6, pullwalk.StepConfig, pullwalk.StepConfig},
}

// others hang at the same time as the hop in question.
var others = []string{
	"",
	"option also slow.corp.test:443\nzone 10.20.0.2 slow.corp.test 10.20.0.9\nnet silent 10.20.0.9:443",
	"option also slow.corp.test:443\nzone 10.20.0.2 slow.corp.test 10.20.0.9\nnet mute 10.20.0.9:443",
	"nameserver 10.20.0.2 10.20.0.3\nzone 10.20.0.3 silent",
	"zone 10.20.0.2 NAME ADDR 10.20.0.19\nnet silent 10.20.0.19:443",
}

// A hop that hangs is told within five seconds of its silence, with the layer
// that the finding will be of, and decided at its limit, whatever else hangs.
func TestSilenceIsToldAndDecided(t *testing.T) {
	t.Parallel()
	for _, hop := range hops {
		for _, host := range hosts {
			for i, other := range others {
				t.Run(fmt.Sprintf("%s at %s, other %d", hop.name, host.name, i), func(t *testing.T) {
					t.Parallel()
					other := strings.NewReplacer("NAME", host.dns, "ADDR", fmt.Sprintf("10.20.0.%d", host.n)).Replace(other)
					step := hop.step
					switch {
					case hop.name == "no headers":
						step = host.step
					case hop.name == "body stops":
						step = host.body
					}
					inWorld(t, "option complete\n"+other+"\n"+hop.statement(host.name, host.n), func(t *testing.T, w *world) {
						got := w.diagnose(t, t.Context(), scenario{})
						requireTold(t, got, step, host.dns+":443", hop.limit, i != 3)
						require.Equal(t, pullwalk.StatusFailed, got.result.Verdict)
						require.Equal(t, host.dns+":443", got.result.Primary.Endpoint)
						checkResult(t, got.result)
					})
				})
			}
		}
	}
}

// The nameserver is a hop of its own, and so is a proxy.
func TestSilentResolverAndProxy(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		world    string
		step     pullwalk.StepID
		endpoint string
		limit    time.Duration
	}{
		"resolver": {"zone 10.20.0.2 silent", pullwalk.StepDNS, "registry.corp.test:443", 5 * time.Second},
		"proxy": {"zone 10.20.0.2 proxy.corp.test 10.20.0.7\nnet silent 10.20.0.7:3128\nruntime containerd HTTPS_PROXY=http://proxy.corp.test:3128",
			pullwalk.StepConnect, "proxy.corp.test:3128", 5 * time.Second},
		"proxy that accepts": {"zone 10.20.0.2 proxy.corp.test 10.20.0.7\nnet mute 10.20.0.7:3128\nruntime containerd HTTPS_PROXY=http://proxy.corp.test:3128",
			pullwalk.StepTunnel, "registry.corp.test:443", 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				got := w.diagnose(t, t.Context(), scenario{})
				requireTold(t, got, tt.step, tt.endpoint, tt.limit, true)
				require.Equal(t, pullwalk.StatusFailed, got.result.Verdict)
			})
		})
	}
}

// requireTold wants the first word about a silent step within five seconds of
// its beginning (of the diagnosis, where nothing comes before), and the step to
// have failed at its limit with a finding of the layer that was told.
func requireTold(t *testing.T, got *seen, id pullwalk.StepID, endpoint string, limit time.Duration, fromStart bool) {
	t.Helper()
	var first *told
	for i, p := range got.progress {
		if p.Step == id && p.Endpoint == endpoint && p.Silent > 0 {
			first = &got.progress[i]
			break
		}
	}
	require.NotNil(t, first, "nothing was told of %s@%s: %v", id, endpoint, got.progress)
	require.LessOrEqual(t, first.Silent, 5*time.Second)
	if fromStart {
		require.LessOrEqual(t, first.after, 5*time.Second)
	}
	for _, st := range got.steps {
		if st.ID == id && st.Endpoint == endpoint && st.Status == pullwalk.StatusFailed && st.Addr == first.Addr {
			require.Equal(t, limit.Milliseconds(), st.ElapsedMS)
			require.NotEmpty(t, st.Findings)
			require.Equal(t, st.Findings[0].Layer, first.Layer, "%s", st.Findings[0].Cause)
			return
		}
	}
	t.Fatalf("%s@%s did not fail", id, endpoint)
}

// A download tells how it goes, and not more than once a second.
func TestProgressOfBytes(t *testing.T) {
	t.Parallel()
	inWorld(t, "option complete\n", func(t *testing.T, w *world) {
		w.net.Delay(blobsAddr, 2*time.Second)
		got := w.diagnose(t, t.Context(), scenario{})
		require.NotNil(t, got.result.Proof, "%s", got.result) // so slow a host is a warning
		var last time.Duration
		var bytes int64
		for _, p := range got.progress {
			if p.Bytes == 0 || p.Step != pullwalk.StepLayer || p.Silent > 0 {
				continue
			}
			require.NotEmpty(t, p.Subject)
			require.Positive(t, p.Rate)
			require.Contains(t, p.String(), "bytes")
			last, bytes = p.after, max(bytes, p.Bytes)
		}
		require.Positive(t, bytes)
		require.Positive(t, last)
	})
}

// A download that stops says how much came and how fast, without the silence.
func TestStalledDownloadSaysHowFar(t *testing.T) {
	t.Parallel()
	inWorld(t, "option complete\nnet hang 10.20.0.6:443 40000", func(t *testing.T, w *world) {
		w.net.Delay(blobsAddr, 250*time.Millisecond)
		got := w.diagnose(t, t.Context(), scenario{})
		for _, f := range got.result.Findings {
			if f.Cause != classify.EndpointDownloadStalled || f.Fact(classify.FactRate) == "" {
				continue
			}
			rate, err := strconv.Atoi(f.Fact(classify.FactRate))
			require.NoError(t, err)
			require.NotEmpty(t, f.Fact(classify.FactGot))
			bytes, err := strconv.Atoi(strings.TrimSuffix(f.Fact(classify.FactGot), " bytes"))
			require.NoError(t, err)
			require.Greater(t, rate, bytes/2, "some hundred milliseconds, not the fifteen seconds of silence")
			return
		}
		t.Fatalf("no stalled download with a rate: %s", got.result)
	})
}

// inWorld runs statements in a bubble.
func inWorld(t *testing.T, statements string, run func(*testing.T, *world)) {
	t.Helper()
	s := scenario{archive: parseArchive("-- world --\n" + statements + "\n")}
	s.inBubble(t, run)
}

// A HEAD of a layer is no part of any pull: that nobody answers it keeps no layer
// from being asked for.
func TestSilenceOfAHeadStopsNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, "option layers"+strings.Repeat(" 4096", 14)+"\noption budget 5m", func(t *testing.T, w *world) {
		slow := func(_ http.ResponseWriter, r *http.Request) bool {
			switch {
			case strings.Contains(r.URL.Path, "/manifests/"):
			case r.Method == http.MethodHead:
				<-r.Context().Done()
				return true
			default:
				time.Sleep(14 * time.Second)
			}
			return false
		}
		w.lab.Break(lab.Answers(w.lab.Registry, slow), lab.Answers(w.lab.Blobs, slow))
		got := w.diagnose(t, t.Context(), scenario{})
		require.Equal(t, pullwalk.StatusOK, got.result.Verdict, got.result)
		asked := 0
		for _, st := range got.steps {
			if st.ID == pullwalk.StepLayer {
				asked++
				require.NotEqual(t, pullwalk.StatusBlocked, st.Status, st)
			}
		}
		require.Greater(t, asked, 13)
	})
}
