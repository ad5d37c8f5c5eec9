package tlsauth_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"slices"
	"strings"

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
			fmt.Println("invalid argument:", err)
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
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, srv.Listener.Addr().String())
		},
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

// Why does the kubelet send what it sends for this image?
func ExampleKubelet_Plan() {
	k := &tlsauth.Kubelet{
		Secrets: []tlsauth.PullSecret{
			{Name: "team-pull", Data: []byte(`{"auths": {"registry.corp.test:443": {"username": "team", "password": "secret"}}}`)},
			{Name: "corp-pull", Data: []byte(`{"auths": {"*.corp.test": {"username": "corp", "password": "secret"}}}`)},
		},
		Providers: []byte(`
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: acr-credential-provider
  matchImages: ["*.azurecr.io"]
  defaultCacheDuration: 10m
  apiVersion: credentialprovider.kubelet.k8s.io/v1
`),
	}
	plan, err := k.Plan(context.Background(), "registry.corp.test/team/app:1")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range plan.Sources {
		fmt.Printf("%s %s %v\n", s.Kind, s.Name, cmp.Or(s.NearestMiss, strings.Join(s.Matched, ", ")))
	}
	fmt.Println("offered:", plan.Offered)
	// Output:
	// pull-secret team-pull key "registry.corp.test:443" has port 443 and the image names no port; the kubelet compares ports as text
	// pull-secret corp-pull *.corp.test
	// provider acr-credential-provider entry "*.azurecr.io" is for another host than registry.corp.test
	// offered: [pull secret corp-pull key *.corp.test]
}

// Plugins are run by the caller, for instance as child processes with the
// kubelet's environment.
func ExamplePluginCall() {
	kubeletEnvironment := []string{"PATH=/usr/bin"} // from /proc/PID/environ
	k := &tlsauth.Kubelet{
		PluginDir: "/var/lib/kubelet/credential-provider",
		RunPlugin: func(ctx context.Context, call tlsauth.PluginCall) ([]byte, error) {
			cmd := exec.CommandContext(ctx, call.Path, call.Args...)
			cmd.Env = slices.Concat(kubeletEnvironment, call.Env)
			cmd.Stdin = bytes.NewReader(call.Input)
			out, err := cmd.Output()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				err = fmt.Errorf("%w: %s", err, exit.Stderr)
			}
			return out, err
		},
	}
	plan, err := k.Plan(context.Background(), "registry.corp.test/team/app:1")
	fmt.Println(plan.Offered, err)
	// Output: [] <nil>
}

// Do two nodes offer the same credential? The salt is made for one comparison.
func ExampleOffer_Digest() {
	salt := []byte("0123456789abcdef") // use crypto/rand
	digest := func(password string) string {
		keychain, err := tlsauth.DockerConfig([]byte(`{"auths": {"registry.corp.test": {"username": "robot", "password": "` + password + `"}}}`))
		if err != nil {
			return err.Error()
		}
		offers, err := tlsauth.Offers(context.Background(), keychain, "registry.corp.test/team/app:1")
		if err != nil {
			return err.Error()
		}
		return offers[0].Digest(salt)
	}
	first, second, rotated := digest("secret"), digest("secret"), digest("rotated")
	fmt.Println(first == second, first == rotated)
	// Output: true false
}
