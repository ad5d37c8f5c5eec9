package registry

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// The ways of offering a password to a token server.
const (
	WayPostGet = "post-get" // containerd: POST of a form, GET with Basic where that is not known
	WayGet     = "get"      // CRI-O and docker: GET with Basic
)

// TokenRequest says which token is wanted.
type TokenRequest struct {
	Challenge  Challenge
	Repository string // "team/app"; the scope asked for is repository:team/app:pull
	Credential Credential
	UserAgent  string
	Way        string // how a password is offered, one of the constants; "" = WayPostGet
	Fields     Fields // of the runtime's configuration, sent to the realm as well
	// Next returns the transport to another host, to which the token server redirects. nil
	// = redirects are not followed, and fail like any refusal.
	Next func(ctx context.Context, u *url.URL) (http.RoundTripper, error)
}

// FetchToken asks the challenge's realm for a token, through rt, which must reach that
// realm. Each request is one attempt of the result, and so is each after a redirect.
func FetchToken(ctx context.Context, rt http.RoundTripper, in TokenRequest) (res TokenResult) {
	defer func() {
		user := in.Credential.Username
		res.ForUser = user != "" && res.HasToken && res.Token.subject() == user
	}()
	realm, err := RealmURL(in.Challenge)
	if err != nil {
		res.Err = err
		return res
	}
	cred := in.Credential
	if cred.exchanges() && realm.Scheme != "https" {
		res.Err = &WithheldError{Host: realm.Host, Reason: "the realm is plain http"}
		return res
	}
	// An identity token has no form of its own in a GET.
	if cred.IdentityToken != "" || cred.exchanges() && in.Way != WayGet {
		res.Err = res.exchange(ctx, rt, postRequest(ctx, realm, in), in)
		var answer *classify.HTTPAnswer
		if in.Way == WayGet || !errors.As(res.Err, &answer) || !fallsBack(answer.Status, cred) {
			return res
		}
	}
	res.Err = res.exchange(ctx, rt, getRequest(ctx, realm, in), in)
	return res
}

// fallsBack reports after which answers to the POST containerd tries the GET
// (core/remotes/docker/authorizer.go): 405 counts only where there is a user.
func fallsBack(status int, c Credential) bool {
	if status == http.StatusMethodNotAllowed {
		return c.IdentityToken == ""
	}
	return slices.Contains([]int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound}, status)
}

// scopes are what the challenge asks for; several stand in one value.
func scopes(in TokenRequest) []string {
	if s := strings.Fields(in.Challenge.Scope); len(s) > 0 {
		return s
	}
	return []string{"repository:" + in.Repository + ":pull"}
}

func postRequest(ctx context.Context, realm *url.URL, in TokenRequest) *http.Request {
	form := url.Values{"client_id": {"containerd-client"}, "service": {in.Challenge.Service}, "scope": {strings.Join(scopes(in), " ")}}
	if in.Credential.IdentityToken != "" {
		form.Set("grant_type", "refresh_token")
		form.Set("refresh_token", in.Credential.IdentityToken)
	} else {
		form.Set("grant_type", "password")
		form.Set("username", in.Credential.Username)
		form.Set("password", in.Credential.Password)
	}
	req := newRequest(ctx, http.MethodPost, realm, form.Encode(), in.UserAgent)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	return req
}

func getRequest(ctx context.Context, realm *url.URL, in TokenRequest) *http.Request {
	u := *realm
	q := u.Query()
	// Added to what the realm's own query says, and one value for each scope.
	if in.Challenge.Service != "" {
		q.Add("service", in.Challenge.Service)
	}
	for _, s := range scopes(in) {
		q.Add("scope", s)
	}
	u.RawQuery = q.Encode()
	req := newRequest(ctx, http.MethodGet, &u, "", in.UserAgent)
	switch c := in.Credential; {
	case c.IdentityToken != "": // containerd's fallback: a secret without a user
		req.Header.Set("Authorization", Credential{Password: c.IdentityToken}.Basic())
	case c.exchanges():
		req.Header.Set("Authorization", c.Basic())
	}
	return req
}

// exchange sends a token request, follows where it is redirected to, and reads the answer
// into r.
func (r *TokenResult) exchange(ctx context.Context, rt http.RoundTripper, req *http.Request, in TokenRequest) error {
	method := req.Method // says in which form the answer is read, wherever it comes from
	chain := &tokenRedirects{first: req.URL, basic: req.Header.Get("Authorization"), fields: in.Fields}
	if in.Fields.Apply(req) {
		return &WithheldError{Host: req.URL.Host, Reason: "the realm is plain http"}
	}
	for {
		resp, err := r.attempt(rt, req)
		if err != nil {
			return ofToken(err)
		}
		var next *http.Request
		if in.Next != nil {
			if next, err = chain.next(req, resp); err != nil {
				return err
			}
		}
		if next == nil {
			err = r.answered(method, req, resp, in.Repository)
			var refused *classify.HTTPAnswer
			if errors.As(err, &refused) && chain.bare && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
				return &WithheldError{Host: refused.Host, Reason: "header fields of the configuration do not go after a redirect", Redirected: true}
			}
			return err
		}
		if credentialed(req) && !credentialed(next) {
			r.Dropped = classify.Redact(next.URL.Host, 255)
		}
		if !SameOrigin(req.URL, next.URL) {
			if rt, err = in.Next(ctx, next.URL); err != nil {
				return ofToken(err)
			}
		}
		req = next
	}
}

// attempt sends one request and notes it in r.
func (r *TokenResult) attempt(rt http.RoundTripper, req *http.Request) (*http.Response, error) {
	start := time.Now()
	a := TokenAttempt{Method: req.Method, URL: RedactURL(req.URL), Credentialed: credentialed(req)}
	resp, err := rt.RoundTrip(req)
	if err == nil {
		a.Status = resp.StatusCode
		if resp.Request == nil {
			resp.Request = req
		}
	}
	a.ElapsedMS = time.Since(start).Milliseconds()
	r.Attempts = append(r.Attempts, a)
	return resp, err
}
