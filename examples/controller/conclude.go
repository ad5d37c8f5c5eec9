package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// The reasons of a condition that are not those of a result.
const (
	reasonNotProbedYet  = "NotProbedYet"
	reasonNotAsked      = "NotAsked"
	reasonUnreachable   = "AgentUnreachable"
	reasonRefuses       = "AgentRefuses"
	reasonUnusable      = "AgentAnswerUnusable"
	reasonOtherIdentity = "OtherIdentity"
	reasonNotReported   = "PullNotReported"
	reasonImagesPresent = "ImagesPresent"
)

// conclusion is what is said of one image, or of a Pod.
type conclusion struct {
	status  corev1.ConditionStatus // False: it was seen to fail. True: the images are there.
	reason  string
	message string
	advice  string         // what repairs it; "" = nobody knows yet
	source  string         // who says so: sourceProbe, sourceText, sourceKubelet
	cause   classify.Cause // "" = not known
	key     string         // changes when something changed that is worth telling
	guess   bool           // stands in for an answer that may come soon
}

// The sources of a conclusion.
const (
	sourceProbe   = "probe"   // the agent of the node saw it
	sourceText    = "text"    // only read
	sourceKubelet = "kubelet" // the kubelet decided it and says so
)

// answer is what is kept of a Result: a whole one has many kilobytes.
type answer struct {
	at              time.Time
	verdict         pullwalk.Status
	reason, message string
	cause           classify.Cause
	fingerprint     string
	note            string // what may explain why the cluster reported something else
	secrets         bool   // the Pod's own were sent
}

func newAnswer(r *pullwalk.Result, at time.Time, secrets bool) *answer {
	a := &answer{at: at, verdict: r.Verdict, fingerprint: r.Fingerprint(), secrets: secrets}
	a.reason, a.message = r.Condition()
	if r.Primary != nil {
		a.cause = r.Primary.Cause
	}
	if r.Reported != nil && r.Reported.Agrees == "no" {
		a.note = classify.Redact(r.Reported.Note, 200)
	}
	return a
}

// dependsOnIdentity says that somebody with other credentials may meet something
// else. What comes before the registry does not ask who pulls.
func dependsOnIdentity(c classify.Cause) bool {
	return classify.LayerOf(c).Rank() >= classify.LayerRegistry.Rank()
}

// conclude says what the answer is worth for a Pod that waits for f.
func (a *answer) conclude(pod *corev1.Pod, f failure, text reading) conclusion {
	c := conclusion{status: corev1.ConditionUnknown, reason: a.reason, message: a.message, source: sourceProbe, cause: a.cause}
	switch a.verdict {
	case pullwalk.StatusFailed:
		if whose := a.otherIdentity(pod, f); whose != "" && dependsOnIdentity(a.cause) {
			c.reason, c.message = reasonOtherIdentity, "seen with the node's own credentials only, "+whose+": "+a.message
			break
		}
		c.status = corev1.ConditionFalse
		if info, known := classify.Lookup(a.cause); known {
			if !text.first.IsZero() {
				c.advice = "First reported " + text.first.UTC().Format(time.RFC3339) + ". "
			}
			c.advice += "Repair: " + info.Remedy
			if info.NotFixedBy != "" {
				c.advice += " Not by: " + info.NotFixedBy
			}
		}
	case pullwalk.StatusOK, pullwalk.StatusDegraded:
		// Nothing is proved by that as long as the kubelet says otherwise.
		c.message = "the node's agent met no failure, and the kubelet still reports " + cmp.Or(string(text.finding.Cause), "one")
		if whose := a.otherIdentity(pod, f); whose != "" {
			c.message += " (seen with the node's own credentials only, " + whose + ")"
		} else if a.note != "" {
			c.message += " (" + a.note + ")"
		}
		c.message += ": " + a.message
	}
	c.key = key(c.source, string(c.status), c.reason, a.fingerprint)
	return c
}

// otherIdentity says with which credentials the pull is tried, if those were not
// the ones that the answer was found with.
func (a *answer) otherIdentity(pod *corev1.Pod, f failure) string {
	switch {
	case f.sandbox:
		return "and the runtime pulls the sandbox's image itself, with what its own configuration holds"
	case len(names(pod)) > 0 && !a.secrets:
		return "and the Pod's pull secrets were not sent to the agent"
	}
	return ""
}

// problem is why there is no answer.
type problem struct{ reason, text string }

// textOnly is what the texts say, and that nothing was probed.
func textOnly(text reading, p problem) conclusion {
	c := conclusion{status: corev1.ConditionUnknown, reason: p.reason, source: sourceText, cause: text.finding.Cause}
	c.message = "text only, not probed: "
	if c.cause == "" {
		c.message += "no text says why"
	} else {
		_, said := conditionOf(text.finding)
		c.message += said
	}
	if !text.first.IsZero() {
		c.message += " First reported " + text.first.UTC().Format(time.RFC3339) + "."
	}
	if text.stale {
		c.message += " (So the Pod's status; its events are older and name another cause.)"
	}
	if p.text != "" {
		c.message += " Not probed: " + p.text
	}
	c.key = key(c.source, c.reason, string(c.cause), text.finding.Endpoint)
	return c
}

// byKubelet is what the kubelet decided before it sent a packet.
func byKubelet(text reading) conclusion {
	c := conclusion{status: corev1.ConditionFalse, source: sourceKubelet, cause: text.finding.Cause}
	c.reason, c.message = conditionOf(text.finding)
	c.key = key(c.source, c.reason)
	return c
}

// conditionOf words a finding as the library words that of a result.
func conditionOf(f classify.Finding) (reason, message string) {
	r := pullwalk.Result{Verdict: pullwalk.StatusFailed, Primary: &f}
	return r.Condition()
}

const maxOthers = 3 // images that are named beside the first

// combine makes one conclusion for a Pod of those for its images. What was seen to
// fail comes first, else the first image.
func combine(images []string, of []conclusion) conclusion {
	first := 0
	for i := range of {
		if of[i].status == corev1.ConditionFalse {
			first = i
			break
		}
	}
	out := of[first]
	out.message = shown(images[first]) + ": " + out.message
	var keys []string
	others := 0
	for i := range of {
		keys = append(keys, images[i], of[i].key)
		out.guess = out.guess || of[i].guess
		if i == first || images[i] == images[first] {
			continue
		}
		if others++; others <= maxOthers {
			out.message += fmt.Sprintf("; also %s: %s", shown(images[i]), of[i].reason)
		}
	}
	if others > maxOthers {
		out.message += fmt.Sprintf("; and %d more images", others-maxOthers)
	}
	out.key = key(keys...)
	return out
}

// recovered is for a Pod that bears a condition and of which the kubelet reports no
// failed pull any more.
func recovered(pod *corev1.Pod) conclusion {
	c := conclusion{status: corev1.ConditionTrue, reason: reasonImagesPresent, source: sourceKubelet,
		message: "the images are on the node; that proves nothing for other nodes, nor that the registry was asked for what this one had"}
	if images, all := present(pod); images < all {
		c.status, c.reason = corev1.ConditionUnknown, reasonNotReported
		c.message = "the kubelet reports no failed pull any more, and not all images are on the node yet"
	}
	c.key = key(c.source, c.reason)
	return c
}

// shown makes a name that anybody may have written safe to print.
func shown(image string) string { return strings.TrimSpace(classify.Redact(image, 160)) }

// key is a short sum of what it is made of.
func key(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:16])
}
