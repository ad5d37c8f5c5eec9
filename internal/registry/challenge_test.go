package registry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseChallenges(t *testing.T) {
	t.Parallel()
	full := Challenge{Scheme: "bearer", Realm: "https://auth.corp.test/token", Service: "registry.corp.test", Scope: "repository:team/app:pull,push"}
	basic := Challenge{Scheme: "basic", Realm: "corp"}
	realm := Challenge{Scheme: "bearer", Realm: "https://auth.corp.test/token"}
	for name, tt := range map[string]struct {
		in   []string
		want []Challenge
	}{
		"none":                     {nil, nil},
		"empty":                    {[]string{"", " , ,"}, nil},
		"as registries send it":    {[]string{`Bearer realm="https://auth.corp.test/token",service="registry.corp.test",scope="repository:team/app:pull,push"`}, []Challenge{full}},
		"blanks and order":         {[]string{`BEARER   scope = "repository:team/app:pull,push" , SERVICE=registry.corp.test,	Realm="https://auth.corp.test/token"`}, []Challenge{full}},
		"two in one field":         {[]string{`Basic realm="corp", Bearer realm="https://auth.corp.test/token"`}, []Challenge{basic, realm}},
		"two fields":               {[]string{`Bearer realm="https://auth.corp.test/token"`, `Basic realm="corp"`}, []Challenge{realm, basic}},
		"no comma between":         {[]string{`Basic realm="corp" Bearer realm="https://auth.corp.test/token"`}, []Challenge{basic, realm}},
		"schemes alone":            {[]string{`Negotiate, NTLM, Basic realm=corp`}, []Challenge{{Scheme: "negotiate"}, {Scheme: "ntlm"}, basic}},
		"token68":                  {[]string{`Negotiate YIIB+/x~==, Basic realm="corp"`}, []Challenge{{Scheme: "negotiate"}, basic}},
		"token68 without padding":  {[]string{`Negotiate abcd, Basic realm="corp"`}, []Challenge{{Scheme: "negotiate"}, basic}},
		"token68 at the end":       {[]string{`Basic realm="corp", NTLM TlRMTVNTUA/b`}, []Challenge{basic, {Scheme: "ntlm"}}},
		"unquoted URL":             {[]string{`Bearer realm=https://auth.corp.test/token,service=registry.corp.test`}, []Challenge{{Scheme: "bearer", Realm: full.Realm, Service: full.Service}}},
		"unquoted URL with query":  {[]string{`Bearer realm=https://auth.corp.test/token?a=b&c=d, service=x`}, []Challenge{{Scheme: "bearer", Realm: full.Realm + "?a=b&c=d", Service: "x"}}},
		"a comma in quotes":        {[]string{`Bearer scope="a,Basic realm=b",realm="https://auth.corp.test/token"`}, []Challenge{{Scheme: "bearer", Realm: full.Realm, Scope: "a,Basic realm=b"}}},
		"quoted pairs":             {[]string{`Basic realm="say \"hi\" \\o/"`}, []Challenge{{Scheme: "basic", Realm: `say "hi" \o/`}}},
		"no realm":                 {[]string{`Bearer service="x"`}, []Challenge{{Scheme: "bearer", Service: "x"}}},
		"empty realm":              {[]string{`Bearer realm=""`}, []Challenge{{Scheme: "bearer"}}},
		"error":                    {[]string{`Bearer realm="https://auth.corp.test/token",error="insufficient_scope",error_description="x"`}, []Challenge{{Scheme: "bearer", Realm: full.Realm, Error: "insufficient_scope"}}},
		"no closing quote":         {[]string{`Basic realm="corp`}, []Challenge{basic}},
		"a backslash at the end":   {[]string{`Basic realm="corp\`}, []Challenge{{Scheme: "basic", Realm: `corp\`}}},
		"garbage before":           {[]string{`"x, y", @, Basic realm="corp"`}, []Challenge{basic}},
		"garbage within":           {[]string{`Basic "a, b", realm="corp"`}, []Challenge{basic}},
		"a parameter of no scheme": {[]string{`realm="x", Basic realm="corp"`}, []Challenge{basic}},
		"a scheme that is none":    {[]string{strings.Repeat("x", 65) + ` realm=a, Basic realm="corp"`}, []Challenge{basic}},
		"nine":                     {[]string{strings.Repeat("Basic realm=corp, ", 9)}, []Challenge{basic, basic, basic, basic, basic, basic, basic, basic}},
		"over the bound":           {[]string{`Basic realm="corp", Bearer realm="https://auth.corp.test/` + strings.Repeat("a", maxChallengeBytes) + `"`}, []Challenge{basic}},
		"over it, end unknown":     {[]string{`Basic realm="corp"` + strings.Repeat(" ", maxChallengeBytes)}, []Challenge{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.ElementsMatch(t, tt.want, ParseChallenges(tt.in))
		})
	}
}

func TestRealmURL(t *testing.T) {
	t.Parallel()
	for realm, reason := range map[string]string{
		"":                                  "the challenge has no realm",
		"corp":                              "the scheme is neither https nor http",
		"/token":                            "the scheme is neither https nor http",
		"//auth.corp.test/token":            "the scheme is neither https nor http",
		"ftp://auth.corp.test":              "the scheme is neither https nor http",
		"file:///etc/passwd":                "the scheme is neither https nor http",
		"https:///token":                    "no host",
		"https://:443/token":                "no host",
		"https://auth.corp.test:x/":         "not a URL",
		"https://auth corp.test/":           "not a URL",
		"https://auth.corp.test/\r\nX: y":   "not a URL",
		"https://joe:hunter2@a.corp.test/t": "it carries user information",
	} {
		u, err := RealmURL(Challenge{Realm: realm})
		require.Nil(t, u)
		var bad *BadRealmError
		require.ErrorAs(t, err, &bad, realm)
		assert.Equal(t, reason, bad.Reason, realm)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	for _, realm := range []string{"https://auth.corp.test/token?x=y", "HTTP://[2001:db8::1]:5000/"} {
		u, err := RealmURL(Challenge{Realm: realm})
		require.NoError(t, err)
		assert.Contains(t, []string{"http", "https"}, u.Scheme)
	}
}

func TestRedactURL(t *testing.T) {
	t.Parallel()
	assert.Empty(t, RedactURL(nil))
	assert.Equal(t, "https://blobs.corp.test:8443/a%20b/c", RedactURL(mustURL(t, "https://joe:hunter2@blobs.corp.test:8443/a%20b/c?sig=s3cret#frag")))
	assert.LessOrEqual(t, len(RedactURL(mustURL(t, "https://x/"+strings.Repeat("a", 9000)))), 512)
}
