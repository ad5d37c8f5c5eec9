package tlsauth

import (
	"io/fs"
	"slices"
	"strings"
)

// The flags of a kubelet that decide about credentials.
const (
	flagProviderConfig = "image-credential-provider-config"
	flagProviderDir    = "image-credential-provider-bin-dir"
	flagRootDir        = "root-dir"
)

// NodeKubelet returns the credentials of a node's kubelet, as its process was
// started: args is its command line (with or without the program itself), environ
// its environment. It reads the configuration of credential providers from the
// node's tree; one that cannot be read stands in Providers.Problems. Pull secrets
// and a runner of plugins are the caller's to add.
//
// What the kubelet reads at its start may have changed since: the answer is what
// it would do after a restart.
func NodeKubelet(fsys fs.FS, args []string, environ map[string]string) *Kubelet {
	k := &Kubelet{FS: fsys, Dir: flag(args, flagRootDir), Home: environ["HOME"], PluginDir: flag(args, flagProviderDir)}
	file := flag(args, flagProviderConfig)
	if file == "" || fsys == nil {
		return k
	}
	var err error
	if k.Providers, err = ReadProviderConfig(fsys, file); err != nil {
		k.Providers = &ProviderConfig{}
		k.Providers.problem("%v", err)
	}
	if k.PluginDir == "" {
		k.Providers.problem("--%s is set and --%s is not", flagProviderConfig, flagProviderDir)
	}
	return k
}

// flag returns the value of a flag, in either of its forms; the last one counts.
func flag(args []string, name string) string {
	value := ""
	for i, a := range args {
		a, dashed := strings.CutPrefix(a, "--")
		if !dashed {
			a, dashed = strings.CutPrefix(a, "-")
		}
		switch key, v, equals := strings.Cut(a, "="); {
		case !dashed || key != name:
		case equals:
			value = v
		case i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}

// sourceHosts are the services, as host:port, that well-known plugins ask for a
// credential: hints for where to look when one delivers nothing. They are asked
// from the node, by the kubelet's child, with the kubelet's proxy settings.
func sourceHosts(plugin, repository string) []string {
	host, _, _ := strings.Cut(repository, "/")
	labels := strings.Split(host, ".")
	switch plugin = strings.ToLower(plugin); {
	case strings.Contains(plugin, "acr") || strings.Contains(plugin, "azure"):
		return []string{"169.254.169.254:80", "login.microsoftonline.com:443", host + ":443"}
	case strings.Contains(plugin, "ecr"):
		hosts := []string{"169.254.169.254:80"}
		if i := slices.Index(labels, "ecr"); i >= 0 && i+1 < len(labels) {
			hosts = append(hosts, "api.ecr."+labels[i+1]+".amazonaws.com:443")
		}
		return hosts
	case strings.Contains(plugin, "gcp") || strings.Contains(plugin, "gcr") || strings.Contains(plugin, "google"):
		return []string{"169.254.169.254:80"}
	}
	return nil
}
