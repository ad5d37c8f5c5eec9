package registry

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Walk makes the requests of a pull at one source, one per call, in whatever
// order the caller likes. A Walk holds no state between calls, so that calls may
// run at once as long as its fields are left alone.
//
// Every step takes the [http.RoundTripper] to use. It must not follow redirects,
// and for an https URL it must have verified the certificate: that is what
// allows Authorization to be sent.
type Walk struct {
	Reference Reference
	// Base is where the source is: scheme://host[:port] and the path of its API,
	// "/v2" unless override_path says otherwise. Nil means the reference's own
	// host; an empty path means "/v2".
	Base *url.URL
	// Namespace is the registry's name that a mirror is told (ns=), "" for none.
	Namespace string
	// Client is whose requests are made where the runtimes differ: what a refused
	// ping means, where credentials go, what is resumed.
	Client    Client
	UserAgent string // "" = "pullwalk"
	// Authorization is sent to Base's own scheme, host and port, over https only, and
	// after a redirect where the runtime sends it there as well. "" = anonymous.
	Authorization string
	// OnBytes is told how many more bytes of a blob arrived; nil = nobody. It is
	// called from the goroutine of the call.
	OnBytes func(n int64)
	// MaxLayers is how many layers of one image are looked at; 0 = 128, which is
	// what overlay file systems stack.
	MaxLayers int

	Fields Fields // what the configuration adds to requests here, see [Fields.Apply]
}

const (
	DefaultAgent     = "pullwalk"
	defaultMaxLayers = 128
)

type askKind int

const (
	askResolve askKind = iota
	askManifest
	askBlob
	askPing
)

// ask is what a request wanted, kept with its report so that the next hop is
// judged like the first.
type ask struct {
	kind   askKind
	method string
	accept string
	digest string // "" = whatever the tag means
	expect string // media type by the parent, "" = none said
	mode   Mode   // of a blob
	ranged string // the Range field, "" = none
	part   *part  // what is resumed, nil = nothing
	// foreign says that the layer itself named the place, last that it is the last
	// such place.
	foreign, last bool
	// left says that a redirect led to a host to which net/http's client sends no
	// Authorization; it sends none after that.
	left bool
}

func (a ask) role() (classify.Operation, Role) {
	if a.kind == askBlob {
		return classify.OperationFetchBlob, RoleBlob
	}
	return classify.OperationResolveManifest, RoleManifest
}

// Resolve asks which manifest the reference means, as containerd does first:
// HEAD, or GET when the HEAD says that it must ([Report.NeedsGet]). The
// report's Digest is what to ask [Walk.Manifest] for. By HEAD nothing of the
// manifest is proved but what the server says of it.
func (w *Walk) Resolve(ctx context.Context, rt http.RoundTripper, method string) *Report {
	a := ask{kind: askResolve, method: method, accept: manifestAccept, digest: w.Reference.Digest}
	r, _ := w.manifest(ctx, rt, w.url("manifests", w.Reference.Identifier()), a, 1)
	return r
}

// Manifest gets a manifest or index by digest and believes it only after the
// digest was checked. mediaType is what the parent called it; more than one
// value, or none, is fine. The Manifest is nil unless its content can be used;
// it is also there when the report is inconclusive for having too many layers,
// and then holds the first of them.
func (w *Walk) Manifest(ctx context.Context, rt http.RoundTripper, digest string, mediaType ...string) (*Report, *Manifest) {
	a := ask{kind: askManifest, method: http.MethodGet, accept: manifestAccept, digest: digest}
	if len(mediaType) > 0 && mediaType[0] != "" {
		a.expect, a.accept = mediaType[0], strings.Join(mediaType, ", ")+", */*"
	}
	return w.manifest(ctx, rt, w.url("manifests", digest), a, 1)
}

// FollowManifest takes the next hop of a [Walk.Resolve] or [Walk.Manifest] that
// was redirected, without Authorization. The Manifest is set as by the step that
// is continued: never after a HEAD.
func (w *Walk) FollowManifest(ctx context.Context, rt http.RoundTripper, prev *Report) (*Report, *Manifest) {
	if prev == nil || prev.redirect == nil || prev.asked.kind == askBlob {
		return notRedirected(ask{kind: askManifest, method: http.MethodGet}), nil
	}
	if prev.asked.kind == askPing {
		return w.ping(ctx, rt, prev.redirect, prev.Hop+1), nil
	}
	return w.manifest(ctx, rt, prev.redirect, prev.asked, prev.Hop+1)
}

func notRedirected(a ask) *Report {
	r := &Report{Method: a.method, asked: a}
	r.Operation, r.Role = a.role()
	r.Unknown("the request before this one was not redirected")
	return r
}

// url builds the address of a manifest or blob at this source.
func (w *Walk) url(parts ...string) *url.URL {
	u := url.URL{Scheme: w.Reference.Scheme, Host: w.Reference.Host}
	if w.Base != nil {
		u = url.URL{Scheme: w.Base.Scheme, Host: w.Base.Host, Path: w.Base.Path}
	}
	if u.Path == "" {
		u.Path = "/v2"
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/" + w.Reference.Repository + "/" + strings.Join(parts, "/")
	if w.Namespace != "" {
		u.RawQuery = url.Values{"ns": {w.Namespace}}.Encode()
	}
	return &u
}

// Origin is the scheme, host and port to which Authorization may go.
func (w *Walk) Origin() *url.URL {
	if w.Base != nil {
		return w.Base
	}
	return &url.URL{Scheme: w.Reference.Scheme, Host: w.Reference.Host}
}

// send makes one request and judges everything but the content. The response is
// nil when the report is finished; else its status is 2xx and its body open.
func (w *Walk) send(ctx context.Context, rt http.RoundTripper, u *url.URL, a ask, hop int) (*Report, *http.Response) {
	r := &Report{Method: a.method, URL: RedactURL(u), Host: HostPort(u), Hop: hop, Digest: a.digest, asked: a, Endpoint: u.Host}
	r.Operation, r.Role = a.role()
	switch {
	case rt == nil:
		r.Unknown("no transport was given")
		return r, nil
	case u.Host == "" || w.Reference.Repository == "":
		r.Unknown("no image reference was given")
		return r, nil
	case ctx.Err() != nil:
		r.Unknown(Ended(ctx))
		return r, nil
	}
	req, err := http.NewRequestWithContext(ctx, a.method, u.String(), nil)
	if err != nil {
		r.Unknown("the request cannot be built: " + classify.Redact(err.Error(), 200))
		return r, nil
	}
	req.Header.Set("User-Agent", cmp.Or(w.UserAgent, DefaultAgent))
	req.Header.Set("Accept", a.accept)
	req.Header.Set("Accept-Encoding", "identity") // digests are over what is stored, not over a coding of it
	if a.ranged != "" {
		req.Header.Set("Range", a.ranged)
	}
	w.carry(r, req, hop)
	start := time.Now()
	resp, err := rt.RoundTrip(req)
	r.ElapsedMS = time.Since(start).Milliseconds()
	if err != nil {
		r.Broken(ctx, classify.StageHeaders, err)
		return r, nil
	}
	if resp.Request == nil {
		resp.Request = req
	}
	r.FirstByteMS = r.ElapsedMS
	r.Status, r.MediaType = resp.StatusCode, baseType(resp.Header.Get("Content-Type"))
	r.Correlation = CorrelationID(resp.Header)
	r.RateLimit, r.Product = rateLimit(resp.Header), product(resp.Header)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode <= 299:
		return r, resp
	case isRedirect(resp.StatusCode):
		discard(resp)
		w.redirected(r, u, resp)
	default:
		w.refusal(r, u, resp)
	}
	r.ElapsedMS = time.Since(start).Milliseconds()
	return r, nil
}

// discard gives a connection back if that costs little.
func discard(resp *http.Response) {
	if resp.ContentLength >= 0 && resp.ContentLength <= MaxErrorBody {
		_, _ = io.CopyN(io.Discard, resp.Body, resp.ContentLength+1)
	}
	_ = resp.Body.Close()
}

// redirected judges a redirect without following it.
func (w *Walk) redirected(r *Report, u *url.URL, resp *http.Response) {
	to, err := parseLocation(u, resp.Header.Values("Location"))
	status := classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(resp.StatusCode)}
	if err != nil {
		r.Fail(classify.New(classify.EndpointBadLocation,
			fmt.Sprintf("%s answered %d, a redirect that cannot be followed: %s", u.Host, resp.StatusCode, err), status))
		return
	}
	r.Location, r.redirect = RedactURL(to), to
	r.asked.left = r.asked.left || !KeepsAuthorization(w.Origin(), to)
	where := classify.Fact{Key: classify.FactURL, Value: r.Location}
	if r.Hop >= MaxRequests {
		r.redirect = nil
		r.Fail(classify.New(classify.EndpointHTTPRedirectLoop,
			fmt.Sprintf("%d requests were all answered by a redirect; the last, at %s, points to %s", r.Hop, u.Host, r.Location), status, where))
		return
	}
	r.Outcome = OutcomeRedirect
	kinds := lint(u, to)
	if u.Scheme == "https" && to.Scheme == "http" {
		f := classify.New(classify.EndpointBadLocation,
			fmt.Sprintf("%s redirects from https to plain http at %s; the runtime follows, and anyone on the path can read along", u.Host, to.Host), status, where)
		if len(kinds) > 0 {
			f.Facts = append(f.Facts, classify.Fact{Key: classify.FactReason, Value: strings.Join(kinds, ", ")})
		}
		r.warn(f)
	} else {
		r.linted(classify.EndpointBadLocation, kinds, fmt.Sprintf("%s redirects to %s", u.Host, r.Location), status, where)
	}
	if r.asked.kind != askBlob && r.asked.kind != askPing && !strings.EqualFold(u.Hostname(), to.Hostname()) {
		r.warn(classify.New(classify.EndpointRedirectedAway,
			fmt.Sprintf("%s sends the request for the manifest away to %s", u.Host, to.Host), status, where))
	}
}

// refusal judges a status that the pull cannot use as it is.
func (w *Walk) refusal(r *Report, u *url.URL, resp *http.Response) {
	if resp.StatusCode == http.StatusUnauthorized {
		r.challenges = ParseChallenges(resp.Header.Values("Www-Authenticate"))
		r.Challenges = printable(r.challenges)
		if !r.authorized && r.Hop == 1 {
			r.lintRealms(u)
		}
	}
	answer := ReadAnswer(resp, r.Operation)
	answer.Mirror = w.Namespace != ""
	denied := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
	switch {
	case r.asked.foreign:
		r.Refused(answer)
	case w.challenged(r):
		r.Answerer, r.Codes, r.Message = answer.Answerer, answer.Codes, answer.Message
		r.Unknown("credential withheld: after a redirect")
	case denied && !r.authorized && r.withheld != "" && (r.Hop > 1 || w.Authorization != "" || !usable(r.challenges)):
		// The runtime would have sent it here. We do not, so the answer says nothing
		// about the pull.
		r.Answerer, r.Codes, r.Message = answer.Answerer, answer.Codes, answer.Message
		r.Unknown(r.withheld)
	case resp.StatusCode == http.StatusUnauthorized && !r.authorized && r.Hop == 1 && usable(r.challenges):
		r.Outcome = OutcomeNeedsToken
	case resp.StatusCode == http.StatusUnauthorized && !r.authorized && r.Hop == 1 && answer.Answerer != AnswererHTML && answer.Answerer != AnswererObjectStore:
		r.Answerer, r.Codes, r.Message = answer.Answerer, answer.Codes, answer.Message
		what := "answered 401 without saying how to authenticate, so a runtime has nothing to answer"
		if len(r.Challenges) > 0 {
			what = fmt.Sprintf("wants authentication of kind %q, which the runtimes do not offer", r.Challenges[0].Scheme)
		}
		r.Fail(classify.New(classify.IdentityChallengeUnsupported, u.Host+" "+what, classify.Fact{Key: classify.FactStatus, Value: "401"}))
	case r.Method == http.MethodHead && r.asked.kind != askBlob && (resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented):
		r.warn(classify.New(classify.EndpointMethodBlocked,
			fmt.Sprintf("%s answered %d to the HEAD of a manifest; containerd asks again by GET after 405", u.Host, resp.StatusCode),
			classify.Fact{Key: classify.FactMethod, Value: r.Method}, classify.Fact{Key: classify.FactStatus, Value: strconv.Itoa(resp.StatusCode)}))
		r.Outcome = OutcomeNeedsGet
	case r.asked.kind == askPing:
		w.pingRefused(r, answer)
	default:
		r.Refused(answer)
	}
}

// usable says whether a runtime can answer one of the challenges. A bearer
// challenge without a usable realm counts: the token exchange names that fault.
func usable(challenges []Challenge) bool {
	for _, c := range challenges {
		if c.Scheme == "bearer" || c.Scheme == "basic" {
			return true
		}
	}
	return false
}
