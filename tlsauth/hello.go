package tlsauth

import (
	"crypto/tls"
	"net/netip"
	"strconv"
	"strings"
)

// Hello is a kind of ClientHello.
type Hello string

// The hellos. What Go sends on its own depends on the toolchain and on the go
// line of the main module, so each names its curves.
const (
	// HelloLarge offers X25519MLKEM768 before the classical curves, as Go does
	// since 1.24. The key share alone has 1216 bytes (ML-KEM-768 and X25519),
	// and the hello does not fit into one segment of 1460 bytes.
	HelloLarge Hello = "large"
	// HelloClassical offers X25519, P-256 and P-384, as Go did up to 1.23. It
	// fits into one segment.
	HelloClassical Hello = "classical"
)

// HelloOf returns the hello that a program built with a version of Go sends by
// default: the large one since 1.23, which had a draft of the same exchange,
// unless a GODEBUG setting switches it off. goVersion is as debug/buildinfo has it
// ("go1.24.3"); godebug are the values of the build setting DefaultGODEBUG, which
// an old go line in the module fills, and of the process's environment variable
// GODEBUG, later ones winning. A version that cannot be read is taken for a new
// one.
//
// Sources: the release notes of Go 1.23 and 1.24, and go.dev/doc/godebug.
func HelloOf(goVersion string, godebug ...string) Hello {
	minor := 99
	if rest, ok := strings.CutPrefix(goVersion, "go1."); ok {
		digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
		if n, err := strconv.Atoi(digits); err == nil {
			minor = n
		}
	}
	setting := "tlsmlkem"
	switch {
	case minor < 23:
		return HelloClassical
	case minor == 23:
		setting = "tlskyber"
	}
	hello := HelloLarge
	for _, values := range godebug {
		for _, kv := range strings.Split(values, ",") {
			switch key, value, _ := strings.Cut(strings.TrimSpace(kv), "="); {
			case key != setting:
			case value == "0":
				hello = HelloClassical
			default:
				hello = HelloLarge
			}
		}
	}
	return hello
}

// Curves are what the hello offers, the preferred first, for
// [tls.Config.CurvePreferences]; nil for a hello that is not known.
func (h Hello) Curves() []tls.CurveID {
	switch h {
	case HelloLarge:
		return []tls.CurveID{tls.X25519MLKEM768, tls.X25519, tls.CurveP256, tls.CurveP384}
	case HelloClassical:
		return []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384}
	}
	return nil
}

// config returns the configuration of one handshake. The standard verification
// is off only to see the chain of a host that fails it: judge is what decides,
// before anything is sent. client answers a demand for a certificate.
func (h Hello) config(name string, client func(*tls.CertificateRequestInfo) *tls.Certificate) *tls.Config {
	cfg := &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // verified by judge, with the chain in hand
		MinVersion:         tls.VersionTLS12,
		CurvePreferences:   h.Curves(),
		// No ALPN: net/http sends none when HTTP/2 is off, as it is in the runtimes.
		GetClientCertificate: func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return client(info), nil
		},
	}
	// RFC 6066, section 3: no SNI for IP literals.
	if _, err := netip.ParseAddr(bare(name)); err != nil {
		cfg.ServerName = strings.TrimSuffix(name, ".")
	}
	return cfg
}

// bare takes the brackets off an IPv6 literal.
func bare(name string) string {
	if strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]") {
		return name[1 : len(name)-1]
	}
	return name
}
