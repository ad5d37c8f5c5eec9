package tlsauth

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/pullwalk/pullwalk/classify"
)

// DefaultKubeletDir is where a kubelet keeps its state (--root-dir).
const DefaultKubeletDir = "/var/lib/kubelet"

// nodeFile is one place where the kubelet looks for credentials of the node.
type nodeFile struct {
	name string
	form form
}

// nodeFiles are the places, in the kubelet's order: config.json in its own
// directory, in its working directory, below HOME and below the root; only when
// none of these can be used, .dockercfg in the same way. The first that parses
// is the only one that counts.
func nodeFiles(dir, home string) []nodeFile {
	if dir == "" {
		dir = DefaultKubeletDir
	}
	var out []nodeFile
	add := func(name string, form form) {
		for _, f := range out {
			if f.name == name {
				return
			}
		}
		out = append(out, nodeFile{name, form})
	}
	for _, d := range []string{dir, "/", path.Join("/", home, ".docker"), "/.docker"} {
		add(path.Join(d, "config.json"), newForm)
	}
	for _, d := range []string{dir, "/", path.Join("/", home), "/"} {
		add(path.Join(d, ".dockercfg"), oldForm)
	}
	return out
}

// nodeKeys reads the node's own credentials. remarks are files that exist and do
// not count, with the reason.
func nodeKeys(fsys fs.FS, dir, home string) (keys *Keychain, file string, remarks []string) {
	if fsys == nil {
		return nil, "", nil
	}
	for _, f := range nodeFiles(dir, home) {
		data, _, err := readAtMost(fsys, inTree(f.name), maxDockerConfig)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				remarks = append(remarks, fmt.Sprintf("%s: %s", f.name, reason(err)))
			}
			continue
		}
		k, err := dockerConfig(data, f.name, f.form)
		switch {
		case err != nil:
			remarks = append(remarks, fmt.Sprintf("%s: %s", f.name, classify.Redact(err.Error(), 200)))
		case keys != nil:
			remarks = append(remarks, f.name+": not looked at, since "+file+" comes first")
		default:
			keys, file = k, f.name
		}
	}
	return keys, file, remarks
}
