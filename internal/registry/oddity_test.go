package registry

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestLint(t *testing.T) {
	t.Parallel()
	from := &url.URL{Scheme: "https", Host: "registry.corp.test"}
	for to, want := range map[string][]string{
		"https://auth.corp.test/token":                                      nil,
		"https://registry.corp.test/service/token":                          nil,
		"https://registry.corp.test:443/token":                              nil,
		"https://blobs.corp.test/docker/registry/v2/blobs/sha256/aa/aabb/x": nil,
		"https://s3.eu.amazonaws.com/bucket//key":                           nil,
		"http://auth.corp.test/token":                                       {oddPlain},
		"http://registry.corp.test:443/token":                               {oddHTTPOn443},
		"https://auth.corp.test:80/token":                                   {oddHTTPSOn80},
		"https://registry.corp.test:8443/token":                             {oddPort},
		"https://registry.corp.test//service/token":                         {oddSlashes},
		"https://auth.corp.test/service/token/service/token":                {oddDoubledPath},
		"https://registry.corp.test/v2/v2/team/app/blobs/x":                 {oddDoubledPath},
		"https://harbor-core/service/token":                                 {oddInternalName},
		"https://harbor.ns.svc.cluster.local/service/token":                 {oddInternalName},
		"https://127.0.0.1:5001/auth":                                       {oddInternalName},
		"https://null/service/token":                                        {oddPlaceholder},
		"https://${HOST}/token":                                             nil, // no URL
	} {
		u, err := url.Parse(to)
		if err != nil {
			continue
		}
		assert.Equal(t, want, oddities(from, u), to)
	}
	// Where everything is internal, nothing stands out.
	assert.Empty(t, oddities(&url.URL{Scheme: "https", Host: "registry"}, &url.URL{Scheme: "https", Host: "auth"}))
	for raw, want := range map[string]string{
		"https://auth.corp.test:443:443/token": "its port stands twice",
		"https://h:p/x":                        "its port is no number",
		"https://a/https://b%zz":               "one URL stands in the other",
		"null://x%":                            "its scheme is null",
		"%":                                    "it is not a URL",
	} {
		assert.Equal(t, want, unusable(raw), raw)
	}
}

func TestLintedAddressesAreFindings(t *testing.T) {
	t.Parallel()
	w := newWalk(t, image)
	for realm, sev := range map[string]classify.Severity{
		"http://auth.corp.test/token?x=secret":      classify.SeverityWarn,
		"https://registry.corp.test:8443/token":     classify.SeverityInfo,
		"https://auth.corp.test/a/b/token/a/b/toke": "",
	} {
		r := w.Resolve(t.Context(), reply(401, header{"Www-Authenticate": `Bearer realm="` + realm + `"`}, nil), "HEAD")
		assert.Equal(t, OutcomeNeedsToken, r.Outcome, realm)
		if sev == "" {
			assert.Empty(t, r.Findings())
			continue
		}
		require.Equal(t, []classify.Cause{classify.EndpointBadRealm}, causes(r.Findings()), realm)
		assert.Equal(t, sev, r.Findings()[0].Severity, realm)
		assert.NotContains(t, r.Findings()[0].Summary, "secret")
	}
	r := w.Blob(t.Context(), reply(307, header{"Location": "https://minio.storage.svc:9000/x?sig=secret"}, nil), Descriptor{Digest: sum("x"), Size: 1}, Whole)
	assert.Equal(t, OutcomeRedirect, r.Outcome)
	require.Equal(t, []classify.Cause{classify.EndpointBadLocation}, causes(r.Findings()))
	assert.Equal(t, oddInternalName, r.Findings()[0].Fact(classify.FactReason))
	r = w.Blob(t.Context(), reply(307, header{"Location": "https://blobs.corp.test:443:443/x?sig=secret"}, nil), Descriptor{Digest: sum("x"), Size: 1}, Whole)
	require.Equal(t, OutcomeFailed, r.Outcome)
	assert.Contains(t, r.Findings()[0].Summary, "port stands twice")
	assert.NotContains(t, r.Findings()[0].Summary, "secret")
}

func TestQuotaAndProduct(t *testing.T) {
	t.Parallel()
	h := func(kv ...string) http.Header {
		out := http.Header{}
		for i := 0; i < len(kv); i += 2 {
			out.Set(kv[i], kv[i+1])
		}
		return out
	}
	assert.Nil(t, rateLimit(h()))
	assert.Nil(t, rateLimit(h("RateLimit-Limit", "x", "Retry-After", "-1")))
	assert.Equal(t, &classify.RateLimit{Limit: 100, Remaining: 0, WindowMS: 21_600_000, Source: "203.0.113.9", Exhausted: true},
		rateLimit(h("RateLimit-Limit", "100;w=21600", "RateLimit-Remaining", "0;w=21600", "Docker-RateLimit-Source", "203.0.113.9")))
	assert.Equal(t, &classify.RateLimit{RetryMS: 60_000}, rateLimit(h("Retry-After", "60")))
	assert.NotNil(t, rateLimit(h("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))))
	for want, kv := range map[string][]string{
		"":                         {"Server", "mine"},
		"Azure Blob Storage":       {"Server", "Windows-Azure-Blob/1.0 Microsoft-HTTPAPI/2.0", "X-Ms-Request-Id", "1"},
		"Amazon S3":                {"Server", "AmazonS3", "X-Amz-Request-Id", "1"},
		"Google Cloud Storage":     {"X-Guploader-Uploadid", "x"},
		"Azure Container Registry": {"Server", "AzureContainerRegistry", "Docker-Distribution-Api-Version", "registry/2.0"},
		"squid":                    {"X-Squid-Error", "ERR_ACCESS_DENIED 0", "Via", "1.1 x"},
		"a registry":               {"Docker-Distribution-Api-Version", "registry/2.0", "Server", "nginx"},
		"a proxy":                  {"Via", "1.1 x"},
	} {
		assert.Equal(t, want, serverProduct(h(kv...)))
	}
	w := newWalk(t, image)
	r := w.Resolve(t.Context(), reply(429, header{"Retry-After": "30", "Server": "nginx"}, nil), "GET")
	assert.EqualValues(t, 30_000, r.RateLimit.RetryMS)
	assert.Equal(t, "nginx", r.Product)
}

func FuzzLint(f *testing.F) {
	f.Add("https://a/b", "http://a:443//v2/v2")
	f.Add("https://[::1]:5000", "https://null")
	f.Fuzz(func(t *testing.T, a, b string) {
		from, err := url.Parse(a)
		to, err2 := url.Parse(b)
		if err == nil && err2 == nil {
			oddities(from, to)
		}
		if unusable(b) == "" {
			t.Fatal("no reason")
		}
	})
}
