package tlsauth

import (
	"net/netip"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// TLSReport is what one endpoint showed.
type TLSReport struct {
	Target     netip.AddrPort `json:"target"`     // the address that was asked
	ServerName string         `json:"serverName"` // the name that the certificate must be for
	// Handshakes has one entry per hello, the runtime's first, and after them those
	// with small segments that were made to explain a silent one.
	Handshakes []Handshake `json:"handshakes"`
	// Chain is what was sent, leaf first, of the first handshake that got so
	// far; at most 16 certificates.
	Chain []Certificate `json:"chain,omitempty"`
	// Verified says that Chain verifies for ServerName at the time of the check,
	// with the node's roots. It says nothing about revocation.
	Verified bool `json:"verified"`
	// TrustedBy is the file that the root of Chain came from, or "caller's
	// pool", "system store" or "the endpoint's own CA"; "" unless Verified.
	TrustedBy string `json:"trustedBy,omitempty"`
	// RootSHA256 is the fingerprint of that root, hexadecimal; "" unless Verified.
	RootSHA256 string `json:"rootSha256,omitempty"`
	// ClockSkewMS is how far this node's clock is behind the server's (negative:
	// ahead), as the Date field of an answer in clear showed; nil = not asked, which
	// is so while no certificate is out of its dates, or not learnt.
	ClockSkewMS *int64 `json:"clockSkewMs,omitempty"`
	// Inconclusive is why nothing was decided; "" = decided.
	Inconclusive string `json:"inconclusive,omitempty"`
	ElapsedMS    int64  `json:"elapsedMs"`

	findings []classify.Finding
}

// Handshake is one attempt with one ClientHello.
type Handshake struct {
	Hello   Hello  `json:"hello"`
	Done    bool   `json:"done"`              // the handshake completed; says nothing about trust
	Version string `json:"version,omitempty"` // "TLS 1.3"
	Cipher  string `json:"cipher,omitempty"`
	Curve   string `json:"curve,omitempty"`
	// ClientCertificateRequested says that the server asked for a certificate of
	// ours. With TLS 1.3 a server that insists says so only after the handshake,
	// on the first read.
	ClientCertificateRequested bool `json:"clientCertificateRequested,omitempty"`
	// ClientCertificate is the source of the pair that was offered; "" = none was.
	ClientCertificate string `json:"clientCertificate,omitempty"`
	// SegmentSize is the MSS that this connection was clamped to, in bytes; 0 =
	// the path's own. Clamped handshakes are made only to explain a silent one.
	SegmentSize int            `json:"segmentSize,omitempty"`
	ElapsedMS   int64          `json:"elapsedMs"` // of the handshake, without the connect
	Error       string         `json:"error,omitempty"`
	Cause       classify.Cause `json:"cause,omitempty"` // "" if it was done, or not tried to its end
}

// Certificate is one certificate of a chain. All text in it is bounded.
type Certificate struct {
	Subject    string    `json:"subject"`
	Issuer     string    `json:"issuer"`
	Names      []string  `json:"names,omitempty"` // DNS and IP names, at most 32
	NotBefore  time.Time `json:"notBefore"`
	NotAfter   time.Time `json:"notAfter"`
	SHA256     string    `json:"sha256"`     // fingerprint, hexadecimal
	SelfSigned bool      `json:"selfSigned"` // signed by its own key
	IsCA       bool      `json:"isCa"`
}

// refusesUs reports whether the server refused us, after a handshake that completed.
func (r *TLSReport) refusesUs() bool {
	return slices.ContainsFunc(r.Handshakes, func(h Handshake) bool { return h.Done && h.Cause != "" })
}

// Held reports whether the handshake with the runtime's hello, the first, completed,
// its chain verified, and the server did not refuse our side.
func (r *TLSReport) Held() bool {
	return r != nil && r.Inconclusive == "" && r.Verified && len(r.Handshakes) > 0 && r.Handshakes[0].Done && r.Handshakes[0].Cause == "" && !r.refusesUs()
}

// trusted reports whether a connection may be gone on with: what is inconclusive is
// then only whether the runtime could.
func (r *TLSReport) trusted() bool {
	return r.Verified && r.Handshakes[0].Done && !slices.ContainsFunc(r.findings, func(f classify.Finding) bool { return f.Severity == classify.SeverityFail })
}

// Findings returns what is wrong, the decisive finding first. The slice is the
// caller's own.
func (r *TLSReport) Findings() []classify.Finding {
	if r == nil {
		return nil
	}
	return slices.Clone(r.findings)
}
