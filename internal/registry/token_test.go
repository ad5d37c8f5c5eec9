package registry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, contentType, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body))}
}

// asked is what a token server saw.
type asked struct {
	method, url, authorization string
	form                       url.Values
}

// tokenServer answers one status after the other; 200 brings a token.
func tokenServer(seen *[]asked, statuses ...int) http.RoundTripper {
	return roundTripFunc(func(r *http.Request) (*http.Response, error) {
		a := asked{method: r.Method, url: r.URL.String(), authorization: r.Header.Get("Authorization")}
		if r.Body != nil {
			raw, _ := io.ReadAll(r.Body)
			a.form, _ = url.ParseQuery(string(raw))
		}
		*seen = append(*seen, a)
		status := statuses[0]
		statuses = statuses[1:]
		body := `{"errors":[{"code":"UNAUTHORIZED","message":"no"}]}`
		if status == 200 {
			body = `{"access_token":"t0k3n"}`
		}
		return answer(status, "application/json", body), nil
	})
}

var corp = Challenge{Scheme: "bearer", Realm: "https://auth.corp.test/token?account=x", Service: "registry.corp.test", Scope: "repository:team/app:pull repository:team/base:pull"}

const (
	getURL = "https://auth.corp.test/token?account=x&scope=repository%3Ateam%2Fapp%3Apull&scope=repository%3Ateam%2Fbase%3Apull&service=registry.corp.test"
	posURL = "https://auth.corp.test/token?account=x"
)

func TestFetchTokenWays(t *testing.T) {
	t.Parallel()
	user, identity := Credential{Username: "joe", Password: "hunter2"}, Credential{Username: "<token>", IdentityToken: "r3fresh"}
	basic, basicIdentity := user.Basic(), Credential{Password: "r3fresh"}.Basic()
	get, post := asked{method: "GET", url: getURL}, asked{method: "POST", url: posURL, form: url.Values{
		"client_id": {"containerd-client"}, "grant_type": {"password"}, "username": {"joe"}, "password": {"hunter2"},
		"service": {"registry.corp.test"}, "scope": {corp.Scope},
	}}
	refresh := asked{method: "POST", url: posURL, form: url.Values{
		"client_id": {"containerd-client"}, "grant_type": {"refresh_token"}, "refresh_token": {"r3fresh"},
		"service": {"registry.corp.test"}, "scope": {corp.Scope},
	}}
	getUser, getIdentity := get, get
	getUser.authorization, getIdentity.authorization = basic, basicIdentity
	type list = []int
	for name, tt := range map[string]struct {
		cred     Credential
		way      string
		statuses list
		want     []asked
		fails    int
	}{
		"anonymous":                       {statuses: list{200}, want: []asked{get}},
		"a user without a password":       {cred: Credential{Username: "joe"}, statuses: list{200}, want: []asked{get}},
		"a registry token is no exchange": {cred: Credential{RegistryToken: "x"}, statuses: list{200}, want: []asked{get}},
		"a password":                      {cred: user, statuses: list{200}, want: []asked{post}},
		"a password, by GET":              {cred: user, way: WayGet, statuses: list{200}, want: []asked{getUser}},
		"back to GET after 400":           {cred: user, statuses: list{400, 200}, want: []asked{post, getUser}},
		"back to GET after 401":           {cred: user, statuses: list{401, 200}, want: []asked{post, getUser}},
		"back to GET after 404":           {cred: user, statuses: list{404, 200}, want: []asked{post, getUser}},
		"back to GET after 405":           {cred: user, statuses: list{405, 200}, want: []asked{post, getUser}},
		"both refused":                    {cred: user, statuses: list{401, 401}, want: []asked{post, getUser}, fails: 401},
		"not after 403":                   {cred: user, statuses: list{403}, want: []asked{post}, fails: 403},
		"not after 429":                   {cred: user, statuses: list{429}, want: []asked{post}, fails: 429},
		"not after 500":                   {cred: user, statuses: list{500}, want: []asked{post}, fails: 500},
		"not after a redirect":            {cred: user, statuses: list{307}, want: []asked{post}, fails: 307},
		"no way back for GET":             {cred: user, way: WayGet, statuses: list{401}, want: []asked{getUser}, fails: 401},
		"an identity token":               {cred: identity, statuses: list{200}, want: []asked{refresh}},
		"an identity token, 401":          {cred: identity, statuses: list{401, 200}, want: []asked{refresh, getIdentity}},
		"an identity token, 405":          {cred: identity, statuses: list{405}, want: []asked{refresh}, fails: 405},
		"an identity token, by GET":       {cred: identity, way: WayGet, statuses: list{200}, want: []asked{refresh}},
		"an identity token, GET, 401":     {cred: identity, way: WayGet, statuses: list{401}, want: []asked{refresh}, fails: 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []asked
			res := FetchToken(t.Context(), tokenServer(&seen, tt.statuses...), TokenRequest{Challenge: corp, Repository: "team/app", Credential: tt.cred, Way: tt.way, UserAgent: "agent/1"})
			assert.Equal(t, tt.want, seen)
			require.Len(t, res.Attempts, len(tt.want))
			for i, a := range res.Attempts {
				a.ElapsedMS = 0
				assert.Equal(t, TokenAttempt{Method: tt.want[i].method, URL: "https://auth.corp.test/token", Status: tt.statuses[i], Credentialed: tt.want[i].authorization != "" || tt.want[i].form != nil}, a)
			}
			assert.Equal(t, tt.fails == 0, res.HasToken)
			if tt.fails != 0 {
				var refused *classify.HTTPAnswer
				require.ErrorAs(t, res.Err, &refused)
				assert.Equal(t, tt.fails, refused.Status)
				assert.Equal(t, "auth.corp.test", refused.Host)
				assert.Equal(t, classify.OperationFetchToken, refused.Operation)
			} else {
				assert.Equal(t, "Bearer t0k3n", res.Token.Authorization())
			}
			noSecret(t, res)
			noSecret(t, tt.cred)
		})
	}
}

// noSecret looks at every way in which a value reaches a log.
func noSecret(t *testing.T, v any) {
	t.Helper()
	raw, _ := json.Marshal(v)
	texts := []string{fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s", v), string(raw)}
	if res, ok := v.(TokenResult); ok && res.Err != nil {
		texts = append(texts, res.Err.Error(), fmt.Sprintf("%#v", res.Err), fmt.Sprintf("%+v", classify.Error(res.Err)))
	}
	for _, text := range texts {
		for _, secret := range []string{"hunter2", "r3fresh", "t0k3n", base64.StdEncoding.EncodeToString([]byte("joe:hunter2"))} {
			assert.NotContains(t, text, secret)
		}
	}
}

// A credential is never sent in clear, and what stays anonymous may be.
func TestPlainHTTPRealm(t *testing.T) {
	t.Parallel()
	ch := corp
	ch.Realm = "http://auth.corp.test/token"
	for _, way := range []string{WayPostGet, WayGet, ""} {
		for _, cred := range []Credential{{Username: "joe", Password: "hunter2"}, {IdentityToken: "r3fresh"}} {
			res := FetchToken(t.Context(), roundTripFunc(func(*http.Request) (*http.Response, error) {
				t.Error("sent")
				return nil, errStop
			}), TokenRequest{Challenge: ch, Repository: "team/app", Credential: cred, Way: way})
			var withheld *WithheldError
			require.ErrorAs(t, res.Err, &withheld)
			assert.Equal(t, "auth.corp.test", withheld.Host)
			assert.Empty(t, res.Attempts)
			noSecret(t, res)
		}
		var seen []asked
		res := FetchToken(t.Context(), tokenServer(&seen, 200), TokenRequest{Challenge: ch, Repository: "team/app", Way: way})
		require.NoError(t, res.Err)
		assert.Empty(t, seen[0].authorization)
	}
}

func TestDefaultScope(t *testing.T) {
	t.Parallel()
	var seen []asked
	res := FetchToken(t.Context(), tokenServer(&seen, 200), TokenRequest{Challenge: Challenge{Realm: "https://auth.corp.test/"}, Repository: "team/app"})
	require.NoError(t, res.Err)
	assert.Equal(t, "https://auth.corp.test/?scope=repository%3Ateam%2Fapp%3Apull", seen[0].url)
}

func jwt(payload string) string {
	return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".c2ln"
}

func TestTokenAnswer(t *testing.T) {
	t.Parallel()
	pull := jwt(`{"access":[{"type":"repository","name":"team/app","actions":["pull","push"]},{"type":"repository","name":"other","actions":["delete"]},{"type":"registry","name":"team/app","actions":["*"]}]}`)
	many := jwt(`{"access":[` + strings.Repeat(`{"type":"repository","name":"team/app","actions":["a","b","c"]},`, 50) + `{}]}`)
	for name, tt := range map[string]struct {
		method, kind, body string
		want               TokenResult
		reason, answerer   string
	}{
		"token":                {body: `{"token":"abc"}`, want: TokenResult{Token: Token{"abc"}}},
		"access_token":         {body: `{"access_token":"abc"}`, want: TokenResult{Token: Token{"abc"}}},
		"both":                 {body: `{"token":"old","access_token":"abc"}`, want: TokenResult{Token: Token{"abc"}}},
		"a type that is wrong": {kind: "text/html", body: `{"token":"abc"}`, want: TokenResult{Token: Token{"abc"}}},
		"more after it":        {body: `{"token":"abc"} trailer`, want: TokenResult{Token: Token{"abc"}}},
		"times":                {body: `{"token":"abc","expires_in":300,"issued_at":"2030-01-02T03:04:05Z"}`, want: TokenResult{Token: Token{"abc"}, ExpiresIn: 5 * time.Minute, IssuedAt: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}},
		"senseless times":      {body: `{"token":"abc","expires_in":-5,"issued_at":null}`, want: TokenResult{Token: Token{"abc"}}},
		"centuries":            {body: `{"token":"abc","expires_in":9223372036854775807}`, want: TokenResult{Token: Token{"abc"}}},
		"odd but sendable":     {body: `{"token":"a b é"}`, want: TokenResult{Token: Token{"a b é"}}},
		"claims":               {body: `{"token":"` + pull + `"}`, want: TokenResult{Token: Token{pull}, Readable: true, Granted: []string{"pull", "push"}}},
		"claims of nothing":    {body: `{"token":"` + jwt(`{"access":[]}`) + `"}`, want: TokenResult{Token: Token{jwt(`{"access":[]}`)}, Readable: true, Granted: []string{}}},
		"no claims":            {body: `{"token":"` + jwt(`{"sub":"x"}`) + `"}`, want: TokenResult{Token: Token{jwt(`{"sub":"x"}`)}}},
		"claims that are none": {body: `{"token":"a.!!.c"}`, want: TokenResult{Token: Token{"a.!!.c"}}},
		"more claims than are kept": {body: `{"token":"` + many + `"}`, want: TokenResult{Token: Token{many}, Readable: true,
			Granted: strings.Split("a b c a b c a b c a b c a b c a", " ")}},
		"access_token, POST": {method: "POST", body: `{"access_token":"abc","token":"x"}`, want: TokenResult{Token: Token{"abc"}}},

		"token alone, POST":   {method: "POST", body: `{"token":"abc"}`, reason: "token without access_token, which the answer to a POST must have", answerer: AnswererRegistry},
		"neither":             {body: `{"expires_in":5}`, reason: "neither token nor access_token", answerer: AnswererRegistry},
		"null":                {body: `null`, reason: "neither token nor access_token", answerer: AnswererRegistry},
		"empty":               {body: " \n", reason: "the body is empty", answerer: AnswererUnknown},
		"a page":              {body: bom + "<!DOCTYPE html><title>Sign in</title>", reason: "an HTML page", answerer: AnswererHTML},
		"a page by type":      {kind: "text/html", body: "sign in", reason: "an HTML page", answerer: AnswererHTML},
		"broken":              {body: `{"token":"abc`, reason: "not the JSON that is expected", answerer: AnswererUnknown},
		"a list":              {body: `["abc"]`, reason: "not the JSON that is expected", answerer: AnswererUnknown},
		"a number":            {body: `{"token":5}`, reason: "not the JSON that is expected", answerer: AnswererUnknown},
		"a lifetime as text":  {body: `{"token":"abc","expires_in":"300"}`, reason: "not the JSON that is expected", answerer: AnswererUnknown},
		"a time that is none": {body: `{"token":"abc","issued_at":"yesterday"}`, reason: "issued_at is no time in the form of RFC 3339", answerer: AnswererRegistry},
		"a new line":          {body: `{"token":"abc\n"}`, reason: "characters that no header may carry", answerer: AnswererRegistry},
		"a NUL":               {body: `{"token":"a\u0000b"}`, reason: "characters that no header may carry", answerer: AnswererRegistry},
		"huge":                {body: `{"token":"` + strings.Repeat("a", MaxToken) + `"}`, reason: "more than 131072 bytes", answerer: AnswererUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := TokenRequest{Challenge: corp, Repository: "team/app"}
			if tt.method == "POST" {
				in.Credential = Credential{Username: "joe", Password: "hunter2"}
			}
			res := FetchToken(t.Context(), roundTripFunc(func(*http.Request) (*http.Response, error) {
				return answer(200, tt.kind, tt.body), nil
			}), in)
			require.Len(t, res.Attempts, 1)
			res.Attempts = nil
			if tt.reason != "" {
				var bad *MalformedTokenError
				require.ErrorAs(t, res.Err, &bad)
				assert.Equal(t, &MalformedTokenError{Host: "auth.corp.test", Reason: tt.reason, Answerer: tt.answerer}, bad)
				assert.NotContains(t, bad.Error(), "abc")
				assert.False(t, res.HasToken)
				return
			}
			tt.want.HasToken = true
			assert.Equal(t, tt.want, res)
		})
	}
}

func TestFetchTokenErrors(t *testing.T) {
	t.Parallel()
	in := TokenRequest{Challenge: corp, Repository: "team/app", Credential: Credential{Username: "joe", Password: "hunter2"}}
	calls := 0
	broken := &classify.StageError{Stage: classify.StageHeaders, Endpoint: "auth.corp.test", Err: io.EOF}
	res := FetchToken(t.Context(), roundTripFunc(func(*http.Request) (*http.Response, error) {
		calls++
		return nil, fmt.Errorf("wrapped: %w", broken)
	}), in)
	assert.ErrorIs(t, res.Err, io.EOF)
	assert.Equal(t, classify.OperationFetchToken, broken.Operation)
	assert.Equal(t, 1, calls, "a broken connection is no answer to fall back after")

	res = FetchToken(t.Context(), roundTripFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(iotestErr{})}, nil
	}), in)
	assert.ErrorIs(t, res.Err, errStop)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	res = FetchToken(ctx, &Pool{}, in)
	assert.ErrorIs(t, res.Err, errStop)

	res = FetchToken(t.Context(), nil, TokenRequest{})
	var bad *BadRealmError
	assert.True(t, errors.As(res.Err, &bad))
}

func TestSecretsHaveNoPrintableForm(t *testing.T) {
	t.Parallel()
	for _, c := range []Credential{
		{}, {Username: "t0k3n", Password: "t0k3n"}, {IdentityToken: "r3fresh"}, {RegistryToken: "t0k3n"},
	} {
		noSecret(t, c)
		noSecret(t, &c)
		noSecret(t, struct{ C Credential }{c})
		assert.Equal(t, c == Credential{}, c.IsZero())
	}
	noSecret(t, NewToken("t0k3n"))
	noSecret(t, []Token{NewToken("t0k3n")})
}
