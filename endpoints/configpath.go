package endpoints

import (
	"fmt"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	containerdConfig = "/etc/containerd/config.toml"
	defaultHostsDir  = "/etc/containerd/certs.d"
)

// The plugins whose registry table counts, by the version of the file: 3, 2, 1.
// Pulls go through the image plugin of the CRI in all of them.
var criPlugins = []string{"io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri", "cri"}

const maxImports = 32

// registryTable is what containerd's configuration says of registries, after its
// imports.
type registryTable struct {
	configPath string
	mirrors    map[string]any // the tables that config_path replaced
	configs    map[string]any
	file       string // where the older tables stand
	// v2 says that the tables stand where only containerd 2 looks.
	v2 bool
}

// registry reads the registry tables of containerd's configuration.
func (rd *reader) registry() registryTable {
	var out registryTable
	for _, f := range rd.configFiles() {
		plugins, _ := f.doc["plugins"].(map[string]any)
		for i, name := range criPlugins {
			plugin, _ := plugins[name].(map[string]any)
			registry, _ := plugin["registry"].(map[string]any)
			if registry == nil {
				continue
			}
			if p, _ := registry["config_path"].(string); p != "" {
				out.configPath = p
			}
			if headers, _ := registry["headers"].(map[string]any); len(headers) > 0 {
				rd.headers = headers
			}
			mirrors, _ := registry["mirrors"].(map[string]any)
			configs, _ := registry["configs"].(map[string]any)
			if len(mirrors) > 0 {
				out.mirrors, out.file, out.v2 = mirrors, f.name, i == 0
			}
			if len(configs) > 0 {
				out.configs, out.file, out.v2 = configs, f.name, i == 0
			}
			break
		}
	}
	return out
}

// roots returns the directories that config_path names, in order, and whether it
// was found at all. Without it the usual directory is taken, see judgeRoots.
func (t registryTable) roots() (roots []string, configured bool) {
	if t.configPath == "" {
		return []string{defaultHostsDir}, false
	}
	for _, dir := range splitList(t.configPath) {
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
