package endpoints

import (
	"slices"

	"github.com/pullwalk/pullwalk/classify"
)

// HostUse is one host that a pull touches, and why.
type HostUse struct {
	Scheme  string `json:"scheme"`
	Host    string `json:"host"` // without port
	Port    string `json:"port"` // always there
	Roles   []Role `json:"roles"`
	FoundBy string `json:"foundBy"` // "the image name", or which host led here
}

// Map is what one walk over a pull saw: the hosts in the order in which they
// were met, and every request.
type Map struct {
	Reference Reference        `json:"reference"`
	Platform  Platform         `json:"platform"`
	Digest    string           `json:"digest,omitempty"` // what the reference means, "" if that was not learnt
	Touched   []HostUse        `json:"hosts"`
	Requests  []*RequestReport `json:"requests"`
	Layers    int              `json:"layers"` // distinct layers of the image; 0 = not learnt
	// Held says that every hop held. It does not say that the image can be
	// pulled: only Complete does.
	Held bool `json:"held"`
	// Complete says that manifest, config and every layer arrived whole and with
	// the right digest.
	Complete bool  `json:"complete"`
	Bytes    int64 `json:"bytes"` // content that arrived
	// Inconclusive is why the walk cannot say more, "" if it can.
	Inconclusive string `json:"inconclusive,omitempty"`

	findings []classify.Finding // those of no request
}

// Hosts returns the hosts met, in order: what a firewall has to let through for
// this image, today. Hosts behind a step that failed are not in it.
func (m *Map) Hosts() []HostUse { return slices.Clone(m.Touched) }

// Findings returns the findings of the requests in order, and then those of the
// walk itself.
func (m *Map) Findings() []classify.Finding {
	var out []classify.Finding
	for _, r := range m.Requests {
		out = append(out, r.findings...)
	}
	return append(out, m.findings...)
}
