package classify

// phrase is a fixed string of a runtime and what it says. also must be in the
// text, too; both are in lower case. other is a second reading that the same
// words allow.
type phrase struct {
	words     string
	also      string
	cause     Cause
	operation Operation // "" = read from the rest of the text
	other     Cause
}

// phraseTables returns all tables, for the lexicon.
func phraseTables() []*[]phrase {
	return []*[]phrase{
		&localPhrases, &contentPhrases, &identityPhrases, &deniedPhrases, &certificatePhrases, &handshakePhrases, &transportPhrases,
		&messagePhrases,
	}
}

// localPhrases are what the kubelet and the runtime print about the node itself,
// or about a name that nothing was asked for. They are unmistakable and come
// first, whatever else the text holds.
var localPhrases = []phrase{
	{"pull qps exceeded", "", NodePullQPSExceeded, OperationUnknown, ""},
	{"not present with pull policy of never", "", NodeNeverPullPolicy, OperationUnknown, ""},
	{"errimageneverpull", "", NodeNeverPullPolicy, OperationUnknown, ""},

	{"no space left on device", "", NodeDiskFull, "", ""},
	{"disk quota exceeded", "", NodeDiskFull, "", ""},
	{"there is not enough space on the disk", "", NodeDiskFull, "", ""},
	{"which is less than minimum required", "free data blocks", NodeDiskFull, "", ""},
	{"insufficient free disk space on the node", "", NodeDiskFull, OperationUnknown, ""},
	{"failed to garbage collect required amount of images", "", NodeDiskFull, OperationUnknown, ""},
	{"too many open files", "", NodeLocalLimit, "", ""},
	{"no buffer space available", "", NodeLocalLimit, "", ""},

	{": device or resource busy", "lookup ", NodeLocalLimit, "", ""},

	// The kubelet's and the runtime's own records; what goes wrong there has
	// nothing to do with what the image is or where it lies.
	{"failed to record image pull intent for ", "", NodeInternalError, OperationUnknown, ""},
	{"imageref of image ", " is not set", NodeInternalError, OperationUnknown, ""},
	{"failed to get image ", "from containerd image store", NodeInternalError, OperationUnknown, ""},
	{"grpc: received message larger than max", "", NodeInternalError, OperationUnknown, ImageManifestInvalid},
	{"pullimage was aborted by a go panic", "", NodeInternalError, OperationUnknown, ""},
	{"pull child finished successfully but", "send a result", NodeInternalError, OperationUnknown, ""},

	// A rejected signature is nothing to do with a registry's answer.
	{"invalid policy in ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"signaturevalidationfailed", "", NodeSignaturePolicyRejected, "", ""},
	{"signature validation failed", "", NodeSignaturePolicyRejected, "", ""},
	{"source image rejected: ", "", NodeSignaturePolicyRejected, "", ""},
	{"a signature was required, but no signature exists", "", NodeSignaturePolicyRejected, "", ""},
	{"image verifier ", " blocked pull of ", NodeSignaturePolicyRejected, "", ""},
	{"blocking pull of ", "image verifier ", NodeSignaturePolicyRejected, "", ""},
	{"running image ", "is rejected by policy", NodeSignaturePolicyRejected, "", ""},
	{"is rejected by policy", "", NodeSignaturePolicyRejected, "", ""},
	{"signature for identity ", "is not accepted", NodeSignaturePolicyRejected, "", ""},
	{"cryptographic signature verification failed", "", NodeSignaturePolicyRejected, "", ""},
	{"remote trust data does not exist", "", NodeSignaturePolicyRejected, "", ""},
	{"no valid trust data for ", "", NodeSignaturePolicyRejected, "", ""},

	{"error getting credentials", "", IdentityCredentialPluginFailed, OperationUnknown, ""},
	{"credential provider plugin", "", IdentityCredentialPluginFailed, OperationUnknown, ""},
	{"external registry credential provider", "", IdentityCredentialPluginFailed, OperationUnknown, ""},
	{"docker-credential-", "", IdentityCredentialPluginFailed, OperationUnknown, ""},
	{"error while requesting ecr authorization token", "", IdentityCredentialPluginFailed, OperationUnknown, ""},
	{"invalid decoded auth", "", IdentityPullSecretInvalid, OperationUnknown, ""},
	{"dockerconfigjson", "invalid", IdentityPullSecretInvalid, OperationUnknown, ""},
	{"couldn't find key .dockerconfigjson", "", IdentityPullSecretInvalid, OperationUnknown, ""},
	{"prepare temp auth file: ", "", IdentityPullSecretInvalid, OperationUnknown, NodeInternalError},
	{"illegal base64 data at input byte", "", IdentityPullSecretInvalid, OperationUnknown, ""},
	{"invalid header field value for \"authorization\"", "", IdentityPullSecretInvalid, OperationUnknown, ""},

	{"invalid reference format", "", ImageInvalidReference, OperationUnknown, ""},
	{"invalidimagename", "", ImageInvalidReference, OperationUnknown, ""},
	{"couldn't parse image", "", ImageInvalidReference, OperationUnknown, ""},
	{"could not parse image", "", ImageInvalidReference, OperationUnknown, ""},
	{"failed to parse image reference", "", ImageInvalidReference, OperationUnknown, ""},
	{"failed to parse image name", "", ImageInvalidReference, OperationUnknown, ""},
	{"parsing image name \"", "", ImageInvalidReference, OperationUnknown, ""},
	{": object required", "", ImageInvalidReference, OperationUnknown, NodeRuntimeConfigInvalid},
	{"invalid repository name (", "", ImageInvalidReference, OperationUnknown, ""},
	{"invalid image reference", "", ImageInvalidReference, OperationUnknown, ""},
	{": invalid port", "dial tcp: address ", ImageInvalidReference, OperationUnknown, NodeRuntimeConfigInvalid},
	{"repository name must be canonical", "", ImageInvalidReference, OperationUnknown, ""},
	{"repository name must be lowercase", "", ImageInvalidReference, OperationUnknown, ""},

	{"short-name ", "did not resolve to an alias", ImageShortNameUnresolved, OperationUnknown, ""},
	{"short-name resolution enforced", "", ImageShortNameUnresolved, OperationUnknown, ""},
	{"short name mode is enforcing", "", ImageShortNameUnresolved, OperationUnknown, ""},
	{"returns ambiguous list", "", ImageShortNameUnresolved, OperationUnknown, ""},
	{"no registries configured while trying to pull an unqualified image", "", ImageShortNameUnresolved, OperationUnknown, ""},
	{"image name provided is a short name and no search registries are defined", "", ImageShortNameUnresolved, OperationUnknown, ""},
	{"no unqualified-search registries are defined", "", ImageShortNameUnresolved, OperationUnknown, ""},

	{"registry ", " is blocked in ", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"invalid prefix ", "docker://", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"loading registries configuration", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"error loading registries", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"no policy.json file found", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"/policy.json: no such file or directory", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"no resolve hosts: not found", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"no pull hosts: not found", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"unable to read ca cert ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"unable to load ca cert ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"unable to read cert file ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"failed to load x509 key pair", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"failed to create oci registry: ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"unable to initialize cert pool", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"unable to get system cert pool", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"failed to load ca file", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"failed to load cert file", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"no corresponding key file was specified", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"missing key ", "for client certificate", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"missing client certificate ", " for key ", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"failed to find any pem data in certificate input", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"private key does not match public key", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"either servername or insecureskipverify must be specified", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"invalid proxy address ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"get registry endpoints: ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"parse registry endpoint ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"parse server address: ", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"failed to parse image_pull_progress_timeout", "", NodeRuntimeConfigInvalid, OperationUnknown, ""},
	{"unsupported protocol scheme ", "", NodeRuntimeConfigInvalid, "", ""},

	// A broken snapshotter may be one that is a process of its own and does not
	// listen; only then the socket is the runtime's.
	{"extraction snapshot", "failed to prepare", NodeSnapshotterError, OperationExtract, ""},
	{"extraction snapshot", "unable to prepare", NodeSnapshotterError, OperationExtract, ""},
	{"unable to resolve snapshotter", "", NodeSnapshotterError, OperationExtract, ""},
	{"snapshotter not loaded", "", NodeSnapshotterError, OperationExtract, ""},
	{"unable to initialize unpacker", "", NodeSnapshotterError, OperationExtract, ""},
	{"failed to stat snapshot ", "", NodeSnapshotterError, OperationExtract, ""},
	{"failed to commit snapshot ", "", NodeSnapshotterError, OperationExtract, ""},
	{"failed to create snapshot", "", NodeSnapshotterError, OperationExtract, ""},
	{"parent snapshot ", "does not exist", NodeSnapshotterError, OperationExtract, ""},
	{"missing parent ", " bucket: not found", NodeSnapshotterError, OperationExtract, ""},

	{"dial unix ", "", NodeRuntimeUnavailable, OperationUnknown, ""},
	{"cannot connect to the docker daemon", "", NodeRuntimeUnavailable, OperationUnknown, ""},
	{"open //./pipe/", "", NodeRuntimeUnavailable, OperationUnknown, ""},
	{"in the default daemon configuration on windows, the docker client must be run", "", NodeRuntimeUnavailable, OperationUnknown, ""},
	{"code = unavailable desc = transport is closing", "", NodeRuntimeUnavailable, OperationUnknown, ""},
	{"code = unavailable desc = error reading from server", "", NodeRuntimeUnavailable, OperationUnknown, ""},
	{"grpc: the client connection is closing", "", NodeRuntimeUnavailable, OperationUnknown, ""},
	{"unknown service runtime.v1", "", NodeRuntimeUnavailable, OperationUnknown, NodeRuntimeConfigInvalid},

	// Watchdogs. What the last layer was doing tells network from disk.
	{"because of no progress for ", ": extracting [", NodePullProgressDeadline, OperationExtract, EndpointDownloadStalled},
	{"because it exceeded image pull deadline", ": extracting [", NodePullProgressDeadline, OperationExtract, EndpointDownloadStalled},
	{"because of no progress ", "", EndpointDownloadStalled, OperationFetchBlob, ""},
	{"because it exceeded image pull deadline", "", EndpointDownloadStalled, OperationFetchBlob, NodePullProgressDeadline},
	{"waiting up to ", "for image pull progress", EndpointDownloadStalled, OperationFetchBlob, ""},

	{"content digest sha256:", ": not found", NodeContentStoreError, "", ""},
	{"failed to get reader from content store", "", NodeContentStoreError, OperationExtract, ""},
	{"layer not known", "", NodeContentStoreError, "", ""},
	{"layer does not exist", "", NodeContentStoreError, "", ""},
	{" locked for ", " (since ", NodeContentStoreError, OperationFetchBlob, ""},
	{"/tmp/getimageblob", "", NodeContentStoreError, OperationFetchBlob, ""},
	{"failed to open writer: ", "", NodeContentStoreError, "", ""},
	{"failed to create image reference ", "", NodeContentStoreError, "", ""},
	{"failed to update image store ", "", NodeContentStoreError, "", ""},

	{"archive/tar: ", "", ImageLayerUnreadable, OperationExtract, ""},
	{"gzip: invalid ", "", ImageLayerUnreadable, OperationExtract, ""},
	{"invalid tar header", "", ImageLayerUnreadable, OperationExtract, ""},
	{"zstd: ", "failed to extract", ImageLayerUnreadable, OperationExtract, ""},
	{"magic number mismatch", "", ImageLayerUnreadable, OperationExtract, ""},
	{"flate: corrupt input", "", ImageLayerUnreadable, OperationExtract, ""},
	{"failed to get stream processor", "", ImageLayerUnreadable, OperationExtract, NodeRuntimeConfigInvalid},
	{"wrong diff id calculated on extraction", "", ImageDigestMismatch, OperationExtract, ""},
	{"invalid diffid for layer", "", ImageDigestMismatch, OperationExtract, ""},
	{"uncompressed digest ", "does not match", ImageDigestMismatch, OperationExtract, ""},
	// Windows refuses a layer of another build while it unpacks.
	{"-based image is incompatible with a ", "", ImagePlatformMismatch, "", ""},
	{"operating system of the container does not match", "", ImagePlatformMismatch, "", ""},

	{"untar re-exec error", "unexpected eof", EndpointDownloadInterrupted, OperationExtract, ImageLayerUnreadable},
	{"failed to extract layer ", "unexpected eof", EndpointDownloadInterrupted, OperationExtract, ImageLayerUnreadable},
	{"failed to register layer: ", "unexpected eof", EndpointDownloadInterrupted, OperationExtract, ImageLayerUnreadable},
	{"failed to extract layer ", "context canceled", NodePullProgressDeadline, OperationExtract, UnknownCanceledNoCause},
	{"failed to extract layer ", "", NodeExtractFailed, OperationExtract, ""},
	{"failed to register layer: ", "", NodeExtractFailed, OperationExtract, ""},
	{"apply layer error for ", "", NodeExtractFailed, OperationExtract, ""},
	{"error processing tar file", "", NodeExtractFailed, OperationExtract, ""},
	{"applylayer exit status", "", NodeExtractFailed, OperationExtract, ""},
	{"applying layer", "exit status", NodeExtractFailed, OperationExtract, ""},
	{"failed to mount /", "/tmpmounts/", NodeExtractFailed, OperationExtract, ""},
	{"insufficient uids or gids available in user namespace", "", NodeExtractFailed, OperationExtract, ""},
	{"hcsshim::importlayer", "", NodeExtractFailed, OperationExtract, ""},
	{"hcsshim::processbaselayer", "", NodeExtractFailed, OperationExtract, ""},
	{"adding layer with blob ", "", NodeExtractFailed, OperationExtract, ""},
	{"error adding layer with blob", "", NodeExtractFailed, OperationExtract, ""},
	{"failed to convert whiteout file", "", NodeExtractFailed, OperationExtract, ""},
	{"read-only file system", "", NodeExtractFailed, "", ""},
	{"input/output error", "", NodeExtractFailed, "", ""},

	{"unable to retrieve some image pull secrets", "", IdentityPullSecretMissing, OperationUnknown, ""},
	{"unable to retrieve pull secret", "", IdentityPullSecretMissing, OperationUnknown, ""},
	{"couldn't get secret ", "", IdentityPullSecretMissing, OperationUnknown, ""},
}
