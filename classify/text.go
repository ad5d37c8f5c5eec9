package classify

import (
	"strings"
	"unicode/utf8"
)

// maxText is how much of a message is read. Kubelets cut an event at 1 KiB; log
// excerpts are longer.
const maxText = 64 << 10

// maxAttempts bounds the attempts of one text.
const maxAttempts = 16

// Text reads what a kubelet, containerd, CRI-O or docker printed about a pull:
// an event's message, a waiting reason, a line of a log. The wrappers are peeled
// off and the innermost cause counts, since the outer words ("pull access
// denied", "code = NotFound") are often not the fault.
//
// What it does not understand is [KindUnknown]: nothing is guessed. A finding
// from a text is [CertaintyPossible] at most, because many faults print the same
// words; Decide names the probes that would tell. Text reads at most 64 KiB.
func Text(message string) Reading {
	if len(message) > maxText {
		message = message[:maxText]
	}
	if !utf8.ValidString(message) {
		message = strings.ToValidUTF8(message, "\uFFFD")
	}
	text := unescape(strings.ReplaceAll(message, "**", "")) // bold in an issue
	reading := Reading{Kind: KindUnknown, Image: imageIn(text)}
	records := splitRecords(text)
	best, found := hit{}, false
	for _, record := range records {
		attempts := splitAttempts(record)
		var hits []hit
		for _, attempt := range attempts {
			if h, ok := readAttempt(attempt, record); ok {
				hits = append(hits, h)
			}
		}
		if len(hits) == 0 {
			continue
		}
		top := bestAttempt(hits)
		fuller := found && top.cause == best.cause && best.endpoint == "" && top.endpoint != ""
		if found && !fuller && top.rank() <= best.rank() {
			continue
		}
		best, found = top, true
		reading.Attempts = reading.Attempts[:0]
		for _, h := range hits {
			reading.Attempts = append(reading.Attempts, h.finding())
		}
	}
	switch {
	case found:
		reading.Kind, reading.Best = KindFailure, best.finding()
		reading.Decide = decide(best, reading.Image)
	default:
		reading.Kind, reading.Cached = quietKind(text)
		if reading.Kind == KindUnknown && pullStarted(text) {
			started := New(UnknownPullInProgress, sentences[UnknownPullInProgress])
			started.Severity, started.Certainty, started.Operation = SeverityInfo, CertaintyPossible, OperationUnknown
			reading.Attempts = []Finding{started}
		}
	}
	return reading
}

// Event reads an event of the cluster. The reason tells what the message is
// about, and events that are not about a pull are [KindUnknown] whatever they
// print: a failing readiness probe also says "connection refused". An empty
// reason is as [Text].
func Event(reason, message string) Reading {
	switch strings.TrimSpace(reason) {
	case "", "Failed", "ErrImagePull", "ImagePullBackOff", "BackOff", "InspectFailed", "ImageInspectError", "InvalidImageName",
		"RegistryUnavailable", "SignatureValidationFailed", "FailedToRetrieveImagePullSecret", "Pulled", "Pulling", "ErrImageNeverPull":
	case "FailedCreatePodSandBox", "FailedSync":
		if !speaksOfPull(message) {
			return Reading{Kind: KindUnknown}
		}
	default:
		if !speaksOfPull(message) {
			return Reading{Kind: KindUnknown}
		}
	}
	r := Text(message)
	switch strings.TrimSpace(reason) {
	case "BackOff":
		// "Back-off restarting failed container" has the same reason.
		if r.Kind == KindUnknown && speaksOfPull(message) {
			r.Kind = KindBackoff
		}
	case "ErrImageNeverPull":
		if r.Kind != KindFailure {
			r = withBest(r, NodeNeverPullPolicy, OperationUnknown)
		}
	case "InvalidImageName":
		if r.Kind != KindFailure {
			r = withBest(r, ImageInvalidReference, OperationUnknown)
		}
	case "SignatureValidationFailed":
		if r.Kind != KindFailure {
			r = withBest(r, NodeSignaturePolicyRejected, OperationUnknown)
		}
	case "FailedToRetrieveImagePullSecret":
		if r.Kind != KindFailure {
			r = withBest(r, IdentityPullSecretMissing, OperationUnknown)
			r.Best.Severity, r.Attempts[0].Severity = SeverityWarn, SeverityWarn
		}
	case "FailedCreatePodSandBox":
		if r.Kind == KindFailure {
			r.Best.Operation = OperationSandboxImage
			for i := range r.Attempts {
				r.Attempts[i].Operation = OperationSandboxImage
			}
		}
	case "Pulled":
		if r.Kind == KindUnknown && speaksOfPull(message) {
			r.Kind = KindOK
		}
	}
	return r
}

func withBest(r Reading, c Cause, op Operation) Reading {
	h := hit{cause: c, operation: op}
	r.Kind, r.Best = KindFailure, h.finding()
	r.Attempts = []Finding{r.Best}
	return r
}

// hit is what one attempt's text says.
type hit struct {
	cause        Cause
	operation    Operation
	endpoint     string
	address      string
	facts        []Fact
	alternatives []Cause
	mirror       bool // the attempt went to a mirror
	anonymous    bool // the attempt says that it had no credential
}

// finding makes the possible finding of a hit.
func (h hit) finding() Finding {
	sc := scene{operation: h.operation, endpoint: h.endpoint, address: h.address}
	f := sc.finding(h.cause, h.facts...)
	f.Certainty, f.Alternatives = CertaintyPossible, h.alternatives
	if h.cause == IdentityPullSecretMissing {
		f.Severity = SeverityWarn // the pull goes on without it
	}
	return f
}

// rank orders hits of one text: a cause explains a missing stage, and a missing
// stage explains a warning.
func (h hit) rank() int {
	switch {
	case h.cause == IdentityPullSecretMissing:
		return 1
	case LayerOf(h.cause) == LayerUnknown:
		return 2
	}
	return 3
}

// answered reports whether a registry spoke.
func (h hit) answered() bool {
	switch LayerOf(h.cause) {
	case LayerRegistry, LayerIdentity, LayerImage:
		return true
	}
	return false
}

// bestAttempt picks the attempt that counts. The kubelet tries its credentials
// in order and without one last, so the first counts; but one that got past the
// question of identity says more than one that did not. Of mirrors, the one that
// answered counts: in a closed network the others need not be reachable.
func bestAttempt(hits []hit) hit {
	best := hits[0]
	for _, h := range hits[1:] {
		switch {
		case h.rank() > best.rank():
			best = h
		case h.rank() < best.rank():
		case (best.mirror || h.mirror) && h.answered() && !best.answered():
			best = h
		case best.anonymous && !h.anonymous:
			best = h
		case LayerOf(best.cause) == LayerIdentity && !best.mirror && !h.anonymous &&
			(LayerOf(h.cause) == LayerImage || LayerOf(h.cause) == LayerRegistry):
			best = h
		}
	}
	return best
}

// quietKind reads texts without a failure.
func quietKind(text string) (Kind, bool) {
	lower := asciiLower(text)
	switch {
	case strings.Contains(lower, "already present on machine"):
		return KindOK, true
	case strings.Contains(lower, "successfully pulled image"),
		strings.Contains(lower, "status: downloaded newer image for"):
		return KindOK, false
	case strings.Contains(lower, "status: image is up to date for"):
		return KindOK, true
	}
	for _, w := range []string{
		"back-off pulling image", "imagepullbackoff", "trying and failing to pull image", "errimagepull", "image pull back-off",
	} {
		if strings.Contains(lower, w) {
			return KindBackoff, false
		}
	}
	return KindUnknown, false
}

// pullStarted reports whether the text says that a pull began and no more.
func pullStarted(text string) bool {
	lower := asciiLower(text)
	return strings.Contains(lower, `pulling image "`) || strings.Contains(lower, `msg="pullimage `)
}

// speaksOfPull reports whether a message is about an image pull at all.
func speaksOfPull(message string) bool {
	lower := asciiLower(message)
	for _, w := range []string{
		"pull image", "pulling image", "pulled image", "pull and unpack image", "pullimage", "errimagepull", "imagepullbackoff", "image pull",
		"get sandbox image", "sandbox image", "initializing source docker://", "already present on machine", "pull qps exceeded",
		"pulling container registry", "pinging container registry", "errimageneverpull", "pull policy of never",
	} {
		if strings.Contains(lower, w) {
			return true
		}
	}
	return false
}
