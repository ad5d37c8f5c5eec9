package classify

// contentPhrases are what the runtimes and registries print about the image.
var contentPhrases = []phrases{
	{ImagePlatformMismatch, OperationResolveManifest, "", []string{"no match for platform in manifest", "no match for platform in ", "no matching manifest for ",
		"no image found in image index for architecture", "no image found in manifest list for architecture", "does not match the specified platform",
		"does not provide the specified platform", "no child with platform "}},
	{ImagePlatformMismatch, "", "", []string{"image operating system …cannot be used on this platform"}},
	{ImageDigestMismatch, "", "", []string{"unexpected commit digest "}},
	{ImageDigestMismatch, OperationFetchBlob, "", []string{"digest did not match, expected ", "filesystem layer verification failed for digest",
		"image config verification failed for digest"}},
	{ImageDigestMismatch, OperationResolveManifest, "", []string{"manifest verification failed for digest", "manifest does not match provided manifest digest"}},
	{ImageDigestMismatch, OperationFetchBlob, "", []string{"corrupted blob, expecting "}},
	{ImageSizeMismatch, "", "", []string{"failed size validation: ", "unexpected commit size "}},
	{ImageSizeMismatch, OperationFetchBlob, "", []string{"read past expected size"}},
	{ImageSizeMismatch, "", "", []string{"size mismatch, expected "}},
	{EndpointHTMLInsteadOfRegistry, "", "", []string{"unexpected media type text/html", "unsupported media type text/html"}},
	{EndpointHTMLInsteadOfRegistry, OperationResolveManifest, "", []string{"media type and no default available: text/html"}},
	{EndpointHTMLInsteadOfRegistry, "", "", []string{"unexpected content type \"text/html", "unsupported content type \"text/html"}},
	{ImageUnsupportedMediaType, OperationResolveManifest, "", []string{"schema 1 image manifests are no longer supported", "schema 1 images have been deprecated",
		"schema 1 images are not supported", "media type …is no longer supported since", "manifest.v1+prettyjws", "unsupported manifest media type",
		"unsupported manifest mime type", "unsupported manifest format", "unsupported schema version", "unsupported media type ", "unexpected media type ",
		"unsupported mime type ", "image-specific operation on artifact with type", "unsupported docker v2s2 ", "unknown config media type ",
		"encountered remote …when fetching", "mediatype in manifest should be", "missing signature key", "schema 1 support is disabled", "with manifest v2 schema 1…is blocked",
		"no fslayers in manifest"}},
	// What containerd's converter of schema 1 says to a manifest that claims to
	// be one and has no signature (remotes/docker/schema1, until 2.0).
	{ImageUnsupportedMediaType, OperationResolveManifest, "", []string{": no signatures"}},
	{EndpointMalformedResponse, OperationFetchBlob, "", []string{"unsupported content-encoding algorithm", "unhandled content range in response"}},
	{EndpointMalformedResponse, OperationFetchBlob, EndpointDownloadInterrupted, []string{"unable to discard to offset"}},
	{EndpointMalformedResponse, OperationFetchBlob, "", []string{"content range requests ignored"}},
	{EndpointBadLocation, "", "", []string{"no location header in response"}},
	{EndpointMalformedResponse, OperationResolveManifest, "", []string{"reports content size of zero", "in header not a valid digest"}},
	{ImageManifestInvalid, OperationResolveManifest, "", []string{"rejecting … byte manifest for "}},
	{EndpointResponseTooLarge, OperationResolveManifest, "", []string{"exceeded maximum allowed size of "}},
	{ImageManifestInvalid, OperationResolveManifest, "", []string{"too many descriptors (limit "}},
	{ImageManifestInvalid, "", EndpointDownloadInterrupted, []string{"initializing image from source …unexpected end of json input",
		"invalid desc sha256:…unexpected end of json input", "error response from daemon: unexpected end of json input"}},
	{ImageManifestInvalid, "", "", []string{"number of layers and diffids don't match", "mismatched image rootfs and manifest layers",
		"layers from manifest don't match image configuration"}},
	{ImageManifestInvalid, OperationFetchBlob, "", []string{"unmarshal image config: ", "parsing image configuration: unexpected end of json input",
		"parsing image configuration: json: cannot unmarshal "}},
	{ImageUnsupportedMediaType, OperationFetchBlob, ImageManifestInvalid, []string{"invalid rootfs in image configuration"}},
	{ImageNotFound, "", IdentityAccessDeniedOrMissing, []string{"content at … not found: not found"}},
	{ImageBlobUnknown, OperationFetchBlob, "", []string{"could not fetch content descriptor…from remote: not found", "unknown blob", "blob unknown", "blob_unknown"}},
	// Spegel, the peer mirror that k3s and RKE2 embed: no peer has the key. Its
	// releases differ in the words (registry handler, then and now).
	{RegistryMirrorMiss, OperationResolveManifest, "", []string{"mirror resolve retries exhausted", "could not resolve mirror for ",
		"mirror with image component …could not be found"}},
	{RegistryUpstreamFailed, "", "", []string{"upstream repository is not configured"}},
	{RegistryRateLimited, "", RegistryUpstreamFailed, []string{"to upstream registry…toomanyrequests", "too many request to upstream registry"}},
	{RegistryUpstreamFailed, "", IdentityUnauthorized, []string{"unauthorized: http status code: 401, body:"}},
	{ImageManifestUnknown, OperationResolveManifest, RegistryUpstreamFailed, []string{"manifest unknown…upstream", "manifest_unknown…upstream"}},
	{RegistryUpstreamFailed, "", "", []string{"upstream registry", "failed to fetch from upstream", "remote repository is offline"}},
	{ImageManifestUnknown, OperationResolveManifest, "", []string{"manifest unknown", "manifest_unknown", "manifest is unknown", "manifest tagged by …is not found",
		"the named manifest is not known to the registry", "tag … was deleted or has expired", "tag …not found in repository", "manifest for … not found"}},
	{ImageRepositoryUnknown, "", "", []string{"name unknown", "name_unknown", "repository name not known to registry", "unknown: repository …not found",
		"not found: repository …not found", "unknown: project …not found"}},
	{ImageManifestUnknown, OperationResolveManifest, "", []string{"unknown: artifact …not found", "not found: artifact …not found"}},
}

// identityPhrases are refusals and throttling that are printed without a status.
var identityPhrases = []phrases{
	{RegistryRateLimited, "", "", []string{"toomanyrequests"}},
	{RegistryRateLimited, OperationFetchToken, "", []string{"too many requests to registry"}},
	{RegistryRateLimited, "", "", []string{"too_many_requests", "429 too many requests", "pull rate limit", "rate exceeded", "data limit exceeded"}},
	{RegistryPolicyBlocked, "", "", []string{"cannot be pulled due to configured policy", "projectpolicyviolation", "the image is not signed in ", "412 precondition failed", "project_policy_violation", "http 412 response body",
		"is quarantined", "image is blocked"}},
	{EndpointHTMLInsteadOfRegistry, "", "", []string{"error unmarshalling content…character '<'"}},
	{EndpointHTMLInsteadOfRegistry, OperationFetchToken, IdentityTokenMalformed, []string{"unable to decode token response…character '<'",
		"decoding bearer token…character '<'"}},
	{IdentityTokenMalformed, OperationFetchToken, "", []string{"unable to decode token response", "decoding bearer token", "did not include a token in the response"}},
	{EndpointHTMLInsteadOfRegistry, "", "", []string{"character '<' looking for beginning of value"}},
	{IdentityTokenRejected, "", "", []string{"does not match bearer token resource", "cannot be authenticated with the token", "server message: invalid_token",
		"invalid_token: "}},
	{IdentityBadCredentials, OperationUnknown, "", []string{"login attempt to …status: 401 unauthorized"}},
	{IdentityUnauthorized, "", "", []string{"authorization status: 401"}},
	{IdentityNoBasicAuth, "", "", []string{"no basic auth credentials"}},
	{IdentityInsufficientScope, "", IdentityAccessDeniedOrMissing, []string{"insufficient_scope"}},
	{EndpointBadRealm, OperationFetchToken, "", []string{"no realm specified for token auth challenge", "invalid token auth challenge realm",
		"missing realm in bearer auth challenge"}},
	{IdentityChallengeUnsupported, "", "", []string{"failed to find supported auth scheme"}},
	{IdentityUnauthenticatedRequest, "", IdentityAccessDeniedOrMissing, []string{"unauthenticated request", "unauthenticated requests do not have permission"}},
}

// messagePhrases say what a registry means by a refusal, in its own words behind
// "denied" or "unauthorized", or behind a status.
var messagePhrases = []phrases{
	{IdentityUnauthenticatedRequest, "", IdentityAccessDeniedOrMissing, []string{"unauthenticated request"}},
	{IdentityUnauthenticatedRequest, "", "", []string{"anonymous access is not allowed"}},
	{IdentityTokenRejected, "", "", []string{"does not match bearer token resource", "cannot be authenticated with the token", "invalid_token"}},
	{IdentityTokenExpired, "", "", []string{"token has expired", "token is expired", "tokens are expired", "expired token", "credentials have expired",
		"credential has expired", "secret keys are expired"}},
	{IdentityTokenExpired, "", IdentityTokenRejected, []string{"security token included in the request is"}},
	{IdentityBadCredentials, "", "", []string{"incorrect username or password", "invalid username or password", "invalid username/password", "wrong username or password",
		"bad username or password", "invalid user name or password", "username or password is incorrect", "incorrect password", "bad credentials", "bad_credential",
		"wrong credentials", "unauthorized: invalid credentials", "denied: invalid credentials", "password or token is incorrect", "could not find robot with ",
		"client secret…invalid"}},
	{IdentityInsufficientScope, "", IdentityAccessDeniedOrMissing, []string{"insufficient_scope", "insufficient scope"}},
	{IdentityInsufficientScope, "", "", []string{"does not match expected scopes"}},
	{IdentityInsufficientScope, "", IdentityForbidden, []string{"is not authorized to perform", "caller does not have permission '", "permission_denied: "}},
	{IdentityInsufficientScope, "", "", []string{"read_package", "read:packages"}},
	{IdentityForbidden, "", IdentityAccessDeniedOrMissing, []string{"access forbidden", "denied: forbidden", "unknown: forbidden"}},
	{IdentityForbidden, "", "", []string{"has been disabled", "is suspended"}},
}

// deniedPhrases are answers that are the same for "no right" and "no such
// repository", read last because they also wrap others.
var deniedPhrases = []phrases{
	{IdentityAccessDeniedOrMissing, "", "", []string{"requested access to the resource is denied", "does not exist or no pull access", "(or it may not exist)",
		"pull access denied"}},
	{IdentityUnauthorized, "", "", []string{": authentication required", "authentication required"}},
}
