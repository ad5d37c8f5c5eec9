package tlsauth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A root that only the product of the distribution's tool holds was put there by
// hand. Where the tool's inputs are not understood, nothing is said.
func TestUnmanagedRoots(t *testing.T) {
	t.Parallel()
	var shipped []byte
	for i := range 3 {
		shipped = append(shipped, issue(t, nil, fmt.Sprintf("Public %d", i), ca(nil)).pem()...)
	}
	corp := issue(t, nil, "Corp", ca(nil))
	sum := sha256.Sum256(corp.cert.Raw)
	print := hex.EncodeToString(sum[:])
	file := func(parts ...[]byte) *fstest.MapFile {
		return &fstest.MapFile{Data: slices.Concat(parts...), Mode: 0o755}
	}
	p11 := append([]byte("[p11-kit-object-v1]\nclass: x-certificate-extension\n"), shipped...)
	for name, tt := range map[string]struct {
		tree fstest.MapFS
		want string
	}{
		"appended to Debian's bundle": {fstest.MapFS{
			"etc/ssl/certs/ca-certificates.crt": file(shipped, corp.pem()), "usr/sbin/update-ca-certificates": file(), "usr/share/ca-certificates/mozilla/all.crt": file(shipped),
		}, "update-ca-certificates"},
		"laid into Debian's directory": {fstest.MapFS{
			"etc/ssl/certs/ca-certificates.crt": file(shipped), "etc/ssl/certs/corp.pem": file(corp.pem()), "usr/sbin/update-ca-certificates": file(), "usr/share/ca-certificates/mozilla/all.crt": file(shipped),
		}, "update-ca-certificates"},
		"given to Debian's tool": {fstest.MapFS{
			"etc/ssl/certs/ca-certificates.crt": file(shipped, corp.pem()), "usr/sbin/update-ca-certificates": file(), "usr/share/ca-certificates/mozilla/all.crt": file(shipped),
			"usr/local/share/ca-certificates/corp.crt": file(corp.pem()),
		}, ""},
		"appended to Fedora's": {fstest.MapFS{
			"etc/pki/tls/certs/ca-bundle.crt": file(shipped, corp.pem()), "usr/bin/update-ca-trust": file(), "usr/share/pki/ca-trust-source/ca-bundle.trust.p11-kit": file(p11),
		}, "update-ca-trust"},
		"given to Fedora's tool": {fstest.MapFS{
			"etc/pki/tls/certs/ca-bundle.crt": file(shipped, corp.pem()), "usr/bin/update-ca-trust": file(), "usr/share/pki/ca-trust-source/ca-bundle.trust.p11-kit": file(p11),
			"etc/pki/ca-trust/source/anchors/corp.pem": file(corp.pem()),
		}, ""},
		"a bundle without a tool": {fstest.MapFS{
			"etc/ssl/certs/ca-certificates.crt": file(shipped, corp.pem()), "usr/share/ca-certificates/mozilla/all.crt": file(shipped),
		}, ""},
		"inputs in a form that is not read": {fstest.MapFS{
			"etc/ssl/certs/ca-certificates.crt": file(shipped, corp.pem()), "usr/sbin/update-ca-certificates": file(), "usr/share/ca-certificates/all.der": file([]byte{0x30, 0x82}),
		}, ""},
		"a file that the runtime's environment names": {fstest.MapFS{
			"opt/ca.pem": file(corp.pem()), "usr/sbin/update-ca-certificates": file(), "usr/share/ca-certificates/mozilla/all.crt": file(shipped),
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			named := ""
			if tt.tree["opt/ca.pem"] != nil {
				named = "/opt/ca.pem"
			}
			r, err := ReadRoots(tt.tree, named, "")
			require.NoError(t, err)
			assert.Equal(t, tt.want, r.Unmanaged(print))
			assert.Empty(t, r.Unmanaged("00"), "no fingerprint")
			assert.Empty(t, r.Unmanaged(""))
			public, _ := fingerprint(print)
			public[0]++
			assert.Empty(t, r.Unmanaged(hex.EncodeToString(public[:])), "a root that is not in the store")
		})
	}
	assert.Empty(t, (*Roots)(nil).Unmanaged(print))
}
