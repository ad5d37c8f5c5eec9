package classify

import "slices"

// backoffWords say that a pull failed or waits, and not why.
var backoffWords = []string{
	"back-off pulling image", "imagepullbackoff", "trying and failing to pull image", "errimagepull", "image pull back-off",
	"image can't be pulled", "image pull error", "imagepullfailure", "imagepullfailed", "error: registryunavailable",
}

// pullWords speak of an image pull.
var pullWords = []string{
	"pull image", "pulling image", "pulled image", "pull and unpack image", "pullimage", "errimagepull", "imagepullbackoff", "image pull",
	"get sandbox image", "sandbox image", "initializing source docker://", "already present on machine", "pull qps exceeded",
	"pulling container registry", "pinging container registry", "errimageneverpull", "pull policy of never", "fetch image", "resolve image",
	"failed to pull ", "image to digest", "failed to resolve reference", "error unpacking image",
}

// otherWords are other things of a cluster that fail with a network's words.
var otherWords = []string{
	"probe failed: ", "admission webhook ", "failed calling webhook ", "failed to setup network for sandbox ", "failed to set up sandbox container ",
	"networkplugin cni failed ", "mountvolume.", "unable to attach or mount volumes", "attachvolume.", "exceeded quota: ", "failed to watch *v1.", "server returned http status ",
	"leader election", "error retrieving resource lock", "failed to provision volume", "poststarthook",
}

// statusMarkers stand before a status.
var statusMarkers = []string{
	"unexpected status: ", "received unexpected http status: ", "statuscode: ", "invalid status code from registry ",
	"unexpected status code ", "response status code ", "error parsing http ", "unexpected http code: ", "http status: ",
}

// joinMarkers stand where attempts are joined.
var joinMarkers = []string{"pull image err: ", "mirrors also failed: [", "fallback sources also failed: [", ": [", ":["}

// imageMarkers are the words before a reference; the first ones put it in quotes.
var imageMarkers = []string{
	`ull image "`, `pull and unpack image "`, `ulling image "`, `ulled image "`, `container image "`, `resolve reference "`, `pullimage "`,
	`apply default image tag "`, `failed to inspect image "`, `sandbox image "`,
	"docker://", "image pull failed for ", "pull image ", "manifest for ", "pull access denied for ",
}

const quotedMarkers = 10

// socketWords are the calls that net.OpError prints.
var socketWords = []string{"dial tcp", "read tcp", "write tcp"}

// sandboxWords speak of the image of the pod sandbox.
var sandboxWords = []string{
	"sandbox image", "failed to create pod sandbox", "failed create pod sandbox", "creating pod sandbox", "failedcreatepodsandbox",
	"createpodsandbox for pod", "error creating pod sandbox",
}

// stagePhrases are the words with which the runtimes name the step, in the order
// in which they are looked for: a token is asked for inside of a manifest
// request, and a manifest is read with words about copying.
var stagePhrases = []phrases{
	{"", OperationResolveManifest, "", []string{"/manifests/"}},
	{"", OperationFetchToken, "", []string{"anonymous token", "oauth token", "requesting bearer token", "requesting bear token", "decoding bearer token",
		"retrieve auth token", "obtain access token", "token response", "bearer auth challenge", "token auth challenge", "include a token in the response"}},
	{"", OperationResolveManifest, "", []string{"commit on ref \"manifest-", "commit on ref \"index-"}},
	{"", OperationExtract, "", []string{"failed to extract layer", "failed to register layer", "adding layer", "unpack image on snapshotter"}},
	{"", OperationFetchBlob, "", []string{"httpreadseeker", "httpreaderseeker", "reading blob", "writing blob", "fetching blob", "pulling image configuration",
		"content descriptor", "failed commit on ref", "short read: expected", "read expected number of bytes", "copying blob", "copying config", "failed to copy: ",
		"config blob", "parsing image configuration", "download failed after attempts", "download failed, retrying", "happened during read", "external blob", "/getimageblob", "/blobs/",
		"because of no progress in ", "for image pull progress", ": downloading [", "filesystem layer verification"}},
	{"", OperationResolveManifest, "", []string{"failed to resolve", "reading manifest", "pinging container registry", "pinging docker registry", "fetching manifest",
		"manifest for ", "initializing source docker", "initializing image from source", "manifest unknown", "content at ", "status code [manifests", "choosing image instance",
		"trying to pull repository", "load metadata", "resolve source metadata", "resolve image config", "permission for manifest", "image to digest",
		"get checksum for docker", "named manifest", "manifest tagged by", "mirror resolve retries", "resolve mirror for key", "getting image source"}},
}

// wrapperWords are what a cut may leave the head of.
var wrapperWords = []string{
	"this may be because there are no credentials on this request", "rpc error: code = unknown desc = ", "failed to pull and unpack image ",
	"failed to resolve reference ", "failed to do request: ", "failed to copy: httpreadseeker: failed open: ", "error response from daemon: ",
	"failed to authorize: failed to fetch anonymous token: ", "failed to authorize: failed to fetch oauth token: ", "initializing source docker://",
	"pinging container registry ", "unexpected status from head request to https://", "unexpected status from get request to https://", "dial tcp: lookup ",
}

// registryCodes are the codes of the OCI distribution specification as the
// runtimes print them, in lower case with spaces.
var registryCodes = map[string]string{
	"blob unknown": "BLOB_UNKNOWN", "manifest blob unknown": "MANIFEST_BLOB_UNKNOWN", "manifest invalid": "MANIFEST_INVALID",
	"manifest unknown": "MANIFEST_UNKNOWN", "name invalid": "NAME_INVALID", "name unknown": "NAME_UNKNOWN",
	"unauthorized": "UNAUTHORIZED", "denied": "DENIED", "unsupported": "UNSUPPORTED", "toomanyrequests": "TOOMANYREQUESTS",
	"unavailable": "UNAVAILABLE", "unknown": "UNKNOWN", "manifest_unknown": "MANIFEST_UNKNOWN", "name_unknown": "NAME_UNKNOWN",
	"blob_unknown": "BLOB_UNKNOWN",
}

// sourceDenied are whole refusals of a source; sourceWords name it, deniedWords
// refuse it.
var (
	sourceDenied = []string{
		"client with ip", "geo-ip blocked", "geoblocked", "geo-blocked", "export control regulations", "public network access is disabled",
		"region from which you are pulling",
	}
	sourceWords = []string{"ip address", "source ip", "your ip", "client ip", "your country", "your region"}
	deniedWords = []string{
		"not allowed", "not permitted", "block access", "blocked", "denied", "not authorized", "not in the allow", "restricted", "not available", "forbidden",
	}
)

// markerWords are looked for by position, too; the lexicon tells whether to.
var markerWords = append([]string{
	"lookup ", "dial tcp", "read tcp", "write tcp", "x509: ", "remote error: tls: ", "malformed http response ", "local error: tls: ", "proxyconnect tcp: ", "socks connect tcp ",
	"anonymous token", "no basic auth credentials", "status code [", "status ", "unexpected status from ", "curl: (", "schema 1", "upstream", "cache rule", "proxy cache", "httpread", "failed seek", "proxy authentication required", "manifest unknown", "trying to pull repository", "unable to retrieve auth token",
	"reading manifest ", "pinging container registry ", "pinging docker registry ", "pulling from host ", "no suitable address found", "pulling image", "docker://", "failed to pull ",
	"pull and unpack image", "errimagepull:", "head ", "get ", "post ",
	"already present on machine", "successfully pulled image", "status: downloaded newer image for",
	"status: image is up to date for", "bytes read=0", "returns image reference ", "image is up to date for ", `pulling image "`, `msg="pullimage `, "denied", "unauthorized", "not found", "get sandbox image", "remote repository", "failed to do request: ", "unexpected eof", "context deadline exceeded", "context canceled", "request canceled", "operation was canceled",
}, slices.Concat(statusMarkers, imageMarkers, joinMarkers, sourceDenied, sourceWords, otherWords)...)
