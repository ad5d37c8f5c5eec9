package noderuntime

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func TestContentStore(t *testing.T) {
	t.Parallel()
	blob := func(root, body string) string {
		return root + "/io.containerd.content.v1.content/blobs/sha256/" + strings.TrimPrefix(sum(body), "sha256:")
	}
	m := &registry.Manifest{Config: registry.Descriptor{Digest: sum("{}"), Size: 2}, Layers: []registry.Descriptor{{Digest: sum("a"), Size: 1}, {Digest: sum("b"), Size: 1}, {Digest: sum("a"), Size: 1}}}
	node := fstest.MapFS{
		"etc/containerd/config.toml":      file("root = '/mnt/x'\nimports = ['conf.d/*.toml']\n"),
		"etc/containerd/conf.d/disk.toml": file("root = '/mnt/data/containerd/'\n"),
		blob("mnt/data/containerd", "a"):  file("a"),
		blob("mnt/data/containerd", "b"):  file("too long"),
		blob("var/lib/containerd", "b"):   file("b"),
	}
	s, err := Open(node, "containerd", "").Store()
	require.NoError(t, err)
	assert.Equal(t, "/mnt/data/containerd", s.Dir)
	held, f := s.Present(m)
	assert.Equal(t, []string{sum("a")}, digests(held))
	require.Equal(t, []classify.Cause{classify.NodeLayersAlreadyPresent}, causes(f))
	assert.Equal(t, classify.SeverityInfo, f[0].Severity)
	assert.Contains(t, f[0].Summary, "1 of the 2 layers")
	assert.NoError(t, s.Err())

	s, err = Open(node, "containerd", "/etc/other.toml").Store()
	require.NoError(t, err)
	held, _ = s.Present(m)
	assert.Equal(t, []string{sum("b")}, digests(held), "the default root")

	for _, none := range []*ContentStore{{}, must(Open(nil, "containerd", "").Store()), must(Open(fstest.MapFS{}, "containerd", "").Store())} {
		held, f := none.Present(m)
		assert.Empty(t, held)
		assert.Empty(t, f)
		assert.False(t, none.Holds(registry.Descriptor{Digest: "sha256:../../x"}))
	}
	s = must(Open(forbidden{fstest.MapFS{}}, "containerd", "").Store())
	assert.False(t, s.Holds(m.Config))
	assert.ErrorIs(t, s.Err(), fs.ErrPermission)
}

// forbidden has files that nobody may look at.
type forbidden struct{ fstest.MapFS }

func (f forbidden) Stat(name string) (fs.FileInfo, error) {
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrPermission}
}

func must(s *ContentStore, _ error) *ContentStore { return s }

func digests(ds []registry.Descriptor) (out []string) {
	for _, d := range ds {
		out = append(out, d.Digest)
	}
	return out
}
