package classify

import (
	"net"
	"strings"
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
	text := p.lower + " " + context
	for _, s := range stageWords {
		for _, w := range s.words {
			if strings.Contains(text, w) {
				return s.operation
			}
		}
	}
	return OperationUnknown
}

// stageWords are the words with which the runtimes name the step, in the order
// in which they are looked for: a token is asked for inside of a manifest
// request, and a manifest is read with words about copying.
var stageWords = []struct {
	operation Operation
	words     []string
}{
	{OperationFetchToken, []string{
		"anonymous token", "oauth token", "requesting bearer token", "decoding bearer token", "retrieve auth token", "obtain access token", "token response", "bearer auth challenge",
		"token auth challenge", "include a token in the response",
	}},
	{OperationResolveManifest, []string{"commit on ref \"manifest-", "commit on ref \"index-"}},
	{OperationExtract, []string{"failed to extract layer", "failed to register layer", "adding layer", "unpack image on snapshotter"}},
	{OperationFetchBlob, []string{
		"httpreadseeker", "httpreaderseeker", "reading blob", "writing blob", "fetching blob", "pulling image configuration", "content descriptor",
		"failed commit on ref", "short read: expected", "read expected number of bytes", "copying blob", "copying config", "failed to copy: ",
		"config blob", "parsing image configuration", "download failed after attempts", "download failed, retrying", "happened during read",
	}},
	{OperationResolveManifest, []string{
		"failed to resolve", "reading manifest", "pinging container registry", "pinging docker registry", "fetching manifest", "manifest for ",
		"initializing source docker", "manifest unknown", "content at ", "failed with status code [manifests", "choosing image instance", "trying to pull repository",
	}},
}

// namedHost returns the registry host that CRI-O names without a URL:
// "reading manifest TAG in HOST/REPO: ...", "pinging container registry HOST: ...".
func (p *piece) namedHost() string {
	for _, m := range []string{"reading manifest ", "pinging container registry ", "pinging docker registry "} {
		i := strings.LastIndex(p.lower, m)
		if i < 0 {
			continue
		}
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
		if host, _, ok := strings.Cut(rest, ": "); ok && validName(host) && !strings.Contains(host, " ") {
			return host
		}
	}
	return ""
}

// sandbox reports whether the lower-case text is about the pod sandbox's own
// image, which has none of the pod's credentials.
func sandbox(lower string) bool {
	switch {
	case strings.Contains(lower, "sandbox image"), strings.Contains(lower, "failed to create pod sandbox"),
		strings.Contains(lower, "failed create pod sandbox"), strings.Contains(lower, "creating pod sandbox"),
		strings.Contains(lower, "failedcreatepodsandbox"):
		return speaksOfPull(lower) || strings.Contains(lower, "pulling image") || strings.Contains(lower, "docker://")
	}
	return false
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
	if name, _, err := net.SplitHostPort(host); err == nil {
		bare = name
	}
	dialled := host
	if h.address != "" {
		dialled = h.address
	} else if !hasPort(host) {
		dialled = joinPort(host, "443")
	}
	atPort := host
	if !hasPort(host) {
		atPort = joinPort(host, "443")
	}
	switch {
	case layer == LayerDNS:
		return []string{"dns@" + host}
	case h.cause == RouteConnectWaitTimeout || h.cause == UnknownRequestDeadlineNoStage || h.cause == UnknownCanceledNoCause:
		return []string{"dns@" + bare, "connect@" + dialled, "tls@" + atPort, "request@" + host}
	case layer == LayerRoute || h.cause == EndpointConnectionRefused || h.cause == EndpointProxyUnreachable:
		return []string{"connect@" + dialled}
	case layer == LayerTLS || h.cause == EndpointTLSHandshakeTimeout || h.cause == EndpointConnectionReset || h.cause == EndpointConnectionClosedEOF:
		return []string{"tls@" + atPort}
	case layer == LayerUnknown:
		return nil
	}
	return []string{"request@" + host}
}
