package pullwalk

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// authorize resolves the reference: without identity first, as the runtimes do,
// then with each credential in the keychain's order until one may read. It
// returns the report of the request that held, nil if none did, and that of the
// first one.
func (s *source) authorize(ctx context.Context, reg *endpoint, w *registry.Walk) (held, first *registry.Report) {
	st := s.resolve(ctx, reg, w, 0)
	if st.ID != StepChallenge {
		if pull.Passes(st.Status) {
			s.accepted = pull.Anonymous
			return st.Request, st.Request
		}
		return nil, st.Request
	}
	first = st.Request
	if s.d.opts.Pull == Connect {
		if _, ch, err := s.tokenHost(ctx, first); err != nil {
			reg.record(s.judge(ch, tlsauth.Offer{Info: tlsauth.CredentialInfo{Source: "anonymous"}}, registry.TokenResult{Err: err}), 0)
		}
		return first, first
	}
	creds, step := s.credentials(ctx, reg)
	if step != nil {
		reg.record(*step, 0)
		return nil, first
	}
	for i, c := range creds {
		if by := s.silentStep(); by != "" { // of the exchange for the one before
			reg.record(pull.Step{ID: StepToken, Status: StatusBlocked, BlockedBy: by}, i)
			continue
		}
		identified := s.identify(ctx, reg, w, first, c, i)
		if i == 0 {
			s.d.setIdentity(s.said(c))
		}
		if !identified {
			continue
		}
		if st := s.resolve(ctx, reg, w, i+1); pull.Passes(st.Status) && st.Request != nil {
			s.accepted = i + 1
			info := s.said(c)
			if w.Authorization == secretOf(c).Basic() { // without it, the registry refused
				info = c.Accepted()
			}
			s.d.setIdentity(info)
			s.auditRights(ctx, reg, first, c)
			return st.Request, first
		}
	}
	return nil, first
}

// said is what may be told of a credential that was tried.
func (s *source) said(c tlsauth.Offer) tlsauth.CredentialInfo {
	if s.known != nil {
		return tlsauth.CredentialInfo(s.known.Credential)
	}
	return c.Info
}

// refused reads a refusal again, given what is known of the credential and of the
// token exchange before it.
func (s *source) refused(st pull.Step) pull.Step {
	if s.known == nil || st.Request == nil {
		return st
	}
	for i, f := range st.Findings {
		var answer *classify.HTTPAnswer
		if errors.As(f, &answer) && answer.Credentialed {
			g := registry.JudgeRefusal(answer, s.known, st.Request.Challenge())
			g.Endpoint, g.Operation, g.Severity = f.Endpoint, f.Operation, f.Severity
			st.Findings[i] = g
		}
	}
	return st
}

// credentials asks the keychain what the kubelet would try, and leaves out what
// the runtime does not send to this source. The step is non-nil when the keychain
// did not answer.
func (s *source) credentials(ctx context.Context, reg *endpoint) ([]tlsauth.Offer, *pull.Step) {
	if sb := s.d.sandbox; sb != nil {
		return sb.offers(ctx, s)
	}
	others := []tlsauth.Offer{{Info: tlsauth.CredentialInfo{Source: "anonymous: the runtime sends this host no credential of the image"}}}
	if s.cfg.Credential == noderuntime.CredentialNone {
		if own, step := s.ownOffers(ctx, ""); own == nil && step == nil {
			return others, nil // whatever the kubelet would offer
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxKeychain)
	defer cancel()
	if pull.HasSeverity(s.d.plan.Findings(), classify.SeverityFail) { // the kubelet ends the pull before the runtime hears of it
		return nil, &pull.Step{ID: StepToken, Status: StatusBlocked, BlockedBy: pull.StepName(StepSecrets, reg.hostPort(), netip.Addr{})}
	}
	if p := s.d.plan; p != nil && p.Inconclusive != "" && len(p.Offered) == 0 {
		return nil, &pull.Step{ID: StepToken, Status: StatusInconclusive, Reason: "what the kubelet would offer is not known: " + classify.Redact(p.Inconclusive, 300)}
	}
	offers, err := tlsauth.Offers(ctx, s.d.opts.Keychain, s.d.ref.String())
	if err != nil {
		return nil, &pull.Step{ID: StepToken, Status: StatusInconclusive, Reason: classify.Redact(err.Error(), 300)}
	}
	if len(offers) == 1 && secretOf(offers[0]).IsZero() { // the kubelet hands over none
		own, step := s.ownOffers(ctx, "")
		if own != nil || step != nil {
			s.ownLogin = true
			return own, step
		}
	}
	if s.cfg.Credential == noderuntime.CredentialNone {
		return others, nil
	}
	for i := range offers {
		offers[i] = offers[i].ForRuntime(s.d.view.runtime.Name)
	}
	return offers, nil
}

// planner is a keychain that knows why it offers what it offers, as
// [tlsauth.Kubelet] does.
type planner interface {
	Plan(ctx context.Context, image string) (*tlsauth.CredentialPlan, error)
}

// planCredentials asks such a keychain, and climbs to the hosts that the credentials
// come from: when they cannot be reached, the pull looks like a missing right.
func (d *imageRun) planCredentials(ctx context.Context, s *source) {
	keychain, ok := d.opts.Keychain.(planner)
	if !ok {
		return
	}
	asking, cancel := context.WithTimeout(ctx, maxKeychain)
	defer cancel()
	plan, ok := await(asking, func() *tlsauth.CredentialPlan {
		plan, err := keychain.Plan(asking, d.ref.String())
		if err != nil {
			return nil
		}
		return plan
	})
	if !ok || plan == nil {
		return // the offers, asked for later, say why
	}
	d.plan = plan
	for _, from := range plan.Sources {
		for _, hp := range from.Hosts {
			host, port, err := splitHostPort(hp)
			if err != nil {
				continue
			}
			scheme := "https"
			if port == 80 {
				scheme = "http"
			}
			s.endpoint(ctx, target{scheme: scheme, host: host, port: port, role: endpoints.RoleCredential, foundBy: from.Kind + " " + from.Name, hint: true})
		}
	}
}

// recordPlan says at the registry's endpoint what the plan found.
func (s *source) recordPlan(reg *endpoint) {
	if p := s.d.plan; p != nil {
		reason := ""
		if p.Inconclusive != "" && len(p.Offered) == 0 {
			reason = p.Inconclusive
		}
		reg.record(pull.StatusOf(pull.Step{ID: StepSecrets}, true, reason, p.Findings()), 0)
	}
}

// auditRights asks what more the identity could do, where the caller wants to know.
func (s *source) auditRights(ctx context.Context, reg *endpoint, first *registry.Report, c tlsauth.Offer) {
	if !s.d.opts.AuditRights {
		return
	}
	e, ch, err := s.tokenHost(ctx, first)
	if e == nil || err != nil {
		reg.record(pull.Step{ID: StepRights, Status: StatusSkipped, Reason: "no token server grants rights here"}, 0)
		return
	}
	out := e.request(ctx, pull.Step{ID: StepRights}, func(ctx context.Context, rt http.RoundTripper, _ *watch) outcome {
		r := registry.AuditRights(ctx, rt, ch, secretOf(c), s.ref.Repository, s.d.userAgent)
		st := pull.StatusOf(pull.Step{ID: StepRights}, true, "", pull.Warned(r.Findings()))
		if r.Inconclusive != "" { // the pull does not depend on it
			st.Status, st.Reason = StatusSkipped, r.Inconclusive
		}
		return outcome{Step: st}
	})
	e.record(out.Step, 0)
}

// tokenHost starts the ladder of the token server that a challenge names.
func (s *source) tokenHost(ctx context.Context, r *registry.Report) (*endpoint, registry.Challenge, error) {
	for _, c := range r.Challenge() {
		if c.Scheme != "bearer" {
			continue
		}
		realm, err := registry.RealmURL(c)
		if err != nil {
			return nil, c, err
		}
		t, err := targetOf(realm, endpoints.RoleToken, "the challenge of "+r.Host)
		if err != nil {
			return nil, c, &registry.BadRealmError{Realm: registry.RedactURL(realm), Reason: err.Error()}
		}
		e := s.endpoint(ctx, t)
		if e == nil {
			return nil, c, errors.New("more hosts than are followed")
		}
		return e, c, nil
	}
	return nil, registry.Challenge{}, nil
}

// identify makes the walk carry one credential, in the way that the registry's
// challenge asks for. It reports whether a request with it can be tried.
func (s *source) identify(ctx context.Context, reg *endpoint, w *registry.Walk, first *registry.Report, c tlsauth.Offer, index int) bool {
	w.Authorization, s.auth, s.known = "", nil, nil
	if secretOf(c).RegistryToken != "" && reg.scheme == "https" {
		w.Authorization = registry.NewToken(secretOf(c).RegistryToken).Authorization()
		s.auth = newBearer(w.Authorization)
		reg.record(pull.Step{ID: StepToken, Status: StatusSkipped, Reason: "the credential is a registry token"}, index)
		return true
	}
	e, ch, err := s.tokenHost(ctx, first)
	if e == nil && err == nil {
		return s.basic(reg, w, first, c, index)
	}
	if e == nil {
		// No server can be asked: the judgement belongs to the registry, whose
		// challenge it is.
		res := registry.TokenResult{Err: err}
		reg.record(s.judge(ch, c, res), index)
		return false
	}
	fetch := func(ctx context.Context) outcome {
		return e.request(ctx, pull.Step{ID: StepToken}, func(ctx context.Context, rt http.RoundTripper, _ *watch) outcome {
			hops := &tokenHops{s: s, at: e}
			res := registry.FetchToken(ctx, rt, registry.TokenRequest{Challenge: ch, Repository: w.Reference.Repository, Credential: secretOf(c), UserAgent: s.d.userAgent, Way: s.d.profile.Client.Token, Fields: s.cfg.TokenFields, Next: hops.next})
			out := outcome{token: res, at: hops.at}
			switch {
			case res.Err != nil && ctx.Err() != nil:
				out.Step = pull.Step{ID: StepToken, Status: StatusInconclusive, Reason: reasonOf(ctx)}
			case hops.blockedBy != "":
				out.Step = pull.Step{ID: StepToken, Status: StatusBlocked, BlockedBy: hops.blockedBy}
			default:
				out.Step = s.judge(ch, c, res)
			}
			return out
		})
	}
	out := fetch(ctx)
	e.recordToken(out, index)
	s.known = out.Access
	if !out.token.HasToken {
		return false
	}
	// A token that claims too little is still tried: the claim is not verified,
	// the registry decides.
	w.Authorization = out.token.Token.Authorization()
	s.auth = newBearer(w.Authorization)
	s.auth.until(out.token)
	s.auth.renew = func(ctx context.Context) registry.TokenResult {
		out := fetch(ctx)
		if !out.token.HasToken {
			e.recordToken(out, renewals)
		}
		return out.token
	}
	return true
}

// renewals is the place of a failed renewal behind every first token.
const renewals = 1000

// bearer is what the walk's requests carry. Its token is renewed when it has run
// out, as the runtimes do; a download may take longer than a token lives.
type bearer struct {
	turn    chan struct{} // capacity 1: one renewal at a time, waited for on a channel
	value   string
	expires time.Time                                      // zero = never
	renew   func(ctx context.Context) registry.TokenResult // nil = it cannot be
}

func newBearer(authorization string) *bearer {
	return &bearer{turn: make(chan struct{}, 1), value: authorization}
}

// defaultLife is the life of a token whose server does not say (distribution
// token specification: 60 seconds).
const defaultLife = time.Minute

func (b *bearer) until(res registry.TokenResult) {
	b.expires = time.Now().Add(cmp.Or(res.ExpiresIn, defaultLife))
}

// current returns the Authorization to send; refused is one that the registry
// has just turned down, "" if none. nil is anonymous.
func (b *bearer) current(ctx context.Context, refused string) string {
	if b == nil {
		return ""
	}
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return refused
	}
	fresh := b.expires.IsZero() || time.Now().Before(b.expires)
	if b.renew == nil || b.value != refused && fresh {
		return b.value
	}
	if res := b.renew(ctx); res.HasToken {
		b.value = res.Token.Authorization()
		b.until(res)
	}
	return b.value
}

// secretOf is an offer in the form in which requests carry it.
func secretOf(c tlsauth.Offer) registry.Credential {
	a := c.Auth()
	return registry.Credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
}

func (s *source) judge(ch registry.Challenge, c tlsauth.Offer, res registry.TokenResult) pull.Step {
	info := c.Info
	if res.HasToken && res.ForUser { // a token alone may be an anonymous one, in answer to a wrong password
		info = c.Accepted()
	}
	rep := registry.JudgeToken(ch, registry.CredentialInfo(info), res, s.ref.Repository)
	return pull.StatusOf(pull.Step{ID: StepToken, Access: rep}, rep.TokenIssued, rep.Inconclusive, rep.Findings())
}

// basic answers a challenge that asks for user and password themselves.
func (s *source) basic(reg *endpoint, w *registry.Walk, first *registry.Report, c tlsauth.Offer, index int) bool {
	for _, ch := range first.Challenge() {
		if ch.Scheme != "basic" {
			continue
		}
		if secretOf(c).Username == "" || secretOf(c).Password == "" {
			reg.record(s.judge(ch, c, registry.TokenResult{}), index)
			return false
		}
		if reg.scheme != "https" {
			f := classify.New(classify.IdentityPlaintextRefused, "The registry asks for a password over plain http; it was not sent.")
			f.Severity = classify.SeverityWarn
			reg.record(pull.StatusOf(pull.Step{ID: StepToken}, false, "credential withheld: plain http", []classify.Finding{f}), index)
			return false
		}
		w.Authorization = secretOf(c).Basic()
		s.known = registry.JudgeToken(ch, registry.CredentialInfo(c.Info), registry.TokenResult{}, s.ref.Repository)
		s.auth = newBearer(w.Authorization)
		reg.record(pull.Step{ID: StepToken, Status: StatusSkipped, Reason: "the registry asks for Basic: no token is fetched"}, index)
		return true
	}
	var ch registry.Challenge
	if all := first.Challenge(); len(all) > 0 {
		ch = all[0]
	}
	reg.record(s.judge(ch, c, registry.TokenResult{}), index)
	return false
}
