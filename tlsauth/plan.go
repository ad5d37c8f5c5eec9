package tlsauth

import (
	"slices"

	"github.com/pullwalk/pullwalk/classify"
)

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

// find adds a warning and returns it for completion.
func (p *CredentialPlan) find(cause classify.Cause, summary string) *classify.Finding {
	f := classify.New(cause, summary)
	f.Severity = classify.SeverityWarn
	p.findings = append(p.findings, f)
	return &p.findings[len(p.findings)-1]
}
