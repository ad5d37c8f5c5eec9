package endpoints

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/pullwalk/pullwalk/classify"
)

// rancher reads where the containerd inside k3s or RKE2 looks. These generate its
// configuration from registries.yaml when they start, so that the generated files
// are what is in force, and the YAML only what will be.
func (rd *reader) rancher(runtime, config string) []Source {
	distro := "k3s"
	if strings.HasPrefix(runtime, "rke2") || strings.Contains(config, "/rancher/rke2/") {
		distro = "rke2"
	}
	rd.rewrites = true
	base := "/var/lib/rancher/" + distro
	if i := strings.Index(config, "/agent/etc/containerd/"); i > 0 {
		base = config[:i] // --data-dir
	}
	rd.config = cmp.Or(config, base+"/agent/etc/containerd/config.toml")
	yamlFile := "/etc/rancher/" + distro + "/registries.yaml"
	table, named := rd.registriesYAML(yamlFile)

	if _, err := fs.Stat(rd.fsys, inFS(rd.config)); err != nil {
		return rd.legacy(table) // never started: what it would generate
	}
	generated := rd.containerdOf(path.Join(base, "agent/etc/containerd/certs.d"))
	if named && generated == nil {
		rd.ignored(yamlFile, fmt.Sprintf("it names %s, and what %s generated from it at its start does not: it is read at the start only", rd.ref.Registry, distro), classify.NodeRuntimeConfigIgnored)
	}
	return generated
}

// containerdOf is containerd's own reading, with the directory that is taken when
// config_path is not said.
func (rd *reader) containerdOf(dir string) []Source {
	table := rd.registry()
	if table.configPath == "" {
		if sources := rd.legacy(table); sources != nil {
			return sources
		}
		table.configPath = dir
	}
	roots, _ := table.roots()
	found, _ := rd.hostDir(roots)
	if found == "" {
		return nil
	}
	return rd.load(found)
}

// registriesYAML reads registries.yaml into the tables that it is made of, and
// says whether they name this registry. Its endpoints may leave the scheme out.
func (rd *reader) registriesYAML(file string) (registryTable, bool) {
	data, ok := rd.read(file)
	if !ok {
		return registryTable{}, false
	}
	var doc struct {
		Mirrors map[string]any `json:"mirrors"`
		Configs map[string]any `json:"configs"`
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		rd.ignored(file, "it does not parse ("+classify.Redact(err.Error(), 120)+"), so the next start fails of it or leaves it out", classify.NodeRuntimeConfigIgnored)
		return registryTable{}, false
	}
	for _, v := range doc.Mirrors {
		mirror, _ := v.(map[string]any)
		list, _ := stringList(mirror["endpoint"])
		for i, e := range list {
			if !strings.Contains(e, "://") {
				list[i] = "https://" + e
			}
		}
		if len(list) > 0 {
			anyList := make([]any, len(list))
			for i, e := range list {
				anyList[i] = e
			}
			mirror["endpoint"] = anyList
		}
	}
	t := registryTable{mirrors: doc.Mirrors, configs: doc.Configs, file: file}
	_, mirrored := doc.Mirrors[rd.ref.Registry]
	_, configured := doc.Configs[rd.ref.Host]
	return t, mirrored || configured
}
