package tlsauth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

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
		if k.NotRun != "" {
			src.Reason += " (" + k.NotRun + ")"
		}
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
