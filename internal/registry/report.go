package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Role is what a host is needed for in a pull.
type Role string

// The roles.
const (
	RoleManifest Role = "manifest" // the registry: manifests, and blobs unless it redirects
	RoleToken    Role = "token"    // the token server that the registry names
	RoleBlob     Role = "blob"     // where a blob is asked for, wherever that is
	RoleMirror   Role = "mirror"   // a host that the runtime asks before the registry
	RoleProxy    Role = "proxy"    // a forward proxy
	RoleResolver Role = "resolver" // a nameserver
	RoleExpected Role = "also"     // named by the caller, not seen in this pull
	// RoleSandbox is the registry of the image that every pod needs before any of its own,
	// and every other host that a pull of that one touches.
	RoleSandbox Role = "sandbox"
	// RoleCredential is where credentials come from before any registry is asked: a cloud's
	// metadata service, a login server.
	RoleCredential Role = "credential-source"
)

// Outcome is what one request settled.
type Outcome string

// The outcomes.
const (
	OutcomeHeld         Outcome = "held"         // what was asked for was seen
	OutcomeRedirect     Outcome = "redirect"     // a usable redirect: the content is elsewhere
	OutcomeNeedsToken   Outcome = "needs-token"  // an anonymous request was challenged
	OutcomeNeedsGet     Outcome = "needs-get"    // a HEAD did not say enough, the runtime asks by GET
	OutcomeNotNeeded    Outcome = "not-needed"   // refused, and this runtime never asks for it
	OutcomeFailed       Outcome = "failed"       // see Report.Found
	OutcomeInconclusive Outcome = "inconclusive" // see Request.Inconclusive
)

// Request is one HTTP request of a pull and what came of it. It holds no header, no query
// and no credential.
type Request struct {
	Operation classify.Operation `json:"operation"`
	Role      Role               `json:"role"`
	Outcome   Outcome            `json:"outcome"`
	Method    string             `json:"method"`
	URL       string             `json:"url"`                 // without query and user information
	Host      string             `json:"host"`                // host:port, the port always there
	Hop       int                `json:"hop"`                 // 1 = the first request, 2 = after one redirect
	Status    int                `json:"status,omitempty"`    // 0 = no answer came
	MediaType string             `json:"mediaType,omitempty"` // of the answer
	Digest    string             `json:"digest,omitempty"`    // expected, else as the server announced it
	Size      int64              `json:"size,omitempty"`      // bytes, expected or announced; 0 = not known
	Bytes     int64              `json:"bytes,omitempty"`     // bytes of content that arrived, those before Offset included
	Offset    int64              `json:"offset,omitempty"`    // where a resumed download went on; 0 = the start
	// BytesPerSecond is the rate of a blob that took at least a second; 0 = not measured.
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	// Complete says that every byte was read and that the digest was checked. It is false
	// after a HEAD, and after the first bytes of a larger blob.
	Complete   bool                 `json:"complete,omitempty"`
	Challenges []classify.Challenge `json:"challenges,omitempty"`
	Location   string               `json:"location,omitempty"` // without query
	// Answerer, Codes and Message say who refused and in which words; see
	// [classify.HTTPAnswer].
	Answerer    string   `json:"answerer,omitempty"`
	Codes       []string `json:"codes,omitempty"`
	Message     string   `json:"message,omitempty"`
	Correlation string   `json:"correlation,omitempty"` // the server's own id of the request
	// Product is the software or service that wrote the answer, by its own fields; "" = it
	// does not show.
	Product      string              `json:"product,omitempty"`
	RateLimit    *classify.RateLimit `json:"rateLimit,omitempty"`    // nil = none was announced
	Credentialed bool                `json:"credentialed,omitempty"` // the request carried a credential or a token
	FirstByteMS  int64               `json:"firstByteMs,omitempty"`  // until the headers had arrived
	ElapsedMS    int64               `json:"elapsedMs"`
	Inconclusive string              `json:"inconclusive,omitempty"` // why nothing can be said; "" = something can
}

// Report is a request with what is needed to go on after it.
type Report struct {
	Request
	Found    []classify.Finding `json:"-"` // what is wrong or worth saying, in the order found
	Endpoint string             `json:"-"` // host[:port] as the URL shows it

	spec       spec
	challenges []Challenge // as sent: realms may hold a query
	redirect   *url.URL    // as sent, with its signature
	authorized bool        // Walk.Authorization was sent
	withheld   string      // what the runtime would have sent along and may not go there from here; "" = nothing
	rest       *part       // a broken download that can be resumed
}

func newReport(s spec, u *url.URL, hop int) *Report {
	r := &Report{spec: s}
	r.Operation, r.Role = roleOf(s.kind)
	r.Method, r.Hop, r.Digest = s.method, hop, s.digest
	if u != nil {
		r.URL, r.Host, r.Endpoint = RedactURL(u), HostPort(u), u.Host
	}
	return r
}

func roleOf(k kind) (classify.Operation, Role) {
	if k == kindBlob {
		return classify.OperationFetchBlob, RoleBlob
	}
	return classify.OperationResolveManifest, RoleManifest
}

// notAsked is the report of a request that was not made.
func notAsked(s spec, why string) *Report {
	s.digest = "" // which nobody has looked at
	r := newReport(s, nil, 0)
	r.Unknown(why)
	return r
}

// Held reports whether the request did what a pull needs of it: the manifest was described,
// or the bytes asked for arrived, or a usable redirect came, or it was refused and this
// runtime does not need it. A challenge is none of these.
func (r *Report) Held() bool {
	return r.Outcome == OutcomeHeld || r.Outcome == OutcomeRedirect || r.Outcome == OutcomeNotNeeded
}

// NeedsToken reports whether an anonymous request was challenged in a usable way.
func (r *Report) NeedsToken() bool { return r.Outcome == OutcomeNeedsToken }

// NeedsGet reports whether a GET of the same is worth its request: the HEAD is not allowed
// or did not give digest and size, so that the runtime asks again by GET, or it was refused
// and only an answer with a body says why. The report of that GET takes the place of this
// one.
func (r *Report) NeedsGet() bool {
	if r.Method != http.MethodHead {
		return false
	}
	if r.Outcome == OutcomeFailed {
		return r.Status == 400 || r.Status == 403 || r.Status == 404 || r.Status == 451
	}
	return r.Outcome == OutcomeNeedsGet
}

// Challenge returns the challenges as they were sent, for the token exchange. They are not
// for printing.
func (r *Report) Challenge() []Challenge { return slices.Clone(r.challenges) }

// Redirect returns where the answer sends the client, nil if nowhere. Its query is usually
// a signature that grants access and must never be printed.
func (r *Report) Redirect() *url.URL {
	if r.redirect == nil {
		return nil
	}
	u := *r.redirect
	return &u
}

// Foreign reports whether a place was asked that the layer itself names.
func (r *Report) Foreign() bool { return r.spec.foreign }

// Findings returns a copy of Found.
func (r *Report) Findings() []classify.Finding { return slices.Clone(r.Found) }

// Add records a finding of this request.
func (r *Report) Add(f classify.Finding) {
	if f.Operation == "" {
		f.Operation = r.Operation
	}
	if f.Endpoint == "" {
		f.Endpoint = r.Endpoint
	}
	r.Found = append(r.Found, f)
}

// Fail records a failing finding, which decides the outcome.
func (r *Report) Fail(f classify.Finding) {
	r.Add(f)
	r.Outcome = OutcomeFailed
}

// Warn records a finding as a warning.
func (r *Report) Warn(f classify.Finding) {
	f.Severity = classify.SeverityWarn
	r.Add(f)
}

// notNeeded turns a failure into warnings: this runtime goes on without the request.
func (r *Report) notNeeded() {
	r.Outcome = OutcomeNotNeeded
	for i := range r.Found {
		r.Found[i].Severity = classify.SeverityWarn
	}
}

// Unknown records that nothing can be said, and why.
func (r *Report) Unknown(reason string) { r.Outcome, r.Inconclusive = OutcomeInconclusive, reason }

// Broken judges a request that got no complete answer. A limit of the request itself is a
// finding, whatever else has ended meanwhile; the caller's end is not.
func (r *Report) Broken(ctx context.Context, stage classify.Stage, err error, facts ...classify.Fact) {
	var (
		staged *classify.StageError
		denied *DeniedError
		unseen *UnreachedError
		answer *classify.HTTPAnswer // a proxy's, from the dialer
	)
	isStaged := errors.As(err, &staged)
	switch {
	case Over(ctx) && (!isStaged || staged.Limit == 0):
		r.Unknown(Ended(ctx))
		return
	case errors.As(err, &unseen):
		r.Outcome = OutcomeFailed
		for _, f := range unseen.Findings {
			f.Operation = r.Operation
			r.Add(f)
		}
		if unseen.Inconclusive != "" {
			r.Unknown(unseen.Inconclusive)
		}
		return
	case errors.As(err, &denied):
		r.Warn(classify.New(classify.EndpointAddressDenied, fmt.Sprintf("%s leads to %s, which is not contacted: %v", r.Endpoint, denied.Addr, denied.Err),
			classify.Fact{Key: classify.FactAddress, Value: denied.Addr.String()}))
		r.Unknown(denied.Error())
		return
	case errors.Is(err, ErrProxyScheme):
		r.Unknown(classify.Redact(err.Error(), 200))
		return
	case isStaged:
		filled := *staged
		if filled.Operation == "" {
			filled.Operation = r.Operation
		}
		if filled.Endpoint == "" {
			filled.Endpoint = r.Endpoint
		}
		err = &filled
	case !errors.As(err, &answer):
		err = &classify.StageError{Stage: stage, Operation: r.Operation, Endpoint: r.Endpoint, Err: err}
	}
	f := classify.Error(err)
	f.Facts = append(slices.Clone(f.Facts), facts...)
	r.Fail(f)
}

// Refused judges a complete answer that the pull cannot use.
func (r *Report) Refused(answer *classify.HTTPAnswer) {
	r.quote(answer)
	f := classify.Error(answer)
	if r.Correlation != "" && f.Fact(classify.FactCorrelation) == "" {
		f.Facts = append(slices.Clone(f.Facts), classify.Fact{Key: classify.FactCorrelation, Value: r.Correlation})
	}
	r.Fail(f)
}

// quote records who answered, and in which words.
func (r *Report) quote(answer *classify.HTTPAnswer) {
	r.Answerer, r.Codes, r.Message = answer.Answerer, answer.Codes, answer.Message
}

// Over reports whether ctx has ended, also in the instant in which its deadline has passed
// and its timer has not run yet: the network sees deadlines first.
func Over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// Ended is the reason of an inconclusive report whose caller has gone.
func Ended(ctx context.Context) string {
	cause := context.Cause(ctx)
	if cause == nil {
		cause = context.DeadlineExceeded
	}
	return "the caller's time ended: " + classify.Redact(cause.Error(), 200)
}
