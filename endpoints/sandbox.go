package endpoints

import (
	"cmp"
	"errors"
	"io/fs"

	"github.com/pullwalk/pullwalk/classify"
)

// Sandbox is the image that the runtime pulls for every pod before any container,
// the pause image. If it cannot be pulled, no pod starts on the node, and no
// container's event says so.
type Sandbox struct {
	Image string `json:"image"`
	File  string `json:"file"` // the file that names it
	// Credential says what is offered for it, CredentialOwn: pull secrets of a pod
	// never are.
	Credential string `json:"credential"`
	// AuthFile is the credential file that CRI-O's configuration names for it, or for
	// all images; "" = none named. See [Sandbox.Login].
	AuthFile string `json:"authFile,omitempty"`
}

// SandboxImage reads which sandbox image the runtime is configured with. false
// means that no file names one: the runtime then takes the default that it was
// built with, which is not known from here. The error means that a file could not
// be read or understood.
func SandboxImage(fsys fs.FS, runtime, config string) (Sandbox, bool, error) {
	if fsys == nil {
		return Sandbox{}, false, nil
	}
	rd := &reader{fsys: fsys, config: cmp.Or(config, containerdConfig), way: cmp.Or(WayOf(runtime), WayContainerd)}
	var out Sandbox
	switch rd.way {
	case WayContainerd:
		out = rd.containerdSandbox()
	case WayCRIO:
		out = rd.crioSandbox(config)
	}
	return out, out.Image != "", errors.Join(rd.errs...)
}

// containerdSandbox: sandbox_image of 1.x, pinned_images.sandbox of 2.x.
func (rd *reader) containerdSandbox() Sandbox {
	var out Sandbox
	for _, f := range rd.configFiles() {
		plugins, _ := f.doc["plugins"].(map[string]any)
		for _, name := range criPlugins {
			plugin, _ := plugins[name].(map[string]any)
			pinned, _ := plugin["pinned_images"].(map[string]any)
			image, _ := pinned["sandbox"].(string)
			if old, _ := plugin["sandbox_image"].(string); image == "" {
				image = old
			}
			if image != "" {
				// containerd offers only what its own configuration has.
				out = Sandbox{Image: classify.Redact(image, 512), File: f.name, Credential: CredentialOwn}
				break
			}
		}
	}
	return out
}

// crioSandbox: pause_image of crio.conf and of its drop-ins, with the file that its
// credential is in.
func (rd *reader) crioSandbox(config string) Sandbox {
	out := Sandbox{Credential: CredentialOwn}
	global := ""
	for _, f := range rd.crioFiles(config) {
		if image := f.Crio.Image.Pause; image != "" {
			out.Image, out.File = classify.Redact(image, 512), f.name
		}
		out.AuthFile = cmp.Or(f.Crio.Image.Auth, out.AuthFile)
		global = cmp.Or(f.Crio.Image.GlobalAuth, global)
	}
	out.AuthFile = cmp.Or(out.AuthFile, global)
	return out
}

// DockerProxy returns the proxy settings of docker's daemon.json as environment
// variables, each of which takes the place of the process's own; nil if it has none.
func DockerProxy(fsys fs.FS) (map[string]string, error) {
	if fsys == nil {
		return nil, nil
	}
	rd := &reader{fsys: fsys, way: WayDocker}
	conf, _ := rd.dockerConfig()
	env := map[string]string{}
	for name, v := range map[string]string{"HTTP_PROXY": conf.Proxies.HTTP, "HTTPS_PROXY": conf.Proxies.HTTPS, "NO_PROXY": conf.Proxies.No} {
		if v != "" {
			env[name] = v
		}
	}
	if len(env) == 0 {
		env = nil
	}
	return env, errors.Join(rd.errs...)
}
