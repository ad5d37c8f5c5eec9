package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Question is one question to one nameserver.
type Question struct {
	// Name is the full name, with or without its trailing dot. Nothing is appended.
	Name string
	// Type is "A", "AAAA" or "CNAME".
	Type string
	// CheckingDisabled asks a validating resolver to answer even if its DNSSEC check failed (CD,
	// RFC 4035 section 3.2.2). No runtime sets it; here it tells a DNSSEC fault from a dead
	// forwarder.
	CheckingDisabled bool
}

// Answer is what a nameserver said. A rcode other than NOERROR is an Answer too.
type Answer struct {
	// RCode is the response code by name: "NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", … Empty is
	// read as "NOERROR".
	RCode string `json:"rcode"`
	// Addresses are those of the type asked for, in the order of the answer, at most 64.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// CNAMEs is the CNAME chain in the order of the answer, at most 16 targets, without trailing
	// dot.
	CNAMEs []string `json:"cnames,omitempty"`
	// Authoritative is the server's own claim (AA).
	Authoritative bool `json:"authoritative,omitempty"`
	// Truncated says that the answer did not fit (TC): the rest needs TCP.
	Truncated bool `json:"truncated,omitempty"`
	// RecursionAvailable is the server's own claim (RA).
	RecursionAvailable bool `json:"recursionAvailable,omitempty"`
	// Lame marks a lame referral: no error, no record, neither authoritative nor recursive. Go's
	// resolver then asks the next nameserver.
	Lame bool `json:"lame,omitempty"`
	// TTLSeconds is the shortest lifetime among the records; 0 = none, or not to be cached.
	TTLSeconds int `json:"ttlSeconds,omitempty"`
	// NegativeTTLSeconds is how long a cache may keep the denial (RFC 2308 section 5); 0 = no
	// denial, or not to be cached.
	NegativeTTLSeconds int `json:"negativeTtlSeconds,omitempty"`
	// SOA is the zone whose SOA record came with a denial, without trailing dot. Empty = not said.
	SOA string `json:"soa,omitempty"`
	// SOASerial is the version of that zone.
	SOASerial int64 `json:"soaSerial,omitempty"`
	// Extended are the server's own reasons (RFC 8914), at most 4.
	Extended []ExtendedError `json:"extended,omitempty"`
	// Unmatched tells of datagrams before this answer that did not belong to the question; nil =
	// none came.
	Unmatched *Unmatched `json:"unmatched,omitempty"`
	// Tries is how many datagrams were sent; 0 or 1 = the first was answered.
	Tries int `json:"tries,omitempty"`
}

// ExtendedError is a reason that a server adds to an answer: RFC 8914.
type ExtendedError struct {
	// Code is the INFO-CODE.
	Code int `json:"code"`
	// Name is the registered meaning of Code; empty = not known here.
	Name string `json:"name,omitempty"`
	// Text is the server's own, bounded and redacted.
	Text string `json:"text,omitempty"`
}

// Unmatched are datagrams from a nameserver that do not answer the question. Go's resolver ignores
// each and waits on (dnsclient_unix.go, checkResponse; RFC 5452 section 9), so that the runtime
// runs into its timeout.
type Unmatched struct {
	// Count is how many came.
	Count int `json:"count"`
	// Why says in what the first of them differs.
	Why string `json:"why"`
	// RCode is the response code of the first of them with the right ID; empty = none had it. A
	// refusal without the question repeated is still a refusal.
	RCode string `json:"rcode,omitempty"`
	// From is set when it came from another address than the one asked.
	From netip.Addr `json:"from,omitzero"`
}

// UnmatchedError is in the chain of an [Exchanger]'s error when the wait ended and only [Unmatched]
// datagrams had come.
type UnmatchedError struct {
	Unmatched
	Err error // what ended the wait
}

// Error says what came, and what ended the wait.
func (e *UnmatchedError) Error() string { return fmt.Sprintf("%s: %v", e.Unmatched.text(), e.Err) }

// Unwrap returns what ended the wait.
func (e *UnmatchedError) Unwrap() error { return e.Err }

func (u *Unmatched) text() string {
	what := u.Why
	if u.RCode != "" {
		what = u.RCode + ", " + what
	}
	if u.From.IsValid() {
		what += " from " + u.From.String()
	}
	if u.Count > 1 {
		return fmt.Sprintf("%d answers that do not match the question (%s)", u.Count, what)
	}
	return "an answer that does not match the question (" + what + ")"
}

// Exchanger asks one nameserver one question, once.
type Exchanger interface {
	// Exchange sends q to server over network, "udp" or "tcp", and returns the answer. An error is
	// a failure of the transport, with the net and syscall errors still in its chain, or wraps
	// [ErrMalformed]; a rcode is no error. It returns soon after ctx ends. A truncated answer is
	// returned as it is: the caller asks again over TCP.
	Exchange(ctx context.Context, server netip.AddrPort, network string, q Question) (Answer, error)
}

// ExchangerFunc is a function as an [Exchanger].
type ExchangerFunc func(ctx context.Context, server netip.AddrPort, network string, q Question) (Answer, error)

// Exchange calls f.
func (f ExchangerFunc) Exchange(ctx context.Context, server netip.AddrPort, network string, q Question) (Answer, error) {
	return f(ctx, server, network, q)
}

// ErrMalformed is in the chain of an [Exchanger]'s error when the nameserver answered with
// something that is no readable DNS message.
var ErrMalformed = errors.New("dnscheck: answer cannot be read")

// The most that is kept of one answer. Real answers hold a handful; the rest would only be room for
// a hostile server.
const (
	maxAddresses = 64
	maxCNAMEs    = 16
	maxExtended  = 4
	maxNameText  = 255
	maxErrorText = 256
)

const (
	rcodeOK       = "NOERROR"
	rcodeNXDomain = "NXDOMAIN"
	rcodeRefused  = "REFUSED"
	rcodeServFail = "SERVFAIL"
)

// bounded returns a with nothing in it that a report may not hold, whatever Exchanger it came from,
// and only with addresses of the type asked for.
func (a Answer) bounded(qtype string) Answer {
	if a.RCode == "" {
		a.RCode = rcodeOK
	}
	a.RCode, a.SOA = classify.Redact(a.RCode, 32), classify.Redact(a.SOA, maxNameText)
	var addresses []netip.Addr
	for _, addr := range a.Addresses {
		// An IPv4 address in an AAAA record stays there, in the form that is dialled.
		is4 := addr.Is4()
		addr = addr.Unmap().WithZone("")
		if addr.IsValid() && is4 == (qtype == "A") && len(addresses) < maxAddresses {
			addresses = append(addresses, addr)
		}
	}
	var cnames []string
	for _, c := range a.CNAMEs[:min(len(a.CNAMEs), maxCNAMEs)] {
		cnames = append(cnames, classify.Redact(c, maxNameText))
	}
	var extended []ExtendedError
	for _, e := range a.Extended[:min(len(a.Extended), maxExtended)] {
		extended = append(extended, ExtendedError{e.Code, classify.Redact(e.Name, 64), classify.Redact(e.Text, maxErrorText)})
	}
	a.Addresses, a.CNAMEs, a.Extended = addresses, cnames, extended
	a.Unmatched = a.Unmatched.bounded()
	return a
}

func (u *Unmatched) bounded() *Unmatched {
	if u == nil {
		return nil
	}
	b := *u
	b.Why, b.RCode = classify.Redact(u.Why, maxErrorText), classify.Redact(u.RCode, 32)
	return &b
}

const (
	maxFQDN  = 254 // RFC 1035 section 2.3.4, in text with the trailing dot
	maxLabel = 63
)

// fqdn returns name with a trailing dot.
func fqdn(name string) string { return strings.TrimSuffix(name, ".") + "." }

// trimDot returns name without its trailing dot; the root zone stays ".".
func trimDot(name string) string {
	if name == "." {
		return name
	}
	return strings.TrimSuffix(name, ".")
}

// lower returns name in lower case without its trailing dot.
func lower(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// checkName refuses what is no host name, and says what it looks like instead.
func checkName(name string) error {
	why := ""
	switch host, port, found := strings.Cut(name, ":"); {
	case name == "":
		why = "it is empty"
	case strings.Contains(name, "://"):
		why = "it is a URL; give its host alone"
	case found && (strings.HasPrefix(name, "[") || !strings.Contains(port, ":")) && host != "":
		why = "it has a port or brackets; give the host alone"
	default:
		err := checkDomain(strings.TrimSuffix(name, "."))
		if err == nil {
			return nil
		}
		why = err.Error()
	}
	return fmt.Errorf("dnscheck: %s is not a host name: %s", classify.Redact(fmt.Sprintf("%.120q", name), 512), why)
}

// checkDomain holds name, without trailing dot, against the rules of Go's resolver (net's
// isDomainName): letters, digits, "-" and "_" in labels of 1 to 63 bytes, not digits alone.
func checkDomain(name string) error {
	if len(name) >= maxFQDN {
		return fmt.Errorf("it is longer than %d bytes", maxFQDN-1)
	}
	onlyDigits := true
	for label := range strings.SplitSeq(name, ".") {
		switch {
		case label == "":
			return errors.New("a part of it is empty")
		case len(label) > maxLabel:
			return fmt.Errorf("a part of it is longer than %d bytes", maxLabel)
		case label[0] == '-' || label[len(label)-1] == '-':
			return errors.New("a part of it begins or ends with a hyphen")
		}
		for _, b := range []byte(label) {
			switch {
			case '0' <= b && b <= '9':
			case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', b == '-', b == '_':
				onlyDigits = false
			default:
				return fmt.Errorf("it holds %q, which a host name cannot", rune(b))
			}
		}
	}
	if onlyDigits {
		return errors.New("it holds digits only")
	}
	return nil
}

// below returns what stands before domain in name, "@" for the domain itself.
func below(name, domain string) (string, bool) {
	if name == domain {
		return "@", true
	}
	return strings.CutSuffix(name, "."+domain)
}

func isLocalhost(name string) bool {
	_, ok := below(lower(name), "localhost")
	return ok
}

// loopOf returns the name to which a CNAME chain comes back; "" = to none.
func loopOf(name string, chain []string) string {
	seen := []string{lower(name)}
	for _, c := range chain {
		c = lower(c)
		if slices.Contains(seen, c) {
			return c
		}
		seen = append(seen, c)
	}
	return ""
}

// privateLinkLabel marks the zones made for private endpoints: the name of the service is an alias
// into one, and only the private view of it holds a private address (Azure Private Link; others
// have taken the habit over).
const privateLinkLabel = "privatelink"

// privateLinkOf returns the private-link name among the name asked for, the aliases of its answer
// and the zone that denied it; "" = none.
func privateLinkOf(name string, a *Answer) string {
	names := []string{name}
	if a != nil {
		names = append(append(names, a.CNAMEs...), a.SOA)
	}
	for _, n := range names {
		if slices.Contains(strings.Split(strings.ToLower(n), "."), privateLinkLabel) {
			return trimDot(n)
		}
	}
	return ""
}

// isAzureLink reports whether a name can have a private endpoint of Azure: it lies in a
// private-link zone, or is that of a registry.
func isAzureLink(name string) bool {
	name = lower(name)
	for _, domain := range []string{"azurecr.io", "azurecr.cn", "azurecr.us"} {
		if _, ok := below(name, domain); ok {
			return true
		}
	}
	return strings.Contains(name, "."+privateLinkLabel+".") && (strings.HasSuffix(name, ".windows.net") || strings.HasSuffix(name, ".azure.com"))
}

// clusterName says why name looks like one of the cluster's own; "" = it does not.
func clusterName(name string) string {
	name = lower(name)
	switch {
	case strings.HasSuffix(name, ".svc"), strings.Contains(name, ".svc."):
		return "is the name of a Service"
	case strings.HasSuffix(name, ".cluster.local"):
		return "is a name of the cluster domain"
	case !strings.Contains(name, "."):
		return "is a single label, as a Service has in its own namespace"
	}
	return ""
}

// sharedDomains are those below which every customer of a provider has a name.
var sharedDomains = []string{
	"azurecr.io", "azurecr.cn", "azurecr.us", "windows.net", "azure.com", "amazonaws.com", "on.aws", "cloudfront.net",
	"googleapis.com", "pkg.dev", "gcr.io", "docker.io", "docker.com", "cloudflarestorage.com", "quay.io", "github.com", "github.io",
}

// related reports whether two names probably belong to one service.
func related(a, b string) bool {
	x, y := strings.Split(lower(a), "."), strings.Split(lower(b), ".")
	common := 0
	for common < len(x) && common < len(y) && x[len(x)-1-common] == y[len(y)-1-common] {
		common++
	}
	switch {
	case common < 2:
		return false
	case slices.Contains(sharedDomains, strings.Join(x[len(x)-2:], ".")):
		return x[0] == y[0]
	case len(x[len(x)-1]) == 2 && len(x[len(x)-2]) <= 3: // co.uk and the like
		return common >= 3
	}
	return true
}
