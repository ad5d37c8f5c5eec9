package endpoints

import (
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
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
)

// Checker walks a whole pull by itself, request after request. It does not look below a
// request: why a name does not resolve or a connection is refused is for the other probes
// to say.
//
// The zero Checker asks anonymously, from this machine, with the system's roots.
// It goes straight to the image's own host: mirrors and certificates of a node
// are used only with FS, a proxy only with Proxy.
type Checker struct {
	// DialContext opens connections, as that of a [net.Dialer] does; nil = from this machine.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	Roots       *x509.CertPool // nil = the system's; what FS says of a source is trusted beside them
	Keychain    authn.Keychain // nil = anonymous
	Platform    string         // "" = this machine's architecture on linux
	UserAgent   string         // "" = "pullwalk"
	Complete    bool           // every byte of every layer is read; false = the first 64 KiB
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

// Progress is how the download of one blob stands.
type Progress struct {
	Digest         string
	Source         string // host[:port] that was asked for it; its bytes may come from elsewhere
	Bytes, Size    int64  // arrived, of how many; Size 0 = not known
	BytesPerSecond int64  // since the blob was asked for
}

const progressStep = 256 << 10

// Check walks the pull of image at each source until one serves it: the ping where the
// runtime asks it, the manifest by HEAD or GET, the token, index, manifest of the
// platform, config, and every layer with every redirect, a few at once. The error says
// that image or Platform is none; whatever the registry does is in the Map. When ctx ends,
// the Map says how far it got.
func (c *Checker) Check(ctx context.Context, image string) (*Map, error) {
	ref, err := registry.ParseReference(image)
	if err != nil {
		return nil, err
	}
	platform, err := registry.ParsePlatform(c.Platform)
	if err != nil {
		return nil, err
	}
	m := &Map{Reference: Reference(ref), Platform: Platform(platform)}
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
		before := len(m.found)
		c.walk(m, s, files, ref, platform).pull(ctx)
		if m.Held {
			m.found = append(pull.Warned(m.found[:before]), m.found[before:]...)
			m.Source = s.Host
			break
		}
	}
	if ctx.Err() != nil {
		m.Inconclusive = registry.Ended(ctx)
	}
	return m, nil
}
