package classify_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pullwalk/pullwalk/classify"
)

// What a text prints besides the cause comes back as facts.
func TestTextFacts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text  string
		facts map[string]string
	}{
		{containerd + head + "dial tcp: lookup registry.corp.test on 10.20.0.2:53: no such host", map[string]string{classify.FactResolver: "10.20.0.2:53"}},
		{containerd + head + "dial tcp 10.20.0.4:443: connect: connection refused", map[string]string{classify.FactAddress: "10.20.0.4:443", classify.FactErrno: "ECONNREFUSED"}},
		{containerd + "unexpected status from HEAD request to https://registry.corp.test/v2/x/manifests/v1: 403 Forbidden\ndenied: client with IP '203.0.113.9' is not allowed", map[string]string{
			classify.FactStatus: "403", classify.FactCode: "DENIED", classify.FactClient: "203.0.113.9",
		}},
		{crio + "reading manifest v1 in registry.corp.test/team/app: manifest unknown", map[string]string{classify.FactCode: "MANIFEST_UNKNOWN"}},
		{crio + "reading manifest v1 in registry.corp.test/team/app: toomanyrequests: slow down", map[string]string{classify.FactCode: "TOOMANYREQUESTS"}},
		{docker + "unauthorized: please log in", map[string]string{classify.FactCode: "UNAUTHORIZED", classify.FactMessage: "please log in"}},
		{containerd + head + "remote error: tls: handshake failure", map[string]string{classify.FactAlert: "handshake failure"}},
		{containerd + head + "x509: certificate is valid for a.test, b.test, not registry.corp.test", map[string]string{classify.FactNames: "a.test, b.test"}},
		{copyBlob + "could not fetch content descriptor " + digest + " (x) from remote: not found", map[string]string{classify.FactDigest: digest}},
	} {
		r := classify.Text(c.text)
		for key, want := range c.facts {
			assert.Equal(t, want, r.Best.Fact(key), "%s of %s", key, c.text)
		}
	}
}

// A bare 403 may be the registry's judgement of the caller or of the address that
// the caller comes from; what the name leads to decides.
func TestTextAmbiguous(t *testing.T) {
	t.Parallel()
	r := classify.Text(containerd + "unexpected status from HEAD request to https://registry.corp.test/v2/x/manifests/v1: 403 Forbidden")
	assert.Equal(t, classify.IdentityForbidden, r.Best.Cause)
	assert.Contains(t, r.Best.Alternatives, classify.EndpointSourceAddressDenied)
	assert.Equal(t, []string{"request@registry.corp.test", "dns@registry.corp.test"}, r.Decide)

	r = classify.Text(copyBlob + "unexpected status code https://registry.corp.test/v2/x/blobs/" + digest + ": 403 Forbidden")
	assert.Contains(t, r.Best.Alternatives, classify.EndpointBlobHostForbidden, "the store behind it may have refused")

	r = classify.Text(containerd + ref + ": not found")
	assert.Equal(t, []classify.Cause{classify.IdentityAccessDeniedOrMissing, classify.RegistryMirrorMiss}, r.Best.Alternatives)

	r = classify.Text(`failed to do request: Head "https://mirror.corp.test/v2/x/manifests/v1?ns=registry.corp.test": dial tcp 10.20.0.4:443: connect: connection refused`)
	assert.Contains(t, r.Best.Alternatives, classify.ImageNotFound, "a dead mirror hides what the registry said")
}
