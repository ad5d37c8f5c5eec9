package tlsauth

import (
	"context"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
)

// The limits that apply where a [Checker] names none.
const (
	// DefaultLimit is for one handshake: the runtimes wait as long
	// (containerd and CRI-O set a TLS handshake timeout of 10 s).
	DefaultLimit = 10 * time.Second
	// DefaultRequestLimit is for the headers of one answer. Runtimes wait longer
	// or for ever; a registry that thinks for 15 s is named, not waited out.
	DefaultRequestLimit = 15 * time.Second
)

// Dialer opens connections. [*net.Dialer] is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialerFunc makes a function a [Dialer].
type DialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext calls f.
func (f DialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// Checker checks trust and identity. The zero Checker looks from this machine,
// with its roots, anonymously. A Checker is not changed by its methods and may be
// used by several goroutines at once if its parts may.
type Checker struct {
	// Dialer opens every connection; nil = [SystemDialer]. The first dial of a
	// CheckTLS serves the first hello. CheckAccess gives it host names, and with
	// nil refuses link-local and platform addresses (the token realm is a name
	// that the other side chose); a Dialer of the caller's decides that itself.
	Dialer Dialer
	// Roots are the trusted roots; nil = those that Trust holds, else those read
	// from FS by Files.
	Roots *x509.CertPool
	// Trust are roots read before with [ReadRoots], so that many checks read
	// them once; unlike Roots they know their files. nil = read now.
	Trust *Roots
	// FS is the node's file tree; nil = this machine: its files on Linux, its
	// system store elsewhere.
	FS fs.FS
	// Files names other files than Go's list; the zero RootFiles is Go's list.
	Files RootFiles
	// CA is PEM that this endpoint's registry configuration adds to the roots,
	// as "ca" in a hosts.toml does; nil = none. PEM without a certificate is an
	// error, because containerd fails the pull for it too.
	CA []byte
	// CASource names CA in the report, as a file; "" = "the endpoint's own CA".
	CASource string
	// ClientPairs are the client certificates that the registry configuration has
	// for this endpoint, as "client" in a hosts.toml. The first that fits what the
	// server asks for is offered, as crypto/tls does; nil = none. A pair that does
	// not parse is an error, because containerd fails the pull for it too.
	ClientPairs []ClientPair
	// RuntimeStarted is when the runtime's process started. A root that reached
	// the node's files later is not known to it, which CheckTLS then says. To be
	// given to a tenth of a second: a start rounded down makes a store that was
	// written just before it look younger. Zero = not known, not judged.
	RuntimeStarted time.Time
	// SkipVerify says that the registry configuration switches verification off
	// for this endpoint. It is reported as the hole that it is, the chain is
	// judged all the same (as warnings), and without a verified chain nothing is
	// decided, because nothing is sent.
	SkipVerify bool
	// Seen is the memory that the checks of one diagnosis share; nil = none.
	Seen *Seen
	// OnSpare is given the connections of further hellos where all that was verified
	// of the first holds for them, before Dial returns; the callee closes them. nil =
	// they are closed. A caller who needs several connections saves handshakes.
	OnSpare func(net.Conn)
	// Segments opens the connections with small segments that tell a silent
	// server from a path that loses large packets; nil = Dialer if it is a
	// [SegmentDialer]. Without one that question is not asked.
	Segments SegmentDialer
	// Keychain gives the credentials of CheckAccess; nil = anonymous. One that
	// is also a [CredentialLister] gives all that the kubelet would try.
	Keychain authn.Keychain
	// Now is the time by which certificates are judged; nil = [time.Now].
	// Limits run on real time.
	Now func() time.Time
	// Limit is for one handshake, and again for the connect before it; 0 =
	// [DefaultLimit].
	Limit time.Duration
	// RequestLimit is for the response headers of one request of CheckAccess; 0
	// = [DefaultRequestLimit].
	RequestLimit time.Duration
	// Hellos are the ClientHellos to send, each on its own connection; the first
	// is the one the runtime sends, and decides. nil = HelloLarge, then
	// HelloClassical. CheckAccess sends the first only.
	Hellos []Hello
	// AuditRights makes CheckAccess ask, after a read that worked, what more the
	// identity would be granted: two or three token requests, see [AuditRights].
	AuditRights bool
	// UserAgent of the requests of CheckAccess; "" = "pullwalk".
	UserAgent string
}

func (c *Checker) limit() time.Duration {
	if c.Limit > 0 {
		return c.Limit
	}
	return DefaultLimit
}

func (c *Checker) requestLimit() time.Duration {
	if c.RequestLimit > 0 {
		return c.RequestLimit
	}
	return DefaultRequestLimit
}

func (c *Checker) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c *Checker) userAgent() string {
	if c.UserAgent != "" {
		return c.UserAgent
	}
	return "pullwalk"
}

// hellos returns the hellos to send, each at most once.
func (c *Checker) hellos() ([]Hello, error) {
	if len(c.Hellos) == 0 {
		return []Hello{HelloLarge, HelloClassical}, nil
	}
	seen := make([]Hello, 0, len(c.Hellos))
	for _, h := range c.Hellos {
		if h.Curves() == nil {
			return nil, fmt.Errorf("tlsauth: unknown hello %q", h)
		}
		for _, s := range seen {
			if s == h {
				return nil, fmt.Errorf("tlsauth: hello %q is named twice", h)
			}
		}
		seen = append(seen, h)
	}
	return seen, nil
}

// roots returns the roots to verify with, the endpoint's own CA included.
func (c *Checker) roots() (*Roots, error) {
	r := &Roots{Pool: c.Roots, name: "caller's pool"}
	if c.Roots == nil {
		r = c.Trust
	}
	if r == nil {
		var err error
		if r, err = c.Files.read(c.FS); err != nil {
			return nil, err
		}
	}
	if r.Pool == nil {
		r = &Roots{Pool: x509.NewCertPool(), Files: r.Files, origin: r.origin, name: r.name, fsys: r.fsys, modified: r.modified}
	}
	if c.CA == nil {
		return r, nil
	}
	name := c.CASource
	if name == "" {
		name = "the endpoint's own CA"
	}
	return r.with(c.CA, name)
}
