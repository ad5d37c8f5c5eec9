package noderuntime

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/pullwalk/pullwalk/classify"
)

// rancherSources reads where the containerd inside k3s or RKE2 looks. These
// generate its configuration from registries.yaml when they start, so that the
// generated files are what is in force, and the YAML only what will be.
func rancherSources(rd *reader) []Source {
	base := "/var/lib/rancher/" + rd.Name
	if i := strings.Index(rd.config, "/agent/etc/containerd/"); i > 0 {
		base = rd.config[:i] // --data-dir
	}
	rd.config = cmp.Or(rd.config, base+"/agent/etc/containerd/config.toml")
	yamlFile := "/etc/rancher/" + rd.Name + "/registries.yaml"
	t, named := rd.registriesYAML(yamlFile)

	if _, err := fs.Stat(rd.fsys, inFS(rd.config)); err != nil {
		return rd.legacy(t) // never started: what it would generate
	}
	generated := rd.generated(path.Join(base, "agent/etc/containerd/certs.d"))
	if named && generated == nil {
		rd.ignored(yamlFile, fmt.Sprintf("it names %s, and what %s generated from it at its start does not: it is read at the start only", rd.ref.Registry, rd.Name))
	}
	return generated
}

// generated is containerd's own reading, with the directory that is taken when
// config_path is not said.
func (rd *reader) generated(dir string) []Source {
	t := rd.registry()
	if t.configPath == "" {
		if sources := rd.legacy(t); sources != nil {
			return sources
		}
		t.configPath = dir
	}
	roots, _ := t.roots()
	found, _ := rd.hostDir(roots)
	if found == "" {
		return nil
	}
	return rd.load(found)
}

// registriesYAML reads registries.yaml into the tables that it is made of, and
// reports whether they name this registry. Its endpoints may leave the scheme out.
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
		rd.ignored(file, "it does not parse ("+classify.Redact(err.Error(), 120)+"), so the next start fails of it or leaves it out")
		return registryTable{}, false
	}
	for name := range doc.Mirrors {
		mirror := table(doc.Mirrors, name)
		list, _ := stringList(mirror["endpoint"])
		full := make([]any, len(list))
		for i, e := range list {
			if full[i] = e; !strings.Contains(e, "://") {
				full[i] = "https://" + e
			}
		}
		if len(full) > 0 {
			mirror["endpoint"] = full
		}
	}
	_, mirrored := doc.Mirrors[rd.ref.Registry]
	_, configured := doc.Configs[rd.ref.Host]
	return registryTable{mirrors: doc.Mirrors, configs: doc.Configs, file: file}, mirrored || configured
}
