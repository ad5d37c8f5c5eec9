package judge

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

var (
	held    = registryAt(step(pull.StepResolve))
	refused = fail(classify.EndpointConnectionRefused)
)

// named is a source of that host.
func named(host string, s pull.Source) pull.Source {
	s.Host = host
	for i := range s.Endpoints {
		s.Endpoints[i].Host = host
	}
	return s
}

// What one source comes to.
func TestTheOutcomeOfASource(t *testing.T) {
	t.Parallel()
	skipped := whole(held)
	skipped.Skipped = "it does not resolve tags"
	rivals := broken(registryAt(step(pull.StepResolve, refused)))
	rivals.Doubt = "two runtimes"
	many := whole(held)
	many.Overflow = 32
	waver := one(step(pull.StepRounds, warn(classify.RouteIntermittent))).at("10.0.0.1", 1)
	never := one(step(pull.StepRounds, fail(classify.RouteConnectTimeout))).at("10.0.0.1", 1)
	blocked := pull.Step{ID: pull.StepLayer, Status: pull.StatusBlocked, BlockedBy: "elsewhere"}
	for name, tt := range map[string]struct {
		source pull.Source
		want   pull.Status
		why    string
		serves bool
	}{
		"ok":                               {whole(held), pull.StatusOK, "", true},
		"failed":                           {whole(held, at("b", step(pull.StepConnect, refused))), pull.StatusFailed, "", false},
		"degraded":                         {whole(registryAt(step(pull.StepResolve, warn(classify.RegistryServerError)))), pull.StatusDegraded, "", true},
		"not known":                        {whole(registryAt(unknown(pull.StepResolve, "first"), unknown(pull.StepLayer, "second"))), pull.StatusInconclusive, "resolve@a:443: first", false},
		"not known, and failed":            {whole(registryAt(unknown(pull.StepResolve, "first"), step(pull.StepLayer, refused))), pull.StatusFailed, "", false},
		"cut short":                        {broken(held), pull.StatusInconclusive, "the walk did not come to its end", false},
		"blocked by what stands elsewhere": {whole(registryAt(step(pull.StepResolve), blocked)), pull.StatusInconclusive, "layer@a:443 was not tried", false},
		"a blocked check":                  {whole(registryAt(step(pull.StepResolve), pull.Step{ID: "corp/own", Status: pull.StatusBlocked})), pull.StatusOK, "", true},
		"a failed check":                   {whole(registryAt(step(pull.StepResolve), step("corp/own", refused))), pull.StatusFailed, "", true},
		"another runtime may pull":         {rivals, pull.StatusInconclusive, "two runtimes", false},
		"skipped":                          {skipped, pull.StatusSkipped, "it does not resolve tags", false},
		"too many hosts":                   {many, pull.StatusInconclusive, "the pull names more than 32 hosts", false},
		"single addresses do not decide":   {whole(registryAt(one(step(pull.StepConnect, refused)).at("10.0.0.1", 1))), pull.StatusOK, "", true},
		"rates warn":                       {whole(registryAt(waver)), pull.StatusDegraded, "", true},
		"rates do no more":                 {whole(registryAt(never)), pull.StatusOK, "", true},
		"a way to a nameserver decides": {whole(held, func() pull.Endpoint {
			e := nameserver("10.0.0.1", step(pull.StepRoute, refused))
			e.Expected = false
			return e
		}()), pull.StatusFailed, "", false},
	} {
		res := judged(t, tt.source)
		require.Equal(t, tt.want, res.Sources[0].Verdict, name)
		require.Equal(t, tt.why, res.Sources[0].Reason, name)
		require.Equal(t, tt.serves, Serves(tt.source), name)
		require.Equal(t, tt.serves, res.Served == 0, name)
	}
	require.Equal(t, []string{"warn endpoint.too-many-hosts"}, codes(judged(t, many).Findings))
}

func TestFirstFailure(t *testing.T) {
	t.Parallel()
	hint := at("hint", step(pull.StepResolve, refused))
	hint.Expected = true
	for name, tt := range map[string]struct {
		steps []pull.Step
		want  string
	}{
		"nothing":                      {nil, ""},
		"a request before a way":       {[]pull.Step{step(pull.StepConnect, refused), unknown(pull.StepToken, "why"), step(pull.StepResolve, refused)}, "token@a:443"},
		"a way":                        {[]pull.Step{step(pull.StepDNS), step(pull.StepTLS, refused), step(pull.StepConnect, refused)}, "tls@a:443"},
		"a handshake is no request":    {[]pull.Step{step(pull.StepConnect, refused), step(pull.StepTLS, refused)}, "connect@a:443"},
		"in the order of their end":    {[]pull.Step{step(pull.StepResolve, refused), step(pull.StepToken, refused)}, "resolve@a:443"},
		"not one address":              {[]pull.Step{one(step(pull.StepConnect, refused)).at("10.0.0.1", 1)}, ""},
		"not a rate":                   {[]pull.Step{step(pull.StepRounds, refused)}, ""},
		"not a check":                  {[]pull.Step{step("corp/own", refused)}, ""},
		"not what holds, or is behind": {[]pull.Step{step(pull.StepPing, warn(classify.RegistryServerError)), {ID: pull.StepLayer, Status: pull.StatusBlocked}}, ""},
	} {
		require.Equal(t, tt.want, FirstFailure(broken(hint, registryAt(tt.steps...))), name)
	}
}

func TestTheRootCauseIsOnTheLowestLayer(t *testing.T) {
	t.Parallel()
	s := broken(
		registryAt(step(pull.StepResolve, fail(classify.ImageNotFound)), step(pull.StepToken, fail(classify.IdentityForbidden))),
		at("b", step(pull.StepTLS, fail(classify.TLSExpired)), step(pull.StepDNS, finding(classify.DNSStaleRecord, classify.SeverityInfo))),
		at("c", step(pull.StepTLS, fail(classify.TLSExpired)), step(pull.StepConnect, warn(classify.RouteIntermittent))))
	res := judged(t, s)
	require.Equal(t, pull.StatusFailed, res.Verdict)
	require.Equal(t, -1, res.Served)
	require.False(t, res.Settled)
	require.Equal(t, []string{"fail tls.expired", "fail identity.forbidden", "fail image.not-found", "warn route.intermittent", "info dns.stale-record"}, codes(res.Findings), "the same is said once")
	require.Equal(t, res.Findings[0], *res.Primary)
	require.Equal(t, []Decision{{Rule: "lowest-layer-first", Subject: "root cause", To: "tls.expired at a:443", Why: "nothing failed on a layer below tls"}}, res.Decisions)

	nowhere := fail(classify.NodeInternalError)
	nowhere.Endpoint = ""
	require.Equal(t, "node.internal-error", judged(t, broken(registryAt(step(pull.StepSettings, nowhere)))).Decisions[0].To)
}

// A warning of the same at the same place says nothing beside a failure.
func TestAFailureNeedsNoWarningOfTheSame(t *testing.T) {
	t.Parallel()
	elsewhere := warn(classify.EndpointConnectionRefused)
	elsewhere.Endpoint, elsewhere.Summary = "b:443", "another host"
	same := warn(classify.EndpointConnectionRefused)
	same.Summary = "the ping, too"
	res := judged(t, broken(registryAt(step(pull.StepPing, same, elsewhere), step(pull.StepResolve, refused))))
	require.Equal(t, []string{"fail endpoint.connection-refused", "warn endpoint.connection-refused"}, codes(res.Findings))
	require.Equal(t, "b:443", res.Findings[1].Endpoint)
}

func TestAnotherSourceServes(t *testing.T) {
	t.Parallel()
	down := named("mirror", broken(registryAt(step(pull.StepConnect, refused))))
	never := pull.Source{Host: "later"}
	res := judged(t, down, named("upstream", whole(held)), never)
	require.Equal(t, pull.StatusDegraded, res.Verdict)
	require.Equal(t, 1, res.Served)
	require.True(t, res.Settled)
	require.Equal(t, [][4]string{
		{"another-source-serves", "endpoint.connection-refused of mirror", "fail", "warn"},
		{"served-with-warnings", "verdict", "ok", "degraded"},
	}, told(res.Decisions))
	require.Equal(t, "upstream serves the pull", res.Decisions[0].Why)
	require.Equal(t, "another source that was asked does not serve the pull", res.Decisions[1].Why)
	require.Equal(t, []string{"warn endpoint.connection-refused"}, codes(res.Findings))
	require.Equal(t, pull.StatusFailed, res.Sources[0].Verdict)
	require.Equal(t, pull.StatusSkipped, res.Sources[2].Verdict)
	require.Equal(t, "an earlier source serves the pull", res.Sources[2].Reason)

	passed := named("mirror", whole(held))
	passed.Skipped = "it does not resolve tags"
	res = judged(t, passed, named("upstream", whole(held)))
	require.Equal(t, pull.StatusOK, res.Verdict, "what is never asked is not missed")
	require.Empty(t, res.Decisions)

	unread := named("later", broken(registryAt(step(pull.StepSettings))))
	require.Equal(t, pull.StatusOK, judged(t, named("upstream", whole(held)), unread).Verdict, "settings are read, and nobody was asked")
	hint := named("later", broken(registryAt(step(pull.StepConnect, refused))))
	hint.Endpoints[0].Expected, hint.Endpoints[0].Aside = true, true
	require.Equal(t, pull.StatusOK, judged(t, named("upstream", whole(held)), hint).Verdict, "it was only looked at")
}

// The first of the sources counts as any other.
func TestTheFirstSourceServes(t *testing.T) {
	t.Parallel()
	never := pull.Source{Host: "later"}
	res := judged(t, named("mirror", whole(held)), never)
	require.Equal(t, 0, res.Served)
	require.Equal(t, pull.StatusSkipped, res.Sources[1].Verdict)
	require.Equal(t, "an earlier source serves the pull", res.Sources[1].Reason)

	down := named("upstream", broken(registryAt(step(pull.StepConnect, refused))))
	res = judged(t, named("mirror", whole(held)), down)
	require.Equal(t, [][4]string{{"another-source-serves", "endpoint.connection-refused of upstream", "fail", "warn"}}, of(res.Decisions, "another-source-serves"))
	cut := named("upstream", broken(registryAt(unknown(pull.StepConnect, "not allowed"))))
	require.Equal(t, "mirror serves the pull", judged(t, named("mirror", whole(held)), cut, down).Decisions[0].Why, "although one of the others is open")

	got := Judge(pull.Log{Sources: []pull.Source{named("mirror", whole(held)), down}, Unsure: true})
	require.Equal(t, pull.StatusInconclusive, got.Verdict, "without the configuration the pull would fail")
	require.Equal(t, unsure, got.Inconclusive)
}

func TestWarningsDegrade(t *testing.T) {
	t.Parallel()
	way := nameserver("10.0.0.1", step(pull.StepRoute, warn(classify.RouteIntermittent)))
	res := judged(t, whole(held), named("later", pull.Source{Endpoints: []pull.Endpoint{way}}))
	require.Equal(t, pull.StatusDegraded, res.Verdict)
	require.Equal(t, []Decision{{"served-with-warnings", "verdict", "ok", "degraded", "there are warnings"}}, res.Decisions)
	res = judged(t, whole(registryAt(step(pull.StepResolve, warn(classify.RouteIntermittent)))))
	require.Equal(t, pull.StatusDegraded, res.Verdict)
	require.Empty(t, res.Decisions, "the step said so itself")
}

// What a check of the caller's finds fails the pull that a runtime would get.
func TestAFailedCheck(t *testing.T) {
	t.Parallel()
	res := judged(t, whole(registryAt(step(pull.StepResolve), step("corp/own", refused))))
	require.Equal(t, pull.StatusFailed, res.Verdict)
	require.Equal(t, classify.EndpointConnectionRefused, res.Primary.Cause)
	cut := named("mirror", broken(registryAt(unknown(pull.StepConnect, "not allowed"))))
	res = judged(t, cut, named("upstream", whole(registryAt(step(pull.StepResolve), step("corp/own", refused)))))
	require.Equal(t, pull.StatusFailed, res.Verdict, "what is open elsewhere does not excuse it")
	require.Equal(t, []string{"fail endpoint.connection-refused"}, codes(res.Findings))
	open := judged(t, whole(registryAt(step(pull.StepResolve), unknown("corp/own", "it did not say"))))
	require.Equal(t, pull.StatusInconclusive, open.Verdict)
	require.Equal(t, "corp/own@a:443: it did not say", open.Inconclusive)
	require.Nil(t, open.Primary)
}

func TestAnOpenPullBlamesNobody(t *testing.T) {
	t.Parallel()
	down := named("mirror", broken(registryAt(step(pull.StepConnect, refused))))
	cut := named("upstream", broken(registryAt(unknown(pull.StepConnect, "not allowed"))))
	res := judged(t, down, cut)
	require.Equal(t, pull.StatusInconclusive, res.Verdict)
	require.Equal(t, "connect@upstream:443: not allowed", res.Inconclusive)
	require.Nil(t, res.Primary)
	require.Equal(t, [][4]string{{"open-pull-blames-nobody", "endpoint.connection-refused of mirror", "fail", "warn"}}, told(res.Decisions))

	got := Judge(pull.Log{Sources: []pull.Source{down, cut}, Ended: "the budget ended"})
	require.Equal(t, "the budget ended", got.Inconclusive)
	got = Judge(pull.Log{Sources: []pull.Source{down}, Ended: "the budget ended"})
	require.Equal(t, pull.StatusFailed, got.Verdict, "what was seen to fail has failed")
	require.Empty(t, got.Inconclusive)
	require.Equal(t, pull.StatusInconclusive, Judge(pull.Log{Ended: "canceled"}).Verdict)
	require.Equal(t, "canceled", Judge(pull.Log{Ended: "canceled"}).Inconclusive)
	require.Equal(t, pull.StatusInconclusive, Judge(pull.Log{}).Verdict)
}

// Where it is not known whether the runtime has the configuration that the walk
// followed, only what every source shows is known.
func TestNotKnownWhetherTheConfigurationIsInForce(t *testing.T) {
	t.Parallel()
	down := named("mirror", broken(registryAt(step(pull.StepConnect, refused))))
	serving := named("upstream", whole(held))
	res := Judge(pull.Log{Sources: []pull.Source{down, serving}, Unsure: true})
	require.Equal(t, pull.StatusInconclusive, res.Verdict)
	require.Equal(t, unsure, res.Inconclusive)
	require.False(t, res.Settled)
	require.Equal(t, pull.StatusOK, Judge(pull.Log{Sources: []pull.Source{serving, serving}, Unsure: true}).Verdict)
	require.Equal(t, pull.StatusFailed, Judge(pull.Log{Sources: []pull.Source{down, down}, Unsure: true}).Verdict)
	passed := serving
	passed.Skipped = "it does not resolve tags"
	require.Equal(t, pull.StatusOK, Judge(pull.Log{Sources: []pull.Source{passed, serving}, Unsure: true}).Verdict)
}

// Another reading of the root cause is what the same host was seen to have.
func TestOtherReadings(t *testing.T) {
	t.Parallel()
	const mtu, hello, override = classify.RouteMTUBlackHole, classify.RouteLargeHelloDropped, classify.DNSHostsOverride
	for name, tt := range map[string]struct {
		primary classify.Cause
		id      pull.StepID
		seen    classify.Cause
		host    string
		want    []classify.Cause
		rule    string
	}{
		"silent request":           {classify.EndpointResponseHeaderTimeout, pull.StepTLS, mtu, "a", []classify.Cause{mtu}, "large-packets-may-vanish"},
		"silent body":              {classify.EndpointReadTimeout, pull.StepTLS, mtu, "a", []classify.Cause{mtu}, "large-packets-may-vanish"},
		"stalled download":         {classify.EndpointDownloadStalled, pull.StepTLS, hello, "a", []classify.Cause{hello}, "large-packets-may-vanish"},
		"another host":             {classify.EndpointResponseHeaderTimeout, pull.StepTLS, mtu, "b", nil, ""},
		"no matter of size":        {classify.EndpointResponseHeaderTimeout, pull.StepTLS, classify.TLSExpired, "a", nil, ""},
		"another step":             {classify.EndpointResponseHeaderTimeout, pull.StepRoute, mtu, "a", nil, ""},
		"an answer":                {classify.IdentityUnauthorized, pull.StepTLS, mtu, "a", nil, ""},
		"the address is doubtful":  {classify.EndpointConnectionRefused, pull.StepDNS, override, "a", []classify.Cause{override}, "the-name-may-lead-astray"},
		"so is the way to it":      {classify.RouteConnectTimeout, pull.StepDNS, classify.DNSStaleRecord, "a", []classify.Cause{classify.DNSStaleRecord}, "the-name-may-lead-astray"},
		"and its certificate":      {classify.TLSHostnameMismatch, pull.StepDNS, classify.DNSSearchCapture, "a", []classify.Cause{classify.DNSSearchCapture}, "the-name-may-lead-astray"},
		"a public answer":          {classify.EndpointConnectionRefused, pull.StepDNS, classify.DNSPublicAnswer, "a", []classify.Cause{classify.DNSPublicAnswer}, "the-name-may-lead-astray"},
		"an address that is none":  {classify.EndpointConnectionRefused, pull.StepDNS, classify.DNSBogusAddress, "a", []classify.Cause{classify.DNSBogusAddress}, "the-name-may-lead-astray"},
		"the answer is not":        {classify.IdentityUnauthorized, pull.StepDNS, override, "a", nil, ""},
		"another finding about it": {classify.EndpointConnectionRefused, pull.StepDNS, classify.DNSNoData, "a", nil, ""},
		"the size does not refuse": {classify.EndpointConnectionRefused, pull.StepTLS, mtu, "a", nil, ""},
	} {
		note := finding(tt.seen, classify.SeverityInfo)
		res := judged(t, broken(registryAt(step(pull.StepResolve, fail(tt.primary))), at(tt.host, step(tt.id, note, note))))
		require.Equal(t, tt.want, res.Primary.Alternatives, name)
		var want [][4]string
		if tt.rule != "" {
			want = [][4]string{{tt.rule, "root cause", string(tt.primary), "or " + string(tt.seen)}}
		}
		require.Equal(t, want, append(of(res.Decisions, "large-packets-may-vanish"), of(res.Decisions, "the-name-may-lead-astray")...), name)
	}
}
