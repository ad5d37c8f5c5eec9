package pull

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Credential is one that the pull is tried with. The zero Credential is anonymous.
type Credential struct {
	Secret   registry.Credential
	Info     registry.CredentialInfo // what may be told of it
	Accepted registry.CredentialInfo // the same where the registry was seen to accept it
}

// authorize resolves the reference: without identity first, as the runtimes do, then
// with each credential in its turn until one may read. It returns the report of the
// request that held, nil if none did, and that of the first one.
func (r *Run) authorize(ctx context.Context, reg *Host) (held, first *registry.Report) {
	st := r.resolve(ctx, reg, 0)
	if st.ID != StepChallenge {
		if Passes(st.Status) {
			r.Accepted = Anonymous
			return st.Request, st.Request
		}
		return nil, st.Request
	}
	first = st.Request
	if r.Depth == Connect {
		if _, ch, err := r.tokenHost(ctx, first); err != nil {
			reg.Record(r.judgeToken(ch, Credential{Info: registry.CredentialInfo{Source: "anonymous"}}, registry.TokenResult{Err: err}), 0)
		}
		return first, first
	}
	list := []Credential{{Info: registry.CredentialInfo{Source: "anonymous"}}}
	if r.Credentials != nil {
		var step *Step
		if list, step = r.Credentials(ctx, reg); step != nil {
			reg.Record(*step, 0)
			return nil, first
		}
	}
	for i, c := range list {
		if by := r.silentStep(); by != "" { // of the exchange for the one before
			reg.Record(Step{ID: StepToken, Status: StatusBlocked, BlockedBy: by}, i)
			continue
		}
		identified := r.identify(ctx, reg, first, c, i)
		if i == 0 {
			r.Info = r.said(c)
		}
		if !identified {
			continue
		}
		if st := r.resolve(ctx, reg, i+1); Passes(st.Status) && st.Request != nil {
			r.Accepted, r.Info = i+1, r.said(c)
			if r.Requests.Authorization == c.Secret.Basic() { // without it, the registry refused
				r.Info = c.Accepted
			}
			r.auditRights(ctx, reg, first, c)
			return st.Request, first
		}
	}
	return nil, first
}

// said is what may be told of a credential that was tried.
func (r *Run) said(c Credential) registry.CredentialInfo {
	if r.known != nil {
		return r.known.Credential
	}
	return c.Info
}

// refused reads a refusal again, given what is known of the credential and of the
// token exchange before it.
func (r *Run) refused(st Step) Step {
	if r.known == nil || st.Request == nil {
		return st
	}
	for i, f := range st.Findings {
		var answer *classify.HTTPAnswer
		if errors.As(f, &answer) && answer.Credentialed {
			g := registry.JudgeRefusal(answer, r.known, st.Request.Challenge())
			g.Endpoint, g.Operation, g.Severity = f.Endpoint, f.Operation, f.Severity
			st.Findings[i] = g
		}
	}
	return st
}

// auditRights asks what more the identity could do.
func (r *Run) auditRights(ctx context.Context, reg *Host, first *registry.Report, c Credential) {
	if !r.AuditRights {
		return
	}
	h, ch, err := r.tokenHost(ctx, first)
	if h == nil || err != nil {
		reg.Record(Step{ID: StepRights, Status: StatusSkipped, Reason: "no token server grants rights here"}, 0)
		return
	}
	out := h.Request(ctx, Step{ID: StepRights}, func(ctx context.Context, rt http.RoundTripper, _ func(int64)) Outcome {
		rights := registry.AuditRights(ctx, rt, ch, c.Secret, r.Requests.Reference.Repository, r.Requests.UserAgent)
		st := StatusOf(Step{ID: StepRights, Report: rights}, true, "", Warned(rights.Findings()))
		if rights.Inconclusive != "" { // the pull does not depend on it
			st.Status, st.Reason = StatusSkipped, rights.Inconclusive
		}
		return Outcome{Step: st}
	})
	h.Record(out.Step, 0)
}

// tokenHost begins the way to the token server that a challenge names.
func (r *Run) tokenHost(ctx context.Context, rep *registry.Report) (*Host, registry.Challenge, error) {
	for _, c := range rep.Challenge() {
		if c.Scheme != "bearer" {
			continue
		}
		realm, err := registry.RealmURL(c)
		if err != nil {
			return nil, c, err
		}
		t, err := TargetOf(realm, registry.RoleToken, "the challenge of "+rep.Host)
		if err != nil {
			return nil, c, &registry.BadRealmError{Realm: registry.RedactURL(realm), Reason: err.Error()}
		}
		h := r.Host(ctx, t)
		if h == nil {
			return nil, c, errTooManyHosts
		}
		return h, c, nil
	}
	return nil, registry.Challenge{}, nil
}

var errTooManyHosts = errors.New("more hosts than are followed")

// identify makes the requests carry one credential, in the way that the registry's
// challenge asks for. It reports whether a request with it can be tried.
func (r *Run) identify(ctx context.Context, reg *Host, first *registry.Report, c Credential, index int) bool {
	r.Requests.Authorization, r.auth, r.known = "", nil, nil
	if c.Secret.RegistryToken != "" && reg.Scheme == "https" {
		r.carry(registry.NewToken(c.Secret.RegistryToken).Authorization())
		reg.Record(Step{ID: StepToken, Status: StatusSkipped, Reason: "the credential is a registry token"}, index)
		return true
	}
	h, ch, err := r.tokenHost(ctx, first)
	switch {
	case h == nil && err == nil:
		return r.basic(reg, first, c, index)
	case h == nil:
		// No server can be asked: the judgement belongs to the registry, whose
		// challenge it is.
		reg.Record(r.judgeToken(ch, c, registry.TokenResult{Err: err}), index)
		return false
	}
	out := r.fetchToken(ctx, h, ch, c)
	h.recordToken(out, index)
	r.known = out.Access
	if !out.token.HasToken {
		return false
	}
	// A token that claims too little is still tried: the claim is not verified,
	// the registry decides.
	r.carry(out.token.Token.Authorization())
	r.auth.until(out.token)
	r.auth.renew = func(ctx context.Context) registry.TokenResult {
		out := r.fetchToken(ctx, h, ch, c)
		if !out.token.HasToken {
			h.recordToken(out, renewals)
		}
		return out.token
	}
	return true
}

func (r *Run) carry(authorization string) {
	r.Requests.Authorization, r.auth = authorization, newBearer(authorization)
}

// basic answers a challenge that asks for user and password themselves.
func (r *Run) basic(reg *Host, first *registry.Report, c Credential, index int) bool {
	for _, ch := range first.Challenge() {
		if ch.Scheme != "basic" {
			continue
		}
		if c.Secret.Username == "" || c.Secret.Password == "" {
			reg.Record(r.judgeToken(ch, c, registry.TokenResult{}), index)
			return false
		}
		if reg.Scheme != "https" {
			f := classify.New(classify.IdentityPlaintextRefused, "The registry asks for a password over plain http; it was not sent.")
			f.Severity = classify.SeverityWarn
			reg.Record(StatusOf(Step{ID: StepToken}, false, "credential withheld: plain http", []classify.Finding{f}), index)
			return false
		}
		r.carry(c.Secret.Basic())
		r.known = registry.JudgeToken(ch, c.Info, registry.TokenResult{}, r.Requests.Reference.Repository)
		reg.Record(Step{ID: StepToken, Status: StatusSkipped, Reason: "the registry asks for Basic: no token is fetched"}, index)
		return true
	}
	var ch registry.Challenge
	if all := first.Challenge(); len(all) > 0 {
		ch = all[0]
	}
	reg.Record(r.judgeToken(ch, c, registry.TokenResult{}), index)
	return false
}

func (r *Run) judgeToken(ch registry.Challenge, c Credential, res registry.TokenResult) Step {
	info := c.Info
	if res.HasToken && res.ForUser { // a token alone may be an anonymous one, in answer to a wrong password
		info = c.Accepted
	}
	rep := registry.JudgeToken(ch, info, res, r.Requests.Reference.Repository)
	return StatusOf(Step{ID: StepToken, Access: rep}, rep.TokenIssued, rep.Inconclusive, rep.Findings())
}

// fetchToken makes one token exchange, redirects included.
func (r *Run) fetchToken(ctx context.Context, h *Host, ch registry.Challenge, c Credential) Outcome {
	return h.Request(ctx, Step{ID: StepToken}, func(ctx context.Context, rt http.RoundTripper, _ func(int64)) Outcome {
		hops := &tokenHops{run: r, at: h}
		res := registry.FetchToken(ctx, rt, registry.TokenRequest{
			Challenge: ch, Repository: r.Requests.Reference.Repository, Credential: c.Secret, UserAgent: r.Requests.UserAgent,
			Way: r.Requests.Client.Token, Fields: r.TokenFields, Next: hops.next,
		})
		out := Outcome{token: res, at: hops.at}
		switch {
		case res.Err != nil && ctx.Err() != nil:
			out.Step = Step{ID: StepToken, Status: StatusInconclusive, Reason: EndOf(ctx)}
		case hops.blockedBy != "":
			out.Step = Step{ID: StepToken, Status: StatusBlocked, BlockedBy: hops.blockedBy}
		default:
			out.Step = r.judgeToken(ch, c, res)
		}
		return out
	})
}

// tokenHops are the hosts that one token exchange is redirected to. The way to each is
// begun before it is asked.
type tokenHops struct {
	run       *Run
	at        *Host  // the last one
	blockedBy string // what stands in the way to it
}

var errHopBlocked = errors.New("the host that the token server redirects to cannot be asked")

// next begins the way to a host and returns how to ask it.
func (hops *tokenHops) next(ctx context.Context, u *url.URL) (http.RoundTripper, error) {
	t, err := TargetOf(u, registry.RoleToken, "a redirect of "+hops.at.HostPort())
	if err != nil {
		return nil, err
	}
	h := hops.run.Host(ctx, t)
	if h == nil {
		return nil, errTooManyHosts
	}
	hops.at = h
	select {
	case <-h.Way().Ready():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	rt, by := h.Way().Open()
	if rt == nil {
		hops.blockedBy = by
		return nil, errHopBlocked
	}
	return rt, nil
}

// recordToken records a token exchange where it ended, and where it began that it was
// sent on.
func (h *Host) recordToken(out Outcome, index int) {
	if out.at != nil && out.at != h {
		h.Record(Step{ID: StepToken, Status: StatusSkipped, Reason: "it redirects to " + out.at.HostPort()}, index)
		h = out.at
	}
	h.run.noteSilence(h, h.Record(out.Step, index), index)
}

// renewals is the place of a failed renewal behind every first token.
const renewals = 1000

// bearer is what requests for blobs carry. Its token is renewed when it has run out, as
// the runtimes do; a download may take longer than a token lives.
type bearer struct {
	turn    chan struct{} // capacity 1: one renewal at a time, waited for on a channel
	value   string
	expires time.Time                                      // zero = never
	renew   func(ctx context.Context) registry.TokenResult // nil = it cannot be
}

func newBearer(authorization string) *bearer {
	return &bearer{turn: make(chan struct{}, 1), value: authorization}
}

// defaultLife is the life of a token whose server does not say (distribution token
// specification: 60 seconds).
const defaultLife = time.Minute

func (b *bearer) until(res registry.TokenResult) {
	b.expires = time.Now().Add(cmp.Or(res.ExpiresIn, defaultLife))
}

// current returns the Authorization to send; refused is one that the registry has just
// turned down, "" if none. nil is anonymous.
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
