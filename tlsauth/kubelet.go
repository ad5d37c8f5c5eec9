package tlsauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
)

// The types of pull secrets; the kubelet passes over any other silently.
const (
	secretDockerConfigJSON = "kubernetes.io/dockerconfigjson"
	secretDockercfg        = "kubernetes.io/dockercfg"
)

// PullSecret is a secret that a pod, or its service account, names.
type PullSecret struct {
	Name string `json:"name"`
	Type string `json:"type"` // of the Secret; "" = kubernetes.io/dockerconfigjson
	Data []byte `json:"-"`    // of the key .dockerconfigjson or .dockercfg
	// Missing says that the secret does not exist, at least not in the pod's own
	// namespace. The kubelet goes on without it.
	Missing bool `json:"missing,omitempty"`
}

// String returns the name, never the content.
func (s PullSecret) String() string { return s.Name }

// GoString keeps %#v from printing the content.
func (s PullSecret) GoString() string { return "tlsauth.PullSecret{" + s.Name + "}" }

// Kubelet is everything from which the kubelet of a node takes credentials for a
// pod. It is an [authn.Keychain] and a [CredentialLister], so that a check offers
// what the kubelet would; [Kubelet.Plan] says why. The zero Kubelet has no
// credential. A Kubelet is not changed by its methods.
type Kubelet struct {
	// Secrets are the pod's imagePullSecrets, then those of its service account.
	// All are matched as if they were one.
	Secrets []PullSecret
	parsed  *parsedSecrets // made by NodeKubelet; nil = secrets are parsed for each plan
	// FS is the node's file tree, for the kubelet's own files and the plugins'
	// executables; nil = no node file is looked at.
	FS fs.FS
	// Dir is the kubelet's --root-dir; "" = /var/lib/kubelet.
	Dir string
	// Home is HOME of the kubelet's process; "" = none.
	Home string
	// Providers is the document behind --image-credential-provider-config, in YAML or
	// JSON: which plugins give credentials for which images. It replaces what
	// [NodeKubelet] read; nil = that, or no plugin. What a kubelet would refuse in it
	// stands in the plan's findings.
	Providers []byte
	providers *providerConfig // as NodeKubelet read it
	// PluginDir is --image-credential-provider-bin-dir.
	PluginDir string
	// Runtime holds the credentials of the runtime's own configuration
	// (registry.configs of containerd, global_auth_file of CRI-O), which count only
	// where the kubelet sends none; nil = none.
	Runtime *Keychain
	// RunPlugin runs a plugin and returns what it wrote to standard output, at most
	// 1 MiB. This package starts no process itself; a caller may use [os/exec]. An error
	// should hold what the plugin wrote to standard error. nil = plugins are judged and
	// not run, and what they would give stays unknown.
	RunPlugin func(ctx context.Context, call PluginCall) ([]byte, error)
	// NotRun is why RunPlugin is nil, where somebody wanted them to be run; "" = nobody
	// did.
	NotRun string
	// Unseen is what of the kubelet could not be seen, so that it may offer more than
	// is known here; "" = all was. A plan that offers nothing is then inconclusive.
	Unseen string
}

// The flags of a kubelet that decide about credentials.
const (
	flagProviderConfig = "image-credential-provider-config"
	flagProviderDir    = "image-credential-provider-bin-dir"
	flagRootDir        = "root-dir"
)

// NodeKubelet returns the credentials of a node's kubelet, as its process was
// started: args is its command line (with or without the program itself), environ
// its environment. It reads the configuration of credential providers from the
// node's tree; one that cannot be read is a finding of the plan. Pull secrets
// and a runner of plugins are the caller's to add.
//
// What the kubelet reads at its start may have changed since: the answer is what
// it would do after a restart.
func NodeKubelet(fsys fs.FS, args []string, environ map[string]string) *Kubelet {
	k := &Kubelet{parsed: &parsedSecrets{}, FS: fsys, Dir: flag(args, flagRootDir), Home: environ["HOME"], PluginDir: flag(args, flagProviderDir)}
	file := flag(args, flagProviderConfig)
	if file == "" || fsys == nil {
		return k
	}
	var err error
	if k.providers, err = readProviderConfig(fsys, file); err != nil {
		k.providers = &providerConfig{}
		k.providers.problem("%v", err)
	}
	if k.PluginDir == "" {
		k.providers.problem("--%s is set and --%s is not", flagProviderConfig, flagProviderDir)
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

// Plan says which credentials the kubelet would try for image, in order, and why.
// An error means that image is no image reference.
func (k *Kubelet) Plan(ctx context.Context, image string) (*CredentialPlan, error) {
	repository, err := kubeletName(image)
	if err != nil {
		return nil, err
	}
	return k.plan(runBy(ctx, k.RunPlugin), repository), nil
}

// plan makes a plan; run nil = no plugin is run.
func (k *Kubelet) plan(run func(p pluginConfig, dir, repository string) ([]entry, string, error), repository string) *CredentialPlan {
	p := &CredentialPlan{Repository: repository, Offered: []string{}}
	k.secrets(p)
	k.node(p)
	config := k.providers
	if k.Providers != nil {
		config = parseProviderConfig(k.Providers)
	}
	plugins{config: config, dir: k.PluginDir, fsys: k.FS, run: run, notRun: k.NotRun}.add(p)
	if k.Runtime != nil {
		src := PlanSource{Kind: "runtime", Name: "the runtime's configuration", Matched: k.Runtime.matched(p.Repository), NearestMiss: k.Runtime.nearest(p.Repository)}
		if len(p.credentials()) > 0 {
			src.Reason = "not looked at, since the kubelet sends a credential"
		} else {
			own := &Keychain{entries: slices.Clone(k.Runtime.entries)}
			for i := range own.entries {
				own.entries[i].from = src.Name
			}
			p.offer(own.lookup(p.Repository))
		}
		p.Sources = append(p.Sources, src)
	}
	if p.Inconclusive == "" && len(p.Offered) == 0 {
		p.Inconclusive = k.Unseen
	}
	return p
}

// String tells how many pull secrets there are, and nothing of what is in them.
func (k *Kubelet) String() string {
	if k == nil {
		return "no kubelet"
	}
	return fmt.Sprintf("kubelet with %d pull secrets", len(k.Secrets))
}

// GoString keeps %#v from printing secrets.
func (k *Kubelet) GoString() string { return k.String() }

// Credentials returns all that the kubelet would try, in order. A pull secret
// that cannot be read is an error, as it is for the kubelet.
func (k *Kubelet) Credentials(ctx context.Context, image string) ([]Credential, error) {
	p, err := k.Plan(ctx, image)
	if err != nil {
		return nil, err
	}
	for _, f := range p.findings {
		if f.Severity == classify.SeverityFail {
			return nil, f
		}
	}
	return p.credentials(), nil
}

// Resolve returns the first credential that is known without a run of a plugin,
// [authn.Anonymous] if there is none.
func (k *Kubelet) Resolve(target authn.Resource) (authn.Authenticator, error) {
	p := k.plan(nil, dockerName(target.String()))
	for _, c := range p.credentials() {
		return authn.FromConfig(c.Authn), nil
	}
	return authn.Anonymous, nil
}

// NearestMiss says which key of all sources comes nearest to image, "" if one
// matches or there is none.
func (k *Kubelet) NearestMiss(image string) string {
	repository, err := kubeletName(image)
	if err != nil {
		return ""
	}
	p := k.plan(nil, repository) // plugins ran for Credentials, if at all
	if len(p.credentials()) > 0 {
		return ""
	}
	for _, s := range p.Sources {
		if s.NearestMiss != "" {
			return s.Name + ": " + s.NearestMiss
		}
	}
	return ""
}

// unknown says why it is not known what the kubelet would try for image, "" if
// it is known.
func (k *Kubelet) unknown(image string) string {
	if k.RunPlugin != nil {
		return k.Unseen
	}
	repository, err := kubeletName(image)
	if err != nil {
		return ""
	}
	return k.plan(nil, repository).Inconclusive
}

// secrets matches all pull secrets as one: the kubelet adds them up before it
// sorts, so that a longer key of the second comes before a shorter one of the
// first.
func (k *Kubelet) secrets(p *CredentialPlan) {
	all := &Keychain{}
	for i, s := range k.Secrets {
		name := classify.Redact(s.Name, 128)
		if name == "" {
			name = fmt.Sprintf("pull secret %d", i+1)
		}
		src := PlanSource{Kind: "pull-secret", Name: name}
		form := newForm
		if s.Type == secretDockercfg {
			form = oldForm
		}
		switch {
		case s.Missing:
			src.Reason = "it does not exist in the pod's namespace; the pull goes on without it"
			p.find(classify.IdentityPullSecretMissing, fmt.Sprintf("the pull secret %s does not exist in the pod's namespace, and the pull goes on without it", name))
		case form == newForm && s.Type != "" && s.Type != secretDockerConfigJSON:
			src.Reason = fmt.Sprintf("its type %q is none that the kubelet reads; it is passed over silently", classify.Redact(s.Type, 64))
			p.find(classify.IdentityPullSecretInvalid, fmt.Sprintf("the pull secret %s has the type %q, which the kubelet passes over silently", name, classify.Redact(s.Type, 64)))
		case len(s.Data) == 0:
			src.Reason = "it is empty, and passed over silently"
			p.find(classify.IdentityPullSecretInvalid, fmt.Sprintf("the pull secret %s holds nothing under the key that its type asks for, and is passed over silently", name))
		default:
			keys, err := k.parsed.read(s.Data, form)
			if err != nil {
				src.Reason = classify.Redact(err.Error(), 200)
				p.find(classify.IdentityPullSecretInvalid, fmt.Sprintf("the pull secret %s cannot be read, which ends the pull: %s", name, src.Reason)).Severity = classify.SeverityFail
				break
			}
			for _, e := range keys.entries {
				e.from = "pull secret " + name
				all.entries = append(all.entries, e)
			}
			src.Matched, src.NearestMiss = keys.matched(p.Repository), keys.nearest(p.Repository)
		}
		p.Sources = append(p.Sources, src)
	}
	all.sort()
	p.offer(all.lookup(p.Repository))
}

// parsedSecrets keeps what pull secrets hold: a tenant may write 1 MiB of entries, and
// every image asks for a plan several times.
type parsedSecrets struct {
	mu    sync.Mutex
	known map[secretID]parsedSecret
}

// secretID is the same bytes, read in the same form.
type secretID struct {
	first *byte
	size  int
	form  form
}

type parsedSecret struct {
	keys *Keychain // not to be changed
	err  error
}

// read parses data, which is not empty. It is safe on a nil parsedSecrets.
func (p *parsedSecrets) read(data []byte, form form) (*Keychain, error) {
	if p == nil {
		return dockerConfig(data, "", form)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := secretID{&data[0], len(data), form}
	got, known := p.known[id]
	if !known {
		got.keys, got.err = dockerConfig(data, "", form)
		if p.known == nil {
			p.known = map[secretID]parsedSecret{}
		}
		p.known[id] = got
	}
	return got.keys, got.err
}

// node adds the credentials of the node's files.
func (k *Kubelet) node(p *CredentialPlan) {
	keys, file, remarks := nodeKeys(k.FS, k.Dir, k.Home)
	if keys != nil {
		p.Sources = append(p.Sources, PlanSource{Kind: "node-file", Name: file, Matched: keys.matched(p.Repository), NearestMiss: keys.nearest(p.Repository)})
		p.offer(keys.lookup(p.Repository))
	}
	for _, r := range remarks {
		name, why, _ := strings.Cut(r, ": ")
		p.Sources = append(p.Sources, PlanSource{Kind: "node-file", Name: name, Reason: why})
	}
}

// defaultKubeletDir is where a kubelet keeps its state (--root-dir).
const defaultKubeletDir = "/var/lib/kubelet"

// nodeFile is one place where the kubelet looks for credentials of the node.
type nodeFile struct {
	name string
	form form
}

// nodeFiles are the places, in the kubelet's order: config.json in its own
// directory, in its working directory, below HOME and below the root; only when
// none of these can be used, .dockercfg in the same way. The first that parses
// is the only one that counts.
func nodeFiles(dir, home string) (out []nodeFile) {
	add := func(form form, names ...string) {
		for _, name := range names {
			if f := (nodeFile{name, form}); !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	dir, home = cmp.Or(dir, defaultKubeletDir), path.Join("/", home)
	add(newForm, path.Join(dir, "config.json"), "/config.json", path.Join(home, ".docker/config.json"), "/.docker/config.json")
	add(oldForm, path.Join(dir, ".dockercfg"), "/.dockercfg", path.Join(home, ".dockercfg"), "/.dockercfg")
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
