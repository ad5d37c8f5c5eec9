package endpoints

import (
	"net"
	"net/netip"
	"slices"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
)

// HostUse is one host that a pull touches, and why.
type HostUse struct {
	Scheme  string `json:"scheme"`
	Host    string `json:"host"` // without port
	Port    string `json:"port"` // always there
	Roles   []Role `json:"roles"`
	FoundBy string `json:"foundBy"` // "the image name", or which host or file led here
	// Settings is the file whose CA, client certificate and verification apply: those
	// of the source that led here, never of an entry under this host's own name.
	// "" = the node's roots only.
	Settings string       `json:"settings,omitempty"`
	Proxy    string       `json:"proxy,omitempty"` // host:port of the proxy that is used, "" = none
	Addrs    []netip.Addr `json:"addrs,omitempty"` // that connections were made to; none through a proxy
	Scope    string       `json:"scope,omitempty"` // "private", "public", "mixed"; "" = not known
	// Provider is whose host this is by its name, "" if that is not known: a label,
	// not a proof.
	Provider string `json:"provider,omitempty"`
}

func (h *HostUse) key() string { return h.Scheme + "://" + net.JoinHostPort(h.Host, h.Port) }

// note adds the addresses that connections were made to.
func (h *HostUse) note(addrs []netip.Addr) {
	for _, a := range addrs {
		if a = a.Unmap(); !slices.Contains(h.Addrs, a) {
			h.Addrs = append(h.Addrs, a)
		}
	}
	slices.SortFunc(h.Addrs, netip.Addr.Compare)
	h.Scope = scopeOf(h.Addrs)
}

// scopeOf says whether addresses are of private use: those of RFC 1918, RFC 4193
// and RFC 6598, loopback and link-local.
func scopeOf(addrs []netip.Addr) string {
	scope := ""
	for _, a := range addrs {
		s := "public"
		if a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || sharedSpace.Contains(a) {
			s = "private"
		}
		if scope != "" && scope != s {
			return "mixed"
		}
		scope = s
	}
	return scope
}

var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// Map is what one walk over a pull saw: the hosts in the order in which they
// were met, and every request.
type Map struct {
	Reference Reference        `json:"reference"`
	Platform  Platform         `json:"platform"`
	Sources   []Source         `json:"sources"`          // where the runtime would look, in order
	Source    string           `json:"source,omitempty"` // the host of the one that served, "" if none did
	Digest    string           `json:"digest,omitempty"` // what the reference means, "" if that was not learnt
	Touched   []HostUse        `json:"hosts"`
	Requests  []*RequestReport `json:"requests"`
	Layers    int              `json:"layers"`            // distinct layers of the image; 0 = not learnt
	Present   []string         `json:"present,omitempty"` // digests that the node has already
	// Held says that every hop held. It does not say that the image can be
	// pulled: only Complete does.
	Held bool `json:"held"`
	// Complete says that manifest, config and every layer arrived whole and with
	// the right digest.
	Complete bool  `json:"complete"`
	Bytes    int64 `json:"bytes"` // content that arrived
	// Inconclusive is why the walk cannot say more, "" if it can.
	Inconclusive string `json:"inconclusive,omitempty"`

	found    []classify.Finding // of the requests, in their order
	findings []classify.Finding // of no request
}

func (m *Map) unknown(reason string) {
	if m.Inconclusive == "" {
		m.Inconclusive = reason
	}
}

// touch adds a host, or another role of one.
func (m *Map) touch(use HostUse, addrs map[string][]netip.Addr) {
	i := slices.IndexFunc(m.Touched, func(h HostUse) bool { return h.key() == use.key() })
	if i < 0 {
		i = len(m.Touched)
		use.Provider, _ = noderuntime.Known(use.Host)
		m.Touched = append(m.Touched, use)
	}
	h := &m.Touched[i]
	for _, role := range use.Roles {
		if !slices.Contains(h.Roles, role) {
			h.Roles = append(h.Roles, role)
		}
	}
	h.note(addrs[h.key()])
}

// Hosts returns the hosts met, in order: what a firewall has to let through for
// this image, today. Hosts behind a step that failed are not in it.
func (m *Map) Hosts() []HostUse { return slices.Clone(m.Touched) }

// Findings returns the findings of the requests in order, and then those of the walk
// itself.
func (m *Map) Findings() []classify.Finding { return slices.Concat(m.found, m.findings) }
