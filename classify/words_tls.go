package classify

// certificatePhrases are what crypto/x509 prints after "x509: ", in the order in
// which they decide: a reason in brackets is nearer than the words before.
var certificatePhrases = []phrases{
	{TLSWeakSignature, "", "", []string{"insecure algorithm"}},
	{TLSWrongKeyUsage, "", "", []string{"cannot sign this kind of certificate"}},
	{TLSNoSystemRoots, "", TLSUnknownAuthority, []string{"failed to load system roots"}},
	{TLSUnknownAuthority, "", "", []string{"signed by unknown authority", "no valid chains built", "does not match subject of issuing certificate",
		"issuer name does not match subject", "certificate is not trusted"}},
	{TLSExpired, "", "", []string{"has expired or is not yet valid", "certificate is expired"}},
	{TLSNoSAN, "", "", []string{"legacy common name", "is not valid for any names"}},
	{TLSNoIPSAN, "", "", []string{"contain any ip sans"}},
	{TLSHostnameMismatch, "", "", []string{"certificate is valid for ", "certificate is not valid for "}},
	{TLSWrongKeyUsage, "", "", []string{"incompatible key usage", "not authorized to sign", "not authorized for an extended key usage", "too many intermediates",
		"unhandled critical extension", "name constraints", "not permitted by any constraint", "excluded by constraint"}},
	{TLSCertificateUnusable, "", "", []string{"failed to parse certificate from server", "negative serial number", "certificate contains duplicate extension",
		"x509: malformed ", "x509: unsupported elliptic curve"}},
}

// handshakePhrases are what crypto/tls and OpenSSL print besides, and answers in
// the wrong protocol.
var handshakePhrases = []phrases{
	{TLSHTTPResponseToHTTPSClient, "", "", []string{"server gave http response to https client"}},
	{TLSHTTPSResponseToHTTPClient, "", "", []string{"http request to an https server", "plain http request was sent to https port",
		"this combination of host and port requires tls"}},
	{TLSProtocolVersion, "", "", []string{"server selected unsupported protocol version", "no supported versions satisfy"}},
	{TLSCipherMismatch, "", "", []string{"unsupported cipher suite", "unconfigured cipher suite"}},
	{TLSNotTLS, "", "", []string{"first record does not look like a tls handshake", "tls: oversized record received", "tls: unsupported sslv2 handshake received"}},
	{TLSCertificateUnusable, "", "", []string{"rsa key larger than …server sent certificate", "failed to parse certificate from server"}},
	{TLSProtocolVersion, "", "", []string{"alert protocol version", "unsupported protocol…ssl routines"}},
	{TLSHandshakeAlert, "", "", []string{"alert handshake failure", "alert internal error", "alert unrecognized name"}},
	{TLSClientCertificateRejected, "", "", []string{"alert unknown ca", "alert bad certificate"}},
	{TLSClientCertificateRequired, "", "", []string{"alert certificate required", "no required ssl certificate was sent"}},
	{TLSNotTLS, "", "", []string{"wrong version number…ssl routines"}},
	{TLSExpired, "", "", []string{"certificate verify failed…certificate has expired"}},
	{TLSUnknownAuthority, "", "", []string{"certificate verify failed", "invalid peer certificate: unknownissuer"}},
	{TLSExpired, "", "", []string{"invalid peer certificate: expired", "invalid peer certificate: certificate expired"}},
	{TLSHostnameMismatch, "", "", []string{"invalid peer certificate: notvalidforname", "invalid peer certificate: certificate not valid for name"}},
	{TLSUnknownAuthority, "", "", []string{"unable to get local issuer certificate", "ssl certificate problem", "certificate is not trusted",
		"certificate signed by unknown authority", "pkix path building failed", "unable to find valid certification path"}},
	{TLSExpired, "", "", []string{"certificate has expired or is not yet valid"}},
	{EndpointMalformedResponse, "", "", []string{"malformed http status code ", "malformed http version ", "malformed mime header"}},
	// A peer that speaks before it is asked, as mail and SSH servers do.
	{EndpointMalformedResponse, "", "", []string{"readlooppeekfaillocked: %!w(<nil>)"}},
}

// transportPhrases are what net/http prints about a request that got no answer.
var transportPhrases = []phrases{
	{EndpointTLSHandshakeTimeout, "", "", []string{"tls handshake timeout"}},
	{EndpointResponseHeaderTimeout, "", "", []string{"timeout awaiting response headers"}},
	{RouteConnectWaitTimeout, "", "", []string{"while waiting for connection"}},
	// A connection was in use: net/http words the wait for one differently.
	{EndpointResponseHeaderTimeout, "", "", []string{"canceled (client.timeout exceeded while awaiting"}},
	{UnknownRequestDeadlineNoStage, "", "", []string{"client.timeout exceeded while awaiting headers"}},
	{EndpointDownloadStalled, "", "", []string{"context cancellation while reading body", "client.timeout exceeded while reading body"}},
	// A SOCKS proxy's refusal, in the words of RFC 1928 and 1929.
	{EndpointProxyAuthRequired, "", "", []string{"no acceptable authentication methods…socks connect tcp ", "username/password authentication failed…socks connect tcp "}},
	{EndpointProxyRefusedConnect, "", "", []string{": unknown error …socks connect tcp "}},
	{EndpointHTTPRedirectLoop, "", "", []string{"stopped after 10 redirects"}},
	{EndpointResponseTooLarge, "", "", []string{"server response headers exceeded"}},
	{EndpointBadLocation, "", "", []string{"failed to parse location header", "failed to authorize redirect"}},
	{EndpointHTTP2StreamError, "", "", []string{"http2: server sent goaway", "graceful shutdown goaway", "stream error: stream id", "http2: client connection lost",
		"http2: client connection force closed", "http2: server closed", "http2: response body closed", "connection error: protocol_error",
		"connection error: flow_control_error"}},
	{EndpointConnectionClosedEOF, "", "", []string{"server closed idle connection"}},
	// Clients that are not written in Go.
	{UnknownRequestDeadlineNoStage, "", "", []string{": operation timed out…error sending request for url ("}},
	{DNSNXDOMAIN, "", DNSTemporaryFailure, []string{"could not resolve host"}},
	{DNSNXDOMAIN, "", "", []string{"getaddrinfo enotfound"}},
	{DNSTemporaryFailure, "", "", []string{"getaddrinfo eai_again"}},
	{DNSNXDOMAIN, "", "", []string{"name or service not known", "nodename nor servname provided"}},
	{DNSTemporaryFailure, "", "", []string{"temporary failure in name resolution"}},
	{RouteConnectTimeout, OperationUnknown, DNSResolverTimeout, []string{"required endpoints are unreachable"}},
	{EndpointConnectionReset, "", "", []string{"use of closed network connection"}},
}
