package pullwalk_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
)

type runFunc = func(context.Context, pullwalk.Input) ([]classify.Finding, error)

// says is a check that says the same each time.
func says(findings ...classify.Finding) runFunc {
	return func(context.Context, pullwalk.Input) ([]classify.Finding, error) { return findings, nil }
}

func check(id pullwalk.StepID, run runFunc, needs ...pullwalk.StepID) pullwalk.Check {
	return pullwalk.Check{ID: id, Layer: classify.LayerRoute, Needs: needs, Run: run}
}

// diagnoseWith walks a world with checks, and wants the result to be valid and to
// hold no secret.
func (w *world) diagnoseWith(t *testing.T, checks ...pullwalk.Check) *seen {
	t.Helper()
	w.opts.Checks = checks
	got := w.diagnose(t, t.Context(), scenario{})
	got.checkLeaks(t)
	got.checkEncoding(t)
	assert.Len(t, got.steps, countSteps(got.result), "OnStep is told of every step once")
	checkResult(t, got.result)
	return got
}

func onlyStep(t *testing.T, r *pullwalk.Result, id pullwalk.StepID) pullwalk.Step {
	t.Helper()
	all := steps(r, id)
	require.Len(t, all, 1, "%s in\n%s", id, r)
	return all[0]
}

// Nonsense is refused before the first packet, with the name of what is wrong.
func TestSenselessChecks(t *testing.T) {
	t.Parallel()
	fine := says()
	many := make([]pullwalk.Check, 65)
	for i := range many {
		many[i] = check(pullwalk.StepID(fmt.Sprintf("corp/n%d", i)), fine)
	}
	for name, tt := range map[string]struct {
		checks []pullwalk.Check
		names  string
	}{
		"no ID":             {[]pullwalk.Check{check("", fine)}, "slash"},
		"one of ours":       {[]pullwalk.Check{check("dns", fine)}, `"dns"`},
		"slash alone":       {[]pullwalk.Check{check("/", fine)}, `"/"`},
		"ends in a slash":   {[]pullwalk.Check{check("corp/", fine)}, `"corp/"`},
		"no plain words":    {[]pullwalk.Check{check("corp/a b@c[1]", fine)}, "slash"},
		"line break":        {[]pullwalk.Check{check("corp/a\nb", fine)}, "slash"},
		"endless ID":        {[]pullwalk.Check{check(pullwalk.StepID("corp/"+strings.Repeat("a", 100)), fine)}, "slash"},
		"no Run":            {[]pullwalk.Check{{ID: "corp/a", Layer: classify.LayerDNS}}, "Run"},
		"no layer":          {[]pullwalk.Check{{ID: "corp/a", Run: fine}}, "layer"},
		"layer unknown":     {[]pullwalk.Check{{ID: "corp/a", Layer: classify.LayerUnknown, Run: fine}}, `"unknown"`},
		"no such layer":     {[]pullwalk.Check{{ID: "corp/a", Layer: "firewall", Run: fine}}, `"firewall"`},
		"negative timeout":  {[]pullwalk.Check{{ID: "corp/a", Layer: classify.LayerDNS, Run: fine, Timeout: -1}}, "-1ns"},
		"no such role":      {[]pullwalk.Check{{ID: "corp/a", Layer: classify.LayerDNS, Run: fine, Roles: []endpoints.Role{"registry"}}}, `"registry"`},
		"twice":             {[]pullwalk.Check{check("corp/a", fine), check("corp/a", fine)}, `two checks "corp/a"`},
		"unknown need":      {[]pullwalk.Check{check("corp/a", fine, "connects")}, `"connects"`},
		"told on demand":    {[]pullwalk.Check{check("corp/a", fine, "settings")}, `"settings"`},
		"unknown own need":  {[]pullwalk.Check{check("corp/a", fine, "corp/b")}, `"corp/b"`},
		"needs itself":      {[]pullwalk.Check{check("corp/a", fine, "corp/a")}, "corp/a -> corp/a"},
		"circle":            {[]pullwalk.Check{check("corp/a", fine, "corp/b"), check("corp/b", fine, "tls", "corp/c"), check("corp/c", fine, "corp/a")}, "corp/a -> corp/b -> corp/c -> corp/a"},
		"more than are run": {many, "65"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, err := pullwalk.Diagnose(t.Context(), "registry.corp.test/team/app:v1", &pullwalk.Options{
				Checks: tt.checks, OnStep: func(st pullwalk.Step) { t.Errorf("step %v", st) },
			})
			require.Nil(t, res)
			require.ErrorContains(t, err, "pullwalk: ")
			require.ErrorContains(t, err, tt.names)
		})
	}
}

// Every role that an endpoint can have can be asked for.
func TestEveryRoleCanHaveChecks(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		var checks []pullwalk.Check
		for _, role := range enumerations[reflect.TypeFor[endpoints.Role]()] {
			c := check(pullwalk.StepID("corp/"+role), says())
			c.Roles = []endpoints.Role{endpoints.Role(role)}
			checks = append(checks, c)
		}
		got := w.diagnoseWith(t, checks...)
		require.Equal(t, pullwalk.StatusOK, got.result.Verdict, "%s", got.result)
		want := map[pullwalk.StepID]string{"corp/manifest": "registry.corp.test:443", "corp/token": "auth.corp.test:443", "corp/blob": "blobs.corp.test:443", "corp/resolver": "10.20.0.2:53"}
		for _, c := range checks {
			st := onlyStep(t, got.result, c.ID)
			if _, ok := want[c.ID]; !ok {
				require.Equal(t, pullwalk.StatusSkipped, st.Status, c.ID)
				require.Contains(t, st.Reason, "no endpoint")
				continue
			}
			require.Equal(t, pullwalk.StatusOK, st.Status, c.ID)
			require.True(t, slices.ContainsFunc(got.steps, func(s pullwalk.Step) bool { return s.ID == c.ID && s.Endpoint == want[c.ID] }), c.ID)
		}
	})
}

// A check that holds changes nothing, one that fails decides as a rung of its layer
// would.
func TestACheckIsARungOfItsLayer(t *testing.T) {
	t.Parallel()
	egress := classify.New("x.egress-tag", "the node has no egress tag", classify.Fact{Key: "tag", Value: "none"})
	egress.Owner = "platform"
	warning := egress
	warning.Severity = classify.SeverityWarn
	for name, tt := range map[string]struct {
		world   string
		layer   classify.Layer
		finding []classify.Finding
		status  pullwalk.Status
		verdict pullwalk.Status
		primary classify.Cause
		says    string
	}{
		"holds":                          {"", classify.LayerNode, nil, pullwalk.StatusOK, pullwalk.StatusOK, "", "every hop held; not a complete pull"},
		"warns":                          {"", classify.LayerNode, []classify.Finding{warning}, pullwalk.StatusDegraded, pullwalk.StatusDegraded, "", "with warnings"},
		"fails":                          {"", classify.LayerNode, []classify.Finding{egress}, pullwalk.StatusFailed, pullwalk.StatusFailed, "x.egress-tag", "every hop held, and a check of the caller's own fails"},
		"fails after a complete proof":   {"option complete", classify.LayerNode, []classify.Finding{egress}, pullwalk.StatusFailed, pullwalk.StatusFailed, "x.egress-tag", "every digest checked"},
		"fails below what fails":         {"break missing-tag", classify.LayerRoute, []classify.Finding{egress}, pullwalk.StatusFailed, pullwalk.StatusFailed, "x.egress-tag", "Also broken"},
		"fails above what fails":         {"break tls-unknown-authority registry", classify.LayerIdentity, []classify.Finding{egress}, pullwalk.StatusFailed, pullwalk.StatusFailed, classify.TLSUnknownAuthority, "the pull fails"},
		"fails beside ours of its layer": {"net refuse 10.20.0.4:443", classify.LayerEndpoint, []classify.Finding{egress}, pullwalk.StatusFailed, pullwalk.StatusFailed, classify.EndpointConnectionRefused, "the pull fails"},
		"fails beside what is only expected": {"option also gone.corp.test:443", classify.LayerNode, []classify.Finding{egress}, pullwalk.StatusFailed, pullwalk.StatusFailed, "x.egress-tag",
			"every hop held, and a check of the caller's own fails"},
		"a cause of ours": {"", classify.LayerNode, []classify.Finding{classify.New(classify.RouteOverlap, "")}, pullwalk.StatusFailed, pullwalk.StatusFailed, classify.RouteOverlap, "layer route"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				c := check("corp/egress-tag", says(tt.finding...))
				c.Layer = tt.layer
				got := w.diagnoseWith(t, c)
				st := onlyStep(t, got.result, c.ID)
				require.Equal(t, tt.status, st.Status, "%s", got.result)
				require.Equal(t, tt.layer, st.Layer)
				require.Equal(t, tt.verdict, got.result.Verdict, "%s", got.result)
				require.Contains(t, got.result.String(), tt.says)
				if tt.primary != "" {
					require.Equal(t, tt.primary, got.result.Primary.Cause)
				}
				for _, f := range st.Findings {
					require.Equal(t, "registry.corp.test:443", f.Endpoint)
					if f.Cause == egress.Cause {
						require.Equal(t, tt.layer, f.Layer)
						require.Equal(t, classify.Owner("platform"), f.Owner)
						require.Equal(t, "none", f.Fact("tag"))
					}
				}
			})
		})
	}
}

// Needs hold, fail, or do not apply.
func TestNeedsOfChecks(t *testing.T) {
	t.Parallel()
	failing := says(classify.New("x.broken", "it is broken"))
	unsure := func(context.Context, pullwalk.Input) ([]classify.Finding, error) {
		return nil, errors.New("it was not to be seen")
	}
	unfit := func(context.Context, pullwalk.Input) ([]classify.Finding, error) {
		return nil, fmt.Errorf("on this node: %w", errors.ErrUnsupported)
	}
	for name, tt := range map[string]struct {
		world  string
		needs  []pullwalk.StepID
		first  runFunc // of corp/first
		status pullwalk.Status
		by     string
		reason string
	}{
		"nothing":                     {"zone 10.20.0.2 silent", nil, nil, pullwalk.StatusOK, "", ""},
		"all of ours":                 {"", []pullwalk.StepID{"dns", "route", "connect", "tunnel", "tls", "ping", "challenge", "resolve", "manifest", "config", "layer"}, nil, pullwalk.StatusSkipped, "", "tunnel is not taken here"},
		"all that are taken":          {"", []pullwalk.StepID{"layer", "config", "manifest", "resolve", "challenge", "ping", "tls", "connect", "route", "dns"}, nil, pullwalk.StatusOK, "", ""},
		"a token, at the registry":    {"", []pullwalk.StepID{"token"}, nil, pullwalk.StatusSkipped, "", "token is not taken here"},
		"tls over plain http":         {"image 127.0.0.1:5000/team/app:v1\noption plain\nserve registry 127.0.0.1:5000\nroute 127.0.0.0/8 dev lo\nlogin none", []pullwalk.StepID{"tls"}, nil, pullwalk.StatusSkipped, "", "tls is not taken here"},
		"dns that fails":              {"zone 10.20.0.2 registry.corp.test none", []pullwalk.StepID{"dns"}, nil, pullwalk.StatusBlocked, "dns@registry.corp.test:443", ""},
		"what waits for that":         {"zone 10.20.0.2 registry.corp.test none", []pullwalk.StepID{"tls"}, nil, pullwalk.StatusBlocked, "dns@registry.corp.test:443", ""},
		"connect that fails":          {"net refuse 10.20.0.4:443", []pullwalk.StepID{"dns", "connect"}, nil, pullwalk.StatusBlocked, "connect@registry.corp.test:443[10.20.0.4]", ""},
		"connect to one of two":       {"zone 10.20.0.2 registry.corp.test 10.20.0.4 10.20.0.14\nnet refuse 10.20.0.14:443", []pullwalk.StepID{"connect"}, nil, pullwalk.StatusOK, "", ""},
		"connect, where tls fails":    {"break tls-unknown-authority registry", []pullwalk.StepID{"connect"}, nil, pullwalk.StatusOK, "", ""},
		"tls that fails":              {"break tls-unknown-authority registry", []pullwalk.StepID{"tls"}, nil, pullwalk.StatusBlocked, "tls@registry.corp.test:443[10.20.0.4]", ""},
		"a manifest behind a refusal": {"break missing-tag", []pullwalk.StepID{"manifest"}, nil, pullwalk.StatusBlocked, "resolve@registry.corp.test:443", ""},
		"a step that is not asked":    {"option connect", []pullwalk.StepID{"layer"}, nil, pullwalk.StatusSkipped, "", "layer is not taken here"},
		"an address":                  {"image 10.20.0.4/team/app:v1\nlogin none", []pullwalk.StepID{"dns", "connect"}, nil, pullwalk.StatusOK, "", ""},
		"a proxy's tunnel":            {"zone 10.20.0.2 proxy.corp.test 10.20.0.7\nproxy 10.20.0.7:3128 works\nruntime containerd HTTPS_PROXY=http://proxy.corp.test:3128", []pullwalk.StepID{"connect", "tunnel", "tls"}, nil, pullwalk.StatusOK, "", ""},
		"a check that holds":          {"", []pullwalk.StepID{"corp/first"}, says(), pullwalk.StatusOK, "", ""},
		"a check that warns":          {"", []pullwalk.StepID{"corp/first"}, says(warn("x.odd")), pullwalk.StatusOK, "", ""},
		"a check that fails":          {"", []pullwalk.StepID{"corp/first"}, failing, pullwalk.StatusBlocked, "corp/first@registry.corp.test:443", ""},
		"a check that is open":        {"", []pullwalk.StepID{"corp/first"}, unsure, pullwalk.StatusBlocked, "corp/first@registry.corp.test:443", ""},
		"a check that does not apply": {"", []pullwalk.StepID{"corp/first"}, unfit, pullwalk.StatusOK, "", ""},
		"a check of another endpoint": {"", []pullwalk.StepID{"corp/elsewhere"}, nil, pullwalk.StatusSkipped, "", "corp/elsewhere is not taken here"},
		"the first that fails counts": {"break missing-tag", []pullwalk.StepID{"resolve", "corp/first"}, failing, pullwalk.StatusBlocked, "resolve@registry.corp.test:443", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				ran := 0
				checks := []pullwalk.Check{check("corp/second", func(context.Context, pullwalk.Input) ([]classify.Finding, error) { ran++; return nil, nil }, tt.needs...)}
				first := tt.first
				if first == nil {
					first = says()
				}
				elsewhere := check("corp/elsewhere", says())
				elsewhere.Roles = []endpoints.Role{endpoints.RoleToken}
				got := w.diagnoseWith(t, append(checks, check("corp/first", first), elsewhere)...)
				st := onlyStep(t, got.result, "corp/second")
				require.Equal(t, tt.status, st.Status, "%s %s\n%s", st.BlockedBy, st.Reason, got.result)
				require.Equal(t, tt.by, st.BlockedBy)
				require.Contains(t, st.Reason, tt.reason)
				require.Equal(t, tt.status == pullwalk.StatusOK, ran == 1)
			})
		})
	}
}

func warn(c classify.Cause) classify.Finding {
	f := classify.New(c, "it is odd")
	f.Severity = classify.SeverityWarn
	return f
}

// A check starts when what it needs holds, whatever else is still waited for, and
// works beside the walk.
func TestChecksDoNotWaitForOthers(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context, _ pullwalk.Input) ([]classify.Finding, error) {
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
		return nil, nil
	}
	for name, tt := range map[string]struct {
		world string
		needs []pullwalk.StepID
	}{
		"dns, while a second nameserver is silent": {"nameserver 10.20.0.2 10.20.0.3\nzone 10.20.0.3 silent", []pullwalk.StepID{"dns"}},
		"connect, while another address is silent": {"zone 10.20.0.2 registry.corp.test 10.20.0.4 10.20.0.14\nnet silent 10.20.0.14:443", []pullwalk.StepID{"connect"}},
		"connect, while tls is silent":             {"net mute 10.20.0.4:443", []pullwalk.StepID{"connect"}},
		"tls, while the token server is silent":    {"net silent 10.20.0.5:443", []pullwalk.StepID{"tls"}},
		"one layer, while another is silent":       {"break header-stall blobs", []pullwalk.StepID{"layer"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				start := time.Now()
				began := time.Duration(-1)
				got := w.diagnoseWith(t,
					check("corp/prompt", func(context.Context, pullwalk.Input) ([]classify.Finding, error) {
						began = time.Since(start)
						return nil, nil
					}, tt.needs...),
					check("corp/slow", slow), check("corp/as-slow", slow))
				require.GreaterOrEqual(t, began, time.Duration(0), "%s", got.result)
				require.Less(t, began, time.Second)
				require.EqualValues(t, 3000, onlyStep(t, got.result, "corp/slow").ElapsedMS)
			})
		})
	}
	inWorld(t, "", func(t *testing.T, w *world) {
		got := w.diagnoseWith(t, check("corp/slow", slow), check("corp/as-slow", slow))
		require.EqualValues(t, 3000, got.result.ElapsedMS, "both at once")
	})
}

// What a check does to itself it does to nobody else. It is told with a code and a
// reason, and leaves the verdict open.
func TestChecksThatMisbehave(t *testing.T) {
	t.Parallel()
	const secret = "SECRET-OF-A-CHECK"
	for name, tt := range map[string]struct {
		run     runFunc
		timeout time.Duration
		reason  string
		elapsed time.Duration
	}{
		"panics":          {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) { panic("index out of sight") }, reason: "it panicked: index out of sight"},
		"panics with nil": {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) { panic(nil) }, reason: "it panicked"},
		"panics with secret": {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) {
			panic("GET https://x.test/?sig=" + secret)
		}, reason: "it panicked: GET https://x.test/"},
		"panics in String":   {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) { panic(explosive{}) }, reason: "it panicked"},
		"error that panics":  {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) { return nil, explosive{} }, reason: "it panicked"},
		"ends its goroutine": {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) { runtime.Goexit(); return nil, nil }, reason: "it ended its goroutine"},
		"error": {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) {
			return nil, errors.New("no token=" + secret)
		}, reason: "no token="},
		"error without text": {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) { return nil, errors.New("") }, reason: "no text"},
		"findings and error": {run: func(context.Context, pullwalk.Input) ([]classify.Finding, error) {
			return []classify.Finding{classify.New("x.half", "half of it")}, errors.New("then it broke")
		}, reason: "then it broke"},
		"waits for its context": {run: func(ctx context.Context, _ pullwalk.Input) ([]classify.Finding, error) {
			<-ctx.Done()
			return []classify.Finding{classify.Error(ctx.Err())}, nil
		}, timeout: 2 * time.Second, reason: "it did not end within 2s", elapsed: 2 * time.Second},
		"waits and says nothing": {run: func(ctx context.Context, _ pullwalk.Input) ([]classify.Finding, error) {
			<-ctx.Done()
			return nil, nil
		}, reason: "it did not end within 10s", elapsed: 10 * time.Second},
		"more time than there is": {run: func(ctx context.Context, _ pullwalk.Input) ([]classify.Finding, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, timeout: time.Hour, reason: "it did not end within 15s", elapsed: 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, "", func(t *testing.T, w *world) {
				c := check("corp/odd", tt.run)
				c.Timeout = tt.timeout
				got := w.diagnoseWith(t, c, check("corp/other", says()))
				st := onlyStep(t, got.result, "corp/odd")
				require.Equal(t, pullwalk.StatusInconclusive, st.Status)
				require.Contains(t, st.Reason, tt.reason)
				require.Equal(t, classify.UnknownCheckUnanswered, st.Findings[len(st.Findings)-1].Cause)
				require.Equal(t, tt.elapsed.Milliseconds(), st.ElapsedMS)
				require.Equal(t, pullwalk.StatusInconclusive, got.result.Verdict)
				require.Contains(t, got.result.Inconclusive, "corp/odd@registry.corp.test:443: ")
				require.Equal(t, pullwalk.StatusOK, onlyStep(t, got.result, "corp/other").Status)
				require.NotContains(t, string(got.json)+got.result.String()+got.result.Markdown(), secret)
			})
		})
	}
}

type explosive struct{}

func (explosive) Error() string  { panic("Error panics") }
func (explosive) String() string { panic("String panics") }

// A check that does not look at its context is left behind, which its step says,
// and holds nobody up.
func TestACheckThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		release := make(chan struct{})
		defer close(release)
		c := check("corp/deaf", func(context.Context, pullwalk.Input) ([]classify.Finding, error) { <-release; return nil, nil })
		c.Timeout = 2 * time.Second
		got := w.diagnoseWith(t, c, check("corp/next", says(), "corp/deaf"))
		st := onlyStep(t, got.result, "corp/deaf")
		require.Equal(t, pullwalk.StatusInconclusive, st.Status)
		require.Contains(t, st.Reason, "left behind")
		require.LessOrEqual(t, got.result.ElapsedMS, int64(2250))
		require.Equal(t, pullwalk.StatusBlocked, onlyStep(t, got.result, "corp/next").Status)
	})
	inWorld(t, "", func(t *testing.T, w *world) {
		release := make(chan struct{})
		defer close(release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.opts.Checks = []pullwalk.Check{check("corp/deaf", func(context.Context, pullwalk.Input) ([]classify.Finding, error) { <-release; return nil, nil })}
		start := time.Now()
		res, err := pullwalk.Diagnose(ctx, w.image, &w.opts)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), time.Second+promised)
		requireSafe(t, w, res)
		require.Equal(t, "the caller's deadline passed; it ignores its context and was left behind", onlyStep(t, res, "corp/deaf").Reason)
	})
}

// Canceled at any step, with checks that wait, that run and that look after the end.
func TestCancelWithChecks(t *testing.T) {
	t.Parallel()
	busy := func(ctx context.Context, in pullwalk.Input) ([]classify.Finding, error) {
		conn, err := in.Dialer.DialContext(ctx, "tcp", in.Host+":443")
		if err != nil {
			return []classify.Finding{classify.Error(err)}, nil
		}
		defer conn.Close()
		<-ctx.Done()
		return []classify.Finding{classify.Error(ctx.Err())}, nil
	}
	total := 0
	run := func(t *testing.T, n int) {
		inWorld(t, "option complete\nnet silent 10.20.0.6:443", func(t *testing.T, w *world) {
			w.opts.Checks = []pullwalk.Check{check("corp/busy", busy, "connect"), check("corp/waits", busy, "layer"), check("corp/last", says(), "corp/busy")}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			count, canceled := 0, time.Time{}
			w.opts.OnStep = func(pullwalk.Step) {
				if count++; count == n {
					canceled = time.Now()
					cancel()
				}
			}
			res, err := pullwalk.Diagnose(ctx, w.image, &w.opts)
			require.NoError(t, err)
			if n > 0 {
				require.LessOrEqual(t, time.Since(canceled), promised, "after step %d", n)
			}
			requireSafe(t, w, res)
			total = max(total, count)
		})
	}
	run(t, 0)
	require.Greater(t, total, 10)
	for n := 1; n <= total; n++ {
		run(t, n)
	}
}

// What a check returns is not trusted: it is bounded, redacted and coded.
func TestFindingsOfChecksAreMadeSafe(t *testing.T) {
	t.Parallel()
	const secret = "SECRET-OF-A-CHECK"
	hostile := classify.Finding{
		Cause: "x.Odd Code?sig=" + secret, Layer: "nowhere", Severity: "critical", Certainty: "certain", Owner: classify.Owner("us\x1b[31m token=" + secret),
		Operation: "dance", Endpoint: "elsewhere.corp.test:443", Summary: strings.Repeat("long ", 1<<20) + "https://u:" + secret + "@x.test/?sig=" + secret + "\n\x1b]0;title",
		Remedy: "open https://x.test/?sig=" + secret, NotFixedBy: "password=" + secret,
		Facts:        []classify.Fact{{Key: "good", Value: "Bearer " + secret}, {Key: "Bad key " + secret, Value: "v"}},
		Alternatives: []classify.Cause{"dns.nxdomain", "x.mine", "nobody's", "dns.mine"},
	}
	hostile = hostile.WithError(errors.New("secret=" + secret))
	for range 1000 {
		hostile.Facts = append(hostile.Facts, classify.Fact{Key: "more", Value: strings.Repeat("v", 1000)})
	}
	flood := make([]classify.Finding, 5000)
	for i := range flood {
		flood[i] = classify.New("x.flood", "one of many")
		flood[i].Severity = classify.SeverityInfo
	}
	flood[4999].Severity = classify.SeverityFail
	inWorld(t, "", func(t *testing.T, w *world) {
		got := w.diagnoseWith(t,
			check("corp/hostile", says(hostile)),
			check("corp/flood", says(flood...)),
			check("corp/zero", says(classify.Finding{})))
		require.NotContains(t, string(got.json)+got.result.String()+got.result.Markdown()+fmt.Sprintf("%+v", got.steps), secret)
		require.Less(t, len(got.json), 200<<10)
		st := onlyStep(t, got.result, "corp/hostile")
		require.Equal(t, pullwalk.StatusFailed, st.Status)
		f := st.Findings[0]
		require.Equal(t, classify.Cause("x.unnamed"), f.Cause)
		require.Equal(t, classify.LayerRoute, f.Layer)
		require.Equal(t, classify.SeverityFail, f.Severity, "a severity that does not exist is the gravest")
		require.Equal(t, classify.CertaintyPossible, f.Certainty)
		require.Equal(t, "registry.corp.test:443", f.Endpoint)
		require.Empty(t, f.Operation)
		require.LessOrEqual(t, len(f.Summary), 500)
		require.Equal(t, []classify.Cause{"dns.nxdomain", "x.mine", "x.unnamed", "x.dns.mine"}, f.Alternatives)
		require.LessOrEqual(t, len(f.Facts), 16)
		require.Nil(t, f.Unwrap())

		st = onlyStep(t, got.result, "corp/flood")
		require.Equal(t, pullwalk.StatusFailed, st.Status, "the one that fails is not lost among many")
		require.Len(t, st.Findings, 17)
		require.Equal(t, "the check corp/flood found 4984 things more, which are not told", st.Findings[16].Summary)

		require.Equal(t, pullwalk.StatusFailed, onlyStep(t, got.result, "corp/zero").Status, "something was found, and nothing says that it is harmless")
	})
	inWorld(t, "", func(t *testing.T, w *world) {
		got := w.diagnoseWith(t, check("corp/names", says(warn("x.good-name"), warn("plain"), warn("dns.mine"), warn(""), warn("x."), warn("x..a"), warn(classify.Cause("x."+strings.Repeat("a", 200))))))
		var codes []classify.Cause
		for _, f := range onlyStep(t, got.result, "corp/names").Findings {
			codes = append(codes, f.Cause)
		}
		require.Equal(t, []classify.Cause{"x.good-name", "x.plain", "x.dns.mine", "x.unnamed", "x.unnamed", "x.unnamed", "x.unnamed"}, codes)
	})
}

// A check gets the endpoint and the node's means, and its connections go where the
// pull's go.
func TestACheckLooksByTheNodesMeans(t *testing.T) {
	t.Parallel()
	inWorld(t, "zone 10.20.0.2 registry.corp.test 10.20.0.14 10.20.0.4\nnet refuse 10.20.0.14:443\nnet refuse 10.20.0.4:8443", func(t *testing.T, w *world) {
		w.opts.AllowAddr = func(ap netip.AddrPort) error {
			if ap.Addr() == netip.MustParseAddr("10.66.0.1") {
				return errors.New("not from here")
			}
			return nil
		}
		w.opts.Node.Now = func() time.Time { return time.Now().Add(time.Hour) }
		got := w.diagnoseWith(t, check("corp/look", func(ctx context.Context, in pullwalk.Input) ([]classify.Finding, error) {
			assert.Equal(t, "registry.corp.test/team/app:v1", in.Image.Reference)
			assert.Equal(t, "linux/amd64", in.Image.Platform)
			assert.Equal(t, []any{"https", "registry.corp.test", uint16(443), ""}, []any{in.Scheme, in.Host, in.Port, in.Via})
			assert.Equal(t, []endpoints.Role{endpoints.RoleManifest}, in.Roles)
			assert.Equal(t, []netip.Addr{netip.MustParseAddr("10.20.0.4"), netip.MustParseAddr("10.20.0.14")}, in.Addresses, "what accepts comes first")
			assert.InDelta(t, time.Hour, time.Until(in.Now()), float64(time.Minute))
			conn, err := in.Dialer.DialContext(ctx, "tcp", "Registry.corp.test:443")
			if !assert.NoError(t, err) {
				return nil, err
			}
			defer conn.Close()
			assert.Equal(t, "10.20.0.4:443", conn.RemoteAddr().String())
			verified := tls.Client(conn, &tls.Config{ServerName: in.Host, RootCAs: in.Roots, Time: in.Now})
			assert.NoError(t, verified.HandshakeContext(ctx))
			for address, want := range map[string]string{
				"registry.corp.test:8443": "refused", "blobs.corp.test:443": "looks up no other name", "10.66.0.1:443": "not from here",
				"registry.corp.test": "missing port", "registry.corp.test:https": "no port number", "registry.corp.test:0": "no port number",
			} {
				_, err := in.Dialer.DialContext(ctx, "tcp", address)
				assert.ErrorContains(t, err, want, address)
			}
			_, err = in.Dialer.DialContext(ctx, "udp", "10.20.0.2:53")
			assert.ErrorContains(t, err, "unknown network udp")
			_, err = in.Dialer.DialContext(ctx, "tcp6", "registry.corp.test:443")
			assert.ErrorContains(t, err, "no suitable address")
			other, err := in.Dialer.DialContext(ctx, "tcp4", "10.20.0.6:443")
			if assert.NoError(t, err) {
				other.Close()
			}
			return nil, nil
		}, "connect"))
		require.Equal(t, pullwalk.StatusOK, onlyStep(t, got.result, "corp/look").Status, "%s", got.result)
	})
}

// An address that must not be connected to is never a failure, also of a check.
func TestARefusedAddressFailsNoCheck(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		got := w.diagnoseWith(t, check("corp/metadata", func(ctx context.Context, in pullwalk.Input) ([]classify.Finding, error) {
			_, err := in.Dialer.DialContext(ctx, "tcp", "169.254.169.254:80")
			return []classify.Finding{classify.Error(err)}, nil
		}))
		st := onlyStep(t, got.result, "corp/metadata")
		require.Equal(t, pullwalk.StatusInconclusive, st.Status)
		require.Contains(t, st.Reason, "address not allowed")
		require.Empty(t, w.net.Dials()[len(w.net.Dials())-1].Err)
		for _, d := range w.net.Dials() {
			require.NotEqual(t, "169.254.169.254", d.Host)
		}
	})
}

// A proxy's port need not be written out in the setting; a check is told it.
func TestACheckIsToldTheProxysPort(t *testing.T) {
	t.Parallel()
	inWorld(t, "zone 10.20.0.2 proxy.corp.test 10.20.0.7\nproxy 10.20.0.7:80 works\nruntime containerd HTTPS_PROXY=http://proxy.corp.test", func(t *testing.T, w *world) {
		via := ""
		w.diagnoseWith(t, check("corp/status", func(_ context.Context, in pullwalk.Input) ([]classify.Finding, error) {
			via = in.Via
			return nil, nil
		}))
		require.Equal(t, "proxy.corp.test:80", via)
	})
}

// Through a proxy a check speaks through it, too, and a dialer ends with its check.
func TestDialerOfACheckThroughAProxy(t *testing.T) {
	t.Parallel()
	inWorld(t, "zone 10.20.0.2 proxy.corp.test 10.20.0.7\nproxy 10.20.0.7:3128 works\nruntime containerd HTTPS_PROXY=http://proxy.corp.test:3128", func(t *testing.T, w *world) {
		var kept pullwalk.Input
		got := w.diagnoseWith(t, check("corp/status", func(ctx context.Context, in pullwalk.Input) ([]classify.Finding, error) {
			kept = in
			assert.Equal(t, "proxy.corp.test:3128", in.Via)
			assert.Empty(t, in.Addresses)
			_, err := in.Dialer.DialContext(ctx, "tcp", "10.20.0.4:443")
			assert.ErrorContains(t, err, "only registry.corp.test:443")
			conn, err := in.Dialer.DialContext(ctx, "tcp", "registry.corp.test:443")
			if err != nil {
				return nil, err
			}
			defer conn.Close()
			verified := tls.Client(conn, &tls.Config{ServerName: in.Host, RootCAs: in.Roots, Time: in.Now})
			if _, err := fmt.Fprintf(verified, "GET /v2/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", in.Host); err != nil {
				return nil, err
			}
			resp, err := http.ReadResponse(bufio.NewReader(verified), nil)
			if err != nil {
				return nil, err
			}
			defer resp.Body.Close()
			assert.Equal(t, 401, resp.StatusCode)
			return nil, nil
		}, "tls"))
		require.Equal(t, pullwalk.StatusOK, onlyStep(t, got.result, "corp/status").Status, "%s", got.result)
		_, err := kept.Dialer.DialContext(t.Context(), "tcp", "registry.corp.test:443")
		require.ErrorContains(t, err, "the check has ended")
	})
}

// What a runtime would do is decided without the checks: one that fails at a mirror
// sends nobody to the next source, whenever it ends.
func TestChecksDoNotMoveTheWalk(t *testing.T) {
	t.Parallel()
	s := scenarioNamed(t, "mirror-works")
	for _, after := range []time.Duration{0, 5 * time.Second} {
		s.inBubble(t, func(t *testing.T, w *world) {
			var asked atomic.Int32
			got := w.diagnoseWith(t, check("corp/slow", func(ctx context.Context, in pullwalk.Input) ([]classify.Finding, error) {
				asked.Add(1)
				time.Sleep(after)
				return []classify.Finding{classify.New("x.broken", "it is broken")}, nil
			}))
			require.EqualValues(t, 1, asked.Load(), "the upstream is never asked")
			require.Equal(t, pullwalk.StatusFailed, got.result.Verdict)
			require.Equal(t, classify.Cause("x.broken"), got.result.Primary.Cause)
			require.Equal(t, pullwalk.StatusSkipped, got.result.Sources[1].Verdict)
		})
	}
}

// What the walk never came to is told with the registry, so that no check is lost
// in silence.
func TestChecksWithoutAnEndpoint(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		world  string
		status pullwalk.Status
		by     string
	}{
		"behind a failure":  {"break missing-tag", pullwalk.StatusBlocked, "resolve@registry.corp.test:443"},
		"not in this mode":  {"option connect", pullwalk.StatusSkipped, ""},
		"behind a redirect": {"", pullwalk.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, tt.world, func(t *testing.T, w *world) {
				c := check("corp/blobs", says(), "layer")
				c.Roles = []endpoints.Role{endpoints.RoleBlob}
				st := onlyStep(t, w.diagnoseWith(t, c).result, c.ID)
				require.Equal(t, tt.status, st.Status, st.Reason)
				require.Equal(t, tt.by, st.BlockedBy)
			})
		})
	}
	scenarioNamed(t, "settings-ca-missing").inBubble(t, func(t *testing.T, w *world) {
		st := onlyStep(t, w.diagnoseWith(t, check("corp/a", says())).result, "corp/a")
		require.Equal(t, pullwalk.StatusBlocked, st.Status)
		require.Contains(t, st.BlockedBy, "settings@")
	})
}

// What stands in the way of a pull, and who is to blame for a name that is not found,
// is decided without the checks.
func TestChecksTakeNoBlameOfOthers(t *testing.T) {
	t.Parallel()
	broken := says(classify.New("x.broken", "it is broken"))
	inWorld(t, "break missing-tag", func(t *testing.T, w *world) {
		got := w.diagnoseWith(t, check("corp/broken", broken))
		require.Equal(t, classify.Cause("x.broken"), got.result.Primary.Cause)
		for _, st := range steps(got.result, pullwalk.StepManifest) {
			require.Equal(t, "resolve@registry.corp.test:443", st.BlockedBy)
		}
	})
	resolver := check("corp/resolver", broken)
	resolver.Roles = []endpoints.Role{endpoints.RoleResolver}
	inWorld(t, "zone 10.20.0.2 registry.corp.test none", func(t *testing.T, w *world) {
		got := w.diagnoseWith(t, resolver)
		require.Equal(t, classify.DNSNXDOMAIN, got.result.Primary.Cause, "a nameserver is no part of the pull; its check only warns")
	})
	s := scenarioNamed(t, "dns-no-route-to-resolver")
	s.inBubble(t, func(t *testing.T, w *world) {
		plain := w.diagnose(t, t.Context(), s).result
		resolver.Needs = []pullwalk.StepID{"route"}
		got := w.diagnoseWith(t, resolver)
		require.Equal(t, plain.Primary, got.result.Primary)
		require.Equal(t, "route@10.20.0.2:53[10.20.0.2]", onlyStep(t, got.result, resolver.ID).BlockedBy)
	})
}

// A silent check is named like any silent hop.
func TestSilenceOfACheckIsTold(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		got := w.diagnoseWith(t, check("corp/waits", func(ctx context.Context, _ pullwalk.Input) ([]classify.Finding, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		require.NotEmpty(t, got.progress)
		require.Equal(t, "corp/waits@registry.corp.test:443: silent for 3s (layer route)", got.progress[0].String())
	})
}

// A step of a check survives the way through JSON.
func TestChecksInJSON(t *testing.T) {
	t.Parallel()
	inWorld(t, "", func(t *testing.T, w *world) {
		got := w.diagnoseWith(t, check("corp/egress-tag", says(classify.New("x.egress-tag", "none"))))
		var decoded pullwalk.Result
		require.NoError(t, json.Unmarshal(got.json, &decoded))
		require.Equal(t, onlyStep(t, got.result, "corp/egress-tag").Findings, onlyStep(t, &decoded, "corp/egress-tag").Findings)
	})
}

// The roots of a check are those that count at its endpoint, with the CA that the
// runtime's configuration adds there.
func TestRootsOfACheck(t *testing.T) {
	t.Parallel()
	scenarioNamed(t, "tls-ca-in-hosts-toml").inBubble(t, func(t *testing.T, w *world) {
		got := w.diagnoseWith(t, check("corp/verifies", func(ctx context.Context, in pullwalk.Input) ([]classify.Finding, error) {
			conn, err := in.Dialer.DialContext(ctx, "tcp", in.Host+":443")
			if err != nil {
				return nil, err
			}
			defer conn.Close()
			return nil, tls.Client(conn, &tls.Config{ServerName: in.Host, RootCAs: in.Roots, Time: in.Now}).HandshakeContext(ctx)
		}, "connect"))
		require.Equal(t, pullwalk.StatusOK, onlyStep(t, got.result, "corp/verifies").Status, "%s", got.result)
	})
}

// checkOf reads "check" of a scenario: ID LAYER NEED|- ok|warn|fail|panic.
func checkOf(args []string) pullwalk.Check {
	c := pullwalk.Check{ID: pullwalk.StepID(args[0]), Layer: classify.Layer(args[1])}
	if args[2] != "-" {
		c.Needs = []pullwalk.StepID{pullwalk.StepID(args[2])}
	}
	c.Run = func(context.Context, pullwalk.Input) ([]classify.Finding, error) {
		switch args[3] {
		case "ok":
			return nil, nil
		case "panic":
			panic("an index out of range, asked with password=" + wrongPassword)
		}
		f := classify.New("x.egress-tag", "the node has no egress tag")
		f.Owner, f.Remedy = classify.OwnerNetwork, "Tag the node pool."
		if args[3] == "warn" {
			f.Severity = classify.SeverityWarn
		}
		return []classify.Finding{f}, nil
	}
	return c
}
