package registry

import (
	"cmp"
	"net/url"
	"strings"
)

// Walk makes the requests of a pull at one source, one per call and in the order that the
// caller likes. It holds no state between calls, so that calls may run at once as long as
// its fields are left alone.
//
// Each method takes the [http.RoundTripper] to use. It must not follow redirects, and for
// an https URL it must have verified the certificate: that is what allows Authorization to
// be sent. Requests are those of containerd 2 (core/remotes/docker) but for two fields: the
// User-Agent is the caller's, and content codings are declined, because digests are over
// what is stored.
type Walk struct {
	Reference Reference
	// Base is where the source is: scheme, host and the path of its API. nil = the host of
	// Reference; an empty path = "/v2".
	Base      *url.URL
	Namespace string // the registry that a mirror stands in for (ns=); "" = no mirror
	Client    Client
	UserAgent string // "" = DefaultAgent
	// Authorization is sent to the scheme, host and port of Base over https only, after a
	// redirect where Client sends it there. "" = anonymous.
	Authorization string
	Fields        Fields // what the configuration adds to requests here
	// OnBytes is told how many more bytes of a blob arrived, from the goroutine of the
	// call; nil = nobody is told.
	OnBytes   func(n int64)
	MaxLayers int // how many layers of an image are looked at; 0 = 128, which overlay file systems stack
}

const (
	// DefaultAgent is the User-Agent of a [Walk] that has none.
	DefaultAgent     = "pullwalk"
	defaultMaxLayers = 128
)

// Origin returns the scheme and host to which Authorization may go.
func (w *Walk) Origin() *url.URL {
	if w.Base != nil {
		return w.Base
	}
	return &url.URL{Scheme: w.Reference.Scheme, Host: w.Reference.Host}
}

// url returns the address of a path in the source's API.
func (w *Walk) url(path string) *url.URL {
	base := w.Origin()
	u := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(cmp.Or(base.Path, "/v2"), "/") + "/" + path}
	if w.Namespace != "" && path != "" {
		u.RawQuery = url.Values{"ns": {w.Namespace}}.Encode()
	}
	return u
}

func (w *Walk) manifestURL(identifier string) *url.URL {
	return w.url(w.Reference.Repository + "/manifests/" + identifier)
}

func (w *Walk) blobURL(digest string) *url.URL {
	return w.url(w.Reference.Repository + "/blobs/" + digest)
}
