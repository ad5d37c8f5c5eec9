package tlsauth_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/pullwalk/pullwalk/tlsauth"
)

// An endpoint that is trusted, but not under the name that the pull uses.
func ExampleChecker_CheckTLS() {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	c := &tlsauth.Checker{Roots: roots}
	addr := netip.MustParseAddrPort(srv.Listener.Addr().String())

	for _, name := range []string{"example.com", "registry.corp.test"} {
		rep, err := c.CheckTLS(context.Background(), addr, name)
		if err != nil {
			fmt.Println("senseless question:", err)
			return
		}
		fmt.Println(name, "held:", rep.Held())
		for _, f := range rep.Findings() {
			fmt.Println(f.Cause, f.Owner)
		}
	}
	// Output:
	// example.com held: true
	// registry.corp.test held: false
	// tls.hostname-mismatch pki
}

// May this identity read that image?
func ExampleChecker_CheckAccess() {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="Registry"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer srv.Close()
	roots := x509.NewCertPool()
	roots.AddCert(srv.Certificate())
	keychain, err := tlsauth.DockerConfig([]byte(`{"auths": {"example.com:443": {"username": "robot", "password": "secret"}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	c := &tlsauth.Checker{
		Keychain: keychain, Roots: roots,
		Dialer: tlsauth.DialerFunc(func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, srv.Listener.Addr().String())
		}),
	}
	rep, err := c.CheckAccess(context.Background(), "example.com/team/app:1")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("read:", rep.Read)
	for _, f := range rep.Findings() {
		fmt.Println(f.Cause)
	}
	fmt.Println(rep.Credential.NearestMiss)
	// Output:
	// read: false
	// identity.no-matching-credential
	// key "example.com:443" has port 443 and the image names no port; the kubelet compares ports as text
}

// A pull secret is matched as the kubelet matches it.
func ExampleDockerConfig() {
	keychain, err := tlsauth.DockerConfig([]byte(`{"auths": {
		"registry.corp.test":      {"username": "everyone", "password": "secret"},
		"registry.corp.test/team": {"username": "team", "password": "secret"}
	}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	creds, err := keychain.Credentials(context.Background(), "registry.corp.test/team/app:1")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range creds {
		fmt.Println(c.Authn.Username, "from", c.Source)
	}
	// Output:
	// team from dockerconfigjson key registry.corp.test/team
	// everyone from dockerconfigjson key registry.corp.test
}
