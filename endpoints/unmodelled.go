package endpoints

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Unmodelled is for callers of [Sources], which reads containerd's configuration
// only; with [SourcesOf] there is no need for it. It says which configuration of another runtime than a plain containerd
// names the registry of ref, and is not read by [Sources]. runtime is the name of
// the runtime's process, "" if none is known; then nothing is said, because the
// files of runtimes that do not run mean nothing. The error wraps
// [errors.ErrUnsupported]; nil means that no such file names the registry.
//
// It looks for the name only. What the file says of it, and so where the pull
// really goes, is not known.
func Unmodelled(fsys fs.FS, runtime string, ref Reference) error {
	if fsys == nil {
		return nil
	}
	var files []string
	switch {
	case runtime == "crio":
		files = append([]string{"etc/containers/registries.conf"}, glob(fsys, "etc/containers/registries.conf.d/*.conf")...)
	case runtime == "dockerd":
		files = []string{"etc/docker/daemon.json"}
	case strings.HasPrefix(runtime, "k3s"), strings.HasPrefix(runtime, "rke2"):
		for _, root := range []string{"var/lib/rancher/k3s", "var/lib/rancher/rke2"} {
			files = append(files, glob(fsys, path.Join(root, "agent/etc/containerd/certs.d/*/hosts.toml"))...)
		}
	}
	rd := &reader{fsys: fsys, ref: ref}
	for _, file := range files {
		data, ok := rd.read("/" + file)
		if ok && (strings.Contains(string(data), ref.Registry) || path.Base(path.Dir(file)) == ref.Registry) {
			return fmt.Errorf("/%s of %s names %s, and is not read: %w", file, runtime, ref.Registry, errors.ErrUnsupported)
		}
	}
	return errors.Join(rd.errs...)
}

// maxGlob bounds how many drop-in files are looked at.
const maxGlob = 256

func glob(fsys fs.FS, pattern string) []string {
	names, _ := fs.Glob(fsys, pattern) // the pattern is a constant and well-formed
	return names[:min(len(names), maxGlob)]
}
