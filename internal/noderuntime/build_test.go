package noderuntime

import (
	"os"
	"runtime"
	"strconv"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/internal/nodefs"
)

func TestBuild(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	tree, err := nodefs.New("/")
	require.NoError(t, err)
	goVersion, _, _ := build(tree, strconv.Itoa(os.Getpid()))
	assert.Equal(t, runtime.Version(), goVersion, "of this very test")

	for name, exe := range map[string]*fstest.MapFile{
		"no program": {Data: []byte("#!/bin/sh\n")},
		"empty":      {},
	} {
		goVersion, version, godebug := build(fstest.MapFS{"proc/1/exe": exe}, "1")
		assert.Empty(t, goVersion+version+godebug, name)
	}
	goVersion, _, _ = build(fstest.MapFS{}, "1")
	assert.Empty(t, goVersion, "not there")
}
