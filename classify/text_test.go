package classify_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

// The wrappers of the runtimes, composed from their grammar.
const (
	ref        = "registry.corp.test/team/app:v1"
	kubelet    = `Failed to pull image "` + ref + `": `
	grpc       = "rpc error: code = Unknown desc = "
	containerd = `failed to pull and unpack image "` + ref + `": failed to resolve reference "` + ref + `": `
	transfer   = `failed to pull and unpack image "` + ref + `": failed to resolve image: `
	head       = `failed to do request: Head "https://registry.corp.test/v2/team/app/manifests/v1": `
	copyBlob   = `failed to pull and unpack image "` + ref + `": failed to copy: httpReadSeeker: failed open: `
	anonymous  = "failed to authorize: failed to fetch anonymous token: "
	crio       = "unable to pull image: initializing source docker://" + ref + ": "
	docker     = "Error response from daemon: "
	digest     = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

// A quote that never closes does not make the error a part of the reference.
func TestImageEndsWhereAReferenceEnds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`Failed to pull image "registry.corp.test:5000/a/b:1: rpc error: code = Unknown desc = EOF`:                                      "registry.corp.test:5000/a/b:1",
		`Failed to pull image "registry.corp.test/a/b:1: failed to resolve reference "registry.corp.test/a/b:1": EOF`:                    "registry.corp.test/a/b:1",
		"Failed to pull image \"registry.corp.test/a/\nb@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\": EOF": "registry.corp.test/a/b@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
	} {
		assert.Equal(t, want, classify.Text(text).Image, text)
	}
}

func TestTextFailures(t *testing.T) {
	manifest, token, blob, extract := classify.OperationResolveManifest, classify.OperationFetchToken, classify.OperationFetchBlob, classify.OperationExtract
	for _, c := range []struct {
		text     string
		cause    classify.Cause
		op       classify.Operation
		endpoint string
	}{
		// dns, whatever follows
		{kubelet + grpc + containerd + head + "dial tcp: lookup registry.corp.test on 10.20.0.2:53: no such host", classify.DNSNXDOMAIN, manifest, "registry.corp.test"},
		{kubelet + transfer + head + "dial tcp: lookup registry.corp.test on 10.20.0.2:53: read udp 10.20.0.9:4242->10.20.0.2:53: i/o timeout", classify.DNSResolverTimeout, manifest, "registry.corp.test"},
		{containerd + head + "dial tcp: lookup registry.corp.test on [::1]:53: read udp [::1]:4242->[::1]:53: read: connection refused", classify.DNSResolverPortClosed, manifest, "registry.corp.test"},
		{containerd + anonymous + `Get "https://auth.corp.test/token?scope=repository%3Ateam%2Fapp%3Apull&service=registry.corp.test": dial tcp: lookup auth.corp.test on 10.20.0.2:53: server misbehaving`, classify.DNSServFail, token, "auth.corp.test"},
		{docker + `Get "https://registry.corp.test/v2/": dial tcp: lookup registry.corp.test: Temporary failure in name resolution`, classify.DNSTemporaryFailure, manifest, "registry.corp.test"},
		{containerd + head + "proxyconnect tcp: dial tcp: lookup proxy.corp.test on 10.20.0.2:53: no such host", classify.DNSNXDOMAIN, manifest, "proxy.corp.test"},

		// route
		{kubelet + "rpc error: code = DeadlineExceeded desc = " + containerd + head + "dial tcp 10.20.0.4:443: i/o timeout", classify.RouteConnectTimeout, manifest, "registry.corp.test:443"},
		{crio + `pinging container registry registry.corp.test: Get "https://registry.corp.test/v2/": dial tcp 10.20.0.4:443: connect: no route to host`, classify.RouteNoRouteToHost, manifest, "registry.corp.test:443"},
		{containerd + head + "dial tcp [2001:db8::4]:443: connect: network is unreachable", classify.RouteIPv6Unreachable, manifest, "registry.corp.test:443"},
		{containerd + head + "dial tcp 10.20.0.4:443: connectex: A connection attempt failed because the connected party did not properly respond after a period of time, or established connection failed because connected host has failed to respond.", classify.RouteConnectTimeout, manifest, "registry.corp.test:443"},
		{docker + `Get "https://registry.corp.test/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)`, classify.RouteConnectWaitTimeout, manifest, "registry.corp.test"},
		{copyBlob + `failed to do request: Get "https://blobs.corp.test/data/x?sig=SECRET&se=2030": dial tcp 10.20.0.6:443: connect: permission denied`, classify.RouteProhibited, blob, "blobs.corp.test:443"},

		// endpoint
		{"RegistryUnavailable: " + crio + `pinging container registry registry.corp.test:5000: Get "https://registry.corp.test:5000/v2/": dial tcp 10.20.0.4:5000: connect: connection refused`, classify.EndpointConnectionRefused, manifest, "registry.corp.test:5000"},
		{containerd + head + "read tcp 10.20.0.9:40000->10.20.0.4:443: read: connection reset by peer", classify.EndpointConnectionReset, manifest, "registry.corp.test:443"},
		{containerd + head + "net/http: TLS handshake timeout", classify.EndpointTLSHandshakeTimeout, manifest, "registry.corp.test"},
		{containerd + head + "EOF", classify.EndpointConnectionClosedEOF, manifest, "registry.corp.test"},
		{containerd + head + "Forbidden", classify.EndpointProxyRefusedConnect, manifest, "registry.corp.test"},
		{containerd + head + "Blocked by corporate policy", classify.EndpointProxyRefusedConnect, manifest, "registry.corp.test"},
		{containerd + head + "Proxy Authentication Required", classify.EndpointProxyAuthRequired, manifest, "registry.corp.test"},
		{containerd + head + "proxyconnect tcp: dial tcp 10.20.0.30:3128: connect: connection refused", classify.EndpointProxyUnreachable, manifest, "10.20.0.30:3128"},
		{`failed to pull and unpack image "` + ref + `": short read: expected 55000 bytes but got 1000: unexpected EOF`, classify.EndpointDownloadInterrupted, blob, ""},
		{copyBlob + "unexpected status from GET request to https://blobs.corp.test/data/x?sig=SECRET: 403 Forbidden", classify.EndpointBlobHostForbidden, blob, "blobs.corp.test"},
		{copyBlob + "unexpected status from GET request to https://blobs.corp.test/v2/team/app/blobs/" + digest + "?sig=SECRET: 403 Forbidden", classify.EndpointBlobHostForbidden, blob, "blobs.corp.test"},
		{copyBlob + "unexpected status from GET request to https://registry.corp.test/v2/team/app/blobs/" + digest + ": 403 Forbidden", classify.IdentityForbidden, blob, "registry.corp.test"},
		{docker + `Get "http://registry.corp.test/v2/": readLoopPeekFailLocked: %!w(<nil>)`, classify.EndpointMalformedResponse, manifest, "registry.corp.test"},
		{docker + `error parsing HTTP 403 response body: invalid character '<' looking for beginning of value: "<html><body>blocked</body></html>"`, classify.EndpointHTMLInsteadOfRegistry, classify.OperationUnknown, ""},
		{containerd + "unexpected status from HEAD request to https://registry.corp.test/v2/team/app/manifests/v1: 403 Forbidden\ndenied: client with IP '203.0.113.9' is not allowed access", classify.EndpointSourceAddressDenied, manifest, "registry.corp.test"},
		{`reading blob ` + digest + `: http2: server sent GOAWAY and closed the connection; LastStreamID=3, ErrCode=NO_ERROR, debug=""`, classify.EndpointHTTP2StreamError, blob, ""},

		// tls
		{containerd + head + "tls: failed to verify certificate: x509: certificate signed by unknown authority", classify.TLSUnknownAuthority, manifest, "registry.corp.test"},
		{containerd + head + "x509: certificate is valid for gateway.corp.test, *.gateway.corp.test, not registry.corp.test", classify.TLSHostnameMismatch, manifest, "registry.corp.test"},
		{containerd + head + "x509: certificate has expired or is not yet valid: current time 2026-03-01T00:00:00Z is after 2026-02-01T00:00:00Z", classify.TLSExpired, manifest, "registry.corp.test"},
		{containerd + head + "x509: certificate has expired or is not yet valid: current time 2020-01-01T00:00:00Z is before 2026-02-01T00:00:00Z", classify.TLSNotYetValid, manifest, "registry.corp.test"},
		{containerd + head + "remote error: tls: certificate required", classify.TLSClientCertificateRejected, manifest, "registry.corp.test"},
		{containerd + head + "remote error: tls: internal error", classify.TLSHandshakeAlert, manifest, "registry.corp.test"},
		{containerd + head + "http: server gave HTTP response to HTTPS client", classify.TLSHTTPResponseToHTTPSClient, manifest, "registry.corp.test"},
		{docker + `Get "http://registry.corp.test/v2/": malformed HTTP response "\x15\x03\x01\x00\x02\x02"`, classify.TLSHTTPSResponseToHTTPClient, manifest, "registry.corp.test"},

		// registry
		{containerd + "unexpected status from HEAD request to https://registry.corp.test/v2/team/app/manifests/v1: 503 Service Unavailable", classify.RegistryServerError, manifest, "registry.corp.test"},
		{crio + "reading manifest v1 in registry.corp.test/team/app: received unexpected HTTP status: 502 Bad Gateway", classify.RegistryServerError, manifest, "registry.corp.test"},
		{copyBlob + "unexpected status code https://registry.corp.test/v2/team/app/blobs/" + digest + ": 429 Too Many Requests - Server message: toomanyrequests: slow down", classify.RegistryRateLimited, blob, "registry.corp.test"},
		{crio + "reading manifest v1 in registry.corp.test/team/app: toomanyrequests: slow down", classify.RegistryRateLimited, manifest, ""},

		// identity
		{containerd + anonymous + "unexpected status from GET request to https://auth.corp.test/token?scope=repository%3Ateam%2Fapp%3Apull: 401 Unauthorized", classify.IdentityTokenFetchDenied, token, "auth.corp.test"},
		{containerd + "pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials", classify.IdentityNoBasicAuth, manifest, ""},
		{containerd + "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed", classify.IdentityInsufficientScope, manifest, ""},
		{containerd + "pull access denied, repository does not exist or may require authorization: server message: invalid_token: authorization failed", classify.IdentityTokenRejected, manifest, ""},
		{containerd + "unexpected status from HEAD request to https://registry.corp.test/v2/team/app/manifests/v1: 401 Unauthorized", classify.IdentityUnauthorized, manifest, "registry.corp.test"},
		{containerd + "unexpected status from HEAD request to https://registry.corp.test/v2/team/app/manifests/v1: 403 Forbidden", classify.IdentityForbidden, manifest, "registry.corp.test"},
		{docker + `Head "https://registry.corp.test/v2/team/app/manifests/v1": denied`, classify.IdentityAccessDeniedOrMissing, manifest, "registry.corp.test"},
		{docker + `Head "https://registry.corp.test/v2/team/app/manifests/v1": unauthorized: incorrect username or password`, classify.IdentityBadCredentials, manifest, "registry.corp.test"},
		{crio + "unable to retrieve auth token: invalid username/password: unauthorized: authentication required", classify.IdentityTokenFetchDenied, token, ""},
		{docker + "denied: Your authorization token has expired. Reauthenticate and try again.", classify.IdentityTokenExpired, classify.OperationUnknown, ""},

		// image
		{containerd + ref + ": not found", classify.ImageNotFound, manifest, ""},
		{crio + "reading manifest v1 in registry.corp.test/team/app: manifest unknown", classify.ImageManifestUnknown, manifest, "registry.corp.test"},
		{crio + "reading manifest v1 in registry.corp.test/team/app: name unknown: no such repository", classify.ImageRepositoryUnknown, manifest, "registry.corp.test"},
		{copyBlob + "could not fetch content descriptor " + digest + " (application/vnd.oci.image.layer.v1.tar+gzip) from remote: not found", classify.ImageBlobUnknown, blob, ""},
		{`failed to pull and unpack image "` + ref + `": no match for platform in manifest: not found`, classify.ImagePlatformMismatch, manifest, ""},
		{`failed to pull and unpack image "` + ref + `": failed commit on ref "layer-` + digest + `": unexpected commit digest sha256:` + strings.Repeat("0", 64) + `, expected ` + digest + `: failed precondition`, classify.ImageDigestMismatch, blob, ""},
		{`Failed to apply default image tag "registry.corp.test/Team/App": couldn't parse image name "registry.corp.test/Team/App": invalid reference format: repository name must be lowercase`, classify.ImageInvalidReference, classify.OperationUnknown, ""},

		// node
		{kubelet + "pull QPS exceeded", classify.NodePullQPSExceeded, classify.OperationUnknown, ""},
		{`Container image "` + ref + `" is not present with pull policy of Never`, classify.NodeNeverPullPolicy, classify.OperationUnknown, ""},
		{`failed to pull and unpack image "` + ref + `": failed to extract layer ` + digest + `: write /x: no space left on device`, classify.NodeDiskFull, extract, ""},
		{`failed to pull and unpack image "` + ref + `": failed to extract layer ` + digest + `: failed to Lchown "/x" for UID 9, GID 9: invalid argument`, classify.NodeExtractFailed, extract, ""},
		{containerd + "no resolve hosts: not found", classify.NodeRuntimeConfigInvalid, classify.OperationUnknown, ""},
		{"SignatureValidationFailed: " + crio + "Source image rejected: a signature is needed", classify.NodeSignaturePolicyRejected, manifest, ""},

		// nothing says why
		{kubelet + "rpc error: code = Canceled desc = " + `failed to pull and unpack image "` + ref + `": context canceled`, classify.UnknownCanceledNoCause, classify.OperationUnknown, ""},
		{kubelet + grpc + "context deadline exceeded", classify.UnknownDeadlineNoCause, classify.OperationUnknown, ""},
		{containerd + head + "context deadline exceeded", classify.UnknownRequestDeadlineNoStage, manifest, "registry.corp.test"},
		{kubelet + "rpc error: code = Unknown desc = failed to pull and unpack image:", classify.UnknownTruncatedNoCause, classify.OperationUnknown, ""},
	} {
		r := classify.Text(c.text)
		if !assert.Equal(t, classify.KindFailure, r.Kind, c.text) {
			continue
		}
		assert.Equal(t, c.cause, r.Best.Cause, c.text)
		assert.Equal(t, c.op, r.Best.Operation, c.text)
		if c.endpoint != "" || !strings.HasPrefix(c.text, crio) {
			assert.Equal(t, c.endpoint, r.Best.Endpoint, c.text)
		}
		assert.Equal(t, classify.CertaintyPossible, r.Best.Certainty)
		assert.NotEmpty(t, r.Best.Summary, c.text)
		assert.NotContains(t, r.Best.Summary, "SECRET")
	}
}

func TestTextUnknownIsNotGuessed(t *testing.T) {
	for _, text := range []string{
		"", "   \n", "Successfully assigned default/app to node1", "Created container: app", "node(s) had untolerated taint",
		"Back-off restarting failed container app", "0/3 nodes are available", "not found", "secrets: not found", "unauthorized users may not enter here",
		"the lookup of things", "x509 is a standard", kubelet + "something new happened here",
		containerd + head + "dial tcp 10.20.0.4:443: connectex: Zeitueberschreitung",
		containerd + head + "dial tcp: lookup registry.corp.test on 10.20.0.2:53: a thing without a name, connection to 10.20.0.4:443 EOF",
		`Failed to create pod sandbox: rpc error: code = Unknown desc = plugin type="x" failed (add): Get "https://10.96.0.1:443/api": tls: odd`,
	} {
		r := classify.Text(text)
		assert.Equal(t, classify.KindUnknown, r.Kind, text)
		assert.Equal(t, classify.Finding{}, r.Best, text)
	}
}

func TestTextQuiet(t *testing.T) {
	for _, c := range []struct {
		text   string
		kind   classify.Kind
		cached bool
	}{
		{`Back-off pulling image "` + ref + `"`, classify.KindBackoff, false},
		{"Error: ImagePullBackOff", classify.KindBackoff, false},
		{"Error: ErrImagePull", classify.KindBackoff, false},
		{`Successfully pulled image "` + ref + `" in 1.2s (3.4s including waiting). Image size: 99 bytes.`, classify.KindOK, false},
		{`Container image "` + ref + `" already present on machine`, classify.KindOK, true},
		{`Container image "` + ref + `" already present on machine and can be accessed by the pod`, classify.KindOK, true},
	} {
		r := classify.Text(c.text)
		assert.Equal(t, c.kind, r.Kind, c.text)
		assert.Equal(t, c.cached, r.Cached, c.text)
		assert.Equal(t, classify.Finding{}, r.Best)
	}
	r := classify.Text(`Pulling image "` + ref + `"`)
	assert.Equal(t, classify.KindUnknown, r.Kind)
	require.Len(t, r.Attempts, 1)
	assert.Equal(t, classify.UnknownPullInProgress, r.Attempts[0].Cause)
	assert.Equal(t, classify.SeverityInfo, r.Attempts[0].Severity)
	assert.Equal(t, ref, r.Image)

	// A back-off that carries the last error is that error.
	r = classify.Text(`Back-off pulling image "` + ref + `": ErrImagePull: ` + containerd + head + "EOF")
	assert.Equal(t, classify.EndpointConnectionClosedEOF, r.Best.Cause)
}

func TestTextAttempts(t *testing.T) {
	notFound := docker + "manifest for " + ref + " not found: manifest unknown: manifest unknown"
	anonymous401 := docker + `Get "https://registry.corp.test/v2/team/app/manifests/v1": unauthorized: authentication required`
	t.Run("credential first, anonymous last", func(t *testing.T) {
		r := classify.Text(kubelet + "[" + grpc + notFound + ", " + grpc + anonymous401 + "]")
		require.Len(t, r.Attempts, 2)
		assert.Equal(t, classify.ImageManifestUnknown, r.Best.Cause)
		assert.Equal(t, classify.IdentityUnauthorized, r.Attempts[1].Cause)
	})
	t.Run("wrong secret first, right one second", func(t *testing.T) {
		r := classify.Text(kubelet + "[" + grpc + anonymous401 + ", " + grpc + notFound + "]")
		assert.Equal(t, classify.ImageManifestUnknown, r.Best.Cause)
	})
	t.Run("commas inside of an attempt", func(t *testing.T) {
		names := containerd + head + "x509: certificate is valid for a.corp.test, b.corp.test, not registry.corp.test"
		r := classify.Text(kubelet + "[" + names + ", " + containerd + head + "EOF]")
		require.Len(t, r.Attempts, 2)
		assert.Equal(t, classify.TLSHostnameMismatch, r.Best.Cause)
		assert.Equal(t, "a.corp.test, b.corp.test", r.Best.Fact(classify.FactNames))
	})
	t.Run("mirrors", func(t *testing.T) {
		r := classify.Text(crio + "(Mirrors also failed: [mirror.corp.test/team/app:v1: reading manifest v1 in mirror.corp.test/team/app: manifest unknown]\n" +
			`[dead.corp.test/team/app:v1: pinging container registry dead.corp.test: Get "https://dead.corp.test/v2/": dial tcp 10.20.0.7:443: connect: connection refused]): ` +
			ref + `: pinging container registry registry.corp.test: Get "https://registry.corp.test/v2/": dial tcp 10.20.0.4:443: i/o timeout`)
		require.Len(t, r.Attempts, 3)
		assert.Equal(t, classify.ImageManifestUnknown, r.Best.Cause)
		assert.Equal(t, "mirror.corp.test", r.Best.Endpoint)
		assert.Equal(t, classify.RouteConnectTimeout, r.Attempts[2].Cause)
	})
	t.Run("image before artifact", func(t *testing.T) {
		r := classify.Text("unable to pull image or OCI artifact: pull image err: initializing source docker://" + ref +
			": reading manifest v1 in registry.corp.test/team/app: denied; artifact err: EOF")
		require.Len(t, r.Attempts, 1)
		assert.Equal(t, classify.IdentityAccessDeniedOrMissing, r.Best.Cause)
	})
}

func TestTextForms(t *testing.T) {
	inner := containerd + head + "dial tcp 10.20.0.4:443: i/o timeout"
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for name, text := range map[string]string{
		"escaped once":  `E0101 00:00:00.000000 1 log.go:32] "PullImage from image service failed" err="` + quoted.Replace(inner) + `"`,
		"escaped twice": `time="2026-01-01T00:00:00Z" level=error msg="Error syncing pod: \"` + quoted.Replace(quoted.Replace(inner)) + `\""`,
		"table row":     "  Warning  Failed  7s (x2 over 50s)  kubelet  spec.containers{app}: " + kubelet + inner,
		"whole table": "  Type     Reason   Age   From     Message\n  ----     ------   ----  ----     -------\n" +
			"  Normal   BackOff  50s   kubelet  Back-off pulling image \"" + ref + "\"\n  Warning  Failed   7s    kubelet  " + kubelet + inner +
			"\n  Warning  Failed   7s    kubelet  Error: ErrImagePull",
		"similar events": "(combined from similar events): " + kubelet + inner,
	} {
		r := classify.Text(text)
		assert.Equal(t, classify.RouteConnectTimeout, r.Best.Cause, name)
		assert.Equal(t, "registry.corp.test:443", r.Best.Endpoint, name)
		assert.Equal(t, "10.20.0.4:443", r.Best.Fact(classify.FactAddress), name)
		assert.Equal(t, ref, r.Image, name)
		assert.Equal(t, []string{"connect@10.20.0.4:443"}, r.Decide, name)
	}
	r := classify.Text(containerd + anonymous + `Get "https://auth.corp.test/token?service=x": dial tcp: lookup auth.corp.test on 10.20.0.2:53: no such host`)
	assert.Equal(t, []string{"dns@auth.corp.test"}, r.Decide)
	assert.Equal(t, []classify.Cause{classify.DNSNoData}, r.Best.Alternatives)
	assert.Equal(t, "10.20.0.2:53", r.Best.Fact(classify.FactResolver))
}

func TestTextSandbox(t *testing.T) {
	pause := "registry.corp.test/pause:3.10"
	r := classify.Text(`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox image "` + pause + `": failed to pull image "` + pause +
		`": failed to pull and unpack image "` + pause + `": failed to copy: httpReadSeeker: failed open: failed to do request: Get "https://blobs.corp.test/x?sig=SECRET": EOF`)
	assert.Equal(t, classify.OperationSandboxImage, r.Best.Operation)
	assert.Equal(t, "blobs.corp.test", r.Best.Endpoint)
	assert.Equal(t, pause, r.Image)
}

func TestEvent(t *testing.T) {
	for _, c := range []struct {
		reason, message string
		kind            classify.Kind
		cause           classify.Cause
	}{
		{"Failed", kubelet + containerd + head + "EOF", classify.KindFailure, classify.EndpointConnectionClosedEOF},
		{"", kubelet + containerd + head + "EOF", classify.KindFailure, classify.EndpointConnectionClosedEOF},
		{"BackOff", `Back-off pulling image "` + ref + `"`, classify.KindBackoff, ""},
		{"BackOff", "Back-off restarting failed container app in pod app_default", classify.KindUnknown, ""},
		{"Pulled", `Container image "` + ref + `" already present on machine`, classify.KindOK, ""},
		{"ErrImageNeverPull", "see the pod", classify.KindFailure, classify.NodeNeverPullPolicy},
		{"InvalidImageName", "the name is odd", classify.KindFailure, classify.ImageInvalidReference},
		{"FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (corp); attempting to pull the image may not succeed.", classify.KindFailure, classify.IdentityPullSecretMissing},
		{"FailedCreatePodSandBox", `Failed to create pod sandbox: plugin failed (add): Get "https://10.96.0.1:443/x": dial tcp 10.96.0.1:443: i/o timeout`, classify.KindUnknown, ""},
		{"FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to pull image "registry.corp.test/pause:3": failed to do request: Head "https://registry.corp.test/v2/pause/manifests/3": dial tcp 10.20.0.4:443: i/o timeout`, classify.KindFailure, classify.RouteConnectTimeout},
		// Not about a pull, although the words are the same.
		{"Unhealthy", `Readiness probe failed: Get "http://10.20.1.1:8080/": dial tcp 10.20.1.1:8080: connect: connection refused`, classify.KindUnknown, ""},
		{"FailedMount", "MountVolume.SetUp failed: no space left on device", classify.KindUnknown, ""},
		{"Scheduled", "Successfully assigned default/app to node1", classify.KindUnknown, ""},
	} {
		r := classify.Event(c.reason, c.message)
		assert.Equal(t, c.kind, r.Kind, c.message)
		assert.Equal(t, c.cause, r.Best.Cause, c.message)
	}
	assert.Equal(t, classify.SeverityWarn, classify.Event("FailedToRetrieveImagePullSecret", "x").Best.Severity)
}

var seeds = []string{
	"", kubelet + grpc + containerd + head + "dial tcp: lookup registry.corp.test on 10.20.0.2:53: no such host",
	kubelet + "[" + grpc + containerd + head + "EOF, " + grpc + containerd + head + "Forbidden]",
	containerd + "unexpected status from HEAD request to https://registry.corp.test/v2/x/manifests/v1: 403 Forbidden\ndenied: client with IP '203.0.113.9' is not allowed",
	crio + "(Mirrors also failed: [a: b]\n[c: EOF]): d: EOF", crio + `reading manifest v1 in registry.corp.test/a: StatusCode: 404, "<html>"`,
	containerd + head + "read tcp 10.0.0.1:1->10.0.0.2:443: read: connection reset by peer", "lookup :", "dial tcp ", "dial tcp: ", "x509: ", "remote error: tls: ",
	`malformed HTTP response "\x15"`, "Get \"https://", "://", "lookup a on b: ", "denied", ": [rpc error: ", "error parsing HTTP 403",
}

func FuzzText(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) { checkReading(t, classify.Text(text)) })
}

func FuzzEvent(f *testing.F) {
	for _, s := range seeds {
		f.Add("Failed", s)
		f.Add("FailedCreatePodSandBox", s)
	}
	f.Fuzz(func(t *testing.T, reason, message string) { checkReading(t, classify.Event(reason, message)) })
}

func checkReading(t *testing.T, r classify.Reading) {
	t.Helper()
	if (r.Kind == classify.KindFailure) != (r.Best.Cause != "") {
		t.Fatalf("kind %s with cause %q", r.Kind, r.Best.Cause)
	}
	for _, f := range append(r.Attempts, r.Best) {
		if f.Cause == "" {
			continue
		}
		if f.Certainty != classify.CertaintyPossible || f.Summary == "" || f.Layer != classify.LayerOf(f.Cause) {
			t.Fatalf("finding %+v", f)
		}
		if !utf8.ValidString(f.Summary) || len(f.Summary) > 4096 || len(f.Endpoint) > 512 {
			t.Fatalf("unbounded or invalid: %+v", f)
		}
		for _, fact := range f.Facts {
			if fact.Value == "" || len(fact.Value) > 256 || !utf8.ValidString(fact.Value) {
				t.Fatalf("fact %+v", fact)
			}
		}
	}
}
