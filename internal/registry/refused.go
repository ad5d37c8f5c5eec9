package registry

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// refused judges a status that the pull cannot use as it is.
func (w *Walk) refused(r *Report, u *url.URL, resp *http.Response) {
	first := resp.StatusCode == http.StatusUnauthorized && !r.authorized && r.Hop == 1
	if resp.StatusCode == http.StatusUnauthorized {
		r.challenges = ParseChallenges(resp.Header.Values("Www-Authenticate"))
		for _, ch := range r.challenges {
			r.Challenges = append(r.Challenges, ch.printable())
		}
		if first {
			r.oddRealms(u)
		}
	}
	answer := ReadAnswer(resp, r.Operation)
	answer.Mirror = w.Namespace != ""
	denied := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
	switch {
	case r.spec.foreign:
		r.Refused(answer)
	case w.answersElsewhere(r):
		r.quote(answer)
		r.Unknown("credential withheld: after a redirect")
	case denied && !r.authorized && r.withheld != "" && (r.Hop > 1 || w.Authorization != "" || !usable(r.challenges)):
		// The runtime would have sent it here and we do not, so that the answer says
		// nothing about the pull.
		r.quote(answer)
		r.Unknown(r.withheld)
	case first && usable(r.challenges):
		r.Outcome = OutcomeNeedsToken
	case first && answer.Answerer != AnswererHTML && answer.Answerer != AnswererObjectStore:
		r.quote(answer)
		problem := "answered 401 without saying how to authenticate, so a runtime has nothing to answer"
		if len(r.Challenges) > 0 {
			problem = fmt.Sprintf("wants authentication of kind %q, which the runtimes do not offer", r.Challenges[0].Scheme)
		}
		r.Fail(classify.New(classify.IdentityChallengeUnsupported, u.Host+" "+problem, classify.Fact{Key: classify.FactStatus, Value: "401"}))
	case r.Method == http.MethodHead && r.spec.kind != kindBlob && (resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented):
		r.Warn(classify.New(classify.EndpointMethodBlocked,
			fmt.Sprintf("%s answered %d to the HEAD of a manifest; containerd asks again by GET after 405", u.Host, resp.StatusCode),
			classify.Fact{Key: classify.FactMethod, Value: r.Method}, classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(resp.StatusCode)}))
		r.Outcome = OutcomeNeedsGet
	case r.spec.kind == kindPing:
		w.pingRefused(r, answer)
	default:
		r.Refused(answer)
	}
}

// pingRefused judges a status of the ping that CRI-O and docker stop at.
func (w *Walk) pingRefused(r *Report, answer *classify.HTTPAnswer) {
	if r.Status >= 500 || r.Status == http.StatusTooManyRequests || r.Status == http.StatusProxyAuthRequired {
		r.Refused(answer)
		return
	}
	r.quote(answer)
	then := "so the pull ends here, whatever manifests and blobs would do"
	if !w.Client.Pings {
		then = "which CRI-O, podman and docker stop at; containerd never asks"
	}
	facts := []classify.Fact{
		{Key: classify.FactMethod, Value: r.Method},
		{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)},
		{Key: classify.FactURL, Value: r.URL},
		{Key: classify.FactAnswerer, Value: answer.Answerer},
	}
	if answer.Message != "" {
		facts = append(facts, classify.Fact{Key: classify.FactMessage, Value: answer.Message})
	}
	r.Fail(classify.New(classify.EndpointMethodBlocked, fmt.Sprintf("%s answered %d to the first question, GET of /v2/, %s", r.Endpoint, r.Status, then), facts...))
}

// answersElsewhere reports whether the runtime would answer the challenge of a redirect
// target with the credential of the image: containerd asks the registry again, and then
// authorizes at the target. Nothing of ours goes there.
func (w *Walk) answersElsewhere(r *Report) bool {
	return r.Status == http.StatusUnauthorized && r.Hop > 1 && !r.authorized && !w.Client.IgnoresTargets && usable(r.challenges)
}

// usable reports whether a runtime can answer one of the challenges. A bearer challenge
// without a usable realm counts: the token exchange names that fault.
func usable(challenges []Challenge) bool {
	return slices.ContainsFunc(challenges, func(ch Challenge) bool { return ch.Scheme == "bearer" || ch.Scheme == "basic" })
}

// oddRealms warns of token servers that look wrong. The request to them decides; the
// warning says why it may fail.
func (r *Report) oddRealms(asked *url.URL) {
	for _, ch := range r.challenges {
		realm, err := RealmURL(ch)
		if ch.Scheme != "bearer" || err != nil {
			continue
		}
		r.odd(classify.EndpointBadRealm, oddities(asked, realm), fmt.Sprintf("%s names the token server %s", r.Endpoint, RedactURL(realm)),
			classify.Fact{Key: classify.FactRealm, Value: RedactURL(realm)})
	}
}

// page judges a web page in the place of content; it closes the body.
func (r *Report) page(resp *http.Response) {
	answer := ReadAnswer(resp, r.Operation)
	r.Answerer, r.Message = AnswererHTML, answer.Message
	title := ""
	if r.Message != "" {
		title = fmt.Sprintf(" titled %q", r.Message)
	}
	r.Fail(classify.New(classify.EndpointHTMLInsteadOfRegistry,
		fmt.Sprintf("%s answered %d with a web page%s: a portal, a proxy's block page or a login form stands where content was expected", r.Endpoint, r.Status, title),
		classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(r.Status)},
		classify.Fact{Key: classify.FactAnswerer, Value: AnswererHTML},
		classify.Fact{Key: classify.FactMessage, Value: r.Message}))
}

// coded ends a report whose content is encoded although identity was asked for: some
// runtimes decode it, some do not, and the bytes in hand prove nothing.
func (r *Report) coded(resp *http.Response) bool {
	coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	if coding == "" || coding == "identity" {
		return false
	}
	r.Unknown("the content came with the encoding " + classify.Redact(coding, 32) + ", so its digest cannot be checked")
	return true
}
