package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
)

// reportSchema names the version of the JSON.
const reportSchema = "pullwalk.fleet/v1"

// report says for which pools it is proved that a workload's images can be pulled.
type report struct {
	Schema    string            `json:"schema"`
	Workload  string            `json:"workload"` // KIND/NAME
	Namespace string            `json:"namespace"`
	Pull      pullwalk.PullMode `json:"pull"` // how much of the pull was asked for
	// Verdict is ok if every pool is proved for every image, and nothing in Open is
	// left; failed if one failed; else inconclusive.
	Verdict pullwalk.Status `json:"verdict"`
	Reason  string          `json:"reason"`
	// Open is what keeps the verdict from ok whatever the pools say.
	Open   []string                  `json:"open,omitempty"`
	Images []pullwalk.CoverageReport `json:"images"` // one for each image
	// Unanswered are nodes that gave no result, with the reason.
	Unanswered []outcome `json:"unanswered,omitempty"`
	Apart      []apart   `json:"apart,omitempty"` // pools that the workload cannot land on
	Notes      []string  `json:"notes,omitempty"`
}

// sight is what was asked for and seen.
type sight struct {
	images   []string
	pools    []pool // each name once
	outcomes []outcome
	unsent   string // why agents pulled with less than the kubelet would; "" = they did not
	unasked  string // why no node of a pool was asked that has some
}

// sum adds what was seen to the report.
func (r *report) sum(s sight) {
	if s.unsent != "" {
		r.Open = append(r.Open, s.unsent)
	}
	question := make([]pullwalk.Pool, len(s.pools))
	for i, p := range s.pools {
		question[i] = pullwalk.Pool{Name: p.name, Nodes: p.nodes}
	}
	results := map[string][]*pullwalk.Result{}
	reasons := map[[2]string][]string{} // by image and pool: why there is no result
	told := map[[2]string]bool{}
	for _, o := range s.outcomes {
		if o.result != nil && s.unsent != "" && answeredByIdentity(o.result) {
			o.Reason = shown(string(o.result.Primary.Cause)) + ", but without the workload's pull secrets: with them the registry may answer otherwise"
			o.result = nil
		}
		if o.result != nil {
			results[o.Image] = append(results[o.Image], o.result)
			continue
		}
		r.Unanswered = append(r.Unanswered, o)
		key := [2]string{o.Image, o.Pool}
		reasons[key] = append(reasons[key], o.Node+": "+o.Reason)
	}
	for _, image := range s.images {
		c := pullwalk.Coverage(question, results[image])
		if c.Image == "" {
			c.Image = shown(image)
		}
		for i := range c.Pools {
			// Nothing was seen there. Why is known here alone.
			if c.Pools[i].State != pullwalk.CoverageNotProbed {
				continue
			}
			p := s.pools[i]
			key := [2]string{image, p.name}
			if why := p.notProbed(reasons[key], results[image], s.unasked); why != "" {
				c.Pools[i].Reason = why
				told[key] = true
			}
		}
		r.Images = append(r.Images, c)
	}
	for i, o := range r.Unanswered {
		r.Unanswered[i].told = told[[2]string{o.Image, o.Pool}]
	}
	r.needPlugins(s.outcomes)
	r.judge()
}

// unrun stands in the reason of a result that hangs on a credential plugin.
const unrun = "it was not run, so what it gives is not known"

// needPlugins names the pools whose kubelets pull with what a plugin gives, and whose
// agents run none.
func (r *report) needPlugins(outcomes []outcome) {
	var pools []string
	for _, o := range outcomes {
		if o.result != nil && o.result.Verdict == pullwalk.StatusInconclusive && strings.Contains(o.result.Inconclusive, unrun) && !slices.Contains(pools, o.Pool) {
			pools = append(pools, o.Pool)
		}
	}
	if len(pools) > 0 {
		r.Notes = append(r.Notes, "the kubelets of "+strings.Join(pools, ", ")+" take credentials from plugins: nothing is proved there without agents on these nodes' own root with -run-credential-plugins")
	}
}

// answeredByIdentity says whether the pull failed where answers depend on who asks:
// beyond TLS. Registries hide with 404 what is not for everybody, and slow down
// whom they do not know.
func answeredByIdentity(r *pullwalk.Result) bool {
	return r.Verdict == pullwalk.StatusFailed && r.Primary != nil && r.Primary.Layer.Rank() > classify.LayerTLS.Rank()
}

const maxReasons = 3

// notProbed says why a pool has no result, "" where the coverage says it as well.
func (p pool) notProbed(reasons []string, results []*pullwalk.Result, unasked string) string {
	other := slices.IndexFunc(results, func(r *pullwalk.Result) bool { return poolOf(r) == p.name })
	switch {
	case len(reasons) > 0:
		why := strings.Join(reasons[:min(len(reasons), maxReasons)], "; ")
		if more := len(reasons) - maxReasons; more > 0 {
			why += fmt.Sprintf("; and %d more", more)
		}
		return why
	case other >= 0:
		return "its nodes read the image as " + shown(results[other].Image.Reference)
	case len(p.nodes) == 0 && p.later > 0:
		return fmt.Sprintf("none of its nodes can take a pod now (%d, the first: %s)", p.later, p.why)
	case len(p.nodes) > 0:
		return unasked
	}
	return ""
}

func poolOf(r *pullwalk.Result) string {
	for _, l := range r.Vantage.Labels {
		if l.Key == pullwalk.LabelPool {
			return l.Value
		}
	}
	return ""
}

// judge sets the verdict over all images.
func (r *report) judge() {
	by := map[pullwalk.Status]int{}
	for _, c := range r.Images {
		by[c.Verdict]++
	}
	of := fmt.Sprintf("%d of %s", by[pullwalk.StatusOK], count(len(r.Images), "image"))
	switch {
	case by[pullwalk.StatusFailed] > 0:
		r.Verdict = pullwalk.StatusFailed
		r.Reason = fmt.Sprintf("%d of %s failed on a pool", by[pullwalk.StatusFailed], count(len(r.Images), "image"))
	case len(r.Images) == 0 || by[pullwalk.StatusOK] < len(r.Images):
		r.Verdict, r.Reason = pullwalk.StatusInconclusive, of+" proved on every pool"
	case len(r.Open) > 0:
		r.Verdict, r.Reason = pullwalk.StatusInconclusive, of+" proved on every pool, and something is open"
	default:
		r.Verdict, r.Reason = pullwalk.StatusOK, of+" proved on every pool"
	}
}

func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
