package tlsauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// PluginCall is one run of a credential provider plugin, as the kubelet makes it.
type PluginCall struct {
	Path string   // of the executable, on the node
	Args []string // without the executable's own name
	// Env are the variables that the configuration adds, "NAME=value". The plugin
	// also gets the kubelet's own environment, its proxy settings among them.
	Env   []string
	Input []byte // for its standard input: the request, which holds no secret
}

// String returns the path: arguments and variables may hold secrets.
func (c PluginCall) String() string { return c.Path }

// GoString keeps %#v from printing them.
func (c PluginCall) GoString() string { return "tlsauth.PluginCall{" + c.Path + "}" }

// pluginLimit is how long the kubelet waits for a plugin.
const pluginLimit = time.Minute

const maxPluginAnswer = 1 << 20

// plugins are the credential provider plugins of a node, and how they are run.
type plugins struct {
	config *providerConfig
	dir    string
	fsys   fs.FS // to look at the executables, nil = not done
	run    func(p pluginConfig, dir, repository string) (entries []entry, remark string, err error)
	notRun string // why run is nil, where somebody wanted them to be run
}

// runBy returns how a plugin is run, about a repository, and its answer read. An error
// of ctx comes as it is, the plugin's own as a *pluginError.
func runBy(ctx context.Context, run func(ctx context.Context, call PluginCall) ([]byte, error)) func(p pluginConfig, dir, repository string) ([]entry, string, error) {
	if run == nil {
		return nil
	}
	return func(p pluginConfig, dir, repository string) ([]entry, string, error) {
		return p.run(ctx, run, dir, repository)
	}
}

func (p pluginConfig) run(ctx context.Context, run func(ctx context.Context, call PluginCall) ([]byte, error), dir, repository string) ([]entry, string, error) {
	input, _ := json.Marshal(map[string]string{"kind": "CredentialProviderRequest", "apiVersion": p.APIVersion, "image": repository})
	call := PluginCall{Path: path.Join(dir, p.Name), Args: p.Args, Env: p.Env, Input: input}
	limited, cancel := context.WithTimeoutCause(ctx, pluginLimit, errPluginLimit)
	defer cancel()
	raw, err := within(limited, func() ([]byte, error) { return run(limited, call) })
	switch {
	case err == nil:
		return p.answer(raw)
	case ctx.Err() != nil:
		return nil, "", errors.New("the check was ended: " + classify.Redact(context.Cause(ctx).Error(), 120))
	case errors.Is(context.Cause(limited), errPluginLimit):
		return nil, "", &pluginError{fmt.Sprintf("it did not end within %v", pluginLimit)}
	}
	return nil, "", &pluginError{classify.Redact(err.Error(), 300)}
}

var errPluginLimit = errors.New("the plugin's own limit")

// within runs f and returns when ctx ends, even if f does not.
func within[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	got := make(chan result, 1)
	go func() {
		v, err := f()
		got <- result{v, err}
	}()
	select {
	case r := <-got:
		return r.value, r.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}

// pluginError says why a plugin gave nothing.
type pluginError struct{ why string }

func (e *pluginError) Error() string { return e.why }

// answer reads what a plugin printed, by the kubelet's rules. remark says what is
// odd about an answer that counts.
func (p pluginConfig) answer(raw []byte) (entries []entry, remark string, err error) {
	if len(raw) > maxPluginAnswer {
		return nil, "", &pluginError{fmt.Sprintf("its answer has more than %d bytes", maxPluginAnswer)}
	}
	var doc struct {
		Kind          string  `json:"kind"`
		APIVersion    string  `json:"apiVersion"`
		CacheKeyType  string  `json:"cacheKeyType"`
		CacheDuration *string `json:"cacheDuration"`
		Auth          map[string]struct {
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"auth"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, "", &pluginError{"its answer: " + unspoken(err).Error()}
	}
	switch {
	case doc.Kind != "CredentialProviderResponse":
		return nil, "", &pluginError{fmt.Sprintf("its answer is a %q, not a CredentialProviderResponse", classify.Redact(doc.Kind, 64))}
	case doc.APIVersion != p.APIVersion:
		return nil, "", &pluginError{fmt.Sprintf("it answers in %q and is configured for %q", classify.Redact(doc.APIVersion, 64), classify.Redact(p.APIVersion, 64))}
	case doc.CacheKeyType != "Image" && doc.CacheKeyType != "Registry" && doc.CacheKeyType != "Global":
		return nil, "", &pluginError{fmt.Sprintf("its cacheKeyType %q is none of Image, Registry and Global", classify.Redact(doc.CacheKeyType, 32))}
	}
	kept := p.DefaultCache
	if doc.CacheDuration != nil {
		if kept, err = time.ParseDuration(*doc.CacheDuration); err != nil {
			return nil, "", &pluginError{"its cacheDuration is no duration"}
		}
	}
	if kept < time.Minute {
		remark = fmt.Sprintf("its answer is kept for %v, so that it runs for nearly every pull", kept)
	}
	for written, auth := range doc.Auth {
		e := entry{written: written, from: "credential provider " + classify.Redact(p.Name, 64)}
		e.login.Username, e.login.Password = auth.Username, auth.Password
		if e.key = effectiveKey(written); e.key != "" {
			entries = append(entries, e)
		}
	}
	if len(doc.Auth) == 0 {
		remark = "its answer holds no credential"
	}
	return entries, remark, nil
}

// add completes a plan with what the plugins give.
func (n plugins) add(p *CredentialPlan) {
	if n.config == nil {
		return
	}
	for _, problem := range n.config.problems {
		p.find(classify.IdentityProviderConfigInvalid, "the kubelet would refuse this credential provider configuration: "+problem)
	}
	all := &Keychain{}
	for _, plugin := range n.config.plugins {
		src := PlanSource{Kind: "provider", Name: classify.Redact(plugin.Name, 128)}
		by, nearest := plugin.match(p.Repository)
		if by == "" {
			src.NearestMiss, src.Reason = nearest, "matchImages does not cover the image"
		} else {
			src.Matched, src.Hosts = []string{by}, sourceHosts(plugin.Name, p.Repository)
			all.entries = append(all.entries, n.ask(p, plugin, &src)...)
		}
		p.Sources = append(p.Sources, src)
	}
	all.sort()
	p.offer(all.lookup(p.Repository))
}

// ask runs one plugin that matches, if it can be run.
func (n plugins) ask(p *CredentialPlan, plugin pluginConfig, src *PlanSource) []entry {
	if plugin.ServiceAccount {
		src.Reason = "it works with a token of the pod's service account, which only the kubelet can make"
		if len(plugin.Needs) > 0 {
			src.Reason += "; without the annotations " + classify.Redact(strings.Join(plugin.Needs, ", "), 200) + " on it the plugin is passed over silently"
		}
		p.Inconclusive = "provider " + src.Name + ": " + src.Reason
		return nil
	}
	if why := n.missing(plugin.Name); why != "" {
		src.Reason = why
		p.find(classify.IdentityCredentialPluginFailed, fmt.Sprintf("the credential provider %s cannot run: %s", src.Name, why))
		return nil
	}
	if n.run == nil {
		src.Reason = "it was not run, so what it gives is not known"
		if n.notRun != "" {
			src.Reason += " (" + n.notRun + ")"
		}
		p.Inconclusive = "provider " + src.Name + ": " + src.Reason
		return nil
	}
	entries, remark, err := n.run(plugin, n.dir, p.Repository)
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
		p.find(classify.IdentityNoMatchingCredential, fmt.Sprintf("the credential provider %s matches the image, and no key of its answer does: %s", src.Name, cmp.Or(src.NearestMiss, "it holds none")))
	}
	return entries
}

// missing says why the file of a plugin cannot be run, "" if nothing shows that.
func (n plugins) missing(plugin string) string {
	if n.fsys == nil || n.dir == "" {
		return ""
	}
	name := path.Join(n.dir, plugin)
	info, err := fs.Stat(n.fsys, inTree(name))
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
