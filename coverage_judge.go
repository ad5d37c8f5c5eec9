package pullwalk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// judge says what the results of one pool prove. digest is the content in
// question.
func (p *poolResults) judge(digest string) PoolCoverage {
	out := PoolCoverage{Name: shown(p.name), Unprobed: len(p.created)}
	by := map[CoverageState][]*probed{}
	for _, n := range p.nodes {
		if _, known := p.created[n.Name]; known && n.Name != "" {
			out.Unprobed--
		}
		n.judge(digest)
		by[n.State] = append(by[n.State], n)
		out.Nodes = append(out.Nodes, n.NodeCoverage)
	}
	for i := range out.Nodes {
		out.Nodes[i].Name = shown(out.Nodes[i].Name)
	}
	switch failed := by[CoverageFailed]; {
	case len(p.nodes) == 0 && len(p.created) == 0:
		out.State, out.Reason = CoverageNotProbed, "no node to look from: it scales from nothing; make a node of it and look from there"
	case len(p.nodes) == 0:
		out.State, out.Reason = CoverageNotProbed, "no result from any of its "+count(len(p.created), "node")
	case len(failed) > 0:
		worst := mostMet(failed)
		out.State = CoverageFailed
		if f := worst.result.Primary; f != nil {
			own := *f
			out.Primary = &own
		}
		alike := sameCause(failed, worst)
		out.Reason = fmt.Sprintf("%d of %s failed: %s on %s", len(failed), count(len(p.nodes), "probed node"), worst.where(), names(alike))
		if n := len(failed) - len(alike); n > 0 {
			out.Reason += fmt.Sprintf("; %s failed otherwise", count(n, "node"))
		}
		if n := len(by[CoverageProved]); n > 0 {
			out.Reason += fmt.Sprintf("; %d proved, but a pod may land on any", n)
		}
	case len(by[CoverageProved]) > 0 && unprovedPlatform(p.nodes) != "":
		out.State = CoverageOpen
		out.Reason = fmt.Sprintf("%s proved, but not for the platform %s, of which the pool has nodes, too", names(by[CoverageProved]), unprovedPlatform(p.nodes))
	default:
		// From the best evidence to the least.
		for _, state := range []CoverageState{CoverageProved, CoverageLongLived, CoverageHandRepaired, CoverageAlreadyStored, CoverageOpen} {
			if n := by[state]; len(n) > 0 {
				out.State, out.Reason = state, names(n[:1])+": "+n[0].Reason+others(p.nodes, n[0])
				break
			}
		}
	}
	return out
}

// others counts the nodes beside one by their states.
func others(nodes []*probed, but *probed) string {
	var states []string
	for _, s := range coverageStates {
		n := 0
		for _, other := range nodes {
			if other != but && other.State == s {
				n++
			}
		}
		if n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, s))
		}
	}
	if len(states) == 0 {
		return ""
	}
	return "; further nodes: " + strings.Join(states, ", ")
}

// coverageStates are in the order in which texts list them.
var coverageStates = []CoverageState{CoverageProved, CoverageFailed, CoverageNotProbed, CoverageOpen, CoverageAlreadyStored, CoverageHandRepaired, CoverageLongLived}

// unprovedPlatform returns a platform that was looked for on a node of the pool and
// proved on none, "" if there is no such.
func unprovedPlatform(nodes []*probed) string {
	lacking := ""
	proved := map[string]bool{}
	for _, n := range nodes {
		proved[n.Platform] = proved[n.Platform] || n.State == CoverageProved
	}
	for _, n := range nodes {
		if !proved[n.Platform] && notTheNode(n.result) == "" {
			lacking = cmp.Or(lacking, n.Platform)
		}
	}
	return lacking
}

// judge says what the result of a node proves.
func (n *probed) judge(digest string) {
	r := n.result
	n.Verdict, n.Started = verdictOf(r), r.Started
	n.Platform, n.Digest = shown(r.Image.Platform), shown(r.Image.Digest)
	created := n.pool.created[n.Name]
	if !created.IsZero() && r.Started.After(created) {
		n.AgeMS = r.Started.Sub(created).Milliseconds()
	}
	set := func(state CoverageState, format string, args ...any) {
		n.State, n.Reason = state, fmt.Sprintf(format, args...)
	}
	switch away := notTheNode(r); {
	case away != "":
		set(CoverageOpen, "%s", away)
	case r.Started.Before(created):
		set(CoverageOpen, "the result is older than the node: it is of another node of that name")
	case n.Verdict == StatusFailed:
		if f := r.Primary; f != nil {
			n.Cause, n.Endpoint = classify.Cause(shown(string(f.Cause))), shown(f.Endpoint)
		}
		set(CoverageFailed, "%s", n.where())
	case n.Verdict == StatusInconclusive:
		set(CoverageOpen, "not known: %s", cmp.Or(shown(r.Inconclusive), "the result does not say why"))
	case r.Proof == nil && storeHolds(r):
		set(CoverageAlreadyStored, "not downloaded completely, and its store holds layers of the image: that pods start there proves nothing")
	case r.Proof == nil && r.Pull == Connect:
		set(CoverageOpen, "registry and token server answer; nothing was pulled")
	case r.Proof == nil:
		set(CoverageOpen, "every hop held; not downloaded completely")
	case r.Proof.Digest == "" || r.Proof.Digest != digest:
		set(CoverageOpen, "downloaded completely, but the content %s and not %s", shortDigest(r.Proof.Digest), shortDigest(digest))
	case len(r.Proof.HandEdits) > 0:
		edits := r.Proof.HandEdits
		set(CoverageHandRepaired, "downloaded completely, only because of a change by hand: %s", shown(strings.Join(edits[:min(len(edits), maxListed)], ", ")))
	case n.AgeMS > longLived.Milliseconds():
		set(CoverageLongLived, "downloaded completely, on a node that is %d days old (more than %d)", n.AgeMS/day.Milliseconds(), longLived/day)
	default:
		set(CoverageProved, "%s and %d bytes downloaded, every digest checked", count(r.Proof.Layers, "layer"), r.Proof.Bytes)
		if r.Proof.InNodeStore > 0 {
			n.Reason += fmt.Sprintf(", although its store holds %d of the blobs", r.Proof.InNodeStore)
		}
		if n.Verdict == StatusDegraded {
			n.Reason += ", with warnings"
		}
	}
}

const day = 24 * time.Hour

// notTheNode says why a result is not known to be seen as the node's runtime
// would see it, "" if it is. A runtime's process was only found if it shares the
// network of the one that looked; a runtime that the caller named may be anywhere.
func notTheNode(r *Result) string {
	said := slices.ContainsFunc(r.Findings, func(f classify.Finding) bool { return f.Cause == classify.NodeVantageNotNode })
	switch v := r.Vantage; {
	case said, v.RuntimePID == 0 && v.NetworkNamespace == "other":
		return "seen from another network namespace than the node's"
	case v.RuntimePID == 0 && v.NetworkNamespace != "host":
		return "not known whether this was seen from the node's own network: no container runtime was seen there"
	}
	return ""
}

// storeHolds says whether the node's store was seen to hold layers of the image.
func storeHolds(r *Result) bool {
	return slices.ContainsFunc(r.Findings, func(f classify.Finding) bool { return f.Cause == classify.NodeLayersAlreadyPresent })
}

// where is the root cause of a node in a few words.
func (n *probed) where() string {
	if n.Cause == "" {
		return "the result names no cause"
	}
	s := string(n.Cause)
	if n.Endpoint != "" {
		s += " at " + n.Endpoint
	}
	if n.result.Primary.Owner != "" {
		s += " (owner " + shown(string(n.result.Primary.Owner)) + ")"
	}
	return s
}

// rootCause is what makes two failures the same.
type rootCause struct {
	cause    classify.Cause
	endpoint string
}

func (n *probed) rootCause() rootCause { return rootCause{n.Cause, n.Endpoint} }

// mostMet returns a node with the cause that most of the nodes share; of equals
// the lowest layer, as in one diagnosis.
func mostMet(failed []*probed) *probed {
	met := map[rootCause]int{}
	for _, n := range failed {
		met[n.rootCause()]++
	}
	return slices.MaxFunc(failed, func(a, b *probed) int {
		return cmp.Or(cmp.Compare(met[a.rootCause()], met[b.rootCause()]), cmp.Compare(b.rank(), a.rank()))
	})
}

// rank is that of the root cause's layer.
func (n *probed) rank() int {
	if n.result.Primary == nil {
		return classify.LayerUnknown.Rank()
	}
	return n.result.Primary.Layer.Rank()
}

func sameCause(nodes []*probed, as *probed) []*probed {
	var out []*probed
	for _, n := range nodes {
		if n.rootCause() == as.rootCause() {
			out = append(out, n)
		}
	}
	return out
}

// names lists nodes.
func names(nodes []*probed) string {
	var out []string
	for _, n := range nodes[:min(len(nodes), maxListed)] {
		out = append(out, cmp.Or(shown(n.Name), "a node without a name"))
	}
	list := strings.Join(out, ", ")
	if more := len(nodes) - len(out); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// judgePools is the verdict over all pools.
func judgePools(pools []PoolCoverage) (Status, string) {
	by := map[CoverageState][]string{}
	for _, p := range pools {
		by[p.State] = append(by[p.State], p.Name)
	}
	proved := fmt.Sprintf("%d of %s proved", len(by[CoverageProved]), count(len(pools), "pool"))
	switch {
	case len(pools) == 0:
		return StatusInconclusive, "no pool was asked about"
	case len(by[CoverageProved]) == len(pools):
		return StatusOK, "every pool is proved"
	}
	verdict := StatusInconclusive
	if len(by[CoverageFailed]) > 0 {
		verdict = StatusFailed
	}
	var rest []string
	for _, s := range coverageStates {
		if n := len(by[s]); n > 0 && s != CoverageProved {
			rest = append(rest, fmt.Sprintf("%d %s", n, s))
		}
	}
	return verdict, proved + ", " + strings.Join(rest, ", ")
}
