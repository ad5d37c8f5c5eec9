package node

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

// The requests call themselves what the runtime does.
func TestUserAgent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, version, want string
		none                bool
	}{
		{name: "containerd", version: "v2.1.4", want: "containerd/v2.1.4"},
		{name: "containerd", version: "(devel)", want: "containerd"},
		{name: "containerd", version: "v1\r\nX: y", want: "containerd"},
		{name: "containerd", want: "containerd"},
		{name: "k3s", version: "v1.33.1+k3s1", want: "containerd"},
		{name: "crio", version: "v1.33.0", want: "cri-o/1.33.0"},
		{name: "dockerd", version: "v28.1.0", want: "docker/28.1.0"},
		{name: "another", version: "v1"},
		{none: true},
	} {
		v := &View{HasRuntime: !tt.none, Runtime: noderuntime.Runtime{Name: tt.name, Version: tt.version}}
		require.Equal(t, tt.want, v.UserAgent(), "%+v", tt)
	}
}
