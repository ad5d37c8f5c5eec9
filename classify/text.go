package classify

import (
	"slices"
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
	text := clean(message)
	reading := Reading{Kind: KindUnknown, Image: imageIn(text)}
	best, found := hit{}, false
	for _, record := range splitRecords(text) {
		outer := newPiece(record)
		var hits []hit
		for _, attempt := range splitAttempts(outer) {
			if h, ok := readAttempt(attempt, outer); ok {
				hits = append(hits, h)
			}
		}
		if len(hits) == 0 && strings.IndexByte(record, '\n') >= 0 && !outer.stopped {
			// A window may have cut lines inside of a word.
			joined := newPiece(strings.ReplaceAll(record, "\n", ""))
			if h, ok := readAttempt(attempt{text: joined.s}, joined); ok {
				hits = append(hits, h)
			}
		}
		if len(hits) == 0 {
			continue
		}
		top := bestAttempt(hits)
		fuller := found && top.cause == best.cause && top.knows() > best.knows()
		if found && !fuller && top.rank() <= best.rank() {
			if top.rank() == best.rank() && top.cause != best.cause && LayerOf(top.cause) == LayerOf(best.cause) && len(best.alternatives) < 4 && !slices.Contains(best.alternatives, top.cause) {
				best.alternatives = append(best.alternatives, top.cause) // another line says so
			}
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
		if pauseImage(reading.Image) {
			best.operation = OperationSandboxImage
			for i := range reading.Attempts {
				reading.Attempts[i].Operation = OperationSandboxImage
			}
		}
		reading.Kind, reading.Best = KindFailure, best.finding()
		reading.Decide = decide(best, reading.Image)
	default:
		var words wordSet
		theLexicon().scan(text, &words)
		reading.Kind, reading.Cached = quietKind(&words)
		if l := theLexicon(); reading.Kind == KindUnknown && (words.has(l.ids[`pulling image "`]) || words.has(l.ids[`msg="pullimage `])) {
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
		"RegistryUnavailable", "SignatureValidationFailed", "FailedToRetrieveImagePullSecret", "Pulled", "Pulling", "ErrImageNeverPull",
		"FreeDiskSpaceFailed", "ImageGCFailed":
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
	case "ErrImagePull", "ImagePullBackOff":
		if r.Kind == KindUnknown {
			r.Kind, r.Attempts = KindBackoff, nil // a status without a message
		}
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
	nobody       bool // the peer is not named: no endpoint
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

// knows counts what a hit says besides its cause. Of two lines about the same
// fault the fuller one is kept.
func (h hit) knows() int {
	n := 0
	if h.endpoint != "" {
		n++
	}
	if h.operation != "" && h.operation != OperationUnknown {
		n++
	}
	return n
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
	best := chooseAttempt(hits)
	if best.endpoint == "" && !best.mirror && best.answered() {
		// The credentials are tried at the same registry; one attempt may
		// print its URL and the other not.
		for _, h := range hits {
			if h.endpoint != "" && !h.mirror && h.answered() && h.operation == best.operation {
				best.endpoint = h.endpoint
				break
			}
		}
	}
	return best
}

func chooseAttempt(hits []hit) hit {
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
func quietKind(words *wordSet) (Kind, bool) {
	l := theLexicon()
	has := func(w string) bool { return words.has(l.ids[w]) }
	switch {
	case has("already present on machine"):
		return KindOK, true
	case has("successfully pulled image"), has("status: downloaded newer image for"):
		return KindOK, false
	case has("status: image is up to date for"):
		return KindOK, true
	case words.anyOf(backoffTable()):
		return KindBackoff, false
	}
	return KindUnknown, false
}

var (
	backoffTable = idsOf(backoffWords)
	pullTable    = idsOf(pullWords)
)

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
	"failed to pull ", "image to digest", "failed to resolve reference",
}

// markerWords are looked for by position, too; the lexicon tells whether to.
var markerWords = append([]string{
	"lookup ", "dial tcp", "read tcp", "write tcp", "x509: ", "remote error: tls: ", "malformed http response ", "proxyconnect tcp: ",
	"anonymous token", "no basic auth credentials", "failed with status code [", "status ", "trying to pull repository", "unable to retrieve auth token",
	"reading manifest ", "pinging container registry ", "pinging docker registry ", "pulling from host ", "no suitable address found", "pulling image", "docker://", "failed to pull ",
	"pull and unpack image", "errimagepull:", "already present on machine", "successfully pulled image", "status: downloaded newer image for",
	"status: image is up to date for", `pulling image "`, `msg="pullimage `, "pull image err: ", "mirrors also failed: [", "fallback sources also failed: [",
	"denied", "unauthorized", "not found", "failed to do request: ", "unexpected eof", "context deadline exceeded", "context canceled", "request canceled", "operation was canceled",
}, statusMarkers...)

// speaksOfPull reports whether a message is about an image pull at all.
func speaksOfPull(message string) bool {
	var words wordSet
	theLexicon().scan(message[:min(len(message), maxText)], &words)
	return words.anyOf(pullTable())
}
