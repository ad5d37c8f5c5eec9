package endpoints

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	containerdConfig = "/etc/containerd/config.toml"
	defaultHostsDir  = "/etc/containerd/certs.d"
)

// The plugins whose config_path counts, by the version of the file: 3, 2, 1.
// Pulls go through the image plugin of the CRI in all of them.
var criPlugins = []string{"io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri", "cri"}

const maxImports = 32

// roots returns the directories that config_path names, in order, and whether it
// was found at all. Without it the usual directory is taken, see judgeRoots.
func (rd *reader) roots() (roots []string, configured bool) {
	value := rd.configPath(rd.config, true)
	if value == "" {
		return []string{defaultHostsDir}, false
	}
	for _, dir := range splitList(value) {
		if dir != "" {
			roots = append(roots, dir)
		}
	}
	return roots, true
}

// splitList takes a list of directories apart. A colon after a drive letter is
// no separator; Windows nodes separate by semicolons.
func splitList(value string) []string {
	if strings.Contains(value, ";") || len(value) > 2 && value[1] == ':' && (value[2] == '\\' || value[2] == '/') {
		return strings.Split(value, ";")
	}
	return strings.Split(value, ":")
}

// configPath returns config_path of a configuration file or of what it imports;
// imported files come later and win.
func (rd *reader) configPath(file string, imports bool) string {
	data, ok := rd.read(file)
	if !ok {
		return ""
	}
	var conf struct {
		Imports []string       `toml:"imports"`
		Plugins map[string]any `toml:"plugins"`
	}
	if err := toml.Unmarshal(data, &conf); err != nil {
		// containerd does not start with such a file; what runs was started
		// with an earlier one, and what that said is not known.
		rd.errs = append(rd.errs, fmt.Errorf("read %s: %w", file, positioned(err)))
		return ""
	}
	value := ""
	for _, name := range criPlugins {
		plugin, _ := conf.Plugins[name].(map[string]any)
		registry, _ := plugin["registry"].(map[string]any)
		if p, _ := registry["config_path"].(string); p != "" {
			value = p
			break
		}
		if rd.legacy(registry) {
			rd.errs = append(rd.errs, fmt.Errorf("%s: registry.mirrors and registry.configs are not read: %w", file, errors.ErrUnsupported))
		}
	}
	if !imports {
		return value
	}
	for i, pattern := range conf.Imports {
		if i == maxImports {
			rd.errs = append(rd.errs, fmt.Errorf("%s imports more than %d files", file, maxImports))
			break
		}
		if !path.IsAbs(pattern) {
			pattern = path.Join(path.Dir(file), pattern)
		}
		names, err := fs.Glob(rd.fsys, inFS(pattern))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			rd.errs = append(rd.errs, fmt.Errorf("list %s: %w", pattern, err))
		}
		for _, name := range names[:min(len(names), maxImports)] {
			if p := rd.configPath("/"+name, false); p != "" {
				value = p
			}
		}
	}
	return value
}

// legacy says whether the tables that config_path replaced have something for
// this registry. Containerd honours them, so leaving them out in silence would
// be a wrong answer.
func (rd *reader) legacy(registry map[string]any) bool {
	for _, table := range []string{"mirrors", "configs"} {
		hosts, _ := registry[table].(map[string]any)
		for _, name := range []string{rd.ref.Registry, rd.ref.Host, "*"} {
			if _, ok := hosts[name]; ok {
				return true
			}
		}
	}
	return false
}

// judgeRoots warns of directories that are there and that the runtime may not
// look at. Without config_path, containerd before 2.2 reads no hosts directory.
// With several directories, which is also the built-in default since 2.2, the
// transfer service takes the whole list for the name of one.
func (rd *reader) judgeRoots(root string, roots []string, configured bool) {
	var why string
	switch {
	case !configured:
		why = "no config_path names it: containerd before 2.2 reads no such directory then, and later ones only when they pull without the transfer service"
	case len(roots) > 1:
		why = "config_path names several directories, which containerd's transfer service (2.1 and later) takes for the name of one"
	default:
		return
	}
	f := classify.New(classify.NodeRuntimeConfigIgnored,
		fmt.Sprintf("the settings for %s under %s may not be in force: %s", rd.ref.Registry, root, why),
		classify.Fact{Key: classify.FactFile, Value: rd.config})
	f.Severity, f.Certainty, f.Endpoint = classify.SeverityWarn, classify.CertaintyPossible, rd.ref.Host
	rd.findings = append(rd.findings, f)
}
