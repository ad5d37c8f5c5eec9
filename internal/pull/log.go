package pull

import (
	"slices"

	"github.com/pullwalk/pullwalk/internal/registry"
)

// SchemeDNS is the scheme of a nameserver's endpoint.
const SchemeDNS = "dns"

// Log is what was seen of the pull of one image.
type Log struct {
	Sources []Source // in the runtime's order
	Ended   string   // why the call was cut short; "" = it was not
	// Unsure says that it is not known whether the runtime's configuration is in force.
	Unsure bool
}

// Source is one registry that the runtime would ask.
type Source struct {
	Host, Kind string
	Digest     string // what the reference led to; "" = not known
	Doubt      string // why nothing that was seen here decides; "" = it does
	Skipped    string // why it was not asked; "" = it was, or its turn never came
	Finished   bool   // the walk came to its end
	Partial    bool   // and that was before the image itself: blobs were not wanted
	Overflow   int    // hosts that are followed at most, where the pull names more; 0 = it does not
	// Accepted is the credential that may read: 0 = none, n = the nth that was tried,
	// Anonymous = the registry asked for none.
	Accepted int
	// NotOffered says that the kubelet offered nothing and that it is known why.
	NotOffered bool
	Endpoints  []Endpoint
}

// Anonymous is the value of [Source].Accepted for a registry that asks for no
// credential.
const Anonymous = -1

// Endpoint is one scheme, host and port.
type Endpoint struct {
	Scheme, Host string
	Port         uint16
	Roles        []registry.Role // in the order in which they came about
	Via          string          // the proxy in between, host:port
	FoundBy      string          // who led there
	Registry     bool            // where the source's manifests are asked for
	Expected     bool            // the pull was not seen to come here
	Known        bool            // expected by what is known of a provider
	Aside        bool            // looked at for information: nobody says that the pull comes here
	BeforePlain  bool            // https, tried before plain http
	Forwarded    bool            // requests are made of the proxy itself
	Steps        []Step          // in the order in which they ended
}

// HostPort returns host:port.
func (e Endpoint) HostPort() string { return HostPort(e.Host, e.Port) }

// copyOf is a copy whose steps can be changed. What a step points to is shared.
func (s Source) copyOf() Source {
	s.Endpoints = slices.Clone(s.Endpoints)
	for i := range s.Endpoints {
		s.Endpoints[i].Steps = slices.Clone(s.Endpoints[i].Steps)
	}
	return s
}

// CopyOf returns sources whose steps can be changed. What a step points to, its
// findings among it, is shared and must be replaced instead.
func CopyOf(sources []Source) []Source {
	out := make([]Source, len(sources))
	for i, s := range sources {
		out[i] = s.copyOf()
	}
	return out
}
