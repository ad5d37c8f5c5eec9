package tlsauth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// finding says why a handshake failed. classical is that of the classical hello at
// the same endpoint, nil unless it completed.
func (s *attempt) finding(l *look, classical *attempt) classify.Finding {
	if s.dialErr != nil {
		return classify.Error(s.dialErr)
	}
	stage := &classify.StageError{Stage: classify.StageHandshake, Endpoint: l.endpoint(), Address: s.remote(l.address), Err: s.err}
	if s.silent {
		stage.Limit = l.c.limit()
		if f := l.path(s, classical); f != nil {
			return f.WithError(stage)
		}
		if s.hello == HelloLarge && classical != nil {
			return l.found(classify.RouteLargeHelloDropped, fmt.Sprintf(
				"a ClientHello of more than one segment got no answer within %v, while a small one completed the handshake", stage.Limit), s,
				classify.Fact{Key: classify.FactLimit, Value: stage.Limit.String()}).WithError(stage)
		}
		return l.found(classify.EndpointTLSHandshakeTimeout, fmt.Sprintf(
			"connected, but the TLS handshake was not answered to its end within %v", stage.Limit), s,
			classify.Fact{Key: classify.FactLimit, Value: stage.Limit.String()}).WithError(stage)
	}
	f := classify.Error(stage)
	f.Facts = append(slices.Clone(f.Facts), classify.Fact{Key: classify.FactHello, Value: string(s.hello)})
	if f.Fact(classify.FactAlert) != "" && s.client.asked {
		f = s.client.refine(l, f)
	}
	f.Endpoint = l.endpoint()
	if s.hello == HelloLarge && classical != nil && f.Layer == classify.LayerEndpoint {
		// A middlebox may also reset what it cannot reassemble.
		f.Alternatives = append(slices.Clone(f.Alternatives), classify.RouteLargeHelloDropped)
	}
	return f
}

// path says that a silent handshake is the path's fault: nil unless the same
// hello completes when the segments are clamped. classical is the handshake of the
// small hello with the path's own segments, nil unless it completed; it tells
// which way the large packets are lost.
//
//	hello, segments   large, own   classical, own   large, clamped   meaning
//	                  silent       done             done             lost on the way to the server, if the
//	                                                                 chain came in segments of full size:
//	                                                                 the answer to a large hello is large too
//	                  silent       done             silent           a middlebox that takes no split hello
//	                  silent       silent           done             lost on the way to the node
//	                  silent       silent           silent           not a matter of size
func (l *look) path(s, classical *attempt) *classify.Finding {
	for _, c := range l.clamped {
		if c.hello != s.hello || !c.done() {
			continue
		}
		way := "from the server to this node"
		switch {
		case classical == nil || s.hello != HelloLarge:
		case classical.chainSize() >= fullSegment:
			way = "from this node to the server"
		default:
			way = "on the way there or back"
		}
		f := l.found(classify.RouteMTUBlackHole, fmt.Sprintf(
			"the TLS handshake got no answer within %v, and completed at once with segments of %d bytes: larger packets are lost %s, and no message says so", l.c.limit(), c.mss, way), s,
			classify.Fact{Key: classify.FactLimit, Value: l.c.limit().String()}, classify.Fact{Key: classify.FactSize, Value: fmt.Sprint(c.mss)})
		return &f
	}
	return nil
}

// fullSegment is the size of a segment on an ordinary path of IPv4.
const fullSegment = 1460

// chainSize is how many bytes of certificates came.
func (s *attempt) chainSize() int {
	n := 0
	for _, c := range s.state.PeerCertificates {
		n += len(c.Raw)
	}
	return n
}

// refine reads an alert to a handshake in which a client certificate was
// demanded. Before TLS 1.3 there was no alert for one that did not come: servers
// sent bad_certificate or handshake_failure.
func (d *clientDemand) refine(l *look, f classify.Finding) classify.Finding {
	alert := f.Fact(classify.FactAlert)
	accepts := ""
	if len(d.accepts) > 0 {
		accepts = "; it accepts what is issued by " + strings.Join(d.accepts, " or ")
	}
	cause, summary := classify.TLSClientCertificateRequired, ""
	switch {
	case d.sent != nil:
		why := ""
		if leaf := d.sentLeaf; leaf != nil && l.now.After(leaf.NotAfter) {
			why = fmt.Sprintf(", which expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
		} else if leaf != nil && len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
			why = ", which was not issued for clients"
		}
		cause = classify.TLSClientCertificateRejected
		summary = fmt.Sprintf("the server refused the client certificate of %s%s with the alert %q", d.sent.source, why, alert)
	case d.had > 0:
		summary = fmt.Sprintf("the server demands a client certificate, and none of the %d configured ones fits what it asks for (alert %q)", d.had, alert)
	default:
		summary = fmt.Sprintf("the server asked for a client certificate and ended the handshake with the alert %q when none came", alert)
	}
	f = registry.Refine(f, cause, "")
	f.Summary = l.endpoint() + ": " + summary + accepts
	return f
}

// refusal is the finding for a word that came after the handshake, nil if none
// did: a close or a reset without an alert has other reasons as well.
func (s *attempt) refusal(l *look) *classify.Finding {
	if s.refused == nil {
		return nil
	}
	stage := &classify.StageError{Stage: classify.StageHandshake, Endpoint: l.endpoint(), Address: s.remote(l.address), Err: s.refused}
	f := classify.Error(stage)
	var alert tls.AlertError
	if f.Fact(classify.FactAlert) == "" && !errors.As(s.refused, &alert) {
		return nil
	}
	f = s.client.refine(l, f)
	f.Endpoint = l.endpoint()
	return &f
}

// refusedAddress reports whether an error is our own refusal.
func refusedAddress(err error) bool {
	var d *registry.DeniedError
	return errors.As(err, &d)
}

// addressDenied is the finding for it: a warning, because nothing was seen.
func (l *look) addressDenied(s *attempt) classify.Finding {
	f := l.found(classify.EndpointAddressDenied, "not asked, because the name leads to a link-local or platform address", s).WithError(s.dialErr)
	f.Severity = classify.SeverityWarn
	return f
}
