package tlsauth

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// untrusted says why no path leads to a root. What can be proved comes before
// what only names suggest.
func (t *trial) untrusted(err error) []problem {
	leaf := t.leaf()
	if weak := t.weak(); weak != nil {
		return []problem{{cause: classify.TLSWeakSignature, summary: fmt.Sprintf(
			"the certificate %q is signed with %s, which Go refuses", subject(weak), weak.SignatureAlgorithm)}}
	}
	if bad := t.noAuthority(); bad != nil {
		return []problem{{cause: classify.TLSWrongKeyUsage, summary: fmt.Sprintf(
			"the certificate %q, which signed another one of the chain, may not sign certificates", subject(bad))}}
	}
	if c := t.misplaced(); c != nil {
		return []problem{{
			cause: classify.TLSCAMisplaced, others: []classify.Cause{classify.TLSUnknownAuthority},
			summary: fmt.Sprintf("the chain would verify with the CA in %s, which the runtime does not read: %s", c.file, c.why),
			facts:   []classify.Fact{{Key: classify.FactFile, Value: classify.Redact(c.file, 256)}},
		}}
	}
	if p := t.forgotten(); p != nil {
		return []problem{*p}
	}
	if t.selfSigned(leaf) {
		return []problem{{cause: classify.TLSSelfSigned, summary: fmt.Sprintf(
			"the certificate %q is self-signed and not among this node's roots", subject(leaf))}}
	}
	if p := t.intercepted(); p != nil {
		return []problem{*p}
	}
	if p := t.incomplete(); p != nil {
		return []problem{*p}
	}
	// What crypto/x509 has a word of its own for: name constraints, too many
	// intermediates, critical extensions that it does not know.
	f := classify.Error(&classify.StageError{Stage: classify.StageHandshake, Err: err})
	if f.Layer == classify.LayerTLS && f.Cause != classify.TLSUnknownAuthority && f.Cause != classify.TLSSelfSigned && !dated(f.Cause) {
		return []problem{{cause: f.Cause, summary: "the chain does not verify: " + classify.Redact(err.Error(), 200)}}
	}
	return []problem{t.unknown()}
}

// forgotten looks among the CA certificates that other hosts of the pull sent
// for the one that this host did not: with it in hand, it is proved.
func (t *trial) forgotten() *problem {
	sent := t.seen.authorities()
	if len(sent) == 0 {
		return nil
	}
	more := make([]*x509.Certificate, len(sent))
	for i, c := range sent {
		more[i] = c.cert
	}
	chains, err := t.verify("", t.now, x509.ExtKeyUsageAny, more...)
	if err != nil {
		return nil
	}
	for _, c := range sent {
		for _, used := range chains[0][1:] {
			if c.cert.Equal(used) {
				who := c.host
				if who == t.name {
					who = "another answer under this name" // a balancer's other instance
				}
				return &problem{cause: classify.TLSMissingIntermediate, summary: fmt.Sprintf(
					"the endpoint does not send the intermediate certificate %q, with which the chain verifies and which %s does send", subject(c.cert), who)}
			}
		}
	}
	return nil
}

// intercepted says that somebody on the path signs in the server's place. A name
// is no proof of it.
func (t *trial) intercepted() *problem {
	top := printName(t.top().Issuer, 128)
	p := &problem{cause: classify.TLSIntercepted, certainty: classify.CertaintyLikely, others: []classify.Cause{classify.TLSUnknownAuthority}}
	switch other := t.seen.unrelated(t.name, t.leaf().RawIssuer); {
	case inspector(t.certs) != "":
		p.summary = fmt.Sprintf("the issuer %q is by its name an inspection device on the path, and this node does not trust it", top)
	case publicService(t.name):
		p.summary = fmt.Sprintf("the certificate of this public service is signed by %q, which is no CA that this node knows: somebody on the path presents his own", top)
	case other != "":
		p.summary = fmt.Sprintf("the same unknown issuer %q signs for this host and for %s, which have different owners: somebody on the path presents his own certificates", top, other)
		p.certainty = classify.CertaintyPossible
	default:
		return nil
	}
	return p
}

// incomplete says that names point to a certificate that was not sent.
func (t *trial) incomplete() *problem {
	leaf, top := t.leaf(), t.top()
	if t.roots.knows(top.RawIssuer) || bytes.Equal(top.RawIssuer, top.RawSubject) {
		return nil // the next link is here, or the chain is at its end
	}
	issuer := nameOf(top.Issuer)
	p := &problem{
		cause: classify.TLSMissingIntermediate, certainty: classify.CertaintyLikely, others: []classify.Cause{classify.TLSUnknownAuthority},
		summary: fmt.Sprintf("the endpoint does not send the certificate of the issuer %q, and this node has no root of that name", printName(top.Issuer, 128)),
	}
	relative := t.roots.ofOwner(issuer)
	switch {
	case issuer.saysRoot():
		return nil
	case relative != "" && (top == leaf || issuer.saysBetween()):
		p.summary += fmt.Sprintf(", only one of its owner: %q", classify.Redact(relative, 128))
		if !issuer.saysBetween() && len(leaf.IssuingCertificateURL) == 0 {
			p.certainty = classify.CertaintyPossible
		}
	case top != leaf:
		return nil // servers leave out the root, so this says nothing
	case len(leaf.IssuingCertificateURL) > 0:
		// RFC 5280, 4.2.2.1: where the issuer's certificate can be fetched, which
		// browsers do and Go does not.
	case len(t.certs) > 1: // something else was sent in its place
	default:
		return nil
	}
	if top == leaf && len(leaf.IssuingCertificateURL) > 0 {
		p.summary += fmt.Sprintf("; the certificate says that it is at %s", classify.Redact(leaf.IssuingCertificateURL[0], 200))
	}
	return p
}

// noAuthority returns a certificate that was sent, whose key signed another one,
// and that is no CA or may not sign.
func (t *trial) noAuthority() *x509.Certificate {
	for _, p := range t.certs[1:] {
		if p.IsCA && p.BasicConstraintsValid && (p.KeyUsage == 0 || p.KeyUsage&x509.KeyUsageCertSign != 0) {
			continue
		}
		for _, c := range t.certs {
			if c != p && bytes.Equal(c.RawIssuer, p.RawSubject) && !bytes.Equal(c.Raw, p.Raw) && t.signs(p, c) {
				return p
			}
		}
	}
	return nil
}

// unknown is what is left: nobody here knows the CA.
func (t *trial) unknown() problem {
	top := t.top()
	issuer := printName(top.Issuer, 128)
	p := problem{cause: classify.TLSUnknownAuthority, summary: fmt.Sprintf("no root of this node signed the chain, whose last issuer is %q", issuer)}
	switch {
	case t.roots.knows(top.RawIssuer):
		p.summary += "; a root of that name is there, with another key"
	case len(t.roots.Files) == 0 && t.roots.name == "":
		p.summary = fmt.Sprintf("this node has no trusted root at all, so the issuer %q is not trusted", issuer)
	case top == t.leaf() && !nameOf(top.Issuer).saysRoot() && !t.selfSigned(top):
		p.others = []classify.Cause{classify.TLSMissingIntermediate}
	}
	if changed := t.changedSince(); changed != "" {
		// Roots that the runtime loaded before the change are not known to us.
		p.certainty = classify.CertaintyLikely
		p.summary += fmt.Sprintf("; %s was changed after the runtime's start, which may still know what stood there before", changed)
	}
	return p
}

// startSlack is how exactly the start of a process and the age of a file are
// known together: Linux counts the first in hundredths of a second. A file
// written just before the start must not look younger.
const startSlack = 100 * time.Millisecond

// changedSince returns a store file that is younger than the runtime, "" if there
// is none.
func (t *trial) changedSince() string {
	if t.started.IsZero() {
		return ""
	}
	for _, file := range t.roots.Files {
		if m := t.roots.modified[file]; m.After(t.started.Add(startSlack)) {
			return file
		}
	}
	return ""
}

// unloaded says that the runtime started before the root that carries the chain
// was installed. Go loads the roots at the first handshake that needs them, so a
// runtime that made none meanwhile knows it: likely, not proven. nil = no reason
// to think so.
func (t *trial) unloaded(chains [][]*x509.Certificate) *problem {
	if t.started.IsZero() {
		return nil
	}
	var late time.Time
	var lateFile string
	for _, chain := range chains {
		end := chain[len(chain)-1]
		if o := t.roots.origin[sha256.Sum256(end.Raw)]; !o.since.After(t.started.Add(startSlack)) {
			return nil // what is nearly always so, without a look at the node
		}
		since, file := t.installed(end)
		if !since.After(t.started.Add(startSlack)) { // or the zero time: not from a file of the system's
			return nil
		}
		if late.IsZero() || since.Before(late) {
			late, lateFile = since, file
		}
	}
	return &problem{
		cause: classify.TLSRuntimeNotRestarted, certainty: classify.CertaintyLikely, others: []classify.Cause{classify.TLSUnknownAuthority},
		summary: fmt.Sprintf("the chain is trusted by %s, which got this root at %s, %v after the runtime had started at %s; a process reads the system's roots once, so the runtime does not trust it unless it has made no TLS connection before",
			lateFile, late.UTC().Format(time.RFC3339), late.Sub(t.started).Round(startSlack), t.started.UTC().Format(time.RFC3339)),
		facts: []classify.Fact{{Key: classify.FactFile, Value: lateFile}},
	}
}
