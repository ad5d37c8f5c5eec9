package classify_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/classify"
)

func TestErrorOfAnswers(t *testing.T) {
	manifest, blob, token := classify.OperationResolveManifest, classify.OperationFetchBlob, classify.OperationFetchToken
	for name, c := range map[string]struct {
		answer classify.HTTPAnswer
		want   classify.Cause
	}{
		"401 with a credential":       {classify.HTTPAnswer{Operation: manifest, Status: 401, Answerer: "registry", Codes: []string{"UNAUTHORIZED"}, Credentialed: true}, classify.IdentityUnauthorized},
		"401 without one":             {classify.HTTPAnswer{Operation: manifest, Status: 401, Answerer: "registry"}, classify.IdentityUnauthenticatedRequest},
		"401 wrong login":             {classify.HTTPAnswer{Operation: manifest, Status: 401, Message: "incorrect username or password", Credentialed: true}, classify.IdentityBadCredentials},
		"401 expired":                 {classify.HTTPAnswer{Operation: manifest, Status: 401, Message: "Your authorization token has expired.", Credentialed: true}, classify.IdentityTokenExpired},
		"401 invalid token":           {classify.HTTPAnswer{Operation: blob, Status: 401, Message: "invalid_token", Credentialed: true}, classify.IdentityTokenRejected},
		"401 scope":                   {classify.HTTPAnswer{Operation: manifest, Status: 401, Message: "insufficient_scope", Credentialed: true}, classify.IdentityInsufficientScope},
		"token 401":                   {classify.HTTPAnswer{Operation: token, Status: 401}, classify.IdentityTokenFetchDenied},
		"token 403":                   {classify.HTTPAnswer{Operation: token, Status: 403, Answerer: "registry", Codes: []string{"DENIED"}}, classify.IdentityTokenFetchDenied},
		"token wrong login":           {classify.HTTPAnswer{Operation: token, Status: 401, Credentialed: true, Message: "invalid username or password"}, classify.IdentityBadCredentials},
		"token nobody logged in":      {classify.HTTPAnswer{Operation: token, Status: 401, Message: "invalid username or password"}, classify.IdentityTokenFetchDenied},
		"token refused grant":         {classify.HTTPAnswer{Operation: token, Status: 400, Message: `{"error":"invalid_grant"}`}, classify.IdentityTokenFetchDenied},
		"token 400":                   {classify.HTTPAnswer{Operation: token, Status: 400}, classify.RegistryClientError},
		"token 404 is no image":       {classify.HTTPAnswer{Operation: token, Status: 404}, classify.EndpointBadRealm},
		"token 503":                   {classify.HTTPAnswer{Operation: token, Status: 503}, classify.RegistryServerError},
		"403":                         {classify.HTTPAnswer{Operation: manifest, Status: 403}, classify.IdentityForbidden},
		"403 denied":                  {classify.HTTPAnswer{Operation: manifest, Status: 403, Codes: []string{"DENIED"}}, classify.IdentityAccessDeniedOrMissing},
		"403 of the object store":     {classify.HTTPAnswer{Operation: blob, Status: 403, Answerer: "object-store", Codes: []string{"AccessDenied"}}, classify.EndpointBlobHostForbidden},
		"404 of the object store":     {classify.HTTPAnswer{Operation: blob, Status: 404, Answerer: "object-store"}, classify.ImageBlobUnknown},
		"403 page":                    {classify.HTTPAnswer{Operation: manifest, Status: 403, Answerer: "html"}, classify.EndpointHTMLInsteadOfRegistry},
		"200 page":                    {classify.HTTPAnswer{Operation: manifest, Status: 200, Answerer: "html"}, classify.EndpointHTMLInsteadOfRegistry},
		"502 page":                    {classify.HTTPAnswer{Operation: manifest, Status: 502, Answerer: "html"}, classify.RegistryServerError},
		"407":                         {classify.HTTPAnswer{Operation: manifest, Status: 407, Answerer: "proxy"}, classify.EndpointProxyAuthRequired},
		"proxy 403":                   {classify.HTTPAnswer{Operation: manifest, Status: 403, Answerer: "proxy"}, classify.EndpointProxyRefusedConnect},
		"manifest unknown":            {classify.HTTPAnswer{Operation: manifest, Status: 404, Codes: []string{"MANIFEST_UNKNOWN"}}, classify.ImageManifestUnknown},
		"name unknown":                {classify.HTTPAnswer{Operation: manifest, Status: 404, Codes: []string{"NAME_UNKNOWN"}}, classify.ImageRepositoryUnknown},
		"blob unknown":                {classify.HTTPAnswer{Operation: blob, Status: 404, Codes: []string{"BLOB_UNKNOWN"}}, classify.ImageBlobUnknown},
		"404 without a code":          {classify.HTTPAnswer{Operation: manifest, Status: 404}, classify.ImageNotFound},
		"404 of a mirror":             {classify.HTTPAnswer{Operation: manifest, Status: 404, Mirror: true}, classify.RegistryMirrorMiss},
		"404 of a mirror with a code": {classify.HTTPAnswer{Operation: manifest, Status: 404, Mirror: true, Codes: []string{"MANIFEST_UNKNOWN"}}, classify.RegistryMirrorMiss},
		"405":                         {classify.HTTPAnswer{Operation: manifest, Status: 405, Method: "HEAD"}, classify.EndpointMethodBlocked},
		"412":                         {classify.HTTPAnswer{Operation: manifest, Status: 412}, classify.RegistryPolicyBlocked},
		"429":                         {classify.HTTPAnswer{Operation: manifest, Status: 429}, classify.RegistryRateLimited},
		"too many, other status":      {classify.HTTPAnswer{Operation: blob, Status: 403, Codes: []string{"TOOMANYREQUESTS"}}, classify.RegistryRateLimited},
		"500":                         {classify.HTTPAnswer{Operation: blob, Status: 500}, classify.RegistryServerError},
		"418":                         {classify.HTTPAnswer{Operation: manifest, Status: 418}, classify.RegistryClientError},
		"304":                         {classify.HTTPAnswer{Operation: blob, Status: 304}, classify.EndpointBadLocation},
		"200 without sense":           {classify.HTTPAnswer{Operation: manifest, Status: 200}, classify.EndpointMalformedResponse},
		"manifest invalid":            {classify.HTTPAnswer{Operation: manifest, Status: 400, Codes: []string{"MANIFEST_INVALID"}}, classify.ImageManifestInvalid},
		"clear HTTP to a TLS port":    {classify.HTTPAnswer{Operation: manifest, Status: 400, Message: "Client sent an HTTP request to an HTTPS server."}, classify.TLSHTTPSResponseToHTTPClient},
		"region":                      {classify.HTTPAnswer{Operation: blob, Status: 403, Message: "The region from which you are pulling has been geo-ip blocked."}, classify.EndpointSourceAddressDenied},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.answer
			a.Host, a.URL = "registry.corp.test:5000", "https://registry.corp.test:5000/v2/team/app/manifests/v1"
			f := classify.Error(fmt.Errorf("walk: %w", &a))
			assert.Equal(t, c.want, f.Cause)
			assert.Equal(t, "registry.corp.test:5000", f.Endpoint)
			assert.Equal(t, a.Operation, f.Operation)
			assert.Equal(t, fmt.Sprint(a.Status), f.Fact(classify.FactStatus))
			assert.NotEmpty(t, f.Summary)
			assert.NotContains(t, f.Alternatives, f.Cause)
		})
	}
}

func TestErrorOfDeniedSource(t *testing.T) {
	f := classify.Error(&classify.HTTPAnswer{
		Operation: classify.OperationFetchToken, Host: "registry.corp.test", Status: 403, Answerer: "registry", Codes: []string{"DENIED"},
		Message: "client with IP '203.0.113.9' is not allowed access",
	})
	assert.Equal(t, classify.EndpointSourceAddressDenied, f.Cause)
	assert.Equal(t, "203.0.113.9", f.Fact(classify.FactClient))
	assert.Equal(t, "registry.corp.test refuses the address or region that the request came from, 203.0.113.9 (status 403)", f.Summary)
}

func TestErrorOfForbiddenNamesTheOtherReadings(t *testing.T) {
	f := classify.Error(&classify.HTTPAnswer{Operation: classify.OperationResolveManifest, Host: "registry.corp.test", Status: 403})
	assert.Contains(t, f.Alternatives, classify.EndpointSourceAddressDenied)
}
