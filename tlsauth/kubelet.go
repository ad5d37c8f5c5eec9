package tlsauth

import (
	"context"
	"fmt"
	"io/fs"
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
	// Runtime holds the credentials of the runtime's own configuration
	// (registry.configs of containerd, global_auth_file of CRI-O), which count only
	// where the kubelet sends none; nil = none.
	Runtime *Keychain
	// Plugins runs plugins; nil = they are judged and not run, and what they would
	// give stays unknown.
	Plugins PluginRunner
	// NotRun is why Plugins is nil, where somebody wanted them to be run; "" = nobody
	// did.
	NotRun string
	// Unseen is what of the kubelet could not be seen, so that it may offer more than
	// is known here; "" = all was. A plan that offers nothing is then inconclusive.
	Unseen string
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
	Kind string `json:"kind"` // "pull-secret", "node-file", "provider" or "runtime"
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

func (k *Kubelet) plan(repository string, run runs) *CredentialPlan {
	p := &CredentialPlan{Repository: repository, Offered: []string{}}
	k.secrets(p)
	k.node(p)
	k.providers(p, run)
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
		return k.Unseen
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

// find adds a warning and returns it for completion.
func (p *CredentialPlan) find(cause classify.Cause, summary string) *classify.Finding {
	f := classify.New(cause, summary)
	f.Severity = classify.SeverityWarn
	p.findings = append(p.findings, f)
	return &p.findings[len(p.findings)-1]
}
