package classify

import (
	"strings"
	"time"
)

// noTime makes validityCause decide by the text alone.
var noTime time.Time

// phrase is a fixed string of a runtime and what it says. All of also must be
// in the text, too.
type phrase struct {
	words     string
	also      string
	cause     Cause
	operation Operation // "" = read from the rest of the text
}

// local reads refusals of the node itself: they are printed by the kubelet and
// the runtime about their own state, whatever else the text holds.
func (p *piece) local() (hit, bool) { return p.firstPhrase(localPhrases) }

func (p *piece) firstPhrase(phrases []phrase) (hit, bool) {
	for _, w := range phrases {
		if p.has(w.words) && p.has(w.also) {
			h := hit{cause: w.cause, operation: w.operation}
			if w.operation == OperationUnknown {
				return h, true // nothing left the node: no endpoint either
			}
			return h, true
		}
	}
	return hit{}, false
}

var localPhrases = []phrase{
	{"pull qps exceeded", "", NodePullQPSExceeded, OperationUnknown},
	{"not present with pull policy of never", "", NodeNeverPullPolicy, OperationUnknown},
	{"errimageneverpull", "", NodeNeverPullPolicy, OperationUnknown},
	{"no space left on device", "", NodeDiskFull, ""},
	{"disk quota exceeded", "", NodeDiskFull, ""},
	{"there is not enough space on the disk", "", NodeDiskFull, ""},
	{"too many open files", "", NodeLocalLimit, ""},
	{"no buffer space available", "", NodeLocalLimit, ""},

	{"signaturevalidationfailed", "", NodeSignaturePolicyRejected, ""},
	{"source image rejected: ", "", NodeSignaturePolicyRejected, ""},
	{"signature validation failed", "", NodeSignaturePolicyRejected, ""},
	{"image verifier ", " blocked pull of ", NodeSignaturePolicyRejected, ""},
	{"a signature was required, but no signature exists", "", NodeSignaturePolicyRejected, ""},

	{"error getting credentials", "", IdentityCredentialPluginFailed, OperationUnknown},
	{"credential provider plugin", "", IdentityCredentialPluginFailed, OperationUnknown},
	{"exec: \"docker-credential-", "", IdentityCredentialPluginFailed, OperationUnknown},
	{"invalid decoded auth", "", IdentityPullSecretInvalid, OperationUnknown},
	{"dockerconfigjson", "invalid", IdentityPullSecretInvalid, OperationUnknown},

	{"invalid reference format", "", ImageInvalidReference, OperationUnknown},
	{"invalidimagename", "", ImageInvalidReference, OperationUnknown},
	{"couldn't parse image", "", ImageInvalidReference, OperationUnknown},
	{"failed to parse image reference", "", ImageInvalidReference, OperationUnknown},
	{": object required", "", ImageInvalidReference, OperationUnknown},
	{"short-name ", "did not resolve to an alias", ImageShortNameUnresolved, OperationUnknown},
	{"short-name resolution enforced", "", ImageShortNameUnresolved, OperationUnknown},
	{"no registries configured while trying to pull an unqualified image", "", ImageShortNameUnresolved, OperationUnknown},
	{"short name mode is enforcing", "", ImageShortNameUnresolved, OperationUnknown},

	{"registry ", " is blocked in ", NodeRuntimeConfigInvalid, OperationUnknown},
	{"loading registries configuration", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"invalid policy in ", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"no resolve hosts: not found", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"no pull hosts: not found", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"unable to read ca cert ", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"unable to load ca cert ", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"unable to read cert file ", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"failed to load x509 key pair", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"unable to initialize cert pool", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"failed to load ca file", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"failed to load cert file", "", NodeRuntimeConfigInvalid, OperationUnknown},
	{"for client certificate", "missing key ", NodeRuntimeConfigInvalid, OperationUnknown},
	{"missing client certificate ", " for key ", NodeRuntimeConfigInvalid, OperationUnknown},
	{"invalid proxy address ", "", NodeRuntimeConfigInvalid, OperationUnknown},

	{"dial unix ", "", NodeRuntimeUnavailable, OperationUnknown},
	{"cannot connect to the docker daemon", "", NodeRuntimeUnavailable, OperationUnknown},

	{"because of no progress in ", "", EndpointDownloadStalled, ""},
	{"because it exceeded image pull deadline", "", EndpointDownloadStalled, ""},
	{"waiting up to ", "for image pull progress", EndpointDownloadStalled, ""},

	{"archive/tar: invalid tar header", "", ImageLayerUnreadable, OperationExtract},
	{"gzip: invalid header", "", ImageLayerUnreadable, OperationExtract},
	{"wrong diff id calculated on extraction", "", ImageDigestMismatch, OperationExtract},
	{"extraction snapshot", "failed to prepare", NodeSnapshotterError, OperationExtract},
	{"extraction snapshot", "unable to prepare", NodeSnapshotterError, OperationExtract},
	{"unable to resolve snapshotter", "", NodeSnapshotterError, OperationExtract},
	{"failed to stat snapshot ", "", NodeSnapshotterError, OperationExtract},
	{"failed to commit snapshot ", "", NodeSnapshotterError, OperationExtract},
	{"failed to extract layer ", "", NodeExtractFailed, OperationExtract},
	{"failed to register layer: ", "", NodeExtractFailed, OperationExtract},
	{"hcsshim::importlayer", "", NodeExtractFailed, OperationExtract},
	{"hcsshim::processbaselayer", "", NodeExtractFailed, OperationExtract},
	{"adding layer with blob ", "", NodeExtractFailed, OperationExtract},
	{"unpack image on snapshotter ", "content digest sha256:", NodeContentStoreError, OperationExtract},
	{"content digest sha256:", ": not found", NodeContentStoreError, ""},

	{"unable to retrieve some image pull secrets", "", IdentityPullSecretMissing, OperationUnknown},
	{"unable to retrieve pull secret", "", IdentityPullSecretMissing, OperationUnknown},
}

// content reads what the runtimes print about the image itself.
func (p *piece) content() (hit, bool) {
	h, ok := p.firstPhrase(contentPhrases)
	if ok {
		h.facts = append(h.facts, p.digestFacts(h.cause)...)
		if h.cause == ImageRepositoryUnknown || h.cause == ImageManifestUnknown {
			h.alternatives = []Cause{IdentityAccessDeniedOrMissing}
		}
		return h, true
	}
	if ref, ok := p.bareNotFound(); ok {
		return hit{cause: ImageNotFound, facts: fact(FactImage, ref), alternatives: []Cause{IdentityAccessDeniedOrMissing}}, true
	}
	return hit{}, false
}

var contentPhrases = []phrase{
	{"no match for platform in manifest", "", ImagePlatformMismatch, OperationResolveManifest},
	{"no matching manifest for ", "", ImagePlatformMismatch, OperationResolveManifest},
	{"no image found in image index for architecture", "", ImagePlatformMismatch, OperationResolveManifest},
	{"no image found in manifest list for architecture", "", ImagePlatformMismatch, OperationResolveManifest},
	{"image operating system ", "cannot be used on this platform", ImagePlatformMismatch, ""},
	{"-based image is incompatible with a ", "", ImagePlatformMismatch, ""},

	{"unexpected commit digest ", "", ImageDigestMismatch, ""},
	{"digest did not match, expected ", "", ImageDigestMismatch, OperationFetchBlob},
	{"filesystem layer verification failed for digest", "", ImageDigestMismatch, OperationFetchBlob},
	{"manifest verification failed for digest", "", ImageDigestMismatch, OperationResolveManifest},
	{"failed size validation: ", "", ImageSizeMismatch, ""},
	{"unexpected commit size ", "", ImageSizeMismatch, ""},
	{"read past expected size", "", ImageSizeMismatch, OperationFetchBlob},

	{"schema 1 image manifests are no longer supported", "", ImageUnsupportedMediaType, OperationResolveManifest},
	{"pulling schema 1 images have been deprecated", "", ImageUnsupportedMediaType, OperationResolveManifest},
	{"media type ", "is no longer supported since", ImageUnsupportedMediaType, OperationResolveManifest},
	{"manifest.v1+prettyjws", "not supported", ImageUnsupportedMediaType, OperationResolveManifest},
	{"unsupported manifest media type", "", ImageUnsupportedMediaType, OperationResolveManifest},
	{"unsupported schema version", "", ImageUnsupportedMediaType, OperationResolveManifest},
	{"mediatype in manifest should be", "", ImageUnsupportedMediaType, OperationResolveManifest},

	{"reports content size of zero", "", EndpointMalformedResponse, OperationResolveManifest},
	{"could not fetch content descriptor", "from remote: not found", ImageBlobUnknown, OperationFetchBlob},
	{"number of layers and diffids don't match", "", ImageManifestInvalid, ""},
	{"mismatched image rootfs and manifest layers", "", ImageManifestInvalid, ""},

	{"manifest unknown", "", ImageManifestUnknown, ""},
	{"manifest_unknown", "", ImageManifestUnknown, ""},
	{"name unknown", "", ImageRepositoryUnknown, ""},
	{"name_unknown", "", ImageRepositoryUnknown, ""},
	{"repository name not known to registry", "", ImageRepositoryUnknown, ""},
	{"unknown blob", "", ImageBlobUnknown, OperationFetchBlob},
	{"blob unknown", "", ImageBlobUnknown, OperationFetchBlob},
	{"blob_unknown", "", ImageBlobUnknown, OperationFetchBlob},
}

// digestFacts returns the digests around a mismatch or a missing blob.
func (p *piece) digestFacts(c Cause) []Fact {
	switch c {
	case ImageDigestMismatch:
		if got, want, ok := twoDigests(p.flat, "unexpected commit digest ", ", expected "); ok {
			return []Fact{{FactDigest, want}, {FactGot, got}}
		}
		if want, got, ok := twoDigests(p.flat, "Digest did not match, expected ", ", got "); ok {
			return []Fact{{FactDigest, want}, {FactGot, got}}
		}
	case ImageBlobUnknown:
		if d := digestAfter(p.flat, "content descriptor "); d != "" {
			return []Fact{{FactDigest, d}}
		}
		if d := digestAfter(p.flat, "reading blob "); d != "" {
			return []Fact{{FactDigest, d}}
		}
	}
	return nil
}

func twoDigests(text, first, second string) (a, b string, ok bool) {
	a = digestAfter(text, first)
	b = digestAfter(text, second)
	return a, b, a != "" && b != ""
}

func digestAfter(text, marker string) string {
	i := strings.Index(text, marker)
	if i < 0 {
		return ""
	}
	rest := text[i+len(marker):]
	n := 0
	for n < len(rest) && n < 140 && (isSchemeByte(rest[n]) || rest[n] == ':') {
		n++
	}
	d := strings.TrimRight(rest[:n], ":.")
	if algorithm, hex, ok := strings.Cut(d, ":"); !ok || algorithm == "" || len(hex) < 32 {
		return ""
	}
	return d
}

// bareNotFound reads "REF: not found" at the end of a text: all that containerd
// says about a 404. Other things are "not found", too, so the words before must
// be a reference.
func (p *piece) bareNotFound() (string, bool) {
	text := strings.TrimRight(p.flat, " .\"')]")
	before, ok := strings.CutSuffix(text, ": not found")
	if !ok {
		return "", false
	}
	ref := before[strings.LastIndexAny(before, " \"(")+1:]
	if !strings.Contains(ref, "/") || strings.HasPrefix(ref, "/") || strings.Contains(ref, "://") {
		return "", false
	}
	_, tag, tagged := strings.Cut(ref[strings.LastIndexByte(ref, '/'):], ":")
	return ref, tagged && tag != ""
}

// identity reads refusals and throttling that are printed without a status.
func (p *piece) identity() (hit, bool) {
	if h, ok := p.firstPhrase(identityPhrases); ok {
		return h, true
	}
	lower := p.lower
	if deniesSource(lower) {
		h := hit{cause: EndpointSourceAddressDenied}
		if client := deniedClient(p.flat); client != "" {
			h.facts = []Fact{{FactClient, client}}
		}
		return h, true
	}
	switch {
	case p.has("upstream repository is not configured"):
		return hit{cause: RegistryUpstreamFailed}, true
	case tokenExpired(lower):
		return hit{cause: IdentityTokenExpired}, true
	case p.has("unable to retrieve auth token"):
		// CRI-O prints "invalid username/password" for any 401 of the token
		// endpoint, also when it had no login to offer.
		return hit{cause: IdentityTokenFetchDenied, operation: OperationFetchToken, alternatives: []Cause{IdentityBadCredentials}}, true
	case badLogin(lower):
		return hit{cause: IdentityBadCredentials}, true
	}
	if message, ok := codeWord(p.flat, lower, "denied"); ok {
		return hit{cause: IdentityAccessDeniedOrMissing, facts: fact(FactMessage, message), alternatives: []Cause{IdentityForbidden}}, true
	}
	if message, ok := codeWord(p.flat, lower, "unauthorized"); ok {
		if strings.Contains(lower, "cannot be authenticated with the token") {
			return hit{cause: IdentityTokenRejected, facts: fact(FactMessage, message)}, true
		}
		return hit{cause: IdentityUnauthorized, facts: fact(FactMessage, message)}, true
	}
	return p.firstPhrase(deniedPhrases)
}

var identityPhrases = []phrase{
	{"toomanyrequests", "", RegistryRateLimited, ""},
	{"too many requests to registry", "", RegistryRateLimited, ""},
	{"429 too many requests", "", RegistryRateLimited, ""},
	{"pull rate limit", "", RegistryRateLimited, ""},
	{"cannot be pulled due to configured policy", "", RegistryPolicyBlocked, ""},
	{"error unmarshalling content", "character '<'", EndpointHTMLInsteadOfRegistry, ""},
	{"does not match bearer token resource", "", IdentityTokenRejected, ""},
	{"authorization status: 401", "", IdentityUnauthorized, ""},
	{"no basic auth credentials", "", IdentityNoBasicAuth, ""},
	{"insufficient_scope", "", IdentityInsufficientScope, ""},
	{"server message: invalid_token", "", IdentityTokenRejected, ""},
	{"did not include a token in the response", "", IdentityTokenMalformed, OperationFetchToken},
	{"unable to decode token response", "character '<'", EndpointHTMLInsteadOfRegistry, OperationFetchToken},
	{"decoding bearer token", "character '<'", EndpointHTMLInsteadOfRegistry, OperationFetchToken},
	{"unable to decode token response", "", IdentityTokenMalformed, OperationFetchToken},
	{"no realm specified for token auth challenge", "", EndpointBadRealm, OperationFetchToken},
	{"invalid token auth challenge realm", "", EndpointBadRealm, OperationFetchToken},
	{"missing realm in bearer auth challenge", "", EndpointBadRealm, OperationFetchToken},
	{"failed to find supported auth scheme", "", IdentityChallengeUnsupported, ""},
}

// deniedPhrases are answers that are the same for "no right" and "no such
// repository", read last because they also wrap others.
var deniedPhrases = []phrase{
	{"requested access to the resource is denied", "", IdentityAccessDeniedOrMissing, ""},
	{": authentication required", "", IdentityUnauthorized, ""},
	{"does not exist or no pull access", "", IdentityAccessDeniedOrMissing, ""},
	{"pull access denied", "repository does not exist or may require", IdentityAccessDeniedOrMissing, ""},
}

// codeWord finds word where a registry's error code stands: after a colon or at
// the start, followed by a colon or the end. It returns the message behind it.
func codeWord(flat, lower, word string) (string, bool) {
	lower = strings.TrimRight(lower, " \"'.)]")
	flat = flat[:len(lower)]
	for end := len(lower); ; {
		i := strings.LastIndex(lower[:end], word)
		if i < 0 {
			return "", false
		}
		end = i
		before := strings.TrimRight(lower[max(0, i-8):i], " \"")
		after := lower[i+len(word):]
		if before != "" && before[len(before)-1] != ':' {
			continue
		}
		if after == "" {
			return "", true
		}
		if after[0] == ':' {
			message := strings.TrimSpace(flat[i+len(word)+1:])
			return message[:min(len(message), 200)], true
		}
	}
}

// end reads what is left when nothing better was found: ends of a stream and
// bare deadlines.
func (p *piece) end() (hit, bool) {
	tail := strings.TrimRight(p.flat[p.tail:], " .\"')]")
	lower := p.lower[p.tail:]
	switch {
	case strings.Contains(lower, "unexpected eof"):
		return hit{cause: EndpointDownloadInterrupted, operation: ""}, true
	case p.hasReq && (tail == ": EOF" || strings.HasPrefix(p.flat[p.tail:], ": EOF")):
		return hit{cause: EndpointConnectionClosedEOF}, true
	case strings.HasSuffix(tail, "transport connection broken: EOF"):
		return hit{cause: EndpointConnectionClosedEOF}, true
	case strings.Contains(lower, "context deadline exceeded"):
		if p.hasReq {
			return hit{cause: UnknownRequestDeadlineNoStage}, true
		}
		return hit{cause: UnknownDeadlineNoCause}, true
	case strings.Contains(lower, "context canceled"), strings.Contains(lower, "request canceled"), strings.Contains(lower, "operation was canceled"):
		return hit{cause: UnknownCanceledNoCause}, true
	}
	text := strings.TrimRight(p.lower, " ")
	if (strings.HasSuffix(text, ":") || strings.HasSuffix(text, "...")) && (p.has("failed to pull ") || p.has("pull and unpack image")) {
		return hit{cause: UnknownTruncatedNoCause, operation: OperationUnknown}, true
	}
	return hit{}, false
}
