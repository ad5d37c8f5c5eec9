package classify

import (
	"slices"
	"strings"
	"sync"
)

// operation reads what part of a pull the text is about: by the request first,
// then by the stage that the runtime names. context is what stood before a list
// of attempts.
func (p *piece) operation(context string) Operation {
	if p.hasReq {
		if op := p.req.operation(); op != "" {
			return op
		}
	}
	if p.has("lookup ") && !p.has("proxyconnect tcp: ") && p.lookupOf("index.docker.io", "registry-1.docker.io") {
		// The two names that the Docker engine has built in for Docker Hub
		// (IndexHostname and DefaultV2Registry of its package registry): they
		// serve the API and no blobs.
		return OperationResolveManifest
	}
	words := p.words
	if context != "" {
		theLexicon().scan(context, &words)
	}
	for i, ids := range stageTable() {
		if words.anyOf(ids) {
			return stageWords[i].operation
		}
	}
	return OperationUnknown
}

// lookupOf reports whether one of names is looked up.
func (p *piece) lookupOf(names ...string) bool {
	for _, name := range names {
		if strings.Contains(p.lower, "lookup "+name) {
			return true
		}
	}
	return false
}

var stageTable = sync.OnceValue(func() [][]uint16 {
	var ids [][]uint16
	for _, s := range stageWords {
		ids = append(ids, idsOf(s.words)())
	}
	return ids
})

// stageWords are the words with which the runtimes name the step, in the order
// in which they are looked for: a token is asked for inside of a manifest
// request, and a manifest is read with words about copying.
var stageWords = []struct {
	operation Operation
	words     []string
}{
	{OperationResolveManifest, []string{"/manifests/"}},
	{OperationFetchToken, []string{
		"anonymous token", "oauth token", "requesting bearer token", "requesting bear token", "decoding bearer token", "retrieve auth token", "obtain access token", "token response", "bearer auth challenge",
		"token auth challenge", "include a token in the response",
	}},
	{OperationResolveManifest, []string{"commit on ref \"manifest-", "commit on ref \"index-"}},
	{OperationExtract, []string{"failed to extract layer", "failed to register layer", "adding layer", "unpack image on snapshotter"}},
	{OperationFetchBlob, []string{
		"httpreadseeker", "httpreaderseeker", "reading blob", "writing blob", "fetching blob", "pulling image configuration", "content descriptor",
		"failed commit on ref", "short read: expected", "read expected number of bytes", "copying blob", "copying config", "failed to copy: ",
		"config blob", "parsing image configuration", "download failed after attempts", "download failed, retrying", "happened during read",
		"external blob", "/getimageblob", "because of no progress in ", "for image pull progress", ": downloading [", "filesystem layer verification",
	}},
	{OperationResolveManifest, []string{
		"failed to resolve", "reading manifest", "pinging container registry", "pinging docker registry", "fetching manifest", "manifest for ",
		"initializing source docker", "manifest unknown", "content at ", "failed with status code [manifests", "choosing image instance", "trying to pull repository",
		"load metadata", "resolve source metadata", "resolve image config", "permission for manifest", "image to digest", "get checksum for docker",
		"named manifest", "manifest tagged by", "mirror resolve retries", "resolve mirror for key", "getting image source",
	}},
}

// namedHost returns the registry host that CRI-O names without a URL:
// "reading manifest TAG in HOST/REPO: ...", "pinging container registry HOST: ...".
func (p *piece) namedHost() string {
	for _, m := range [...]string{"reading manifest ", "pinging container registry ", "pinging docker registry ", "pulling from host "} {
		if !p.has(m) {
			continue
		}
		i := strings.LastIndex(p.lower, m)
		rest := p.flat[i+len(m):]
		rest = rest[:min(len(rest), 512)]
		if strings.HasPrefix(m, "reading") {
			_, in, ok := strings.Cut(rest, " in ")
			if !ok {
				continue
			}
			rest, _, _ = strings.Cut(in, ": ")
			if host := imageHost(rest); host != "" && !strings.HasSuffix(host, "docker.io") {
				return host
			}
			continue
		}
		host, _, ok := strings.Cut(rest, ": ")
		if m == "pulling from host " {
			host, _, ok = strings.Cut(rest, " failed with")
		}
		if ok && validName(host) && !strings.Contains(host, " ") {
			return host
		}
	}
	return ""
}

// sandbox reports whether the text is about the pod sandbox's own image, which
// has none of the pod's credentials.
func (p *piece) sandbox() bool {
	return p.words.anyOf(sandboxTable()) && (p.words.anyOf(pullTable()) || p.has("pulling image") || p.has("docker://"))
}

var sandboxTable = idsOf(sandboxWords)

var sandboxWords = []string{
	"sandbox image", "failed to create pod sandbox", "failed create pod sandbox", "creating pod sandbox", "failedcreatepodsandbox",
	"createpodsandbox for pod", "error creating pod sandbox",
}

// pauseImage reports whether a reference names the pod sandbox's image, by the
// name that it has everywhere.
func pauseImage(ref string) bool {
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimPrefix(name, "mirrored-")
	for _, arch := range [...]string{"-amd64", "-arm64", "-arm", "-ppc64le", "-s390x", "-windows"} {
		name = strings.TrimSuffix(name, arch)
	}
	return name == "pause"
}

// decide names the probes that would settle what a text can only suggest.
func decide(h hit, image string) []string {
	host := h.endpoint
	if host == "" {
		host = imageHost(image)
	}
	layer := LayerOf(h.cause)
	if host == "" || layer == LayerNode {
		return nil
	}
	bare := host
	if hasPort(host) {
		bare = strings.Trim(host[:strings.LastIndexByte(host, ':')], "[]")
	}
	switch {
	case layer == LayerDNS:
		return []string{"dns@" + host}
	case h.cause == RouteConnectWaitTimeout || h.cause == UnknownRequestDeadlineNoStage || h.cause == UnknownCanceledNoCause:
		return []string{"dns@" + bare, probeAt("connect@", orElse(h.address, host)), probeAt("tls@", host), "request@" + host}
	case layer == LayerRoute || h.cause == EndpointConnectionRefused || h.cause == EndpointProxyUnreachable:
		return []string{probeAt("connect@", orElse(h.address, host))}
	case layer == LayerTLS || h.cause == EndpointTLSHandshakeTimeout || h.cause == EndpointConnectionReset || h.cause == EndpointConnectionClosedEOF:
		return []string{probeAt("tls@", host)}
	case layer == LayerUnknown:
		return nil
	case slices.Contains(h.alternatives, EndpointSourceAddressDenied) || h.cause == EndpointSourceAddressDenied:
		// Whether the name leads to a private endpoint decides between an
		// identity and a network rule.
		return []string{"request@" + host, "dns@" + bare}
	}
	return []string{"request@" + host}
}

// probeAt names a probe of a port, HTTPS's own if host has none.
func probeAt(probe, host string) string {
	switch {
	case hasPort(host):
		return probe + host
	case strings.IndexByte(host, ':') >= 0:
		return probe + joinPort(host, "443")
	}
	return probe + host + ":443"
}
