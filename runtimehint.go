package pullwalk

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

// RuntimeHint is what the caller knows of the runtime that pulls here. The zero
// RuntimeHint knows nothing: the runtime is then found by its process, which
// needs the node's processes in sight. A hint says how the runtime walks and
// which files it reads; it does not say that this looks from the runtime's
// network, so the Vantage stays as it was seen.
type RuntimeHint struct {
	// Name is "containerd", "crio", "dockerd", "k3s" or "rke2"; "" = found on the
	// node. A process of that name is used where there is one, and no other.
	Name string
	// ConfigFile is the runtime's configuration file, as an absolute path in the
	// node's tree; "" = the one that the process was started with, else the
	// runtime's usual one.
	ConfigFile string
	// Environ is the environment of the runtime's process, which decides about its
	// proxy and its roots; nil = read from the process. It is not printed.
	Environ map[string]string
}

// String tells what is known, and no value of the environment.
func (h RuntimeHint) String() string {
	return fmt.Sprintf("runtime %q, configuration %q, %d variables", h.Name, h.ConfigFile, len(h.Environ))
}

// GoString keeps %#v from printing the environment.
func (h RuntimeHint) GoString() string { return "pullwalk.RuntimeHint{" + h.String() + "}" }

func (h RuntimeHint) validate() error {
	if names := noderuntime.Names(); h.Name != "" && !slices.Contains(names, h.Name) {
		return fmt.Errorf("pullwalk: Runtime.Name %q is none of %s", h.Name, strings.Join(names, ", "))
	}
	if h.ConfigFile != "" && (!path.IsAbs(h.ConfigFile) || strings.ContainsRune(h.ConfigFile, 0)) {
		return fmt.Errorf("pullwalk: Runtime.ConfigFile %q is no absolute path", h.ConfigFile)
	}
	for key := range h.Environ {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return fmt.Errorf("pullwalk: Runtime.Environ has the name %q, which is none of a variable", key)
		}
	}
	return nil
}

// findRuntime looks for the process of the runtime, and lets the hint say the
// rest.
func (v *view) findRuntime(h RuntimeHint) {
	if v.FS != nil {
		v.runtime, v.hasRuntime = noderuntime.FindNamed(v.FS, h.Name)
	}
	if !v.hasRuntime {
		v.runtime.Name = h.Name
	}
	if h.ConfigFile != "" {
		v.runtime.ConfigFile, v.givenConfig = h.ConfigFile, true
	}
	if h.Environ != nil {
		v.runtime.Environ, v.givenEnviron = maps.Clone(h.Environ), true
	}
}

// knowsRuntime says that a process was found, or that the caller says which
// runtime it is.
func (v *view) knowsRuntime() bool { return v.runtime.Name != "" }

// rivals says that it is not known which process pulls; "" = it is, or the caller
// says all that a process would.
func (v *view) rivals() string {
	if v == nil || len(v.runtime.Rivals) == 0 || v.givenEnviron && v.givenConfig {
		return ""
	}
	return fmt.Sprintf("several processes could be the runtime that pulls, and were started in other ways: %v, %s; Options.Runtime can say which", v.runtime, strings.Join(v.runtime.Rivals, ", "))
}

// resolverTrees are where resolver files are read, the nearest to the runtime
// first. The mount namespace of another runtime than the one that the caller names
// says nothing of it.
func (v *view) resolverTrees(root string, h RuntimeHint) []dnscheck.Source {
	if h.Name == "" {
		return dnscheck.SourcesAt(root)
	}
	host := []dnscheck.Source{{Name: "host root " + root, FS: v.FS}}
	if !v.hasRuntime {
		return host
	}
	own, err := v.runtime.Root(v.FS, root)
	if err != nil {
		return host
	}
	return append([]dnscheck.Source{{Name: fmt.Sprintf("runtime %s (process %d)", v.runtime.Name, v.runtime.PID), FS: own}}, host...)
}

// config is what the runtime's files say, read as it does.
func (v *view) config() noderuntime.Files {
	return noderuntime.Open(v.FS, v.runtime.Name, v.runtime.ConfigFile)
}

// agent is what the runtime calls itself, since something on the path may let one
// name through and not another; "" = no process of a known one was found.
func (v *view) agent() string {
	if !v.hasRuntime {
		return ""
	}
	return v.runtime.Agent()
}
