package endpoints

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
)

// Login returns what the runtime's own files offer for the sandbox image at a host,
// and which file it is from; the zero value if they have nothing, so that the image
// is asked for without a credential. The kubelet hands nothing over for it: neither
// pull secrets nor credential providers count.
//
// Containerd takes registry.configs of its own configuration, by the host that it
// talks to (internal/cri/server/images, PullImage without credentials). CRI-O takes
// pause_image_auth_file, else global_auth_file, else the file of the user it runs
// as, by the longest key that is the host and a part of the repository.
//
// The value holds a secret: never print it. The error means that a file could not
// be read or understood.
func (s Sandbox) Login(fsys fs.FS, runtime, config, host, repository string) (login authn.AuthConfig, file string, err error) {
	return ownLogin(fsys, runtime, config, host, repository, s.AuthFile)
}

// OwnLogin is what the runtime's own files offer at a host for an image for which
// the kubelet hands over no credential at all; as [Sandbox.Login], but of CRI-O's
// files global_auth_file is the first. Docker's daemon has none.
func OwnLogin(fsys fs.FS, runtime, config, host, repository string) (login authn.AuthConfig, file string, err error) {
	global := ""
	if fsys != nil && WayOf(runtime) == WayCRIO {
		rd := &reader{fsys: fsys, way: WayCRIO}
		for _, f := range rd.crioFiles(config) {
			global = cmp.Or(f.Crio.Image.GlobalAuth, global)
		}
		if err := errors.Join(rd.errs...); err != nil {
			return login, "", err
		}
	}
	return ownLogin(fsys, runtime, config, host, repository, global)
}

func ownLogin(fsys fs.FS, runtime, config, host, repository, authFile string) (login authn.AuthConfig, file string, err error) {
	if fsys == nil || WayOf(runtime) == WayDocker {
		return login, "", nil
	}
	rd := &reader{fsys: fsys, config: cmp.Or(config, containerdConfig)}
	if WayOf(runtime) == WayCRIO {
		login, file = rd.authFile(authFiles(authFile), host, repository)
	} else {
		login, file = rd.configsAuth(host)
	}
	return login, file, errors.Join(rd.errs...)
}

// configsAuth is registry.configs of containerd, and registry.auths, its older form,
// which has the host in a URL.
func (rd *reader) configsAuth(host string) (authn.AuthConfig, string) {
	var out authn.AuthConfig
	var file string
	for _, f := range rd.configFiles() {
		plugins, _ := f.doc["plugins"].(map[string]any)
		for _, name := range criPlugins {
			plugin, _ := plugins[name].(map[string]any)
			registry, _ := plugin["registry"].(map[string]any)
			auths, _ := registry["auths"].(map[string]any)
			for key, v := range auths {
				if u, err := url.Parse(key); err == nil && u.Host == host {
					table, _ := v.(map[string]any)
					out, file = authOf(table), f.name
				}
			}
			configs, _ := registry["configs"].(map[string]any)
			entry, _ := configs[host].(map[string]any)
			if auth, _ := entry["auth"].(map[string]any); len(auth) > 0 {
				out, file = authOf(auth), f.name
			}
		}
	}
	if out == (authn.AuthConfig{}) {
		return out, ""
	}
	return out, file
}

func authOf(table map[string]any) authn.AuthConfig {
	text := func(key string) string { v, _ := table[key].(string); return v }
	return authn.AuthConfig{Username: text("username"), Password: text("password"), Auth: text("auth"), IdentityToken: text("identitytoken")}
}

// authFiles are the files that CRI-O looks into, the first that has something wins
// (containers-auth.json(5)); one that is configured is the only one.
func authFiles(configured string) []string {
	if configured != "" {
		return []string{configured}
	}
	return []string{"/run/containers/0/auth.json", "/root/.config/containers/auth.json", "/root/.docker/config.json"}
}

// authFile looks a host and repository up in files of the form of
// containers-auth.json(5).
func (rd *reader) authFile(files []string, host, repository string) (authn.AuthConfig, string) {
	for _, name := range files {
		data, ok := rd.read(name)
		if !ok {
			continue
		}
		var doc struct {
			Auths map[string]struct {
				Auth          string `json:"auth"`
				IdentityToken string `json:"identitytoken"`
			} `json:"auths"`
		}
		if json.Unmarshal(data, &doc) != nil { // its error may quote a secret
			rd.errs = append(rd.errs, fmt.Errorf("read %s: it is not the JSON that is expected", classify.Redact(name, 200)))
			continue
		}
		for key := host + "/" + repository; ; {
			if a, ok := doc.Auths[key]; ok {
				return authn.AuthConfig{Auth: a.Auth, IdentityToken: a.IdentityToken}, name
			}
			i := strings.LastIndexByte(key, '/')
			if i < 0 {
				break
			}
			key = key[:i]
		}
	}
	return authn.AuthConfig{}, ""
}
