package tlsauth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
)

// The types of pull secrets; the kubelet passes over any other silently.
const (
	SecretDockerConfigJSON = "kubernetes.io/dockerconfigjson"
	SecretDockercfg        = "kubernetes.io/dockercfg"
)

// PullSecret is a secret that a pod, or its service account, names.
type PullSecret struct {
	Name string `json:"name"`
	Type string `json:"type"` // "" = SecretDockerConfigJSON
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
	// FS is the node's file tree, for the kubelet's own files and the plugins'
	// executables; nil = no node file is looked at.
	FS fs.FS
	// Dir is the kubelet's --root-dir; "" = [DefaultKubeletDir].
	Dir string
	// Home is HOME of the kubelet's process; "" = none.
	Home string
	// Providers is the configuration of credential provider plugins; nil = none.
	Providers *ProviderConfig
	// PluginDir is --image-credential-provider-bin-dir.
	PluginDir string
	// Plugins runs plugins; nil = they are judged and not run, and what they would
	// give stays unknown.
	Plugins PluginRunner
}

// CredentialPlan is what a kubelet would try for one image, and why.
type CredentialPlan struct {
	Repository string       `json:"repository"` // as the kubelet looks it up: without tag and digest
	Sources    []PlanSource `json:"sources"`    // in the kubelet's order
	// Offered are the sources of what would be tried, in order; empty = one
	// anonymous attempt.
	Offered []string `json:"offered"`
	// Inconclusive is why it is not known: a plugin that matches was not run.
	Inconclusive string `json:"inconclusive,omitempty"`

	// held hands out the credentials. It is a function because package fmt prints
	// what unexported fields hold.
	held     func() []Credential
	findings []classify.Finding
}

func (p *CredentialPlan) credentials() []Credential {
	if p.held == nil {
		return nil
	}
	return p.held()
}

// offer appends credentials.
func (p *CredentialPlan) offer(more []Credential) {
	all := append(p.credentials(), more...)
	p.held = func() []Credential { return slices.Clone(all) }
	for _, c := range more {
		p.Offered = append(p.Offered, c.Source)
	}
}

// PlanSource is one place where the kubelet looks.
type PlanSource struct {
	Kind string `json:"kind"` // "pull-secret", "node-file" or "provider"
	Name string `json:"name"` // of the secret, the file or the plugin
	// Matched are the keys that match, or the entry of matchImages, in order.
	Matched []string `json:"matched,omitempty"`
	// Reason is why nothing comes from here, or a remark; "" = nothing to say.
	Reason string `json:"reason,omitempty"`
	// NearestMiss is the key that came nearest, and what separates it.
	NearestMiss string `json:"nearestMiss,omitempty"`
	// Hosts are what a well-known plugin needs to reach, as host:port: hints, only
	// for plugins that match.
	Hosts []string `json:"hosts,omitempty"`
}

// Findings returns what is wrong with the sources: warnings, except for a secret
// that cannot be read, which ends the pull.
func (p *CredentialPlan) Findings() []classify.Finding {
	if p == nil {
		return nil
	}
	return slices.Clone(p.findings)
}

// Plan says which credentials the kubelet would try for image, in order, and why.
// An error means that image is no image reference.
func (k *Kubelet) Plan(ctx context.Context, image string) (*CredentialPlan, error) {
	repository, err := kubeletName(image)
	if err != nil {
		return nil, err
	}
	return k.plan(repository, k.runner(ctx)), nil
}

// runs asks one plugin about a repository. An error of the caller's context comes
// as it is, the plugin's own as a *pluginError.
type runs func(p Provider, repository string) (entries []entry, remark string, err error)

// runner returns how plugins are run, nil if they are not.
func (k *Kubelet) runner(ctx context.Context) runs {
	if k.Plugins == nil {
		return nil
	}
	return func(p Provider, repository string) ([]entry, string, error) {
		entries, remark, err := p.run(ctx, k.Plugins, k.PluginDir, repository)
		if err != nil && ctx.Err() != nil {
			return nil, "", errors.New(ended(ctx))
		}
		return entries, remark, err
	}
}

func (k *Kubelet) plan(repository string, run runs) *CredentialPlan {
	p := &CredentialPlan{Repository: repository, Offered: []string{}}
	k.secrets(p)
	k.node(p)
	k.providers(p, run)
	return p
}

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
	p := k.plan(dockerName(target.String()), nil)
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
	p := k.plan(repository, nil) // plugins ran for Credentials, if at all
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
	if k.Plugins != nil {
		return ""
	}
	repository, err := kubeletName(image)
	if err != nil {
		return ""
	}
	return k.plan(repository, nil).Inconclusive
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
		if s.Type == SecretDockercfg {
			form = oldForm
		}
		switch {
		case s.Missing:
			src.Reason = "it does not exist in the pod's namespace; the pull goes on without it"
			p.find(classify.IdentityPullSecretMissing, fmt.Sprintf("the pull secret %s does not exist in the pod's namespace, and the pull goes on without it", name))
		case form == newForm && s.Type != "" && s.Type != SecretDockerConfigJSON:
			src.Reason = fmt.Sprintf("its type %q is none that the kubelet reads; it is passed over silently", classify.Redact(s.Type, 64))
			p.find(classify.IdentityPullSecretInvalid, fmt.Sprintf("the pull secret %s has the type %q, which the kubelet passes over silently", name, classify.Redact(s.Type, 64)))
		case len(s.Data) == 0:
			src.Reason = "it is empty, and passed over silently"
			p.find(classify.IdentityPullSecretInvalid, fmt.Sprintf("the pull secret %s holds nothing under the key that its type asks for, and is passed over silently", name))
		default:
			keys, err := dockerConfig(s.Data, "", form)
			if err != nil {
				src.Reason = classify.Redact(err.Error(), 200)
				p.find(classify.IdentityPullSecretInvalid, fmt.Sprintf("the pull secret %s cannot be read, which ends the pull: %s", name, src.Reason)).Severity = classify.SeverityFail
				break
			}
			for j := range keys.entries {
				keys.entries[j].from = "pull secret " + name
			}
			all.entries = append(all.entries, keys.entries...)
			src.Matched, src.NearestMiss = keys.matched(p.Repository), keys.nearest(p.Repository)
		}
		p.Sources = append(p.Sources, src)
	}
	all.sort()
	p.offer(all.lookup(p.Repository))
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

// providers adds what the plugins give.
func (k *Kubelet) providers(p *CredentialPlan, run runs) {
	if k.Providers == nil {
		return
	}
	for _, problem := range k.Providers.Problems {
		p.find(classify.IdentityProviderConfigInvalid, "the kubelet would refuse this credential provider configuration: "+problem)
	}
	all := &Keychain{}
	for _, plugin := range k.Providers.Providers {
		src := PlanSource{Kind: "provider", Name: classify.Redact(plugin.Name, 128)}
		by, nearest := plugin.Match(p.Repository)
		switch {
		case by == "":
			src.NearestMiss, src.Reason = nearest, "matchImages does not cover the image"
		case plugin.ServiceAccount:
			src.Matched, src.Hosts = []string{by}, sourceHosts(plugin.Name, p.Repository)
			src.Reason = "it works with a token of the pod's service account, which only the kubelet can make"
			if len(plugin.Needs) > 0 {
				src.Reason += "; without the annotations " + classify.Redact(strings.Join(plugin.Needs, ", "), 200) + " on it the plugin is passed over silently"
			}
			p.Inconclusive = "provider " + src.Name + ": " + src.Reason
		default:
			src.Matched, src.Hosts = []string{by}, sourceHosts(plugin.Name, p.Repository)
			all.entries = append(all.entries, k.ask(p, run, plugin, &src)...)
		}
		p.Sources = append(p.Sources, src)
	}
	all.sort()
	p.offer(all.lookup(p.Repository))
}

// ask runs one plugin that matches.
func (k *Kubelet) ask(p *CredentialPlan, run runs, plugin Provider, src *PlanSource) []entry {
	if why := k.executable(plugin.Name); why != "" {
		src.Reason = why
		p.find(classify.IdentityCredentialPluginFailed, fmt.Sprintf("the credential provider %s cannot run: %s", src.Name, why))
		return nil
	}
	if run == nil {
		src.Reason = "it was not run, so what it gives is not known"
		p.Inconclusive = "provider " + src.Name + ": " + src.Reason
		return nil
	}
	entries, remark, err := run(plugin, p.Repository)
	if err != nil {
		src.Reason = err.Error()
		if own := (*pluginError)(nil); errors.As(err, &own) {
			p.pluginFailed(src.Name, err)
		} else {
			p.Inconclusive = src.Reason
		}
		return nil
	}
	src.Reason = remark
	keys := &Keychain{entries: entries}
	if len(keys.lookup(p.Repository)) == 0 {
		src.NearestMiss = keys.nearest(p.Repository)
		p.find(classify.IdentityNoMatchingCredential, fmt.Sprintf("the credential provider %s matches the image, and no key of its answer does: %s", src.Name, orNothing(src.NearestMiss)))
	}
	return entries
}

func orNothing(s string) string {
	if s == "" {
		return "it holds none"
	}
	return s
}

// executable says why the plugin's file cannot be run, "" if nothing shows that.
func (k *Kubelet) executable(plugin string) string {
	if k.FS == nil || k.PluginDir == "" {
		return ""
	}
	name := path.Join(k.PluginDir, plugin)
	info, err := fs.Stat(k.FS, inTree(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return name + " does not exist"
	case err != nil:
		return name + ": " + reason(err)
	case !info.Mode().IsRegular():
		return name + " is no file"
	case info.Mode().Perm()&0o111 == 0:
		return name + " is not executable"
	}
	return ""
}

// pluginFailed says what a failed plugin means. The kubelet only logs it; the
// event shows the anonymous attempt that follows.
func (p *CredentialPlan) pluginFailed(name string, err error) {
	read := classify.Text(err.Error()).Best
	cause := classify.IdentityCredentialPluginFailed
	var others []classify.Cause
	switch read.Layer {
	case classify.LayerRoute, classify.LayerDNS, classify.LayerEndpoint, classify.LayerTLS:
		// What it needs was not reached: no question of identity yet.
		cause, others = classify.IdentitySourceUnreachable, []classify.Cause{read.Cause, classify.IdentityCredentialPluginFailed}
	}
	f := p.find(cause, fmt.Sprintf("the credential provider %s delivered nothing: %s; the kubelet only logs this and pulls without it", name, err))
	f.Alternatives = others
	if cause == classify.IdentitySourceUnreachable {
		f.Certainty, f.Endpoint = classify.CertaintyLikely, read.Endpoint
	}
}

// find adds a warning and returns it for completion.
func (p *CredentialPlan) find(cause classify.Cause, summary string) *classify.Finding {
	f := classify.New(cause, summary)
	f.Severity = classify.SeverityWarn
	p.findings = append(p.findings, f)
	return &p.findings[len(p.findings)-1]
}
