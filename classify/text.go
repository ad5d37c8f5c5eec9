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
// words; Decide names the probes that would tell. Of a text
// longer than 64 KiB it reads the first three quarters and the last quarter of
// that.
func Text(message string) Reading {
	if len(message) > maxText {
		// The outer words stand left, the cause stands right.
		message = message[:maxText*3/4] + "\n" + message[len(message)-maxText/4:]
	}
	if !utf8.ValidString(message) {
		message = strings.ToValidUTF8(message, "\uFFFD")
	}
	var lines [4]string
	text := clean(message)
	records := splitRecords(text, lines[:0])
	reading := Reading{Kind: KindUnknown}
	var best attemptSet
	var one [1]hit // most texts are one record with one attempt
	room := one[:0]
	if len(records) > 1 {
		room = nil
	}
	var words wordSet // of all records
	for _, record := range records {
		var outer piece
		outer.read(record)
		reading.Image = orElse(reading.Image, outer.image())
		best.take(readRecord(&outer, room))
		for i := range words {
			words[i] |= outer.words[i]
		}
	}
	switch {
	case len(best.hits) > 0:
		if pauseImage(reading.Image) {
			for i := range best.hits {
				best.hits[i].operation = OperationSandboxImage
			}
		}
		reading.Kind = KindFailure
		reading.Attempts = make([]Finding, len(best.hits))
		for i := range best.hits {
			reading.Attempts[i] = best.hits[i].finding()
		}
		reading.Best = reading.Attempts[best.top]
		reading.Decide = decide(best.hits[best.top], reading.Image)
	default:
		reading.Kind, reading.Cached = quietKind(&words)
		if reading.Kind == KindUnknown && words.anyOf(startTable()) {
			started := New(UnknownPullInProgress, sentences[UnknownPullInProgress])
			started.Severity, started.Certainty, started.Operation = SeverityInfo, CertaintyPossible, OperationUnknown
			reading.Attempts = []Finding{started}
		}
	}
	return reading
}

// attemptSet is what one record says: its attempts and the one that counts.
type attemptSet struct {
	hits []hit
	top  int
}

// readRecord reads one line, with all attempts that it joins. It appends them to
// hits, which is empty.
func readRecord(outer *piece, hits []hit) attemptSet {
	if !outer.words.anyOf(joinTable()) {
		if h, ok := readAttempt(attempt{text: outer.s}, outer); ok {
			hits = append(hits, h)
		}
	} else {
		attempts := splitAttempts(outer.s)
		if len(attempts) == 1 && outer.s != outer.flat {
			attempts = splitAttempts(outer.flat) // a line's end inside of what joins them
		}
		for _, attempt := range attempts {
			if h, ok := readAttempt(attempt, outer); ok {
				hits = append(hits, h)
			}
		}
	}
	if len(hits) <= 1 && (len(hits) == 0 || hits[0].order > orderLookup) && mayBeCut(outer.s) {
		// A window may have cut lines inside of a word; then the words that are
		// whole again are the surer ones.
		var joined piece
		joined.read(strings.ReplaceAll(outer.s, "\n", ""))
		if h, ok := readAttempt(attempt{text: joined.s}, &joined); ok && (len(hits) == 0 || h.order < hits[0].order) {
			hits = []hit{h}
		}
	}
	if len(hits) == 0 {
		return attemptSet{}
	}
	return attemptSet{hits, bestAttempt(hits)}
}

// mayBeCut reports whether the first line of a record is as long as a window.
func mayBeCut(record string) bool {
	n := strings.IndexByte(record, '\n')
	return n >= 60
}

// take keeps o if it explains more than what was read before.
func (s *attemptSet) take(o attemptSet) {
	if len(o.hits) == 0 {
		return
	}
	if len(s.hits) == 0 {
		*s = o
		return
	}
	best, top := &s.hits[s.top], &o.hits[o.top]
	switch {
	case top.rank() > best.rank(), top.cause == best.cause && top.knows() > best.knows():
		*s = o
	case top.rank() == best.rank() && top.cause != best.cause && LayerOf(top.cause) == LayerOf(best.cause) &&
		len(best.alternatives) < 4 && !slices.Contains(best.alternatives, top.cause):
		best.alternatives = append(slices.Clip(best.alternatives), top.cause) // another line says so
	}
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
	order        int  // of the reader that found it, the surest first
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
func bestAttempt(hits []hit) int {
	top := chooseAttempt(hits)
	best := &hits[top]
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
	return top
}

func chooseAttempt(hits []hit) int {
	top := 0
	for i := 1; i < len(hits); i++ {
		best, h := &hits[top], &hits[i]
		switch {
		case h.rank() > best.rank():
			top = i
		case h.rank() < best.rank():
		case (best.mirror || h.mirror) && h.answered() && !best.answered():
			top = i
		case best.anonymous && !h.anonymous:
			top = i
		case LayerOf(best.cause) == LayerIdentity && !best.mirror && !h.anonymous &&
			(LayerOf(h.cause) == LayerImage || LayerOf(h.cause) == LayerRegistry):
			top = i
		}
	}
	return top
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
	case has("status: image is up to date for"), has("bytes read=0"):
		return KindOK, true // docker compared digests; containerd read nothing
	case has("returns image reference "), has("image is up to date for "):
		return KindOK, false // containerd's log, and what crictl says after any pull
	case words.anyOf(backoffTable()):
		return KindBackoff, false
	}
	return KindUnknown, false
}

var (
	backoffTable = idsOf(backoffWords)
	pullTable    = idsOf(pullWords)
	startTable   = idsOf([]string{`pulling image "`, `msg="pullimage `})
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
	"lookup ", "dial tcp", "read tcp", "write tcp", "x509: ", "remote error: tls: ", "malformed http response ", "local error: tls: ", "proxyconnect tcp: ", "socks connect tcp ",
	"anonymous token", "no basic auth credentials", "failed with status code [", "status ", "trying to pull repository", "unable to retrieve auth token",
	"reading manifest ", "pinging container registry ", "pinging docker registry ", "pulling from host ", "no suitable address found", "pulling image", "docker://", "failed to pull ",
	"pull and unpack image", "errimagepull:", "head ", "get ", "post ",
	"already present on machine", "successfully pulled image", "status: downloaded newer image for",
	"status: image is up to date for", "bytes read=0", "returns image reference ", "image is up to date for ", `pulling image "`, `msg="pullimage `, "denied", "unauthorized", "not found", "failed to do request: ", "unexpected eof", "context deadline exceeded", "context canceled", "request canceled", "operation was canceled",
}, slices.Concat(statusMarkers, imageMarkers, joinMarkers, sourceDenied, sourceWords)...)

// speaksOfPull reports whether a message is about an image pull at all.
func speaksOfPull(message string) bool {
	var words wordSet
	theLexicon().scan(message[:min(len(message), maxText)], &words)
	return words.anyOf(pullTable())
}
