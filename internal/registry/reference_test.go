package registry

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

const someDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParseReference(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in, host, scheme, canonical string
	}{
		{"busybox", "registry-1.docker.io", "https", "docker.io/library/busybox:latest"},
		{"a", "registry-1.docker.io", "https", "docker.io/library/a:latest"},
		{"team/app:1", "registry-1.docker.io", "https", "docker.io/team/app:1"},
		{"docker.io/busybox", "registry-1.docker.io", "https", "docker.io/library/busybox:latest"},
		{"index.docker.io/library/busybox:1", "registry-1.docker.io", "https", "docker.io/library/busybox:1"},
		{"registry.corp.test/app", "registry.corp.test", "https", "registry.corp.test/app:latest"},
		{"registry.corp.test/a", "registry.corp.test", "https", "registry.corp.test/a:latest"},
		{"registry.corp.test:5000/team/app:v1.2", "registry.corp.test:5000", "https", "registry.corp.test:5000/team/app:v1.2"},
		{"registry.corp.test/team/app@" + someDigest, "registry.corp.test", "https", "registry.corp.test/team/app@" + someDigest},
		{"registry.corp.test/team/app:1@" + someDigest, "registry.corp.test", "https", "registry.corp.test/team/app:1@" + someDigest},
		{"localhost/app", "localhost", "https", "localhost/app:latest"},
		{"localhost:5000/app", "localhost:5000", "http", "localhost:5000/app:latest"},
		{"localhost:443/app", "localhost:443", "https", "localhost:443/app:latest"},
		{"127.0.0.9:5000/app", "127.0.0.9:5000", "http", "127.0.0.9:5000/app:latest"},
		{"[::1]:5000/app", "[::1]:5000", "http", "[::1]:5000/app:latest"},
		{"10.20.0.4:5000/app", "10.20.0.4:5000", "https", "10.20.0.4:5000/app:latest"}, // private, not loopback
		{"app.localhost:5000/app", "app.localhost:5000", "https", "app.localhost:5000/app:latest"},
		{"Registry/app", "Registry", "https", "Registry/app:latest"}, // a capital letter makes it a host
	} {
		ref, err := ParseReference(tt.in)
		require.NoError(t, err, tt.in)
		assert.Equal(t, tt.in, ref.Given)
		assert.Equal(t, tt.host, ref.Host, tt.in)
		assert.Equal(t, tt.scheme, ref.Scheme, tt.in)
		assert.Equal(t, tt.canonical, ref.String(), tt.in)
		again, err := ParseReference(ref.String())
		require.NoError(t, err)
		assert.Equal(t, tt.canonical, again.String(), "parsing the canonical form changes it")
	}
}

func TestParseReferenceRefuses(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"", " ", "https://registry.corp.test/app", "registry.corp.test/App", "registry.corp.test/app:",
		"registry.corp.test/app:-x", "registry.corp.test/", "/app", "registry.corp.test//app", "a..b/../c",
		"registry.corp.test/app@sha256:abcd", "registry.corp.test/app@md5:0123456789abcdef0123456789abcdef",
		"registry.corp.test:99999999/app", "user:pw@registry.corp.test/app", "registry.corp.test/app?x=1",
		"registry.corp.test/app\x00", "registry.corp.test/" + strings.Repeat("a", 256),
		"registry.corp.test/app:" + strings.Repeat("1", 129), strings.Repeat("a", 64),
	} {
		_, err := ParseReference(in)
		var f classify.Finding
		require.True(t, errors.As(err, &f), "%q: %v", in, err)
		assert.Equal(t, classify.ImageInvalidReference, f.Cause, in)
		assert.NotEmpty(t, f.Summary)
	}
}

func FuzzParseReference(f *testing.F) {
	for _, s := range []string{"busybox", "registry.corp.test:5000/a/b:1@" + someDigest, "localhost/x", "[::1]:1/x", "a@b@c", "::", "http://x/y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		ref, err := ParseReference(in)
		if err != nil {
			return
		}
		again, err := ParseReference(ref.String())
		if err != nil {
			t.Fatalf("%q: its canonical form %q does not parse: %v", in, ref.String(), err)
		}
		again.Given = ref.Given
		if again != ref {
			t.Fatalf("%q: %+v, then %+v", in, ref, again)
		}
		w := Walk{Reference: ref}
		if u := w.manifestURL(ref.Identifier()); u.Host != ref.Host || u.RawQuery != "" {
			t.Fatalf("%q leads to %s", in, u)
		}
	})
}
