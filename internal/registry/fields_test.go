package registry

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFields(t *testing.T) {
	t.Parallel()
	f := NewFields(map[string][]string{"X-Team": {"a"}, "Host": {"h"}, "X Y": {"v"}, "X-Line": {"a\nb"}, "accept-encoding": {"gzip"}, "x-auth": {"s3cr3t"}})
	assert.Equal(t, []string{"Host", "X Y", "X-Line", "accept-encoding"}, f.Unsent())
	assert.Len(t, f.Names(), 6)
	for scheme, want := range map[string]http.Header{"https": {"X-Team": {"a"}, "x-auth": {"s3cr3t"}}, "http": {"X-Team": {"a"}}} {
		req, err := http.NewRequest(http.MethodGet, scheme+"://mirror.corp.test/", nil)
		require.NoError(t, err)
		assert.Equal(t, scheme == "http", f.Apply(req))
		assert.Equal(t, want, req.Header)
	}
	assert.NotContains(t, fmt.Sprintf("%v %+v %#v %+v", f, f, f, struct{ x Fields }{f}), "s3cr3t")
	assert.True(t, Fields{}.IsZero() && NewFields(nil).IsZero())
	assert.Empty(t, Fields{}.Names())
	assert.Equal(t, []string{"X-Team"}, Fields{}.With(NewFields(map[string][]string{"X-Team": {"a"}})).Names())
}

// Whatever is configured, a request stays one that can be sent, and in clear carries
// nothing that sounds like a credential.
func FuzzFields(f *testing.F) {
	f.Add("Authorization", "Basic x")
	f.Add("X-\r\nHost", "a")
	f.Add("x-Api-KEY", "a\x00b")
	f.Fuzz(func(t *testing.T, name, value string) {
		req, err := http.NewRequest(http.MethodGet, "http://mirror.corp.test/", nil)
		require.NoError(t, err)
		withheld := NewFields(map[string][]string{name: {value}}).Apply(req)
		var b strings.Builder
		require.NoError(t, req.Write(&b))
		head, _, _ := strings.Cut(b.String(), "\r\n\r\n")
		if n := strings.Count(head, "\r\n"); n > 3 {
			t.Fatalf("more than one field more: %q", head)
		}
		if withheld && len(req.Header) > 0 {
			t.Fatal("withheld and sent")
		}
	})
}
