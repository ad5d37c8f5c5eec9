package endpoints

import (
	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

// Source is one place where the runtime looks for an image, with the settings that
// its configuration gives for it; they hold for the token server and the blob hosts
// that it leads to, too.
type Source struct {
	Host   string `json:"host"`   // host[:port]
	Scheme string `json:"scheme"` // "https" or "http"
	Kind   string `json:"kind"`   // "upstream" is the registry that the image names, "mirror" stands in for it
	// Namespace is the registry's name that a mirror is told (ns=), "" for none.
	Namespace string `json:"namespace,omitempty"`
	// Capabilities are "resolve", for what a tag means, and "pull".
	Capabilities []string `json:"capabilities"`
	// HTTPSFirst says that https is tried before the http of Scheme.
	HTTPSFirst   bool        `json:"httpsFirst,omitempty"`
	CAFiles      []string    `json:"caFiles,omitempty"`      // trusted beside the system's roots
	ClientFiles  [][2]string `json:"clientFiles,omitempty"`  // certificate, key; key "" = in the same file
	SkipVerify   bool        `json:"skipVerify,omitempty"`   // the runtime does not verify certificates here
	OverridePath bool        `json:"overridePath,omitempty"` // the path of the source is used as it is
	// HeaderNames are the header fields that the runtime adds to its requests here and
	// at the token server. Their values are secrets and never shown.
	HeaderNames   []string `json:"headerNames,omitempty"`
	DialTimeoutMS int64    `json:"dialTimeoutMs,omitempty"` // the runtime's own connect limit; 0 = its default, 30 s
	File          string   `json:"file,omitempty"`          // hosts.toml or directory that says so; "" = nothing configured
	Repository    string   `json:"repository,omitempty"`    // what the repository is called here; "" = as in the image
	// Credential is "image" where what the kubelet hands over for the image is offered,
	// "own" where the runtime's own file has one, "none" where none is sent.
	Credential string `json:"credential"`
	Last       bool   `json:"last"`   // no further source is asked when this one fails
	DeadMS     int64  `json:"deadMs"` // what a pull of one layer waits here if nothing answers
}

// sourcesOf are those of the runtime, in its order.
func sourcesOf(sources []noderuntime.Source) (out []Source) {
	for _, s := range sources {
		out = append(out, Source{
			Host: s.Host, Scheme: s.Scheme, Kind: s.Kind, Namespace: s.Namespace, Capabilities: s.Capabilities, HTTPSFirst: s.HTTPSFirst,
			CAFiles: s.CAFiles, ClientFiles: s.ClientFiles, SkipVerify: s.SkipVerify, OverridePath: s.OverridePath, HeaderNames: s.Fields.Names(),
			DialTimeoutMS: s.DialTimeoutMS, File: s.File, Repository: s.Repository, Credential: s.Credential, Last: s.Last, DeadMS: s.DeadMS,
		})
	}
	return out
}
