package tlsauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// pluginLimit is how long the kubelet waits for a plugin.
const pluginLimit = time.Minute

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

// PluginRunner runs a plugin and returns what it wrote to standard output, at
// most 1 MiB. This package starts no process: who wants plugins to be run says
// how, for instance with [os/exec]. An error should hold what the plugin wrote to
// standard error.
type PluginRunner interface {
	RunPlugin(ctx context.Context, call PluginCall) ([]byte, error)
}

// PluginRunnerFunc makes a function a [PluginRunner].
type PluginRunnerFunc func(ctx context.Context, call PluginCall) ([]byte, error)

// RunPlugin calls f.
func (f PluginRunnerFunc) RunPlugin(ctx context.Context, call PluginCall) ([]byte, error) {
	return f(ctx, call)
}

const maxPluginAnswer = 1 << 20

// call is the kubelet's request to the plugin about a repository.
func (p Provider) call(binDir, repository string) PluginCall {
	input, _ := json.Marshal(map[string]string{"kind": "CredentialProviderRequest", "apiVersion": p.APIVersion, "image": repository})
	return PluginCall{Path: path.Join(binDir, p.Name), Args: p.Args, Env: p.Env, Input: input}
}

// run runs the plugin and reads its answer. The error is fit to be printed.
func (p Provider) run(ctx context.Context, r PluginRunner, binDir, repository string) ([]entry, string, error) {
	lctx, cancel := context.WithTimeoutCause(ctx, pluginLimit, errLimit)
	defer cancel()
	raw, err := within(lctx, func() ([]byte, error) { return r.RunPlugin(lctx, p.call(binDir, repository)) })
	if err != nil {
		if errors.Is(context.Cause(lctx), errLimit) {
			return nil, "", &pluginError{fmt.Sprintf("it did not end within %v", pluginLimit)}
		}
		return nil, "", &pluginError{classify.Redact(err.Error(), 300)}
	}
	return p.answer(raw)
}

// pluginError says why a plugin gave nothing.
type pluginError struct{ why string }

func (e *pluginError) Error() string { return e.why }

// answer reads what a plugin printed, by the kubelet's rules. remark is what is
// odd about an answer that counts.
func (p Provider) answer(raw []byte) (entries []entry, remark string, err error) {
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
	kept := time.Duration(p.DefaultCacheMS) * time.Millisecond
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
