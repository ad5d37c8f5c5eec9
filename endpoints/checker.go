package endpoints

import (
	"cmp"
	"context"
	"crypto/x509"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Dialer opens the connections of a [Checker]. [net.Dialer] is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// DialerFunc makes a function a [Dialer].
type DialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

// DialContext calls f.
func (f DialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}

// Checker walks a whole pull by itself, step after step. It does not look at the
// ladder below a request: why a name does not resolve or a connection is refused
// is for the other probes to say.
//
// The zero Checker asks anonymously, from this machine, with the system's roots.
// It goes straight to the image's own host: mirrors and certificates of a node
// are used only with FS, a proxy only with Proxy.
type Checker struct {
	Dialer      Dialer         // nil = this machine's
	Roots       *x509.CertPool // nil = the system's; what FS says of a source is trusted beside them
	Keychain    authn.Keychain // nil = anonymous
	Platform    string         // "" = this machine's architecture on linux
	UserAgent   string         // "" = "pullwalk"
	Mode        Mode           // how much of every layer is read; 0 = First64K
	Concurrency int            // blobs at once; 0 = as the runtime
	Connect     time.Duration  // limit of name and connection; 0 = 5 s
	Handshake   time.Duration  // limit of the TLS handshake; 0 = 10 s
	Header      time.Duration  // limit of response headers; 0 = 15 s
	Idle        time.Duration  // limit of a body without a byte; 0 = 15 s
	MaxHosts    int            // 0 = 32
	OnBytes     func(n int64)  // more bytes of a blob arrived; nil = nobody is told
	// OnProgress is told how a download stands, about every 256 KiB. Neither it nor
	// OnBytes is called twice at once. nil = nobody is told.
	OnProgress func(Progress)
	Now        func() time.Time // the time that certificates are judged by; nil = time.Now
	// FS is the node's file tree: the runtime's configuration and what it has in
	// its store are read there. nil = nothing of a node is looked at.
	FS fs.FS
	// Runtime is the name of the process that pulls, ConfigFile what it was started
	// with; they say which configuration is read, and whose way of
	// walking is taken. "" = containerd, its default file.
	Runtime, ConfigFile string
	// Proxy chooses the proxy of a URL; nil = none.
	Proxy func(*url.URL) (*url.URL, error)
	// AllowAddr refuses addresses that a server-given URL must not lead to; nil
	// refuses link-local and the metadata services of clouds. A refused address
	// makes the walk inconclusive.
	AllowAddr func(netip.AddrPort) error
}

const (
	defaultConnect   = 5 * time.Second
	defaultHandshake = 10 * time.Second
	defaultMaxHosts  = 32
)

// Check walks the pull of image at each source until one serves it: the ping,
// manifest by HEAD or GET, token, index, platform manifest, config, and every
// layer with every redirect, a few at once. The error means that image or
// Platform makes no sense; whatever the registry does is in the Map. When ctx
// ends, the Map says how far it got.
func (c *Checker) Check(ctx context.Context, image string) (*Map, error) {
	ref, err := ParseReference(image)
	if err != nil {
		return nil, err
	}
	platform, err := ParsePlatform(c.Platform)
	if err != nil {
		return nil, err
	}
	m := &Map{Reference: ref, Platform: platform}
	files := noderuntime.Open(c.FS, c.Runtime, c.ConfigFile)
	sources, findings, err := files.Sources(ref)
	m.Sources, m.findings = sourcesOf(sources), findings
	if err != nil {
		m.unknown("the node's configuration could not be read: " + classify.Redact(err.Error(), 300))
	}
	if files.Stops(findings) {
		return m, nil
	}
	for _, s := range sources {
		if !s.Can(noderuntime.CapabilityPull) || ref.Digest == "" && !s.Can(noderuntime.CapabilityResolve) || ctx.Err() != nil {
			continue
		}
		before := len(m.Requests)
		t := &trip{c: c, m: m, src: s, files: files, pools: map[string]*host{}, w: s.Walk(ref, files.Client)}
		t.w.UserAgent = cmp.Or(c.UserAgent, registry.DefaultAgent)
		t.walk(ctx)
		if m.Held {
			m.fellBack(before)
			m.Source = s.Host
			break
		}
	}
	if ctx.Err() != nil {
		m.unknown(registry.Ended(ctx))
	}
	return m, nil
}
