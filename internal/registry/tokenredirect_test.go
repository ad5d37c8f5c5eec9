package registry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// hopServer answers each request by its place: a redirect "STATUS LOCATION", or a
// token. What it was asked is kept as "METHOD URL [Basic] [form]".
func hopServer(seen *[]string, answers ...string) http.RoundTripper {
	return roundTripFunc(func(r *http.Request) (*http.Response, error) {
		line := r.Method + " " + r.URL.Scheme + "://" + r.URL.Host + r.URL.Path
		if scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " "); scheme != "" {
			line += " " + scheme
		}
		if r.Body != nil {
			if raw, _ := io.ReadAll(r.Body); strings.Contains(string(raw), "hunter2") {
				line += " form"
			}
		}
		*seen = append(*seen, line)
		next := "200"
		if n := len(*seen) - 1; n < len(answers) {
			next = answers[n]
		}
		status, location, _ := strings.Cut(next, " ")
		if status == "200" {
			return answer(200, "application/json", `{"token":"t0k3n"}`), nil
		}
		resp := answer(307, "", "moved")
		_, _ = fmt.Sscan(status, &resp.StatusCode)
		resp.Header.Set("Location", location)
		return resp, nil
	})
}

func TestTokenRedirects(t *testing.T) {
	t.Parallel()
	const (
		first = "GET https://auth.corp.test/token"
		post  = "POST https://auth.corp.test/token form"
		other = "GET https://login.example.test/t"
	)
	user := Credential{Username: "joe", Password: "hunter2"}
	for name, tt := range map[string]struct {
		cred    Credential
		way     string
		answers []string
		want    []string
		dropped string
		token   bool
		err     string // part of it
		held    bool   // a credential was withheld
	}{
		"anonymous, to another host":    {answers: []string{"302 https://login.example.test/t?s=s3cr3t"}, want: []string{first, other}, token: true},
		"anonymous, to plain http":      {answers: []string{"301 http://auth.corp.test/t"}, want: []string{first, "GET http://auth.corp.test/t"}, token: true},
		"a path of its own":             {cred: user, way: WayGet, answers: []string{"307 /other"}, want: []string{first + " Basic", "GET https://auth.corp.test/other Basic"}, token: true},
		"another host loses the login":  {cred: user, way: WayGet, answers: []string{"302 https://login.example.test/t"}, want: []string{first + " Basic", other}, dropped: "login.example.test", token: true},
		"and does not get it back":      {cred: user, way: WayGet, answers: []string{"302 https://login.example.test/t", "302 https://auth.corp.test/token"}, want: []string{first + " Basic", other, first}, dropped: "login.example.test", token: true},
		"a host below it":               {cred: user, way: WayGet, answers: []string{"302 https://x.auth.corp.test/t"}, want: []string{first + " Basic"}, held: true},
		"another port":                  {cred: user, way: WayGet, answers: []string{"302 https://auth.corp.test:8443/t"}, want: []string{first + " Basic"}, held: true},
		"the same in clear":             {cred: user, way: WayGet, answers: []string{"302 http://auth.corp.test/t"}, want: []string{first + " Basic"}, held: true},
		"a form, kept on the same host": {cred: user, answers: []string{"308 /other"}, want: []string{post, "POST https://auth.corp.test/other form"}, err: "access_token"},
		"a form, to another host":       {cred: user, answers: []string{"307 https://login.example.test/t"}, want: []string{post}, held: true},
		"a form, which 303 drops":       {cred: user, answers: []string{"303 /other"}, want: []string{post, "GET https://auth.corp.test/other"}, dropped: "auth.corp.test", err: "access_token"},
		"fallback after a redirect":     {cred: user, answers: []string{"307 /other", "404 "}, want: []string{post, "POST https://auth.corp.test/other form", first + " Basic"}, token: true},
		"no Location":                   {answers: []string{"302 "}, want: []string{first}, err: "302"},
		"304 is no redirect":            {answers: []string{"304 https://login.example.test/"}, want: []string{first}, err: "304"},
		"user information":              {answers: []string{"302 https://joe:hunter2@login.example.test/"}, want: []string{first}, held: true},
		"another scheme":                {answers: []string{"302 ftp://login.example.test/?s=s3cr3t"}, want: []string{first}, err: "a scheme other than https and http"},
		"no URL":                        {answers: []string{"302 https://[/?s=s3cr3t"}, want: []string{first}, err: "not a URL"},
		"a huge one":                    {answers: []string{"302 /" + strings.Repeat("a", maxLocation)}, want: []string{first}, err: "longer than 16 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []string
			rt := hopServer(&seen, tt.answers...)
			res := FetchToken(t.Context(), rt, TokenRequest{
				Challenge: Challenge{Scheme: "bearer", Realm: "https://auth.corp.test/token"}, Repository: "team/app", Credential: tt.cred, Way: tt.way,
				Next: func(context.Context, *url.URL) (http.RoundTripper, error) { return rt, nil },
			})
			assert.Equal(t, tt.want, seen)
			assert.Len(t, res.Attempts, len(seen))
			assert.Equal(t, tt.dropped, res.Dropped)
			assert.Equal(t, tt.token, res.HasToken)
			var withheld *WithheldError
			switch {
			case tt.held:
				require.ErrorAs(t, res.Err, &withheld)
				assert.True(t, withheld.Redirected)
			case tt.err != "":
				require.ErrorContains(t, res.Err, tt.err)
			default:
				require.NoError(t, res.Err)
			}
			noSecret(t, res)
			assert.NotContains(t, fmt.Sprintf("%+v %v", res, res.Err), "s3cr3t")
		})
	}
}

func TestTokenRedirectLoop(t *testing.T) {
	t.Parallel()
	var seen []string
	rt := roundTripFunc(func(*http.Request) (*http.Response, error) {
		seen = append(seen, "")
		resp := answer(302, "", "")
		resp.Header.Set("Location", fmt.Sprintf("https://h%d.corp.test/", len(seen)))
		return resp, nil
	})
	in := TokenRequest{Challenge: Challenge{Realm: "https://auth.corp.test/token"}, Repository: "a"}
	res := FetchToken(t.Context(), rt, in)
	var refused *classify.HTTPAnswer
	require.ErrorAs(t, res.Err, &refused, "without Next a redirect is a refusal")
	assert.Len(t, seen, 1)

	seen = nil
	in.Next = func(context.Context, *url.URL) (http.RoundTripper, error) { return rt, nil }
	res = FetchToken(t.Context(), rt, in)
	var f classify.Finding
	require.ErrorAs(t, res.Err, &f)
	assert.Equal(t, classify.EndpointHTTPRedirectLoop, f.Cause)
	assert.Len(t, seen, MaxRequests)

	in.Next = func(context.Context, *url.URL) (http.RoundTripper, error) { return nil, errStop }
	assert.ErrorIs(t, FetchToken(t.Context(), rt, in).Err, errStop)
}

// Wherever a server redirects to, a credential stays at the realm's own origin.
func FuzzTokenRedirect(f *testing.F) {
	f.Add("https://x.auth.corp.test/", uint16(307), true)
	f.Add("//auth.corp.test:443/a", uint16(302), false)
	f.Add("http://auth.corp.test", uint16(308), true)
	f.Add("https://AUTH.corp.test:0443/", uint16(301), false)
	f.Fuzz(func(t *testing.T, location string, status uint16, get bool) {
		n := 0
		rt := roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if n++; n > 20 {
				t.Fatal("no end")
			}
			if credentialed(r) && (r.URL.Scheme != "https" || !strings.EqualFold(r.URL.Hostname(), "auth.corp.test") || r.URL.Port() != "" && r.URL.Port() != "443") {
				t.Fatalf("a credential went to %s", r.URL)
			}
			resp := answer(int(status), "", "")
			resp.Header.Set("Location", location)
			return resp, nil
		})
		FetchToken(t.Context(), rt, TokenRequest{
			Challenge: Challenge{Realm: "https://auth.corp.test/token"}, Repository: "a", Credential: Credential{Username: "joe", Password: "hunter2"}, Way: map[bool]string{true: WayGet}[get],
			Next: func(context.Context, *url.URL) (http.RoundTripper, error) { return rt, nil },
		})
	})
}
