package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Credential is what a keychain gave, as plain strings. The zero Credential is
// anonymous.
type Credential struct {
	Username      string `json:"-"` // some registries take a token as user name, too
	Password      string `json:"-"`
	IdentityToken string `json:"-"` // a refresh token, exchanged at the realm
	RegistryToken string `json:"-"` // a bearer token, sent as it is
}

// IsZero says that nothing was given.
func (c Credential) IsZero() bool { return c == Credential{} }

// exchanges says that there is something to offer to a token server. A user name
// without a password is nothing to containerd, CRI-O and docker alike.
func (c Credential) exchanges() bool {
	return c.IdentityToken != "" || c.Username != "" && c.Password != ""
}

// String names the kind of credential and nothing of it.
func (c Credential) String() string {
	switch {
	case c.IsZero():
		return "anonymous"
	case c.IdentityToken != "":
		return "an identity token"
	case c.RegistryToken != "":
		return "a registry token"
	}
	return "a user name and password"
}

// GoString keeps %#v from printing a secret.
func (c Credential) GoString() string { return c.String() }

// Basic returns the Authorization value of HTTP Basic (RFC 7617).
func (c Credential) Basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password))
}

// Token is a bearer token. It has no printable form.
type Token struct{ value string }

// NewToken wraps a token that was configured and not fetched.
func NewToken(value string) Token { return Token{value} }

// Authorization returns the Authorization value.
func (t Token) Authorization() string { return "Bearer " + t.value }

// String never prints the token.
func (Token) String() string { return "token" }

// GoString keeps %#v from printing the token.
func (Token) GoString() string { return "token" }

// The ways of asking for a token.
const (
	WayPostGet = "post-get" // containerd: POST a form, GET with Basic if that is not offered
	WayGet     = "get"      // CRI-O and docker: GET with Basic
)

// TokenRequest says which token is wanted.
type TokenRequest struct {
	Challenge  Challenge
	Repository string // "team/app"; the scope asked for is repository:team/app:pull
	Credential Credential
	UserAgent  string
	Way        string // "" = WayPostGet
	Fields     Fields // of the runtime's configuration, sent to the realm as well
	// Next returns the transport to another host, to which the token server
	// redirects. nil = redirects are not followed, and fail like any refusal.
	Next func(ctx context.Context, u *url.URL) (http.RoundTripper, error)
}

// TokenAttempt is one request to the token server.
type TokenAttempt struct {
	Method       string `json:"method"`
	URL          string `json:"url"` // without query
	Status       int    `json:"status,omitempty"`
	Credentialed bool   `json:"credentialed"`
	ElapsedMS    int64  `json:"elapsedMs"`
}

// TokenResult is what the token server gave.
type TokenResult struct {
	Attempts  []TokenAttempt
	Token     Token
	HasToken  bool
	ExpiresIn time.Duration // 0 = not said, or senseless
	IssuedAt  time.Time     // by the server's clock; zero = not said
	// Granted are the actions on the repository that the token claims, nil if it
	// cannot be read. The claim is not verified: only the registry can do that.
	Granted  []string
	Readable bool
	// ForUser says that the token names the user of the request as its subject. It is
	// a claim as well.
	ForUser bool
	// Dropped is the host of a redirect to which the credential did not go along,
	// neither here nor in a runtime; "" = none.
	Dropped string
	// Err is a *classify.HTTPAnswer, *classify.StageError, *BadRealmError,
	// *MalformedTokenError, *WithheldError, a [classify.Finding] about a redirect, or
	// what TokenRequest.Next returned; nil if a token came.
	Err error
}

// WithheldError says that a credential was not sent although the runtime might
// have sent it: what follows is therefore not known.
type WithheldError struct {
	Host, Reason string
	Redirected   bool // a redirect led there
}

func (e *WithheldError) Error() string {
	return fmt.Sprintf("credential withheld from %s: %s", e.Host, e.Reason)
}

// MalformedTokenError says that the token server answered 200 without a token.
type MalformedTokenError struct {
	Host, Reason string
	Answerer     string
}

func (e *MalformedTokenError) Error() string {
	return fmt.Sprintf("the answer of %s holds no token: %s", e.Host, e.Reason)
}

// FetchToken asks the challenge's realm for a token, through rt, which must
// reach that realm. A password is offered by POST first and, when the server
// does not know that form, by GET with Basic, as containerd does; each request
// is one attempt of the result, and so is each after a redirect.
func FetchToken(ctx context.Context, rt http.RoundTripper, in TokenRequest) (res TokenResult) {
	realm, err := RealmURL(in.Challenge)
	if err != nil {
		res.Err = err
		return res
	}
	cred := in.Credential
	defer func() { res.ForUser = cred.Username != "" && res.Token.subject() == cred.Username }()
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

// fallsBack tells after which answers to the POST containerd tries the GET
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

// newRequest builds a request without parsing u again: a URL that a server gave
// may parse in one direction only, and must not end in a panic.
func newRequest(ctx context.Context, method string, u *url.URL, body, agent string) *http.Request {
	req := &http.Request{Method: method, URL: u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if body != "" {
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }
		req.Body, _ = req.GetBody()
		req.ContentLength = int64(len(body))
	}
	if agent != "" {
		req.Header.Set("User-Agent", agent)
	}
	return req.WithContext(ctx)
}

// exchange sends a token request, follows where it is redirected to, and reads the
// answer into r.
func (r *TokenResult) exchange(ctx context.Context, rt http.RoundTripper, req *http.Request, in TokenRequest) error {
	method := req.Method // says in which form the answer is read, wherever it comes from
	h := &hops{first: req.URL, basic: req.Header.Get("Authorization"), fields: in.Fields}
	if in.Fields.Apply(req) {
		return &WithheldError{Host: req.URL.Host, Reason: "the realm is plain http"}
	}
	for {
		resp, err := r.attempt(rt, req)
		if err != nil {
			return withOperation(err)
		}
		if in.Next != nil {
			next, err := h.next(req, resp)
			if err != nil {
				return err
			}
			if next != nil {
				if credentialed(req) && !credentialed(next) {
					r.Dropped = classify.Redact(next.URL.Host, 255)
				}
				if rt, err = in.reach(ctx, rt, req.URL, next.URL); err != nil {
					return withOperation(err)
				}
				req = next
				continue
			}
		}
		err = r.answered(method, req, resp, in.Repository)
		var refused *classify.HTTPAnswer
		if errors.As(err, &refused) && h.bare && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
			return &WithheldError{Host: refused.Host, Reason: "header fields of the configuration do not go after a redirect", Redirected: true}
		}
		return err
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

func credentialed(req *http.Request) bool {
	return req.Header.Get("Authorization") != "" || req.Method == http.MethodPost
}

// answered reads the answer that ends an exchange.
func (r *TokenResult) answered(method string, req *http.Request, resp *http.Response, repository string) error {
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		answer := ReadAnswer(resp, classify.OperationFetchToken)
		answer.Credentialed = credentialed(req)
		return answer
	}
	start := time.Now()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, MaxToken+1))
	_ = resp.Body.Close()
	r.Attempts[len(r.Attempts)-1].ElapsedMS += time.Since(start).Milliseconds()
	if err != nil {
		return withOperation(err)
	}
	return r.read(method, req.URL.Host, resp.Header, raw, repository)
}

func withOperation(err error) error {
	var stage *classify.StageError
	if errors.As(err, &stage) && stage.Operation == "" {
		stage.Operation = classify.OperationFetchToken
	}
	return err
}

// read parses a token answer as the runtimes do: whatever its media type, the
// first JSON value counts. The distribution token specification allows "token"
// and "access_token" in the answer to a GET; after a POST, which is OAuth 2, the
// runtimes look for "access_token" alone.
func (r *TokenResult) read(method, host string, h http.Header, raw []byte, repository string) error {
	bad := func(answerer, reason string) error {
		return &MalformedTokenError{Host: host, Answerer: answerer, Reason: reason}
	}
	if len(raw) > MaxToken {
		return bad(AnswererUnknown, fmt.Sprintf("more than %d bytes", MaxToken))
	}
	var doc struct {
		Token       string          `json:"token"`
		AccessToken string          `json:"access_token"`
		ExpiresIn   int64           `json:"expires_in"`
		IssuedAt    json.RawMessage `json:"issued_at"`
	}
	err := json.NewDecoder(bytes.NewReader(raw)).Decode(&doc)
	switch {
	case err != nil && isHTML(h, trim(raw)):
		return bad(AnswererHTML, "an HTML page")
	case err != nil && len(bytes.TrimSpace(raw)) == 0:
		return bad(AnswererUnknown, "the body is empty")
	case err != nil:
		return bad(AnswererUnknown, "not the JSON that is expected")
	}
	value := doc.AccessToken
	if value == "" && method == http.MethodGet {
		value = doc.Token
	}
	issued := time.Time{}
	switch {
	case len(doc.IssuedAt) > 0 && json.Unmarshal(doc.IssuedAt, &issued) != nil:
		return bad(AnswererRegistry, "issued_at is no time in the form of RFC 3339")
	case value == "" && doc.Token != "":
		return bad(AnswererRegistry, "token without access_token, which the answer to a POST must have")
	case value == "":
		return bad(AnswererRegistry, "neither token nor access_token")
	case strings.ContainsFunc(value, isControl):
		return bad(AnswererRegistry, "characters that no header may carry")
	}
	r.Token, r.HasToken, r.IssuedAt = Token{value}, true, issued
	if doc.ExpiresIn > 0 && doc.ExpiresIn < 10*365*24*3600 {
		r.ExpiresIn = time.Duration(doc.ExpiresIn) * time.Second
	}
	r.Granted, r.Readable = claims(value, repository)
	return nil
}

// isControl tells what net/http refuses in a header.
func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

const maxActions = 16

// payload returns the claims of a token that is a JWT, nil for any other.
func payload(token string) []byte {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return nil
	}
	return raw
}

// subject is whom the token says it is for, "" if it does not say.
func (t Token) subject() string {
	var doc struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(payload(t.value), &doc) != nil {
		return ""
	}
	return doc.Subject
}

// claims reads which actions on repository a token says it grants, from the
// access claim of the distribution token specification. Nothing is verified: a
// forged claim misleads nobody, because the read that follows decides.
func claims(token, repository string) (granted []string, readable bool) {
	var doc struct {
		Access *[]struct {
			Type    string   `json:"type"`
			Name    string   `json:"name"`
			Actions []string `json:"actions"`
		} `json:"access"`
	}
	if json.Unmarshal(payload(token), &doc) != nil || doc.Access == nil {
		return nil, false
	}
	granted = []string{}
	for _, a := range *doc.Access {
		if a.Type != "repository" || a.Name != repository {
			continue
		}
		for _, action := range a.Actions[:min(len(a.Actions), maxActions-len(granted))] {
			granted = append(granted, classify.Redact(action, 32))
		}
	}
	return granted, true
}
