package tlsauth

import (
	"context"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	// defaultLimit is for one handshake: containerd and CRI-O wait as long.
	defaultLimit = 10 * time.Second
	// defaultRequestLimit is for the headers of one answer. Runtimes wait longer
	// or for ever; a registry that thinks for 15 s is named, not waited out.
	defaultRequestLimit = 15 * time.Second
)

// Checker checks trust and identity. The zero Checker looks from this machine,
// with its roots, anonymously. A Checker is not changed by its methods and may be
// used by several goroutines at once if its parts may.
type Checker struct {
	// DialContext opens every connection; nil = [net.Dialer.DialContext]. The first
	// connection of a CheckTLS serves the first hello. CheckAccess passes host names,
	// and with nil refuses link-local and platform addresses: the server chooses the
	// realm. A function of the caller decides that itself.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// DialSegments opens connections whose TCP segments, both ways, have at most mss
	// bytes, as reach.System does. They tell a silent server from a path that loses
	// large packets; nil = that is not asked.
	DialSegments func(ctx context.Context, network, address string, mss int) (net.Conn, error)
	// Roots are the trusted roots; nil = those that Trust holds, else those read
	// from FS.
	Roots *x509.CertPool
	// Trust are roots read before with [ReadRoots], so that many checks read
	// them once; unlike Roots they know their files. nil = read now.
	Trust *Roots
	// FS is the node's file tree; nil = this machine: its files on Linux, its
	// system store elsewhere.
	FS fs.FS
	// CertFile and CertDir are SSL_CERT_FILE and SSL_CERT_DIR of the runtime's process,
	// as [ReadRoots] takes them; "" = not set.
	CertFile, CertDir string
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
	// RuntimeStarted is when the runtime's process started, exact to a tenth of a
	// second. CheckTLS reports a root that reached the node's files later, because the
	// runtime does not know it. Zero = not known, not judged.
	RuntimeStarted time.Time
	// SkipVerify says that the registry configuration switches verification off for
	// this endpoint. That is reported as a warning. The chain is judged all the same,
	// as warnings; if it does not verify, the report is inconclusive and nothing is sent.
	SkipVerify bool
	// Seen is the memory that the checks of one diagnosis share; nil = none.
	Seen *Seen
	// OnSpare is given, before Dial returns, each connection of a further hello whose
	// server sent the chain that was verified for the first; the callee closes it. nil
	// = they are closed. A caller who needs several connections saves handshakes.
	OnSpare func(net.Conn)
	// Keychain gives the credentials of CheckAccess; nil = anonymous. One that
	// is also a [CredentialLister] gives all that the kubelet would try.
	Keychain authn.Keychain
	// Now is the time by which certificates are judged; nil = [time.Now].
	// Limits run on real time.
	Now func() time.Time
	// Limit is for one handshake, and again for the connect before it; 0 =
	// 10 seconds.
	Limit time.Duration
	// RequestLimit is for the response headers of one request of CheckAccess; 0
	// = 15 seconds.
	RequestLimit time.Duration
	// Hellos are the ClientHellos to send, each on its own connection; the first
	// is the one the runtime sends, and decides. nil = HelloLarge, then
	// HelloClassical. CheckAccess sends the first only.
	Hellos []Hello
	// AuditRights makes CheckAccess ask, after a read that worked, what more the
	// identity would be granted: two or three token requests, which write nothing.
	AuditRights bool
	// UserAgent of the requests of CheckAccess; "" = "pullwalk".
	UserAgent string
}

func (c *Checker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.DialContext != nil {
		return c.DialContext(ctx, network, address)
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

func (c *Checker) limit() time.Duration {
	if c.Limit > 0 {
		return c.Limit
	}
	return defaultLimit
}

func (c *Checker) requestLimit() time.Duration {
	if c.RequestLimit > 0 {
		return c.RequestLimit
	}
	return defaultRequestLimit
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
		if r, err = ReadRoots(c.FS, c.CertFile, c.CertDir); err != nil {
			return nil, err
		}
	}
	if r.Pool == nil {
		none := *r
		none.Pool = x509.NewCertPool()
		r = &none
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

func (c *Checker) pairs() ([]pair, error) {
	if len(c.ClientPairs) > maxPairs {
		return nil, fmt.Errorf("tlsauth: more than %d client certificates", maxPairs)
	}
	var out []pair
	for i, p := range c.ClientPairs {
		source := p.Source
		if source == "" {
			source = fmt.Sprintf("client certificate %d", i+1)
		}
		cert, err := p.parse()
		if err != nil { // its texts quote neither file
			return nil, fmt.Errorf("tlsauth: %s: %s", classify.Redact(source, 200), classify.Redact(err.Error(), 200))
		}
		out = append(out, pair{classify.Redact(source, 200), cert})
	}
	return out, nil
}
