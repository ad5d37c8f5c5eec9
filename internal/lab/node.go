package lab

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"testing/fstest"
)

// FS is the file tree of a node of this world: resolver settings that name
// 127.0.0.1, a hosts file with nothing but localhost, and the system bundle
// with the world's authority. In a plain world the bundle is there too.
func (w *World) FS() fs.FS {
	file := func(content string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(content), Mode: 0o644, ModTime: w.now()}
	}
	return fstest.MapFS{
		"etc/resolv.conf":                   file("nameserver 127.0.0.1\n"),
		"etc/hosts":                         file("127.0.0.1 localhost\n::1 localhost\n"),
		"etc/nsswitch.conf":                 file("hosts: files dns\n"),
		"etc/ssl/certs/ca-certificates.crt": file(string(w.AuthorityPEM())),
	}
}

// DockerConfig is the content of a pull secret (kubernetes.io/dockerconfigjson)
// with the reader's credential for the registry.
func (w *World) DockerConfig() []byte { return w.DockerConfigFor(Username, Password) }

// DockerConfigFor is the same with any user and password, for wrong ones.
func (w *World) DockerConfigFor(username, password string) []byte {
	type entry struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"`
	}
	config, _ := json.Marshal(map[string]map[string]entry{"auths": {
		w.Registry.Address(): {username, password, basic(username, password)},
	}})
	return config
}

// Secrets are the strings that must not stand in any output. Each secret of the
// world holds one of them.
func (w *World) Secrets() []string {
	return []string{Password, basic(Username, Password), TokenMark, SignatureMark}
}

func basic(username, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
}
