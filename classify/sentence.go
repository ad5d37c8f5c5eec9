package classify

import "strings"

// sentence composes the summary of f from its endpoint and facts. A cause
// without a template of its own keeps what [New] gave it, the catalogue's title.
func sentence(f Finding) string {
	template, ok := sentences[f.Cause]
	if !ok {
		return f.Summary
	}
	return fill(template, func(key string) string {
		if key == "endpoint" {
			return f.Endpoint
		}
		if v := f.Fact(key); key == "address" && v == f.Endpoint {
			return "" // the address is all that is known of the endpoint: once is enough
		}
		return f.Fact(key)
	})
}

// fill replaces {key}, {key|other|'words'} by the first value that is not
// empty, and drops a part in [brackets] if a key in it has none.
func fill(template string, value func(string) string) string {
	var short [256]byte
	out := short[:0]
	part, complete := -1, true // where a part in brackets begins in out
	for {
		i := 0
		for i < len(template) && template[i] != '[' && template[i] != ']' && template[i] != '{' {
			i++
		}
		if i == len(template) {
			return string(append(out, template...))
		}
		out = append(out, template[:i]...)
		switch template[i] {
		case '[':
			part, complete = len(out), true
		case ']':
			if part >= 0 && !complete {
				out = out[:part]
			}
			part = -1
		case '{':
			n := strings.IndexByte(template[i:], '}')
			if n < 0 {
				return string(out)
			}
			v := pick(template[i+1:i+n], value)
			out = append(out, v...)
			complete = complete && v != ""
			i += n
		}
		template = template[i+1:]
	}
}

func pick(keys string, value func(string) string) string {
	for keys != "" {
		var key string
		key, keys, _ = strings.Cut(keys, "|")
		if words, ok := strings.CutPrefix(key, "'"); ok {
			return strings.TrimSuffix(words, "'")
		}
		if v := value(key); v != "" {
			return v
		}
	}
	return ""
}

// sentences are the summaries, by cause. They state what was seen; what to do
// about it is the catalogue's.
var sentences = map[Cause]string{
	RouteConnectTimeout:     "the connect to {endpoint|address|'the registry'}[ at {address}] got no answer[ within {limit}]",
	RouteConnectWaitTimeout: "time ran out while {endpoint|'the request'} still waited for a connection: lookup, connect, proxy or TLS",
	RouteNoRouteToHost:      "there is no way to {endpoint|address|'the host'}[ at {address}][ ({errno})]",
	RouteNetworkUnreachable: "this node has no route to the network of {endpoint|address|'the host'}[ at {address}][ ({errno})]",
	RouteIPv6Unreachable:    "this node cannot reach the IPv6 address {address|'of the host'}[ of {endpoint}][ ({errno})]",
	RouteBlackhole:          "a blackhole route discards packets to {endpoint|address|'the host'}[ at {address}][ ({errno})]",
	RouteProhibited:         "the node's own network policy forbids the connect to {endpoint|address|'the host'}[ at {address}][ ({errno})]",

	DNSNXDOMAIN:            "the name {endpoint|'of the host'} does not exist[ according to nameserver {resolver}]",
	DNSResolverTimeout:     "the lookup of {endpoint|'the name'} got no answer[ from nameserver {resolver}][ within {limit}]",
	DNSServFail:            "the lookup of {endpoint|'the name'} failed at the nameserver[ {resolver}], which answered with an error",
	DNSTemporaryFailure:    "the lookup of {endpoint|'the name'} failed[ at nameserver {resolver}] without saying why",
	DNSResolverPortClosed:  "nothing listens at the nameserver[ {resolver}] that was asked for {endpoint|'the name'}",
	DNSResolverUnreachable: "the nameserver[ {resolver}] that was asked for {endpoint|'the name'} cannot be reached[ ({errno})]",
	DNSNoUsableAddress:     "{endpoint|'the name'} has no address of a family that this node can use",
	DNSAnswerMalformed:     "the answer to the lookup of {endpoint|'the name'}[ from nameserver {resolver}] is incomplete or cannot be read",
	DNSBogusAddress:        "{endpoint|'the name'} resolves to {address|'an address'}, which no host can have",

	EndpointDownloadInterrupted:   "the download from {endpoint|'the blob host'} ended before it was complete[: {size}]",
	EndpointConnectionReset:       "the connection to {endpoint|address|'the peer'}[ at {address}] was reset[ ({errno})]",
	EndpointProxyRefusedConnect:   "the forward proxy[ {proxy}] did not open a tunnel to {url|endpoint|'the host'}[: {message|status}]",
	EndpointConnectionRefused:     "{endpoint|address|'the host'}[ at {address}] refused the connection[ ({errno})]",
	EndpointTLSHandshakeTimeout:   "{endpoint|address|'the host'} accepted the connection but the TLS handshake did not finish[ within {limit}]",
	EndpointConnectionClosedEOF:   "{endpoint|address|'the host'} closed the connection without an answer",
	EndpointHTMLInsteadOfRegistry: "{endpoint|'the host'} answered with an HTML page instead of a registry's answer[ (status {status})]",
	EndpointSourceAddressDenied:   "{endpoint|'the registry'} refuses the address or region that the request came from[, {client}][ (status {status})]",
	EndpointBlobHostForbidden:     "the object store {endpoint|'behind the registry'} answered {status|'403'} itself[ ({code})][: {message}]",
	EndpointDownloadStalled:       "the download from {endpoint|'the blob host'} made no progress[ for {limit}]",
	EndpointHTTP2StreamError:      "{endpoint|'the peer'} ended an HTTP/2 stream or connection[: {message}]",
	EndpointProxyAuthRequired:     "the forward proxy[ {proxy}] wants credentials of its own before it lets through to {url|endpoint|'the host'}",
	EndpointProxyUnreachable:      "the forward proxy[ {endpoint}] cannot be reached[ ({errno})][ within {limit}]",
	EndpointReadTimeout:           "the established connection to {endpoint|address|'the peer'}[ at {address}] went silent until the wait ended[ ({errno})]",
	EndpointResponseHeaderTimeout: "{endpoint|'the host'} took the request but sent no response headers[ within {limit}]",
	EndpointHTTPRedirectLoop:      "{endpoint|'the host'} redirects without end",
	EndpointBadRealm:              "the token realm at {endpoint|'the named host'} leads nowhere[ (status {status})]",
	EndpointBadLocation:           "{endpoint|'the host'} redirects to something that cannot be followed[ (status {status})]",
	EndpointMethodBlocked:         "{endpoint|'the host'} does not allow the method[ {method}][ (status {status})]",
	EndpointMalformedResponse:     "{endpoint|'the host'} sent something that is no valid answer[ (status {status})][: {message}]",
	EndpointResponseTooLarge:      "{endpoint|'the host'} sent more than the limit for such an answer[: {message}]",

	TLSUnknownAuthority:          "the certificate of {endpoint|'the host'} is not signed by an authority that the node trusts[ (issuer {issuer})]",
	TLSSelfSigned:                "the certificate of {endpoint|'the host'} is signed only by itself[ (issuer {issuer})]",
	TLSHostnameMismatch:          "the certificate of {endpoint|'the host'} is for other names[: {names}]",
	TLSExpired:                   "the certificate of {endpoint|'the host'} has expired[, {not-after}][ ({message})]",
	TLSNotYetValid:               "the certificate of {endpoint|'the host'} is not valid yet by the node's clock[, from {not-before}][ ({message})]",
	TLSNoSAN:                     "the certificate of {endpoint|'the host'} has no subject alternative name for a host",
	TLSNoIPSAN:                   "{endpoint|'the host'} is addressed by IP and its certificate names no IP address",
	TLSWeakSignature:             "the certificate chain of {endpoint|'the host'} uses a signature algorithm that is refused as insecure",
	TLSWrongKeyUsage:             "a certificate in the chain of {endpoint|'the host'} may not be used for this[: {message}]",
	TLSHTTPResponseToHTTPSClient: "{endpoint|'the port'} answers in clear HTTP where TLS was expected",
	TLSHTTPSResponseToHTTPClient: "clear HTTP was sent to {endpoint|'a port'} that speaks TLS",
	TLSNotTLS:                    "{endpoint|'the port'} answers with something that is not TLS",
	TLSHandshakeAlert:            "{endpoint|'the server'} ended the TLS handshake with an alert[: {alert}]",
	TLSProtocolVersion:           "{endpoint|'the server'} and this node have no TLS version in common[: {alert}]",
	TLSCertificateUnusable:       "the certificate of {endpoint|'the host'} cannot be read by this client[: {message}]",
	TLSNoSystemRoots:             "the runtime has no trusted roots to check the certificate of {endpoint|'the host'} with",
	TLSCipherMismatch:            "{endpoint|'the server'} and this node have no cipher suite in common[: {alert}]",
	TLSClientCertificateRequired: "{endpoint|'the server'} wants a client certificate[: {alert}]",
	TLSClientCertificateRejected: "{endpoint|'the server'} did not accept the client certificate, or the lack of one[: {alert}]",

	RegistryServerError:    "{endpoint|'the registry'} failed itself[ with status {status}][: {message}]",
	RegistryRateLimited:    "{endpoint|'the registry'} limits the rate of requests[ (status {status})][: {message}]",
	RegistryPolicyBlocked:  "{endpoint|'the registry'} blocks this image by its own policy[ (status {status})][: {message}]",
	RegistryUpstreamFailed: "{endpoint|'the registry'} could not get the image from its own upstream[: {message}]",
	RegistryMirrorMiss:     "the mirror[ {endpoint}] does not have the image[ (status {status})]",
	RegistryClientError:    "{endpoint|'the registry'} refused the request as wrong[ with status {status}][: {message}]",

	IdentityUnauthorized:           "{endpoint|'the registry'} answered that the request is not authorized[ (status {status})][: {message}]",
	IdentityUnauthenticatedRequest: "{endpoint|'the registry'} wants a credential and the request carried none[ (status {status})]",
	IdentityTokenFetchDenied:       "the token endpoint[ {endpoint}] refused to issue a token[ (status {status})][: {message}]",
	IdentityAccessDeniedOrMissing:  "{endpoint|'the registry'} denies access, or the repository does not exist[ (status {status})][: {message}]",
	IdentityForbidden:              "{endpoint|'the registry'} forbids the request[ (status {status})][: {message}]",
	IdentityNoBasicAuth:            "{endpoint|'the registry'} wants a login and the runtime had none to offer",
	IdentityTokenExpired:           "{endpoint|'the registry'} says that the token or login has expired[: {message}]",
	IdentityInsufficientScope:      "the token does not carry the right to pull from this repository[ at {endpoint}]",
	IdentityTokenRejected:          "{endpoint|'the registry'} rejected the token that it was given[: {message}]",
	IdentityBadCredentials:         "{endpoint|'the registry'} says that user name or password are wrong[ (status {status})]",
	IdentityCredentialPluginFailed: "a credential plugin of the node failed[: {message}]",
	IdentityPullSecretMissing:      "a pull secret that the pod names is not there[: {message}]",
	IdentityPullSecretInvalid:      "the content of a pull secret cannot be read",
	IdentityChallengeUnsupported:   "{endpoint|'the registry'} asks for an authentication scheme that is not supported",
	IdentityDecryptionKeyDenied:    "the key service did not give out the key of the encrypted image[: {message}]",
	IdentityTokenMalformed:         "the token endpoint[ {endpoint}] answered without a usable token[: {message}]",

	ImageManifestUnknown:      "{endpoint|'the registry'} has no such tag or digest[ (status {status})][: {message}]",
	ImageNotFound:             "{endpoint|'the registry'} answered not found[ (status {status})][ for {image}]",
	ImageRepositoryUnknown:    "{endpoint|'the registry'} has no such repository[ (status {status})][: {message}]",
	ImageBlobUnknown:          "{endpoint|'the registry'} lacks content that the manifest names[: {digest}]",
	ImageInvalidReference:     "the image reference cannot be parsed[: {image}]",
	ImageUnsupportedMediaType: "the manifest is of a kind that this runtime does not accept[: {message}]",
	ImagePlatformMismatch:     "the image has no variant for the platform of this node[, {platform}]",
	ImageDigestMismatch:       "the content received does not have the expected digest[ {digest}][, but {got}]",
	ImageSizeMismatch:         "the content received does not have the announced size[ {size}][, but {got}]",
	ImageShortNameUnresolved:  "the image name has no registry and the node does not say which to use[: {image}]",
	ImageLayerUnreadable:      "a layer of the image cannot be read as an archive",
	ImageManifestInvalid:      "the manifest is not valid[: {message}]",

	NodeExtractFailed:           "unpacking a layer failed on the node[: {message}]",
	NodeSignaturePolicyRejected: "a signature policy on the node rejected the image",
	NodeDiskFull:                "there is no space left on the node's disk",
	NodePullQPSExceeded:         "the kubelet's own pull rate limit was reached; no request left the node",
	NodeContentStoreError:       "content is missing from the runtime's own store on the node[: {digest}]",
	NodeNeverPullPolicy:         "the pull policy is Never and the image is not on the node",
	NodeRuntimeConfigInvalid:    "the runtime's configuration on the node stops the pull[: {message}]",
	NodeRuntimeUnavailable:      "the container runtime on the node does not answer at its socket",
	NodeSnapshotterError:        "the snapshotter on the node failed[: {message}]",
	NodePullProgressDeadline:    "the pull was cancelled for lack of progress while unpacking",
	NodeDecryptionFailed:        "the node could not decrypt a layer of the image[: {message}]",
	NodeLocalLimit:              "the node has run out of sockets, ports or memory[ ({errno})]",

	UnknownCanceledNoCause:        "the request[ to {endpoint}] was cancelled and nothing says why",
	UnknownDeadlineNoCause:        "the whole pull ran out of time and nothing says at which step",
	UnknownRequestDeadlineNoStage: "the request[ to {endpoint}] ran out of time and nothing says at which step",
	UnknownTruncatedNoCause:       "the text is cut off before the cause",
	UnknownPullInProgress:         "a pull was started and its outcome is not in the text",
}
