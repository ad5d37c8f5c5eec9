package pullwalk

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// CoverageSchema names the version of the JSON form of [CoverageReport]. Inside
// v1 fields and states are only added; none changes its meaning.
const CoverageSchema = "pullwalk.coverage/v1"

// longLived is the age from which a node proves less: what it trusts, resolves and
// remembers need no longer be what a node gets that is made today. Thirty days is
// what Karpenter lets a node live if nobody says otherwise (expireAfter: 720h).
const longLived = 30 * 24 * time.Hour

// Pool is a set of nodes, made alike, that could schedule the workload.
type Pool struct {
	Name string `json:"name"`
	// Nodes are those that could take the workload now. None is a pool that scales
	// from nothing: it can make a node that nobody has looked from.
	Nodes []PoolNode `json:"nodes,omitempty"`
}

// PoolNode is one node of a pool.
type PoolNode struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created,omitzero"` // zero = not known
}

// CoverageState says what is proved of a node or of a pool.
type CoverageState string

// The states. Only proved is green.
const (
	// CoverageProved: a complete download, every digest checked, from a node that
	// nobody is known to have repaired by hand; and no probed node of the pool failed.
	CoverageProved CoverageState = "proved"
	// CoverageFailed: the pull fails on the node, or on one of the pool's.
	CoverageFailed CoverageState = "failed"
	// CoverageNotProbed: no result from any node of the pool.
	CoverageNotProbed CoverageState = "not-probed"
	// CoverageOpen: looked at, and neither proved nor failed: not downloaded
	// completely, inconclusive, another content, or not seen from the node itself.
	CoverageOpen CoverageState = "open"
	// CoverageHandRepaired: downloaded completely, which only a change by hand on
	// that node makes work.
	CoverageHandRepaired CoverageState = "hand-repaired"
	// CoverageLongLived: downloaded completely, on a node older than 30 days.
	CoverageLongLived CoverageState = "long-lived"
	// CoverageAlreadyStored: as open, and the node's store holds layers of the image:
	// that pods start there proves nothing, since the runtime does not ask for these.
	// A complete download (see [Proof]) takes nothing from the store and counts in full.
	CoverageAlreadyStored CoverageState = "already-stored"
)

// CoverageReport says for which pools it is proved that their nodes can pull an
// image. It is plain data.
type CoverageReport struct {
	Schema string `json:"schema"` // always [CoverageSchema]
	Image  string `json:"image"`  // the reference that the report is about; "" without results
	// Digest is what the reference led to when it was last looked at. A download of
	// another content proves nothing for this one.
	Digest       string   `json:"digest,omitempty"`
	OtherDigests []string `json:"otherDigests,omitempty"` // what it led to as well
	// Verdict is ok if every pool is proved, failed if one failed, else inconclusive.
	Verdict Status `json:"verdict"`
	Reason  string `json:"reason"` // the verdict in a sentence
	// Pools are in the order of the question.
	Pools []PoolCoverage `json:"pools"`
	// Causes are the root causes, the one that most pools share first.
	Causes []CoverageCause `json:"causes,omitempty"`
	// Differences are what differs between the nodes that were looked from; what no
	// node that proved has in common with one that did not comes first.
	Differences []CoverageDifference `json:"differences,omitempty"`
	// Unclaimed are results of the image that belong to no pool.
	Unclaimed []UnclaimedResult `json:"unclaimed,omitempty"`
	// Notes say what of the input was not used.
	Notes []string `json:"notes,omitempty"`
}

// PoolCoverage is what is proved of one pool.
type PoolCoverage struct {
	Name   string         `json:"name"`
	State  CoverageState  `json:"state"`
	Reason string         `json:"reason"`
	Nodes  []NodeCoverage `json:"nodes,omitempty"` // those with a result, by name
	// Unprobed counts the nodes of the pool without a result.
	Unprobed int `json:"unprobed,omitempty"`
	// Primary is the root cause on most of the nodes that failed, as one of them saw
	// it; nil if none failed.
	Primary *classify.Finding `json:"primary,omitempty"`
}

// NodeCoverage is what the newest result of one node proves.
type NodeCoverage struct {
	Name     string         `json:"name,omitempty"` // "" = the result does not say
	State    CoverageState  `json:"state"`
	Reason   string         `json:"reason"`
	Verdict  Status         `json:"verdict"` // of the result
	Platform string         `json:"platform,omitempty"`
	Digest   string         `json:"digest,omitempty"`
	Cause    classify.Cause `json:"cause,omitempty"`    // root cause; "" unless the pull fails
	Endpoint string         `json:"endpoint,omitempty"` // where
	Started  time.Time      `json:"started"`
	AgeMS    int64          `json:"ageMs,omitempty"` // of the node, when it was looked from; 0 = not known
}

// CoverageCause is one root cause and where it was met.
type CoverageCause struct {
	Finding classify.Finding `json:"finding"` // as the first node of the first pool saw it
	Pools   []string         `json:"pools"`
	Nodes   int              `json:"nodes"`
}

// UnclaimedResult is a result that belongs to no pool of the question.
type UnclaimedResult struct {
	Node    string `json:"node,omitempty"`
	Verdict Status `json:"verdict"`
	Reason  string `json:"reason"`
}

// Coverage holds results from many nodes against the pools that could schedule a
// workload. A pool without a probed node is never green: what other pools can do
// says nothing about it. It asks nobody and looks at no clock.
//
// A result belongs to the pool that its label [LabelPool] names, else to every pool
// in whose Nodes its node stands: the label [LabelNode], else Vantage.HostName. Of
// several results of one node the newest counts, of equally new ones the last. The
// report is about one image, the one that most results are about; results of
// others, nil results and documents of another schema are counted in Notes and used
// for nothing else.
//
// A pool with one node that failed is failed, even if others of it proved: the
// scheduler may choose that node, and nodes that are meant to be alike are not.
// Without one, a single proof is enough. A result proves nothing for a pool, and
// speaks against none, unless it was seen to come from the node's own network: in
// the host's network namespace, or in that of a container runtime. A probe in an
// ordinary pod is neither.
func Coverage(pools []Pool, results []*Result) CoverageReport {
	c := newCoverage(pools)
	c.take(results)
	rep := CoverageReport{
		Schema: CoverageSchema, Image: shown(c.image), Digest: shown(c.digest), OtherDigests: c.otherDigests(),
		Pools: []PoolCoverage{}, Unclaimed: c.unclaimed, Notes: c.notes(),
	}
	for _, p := range c.pools {
		rep.Pools = append(rep.Pools, p.judge(c.digest))
	}
	rep.Verdict, rep.Reason = judgePools(rep.Pools)
	rep.Causes = c.causes()
	rep.Differences = c.differences()
	return rep
}

// coverage sorts results into pools.
type coverage struct {
	pools  []*poolResults
	byName map[string]*poolResults
	byNode map[string][]*poolResults

	image, digest string
	digests       map[string]bool
	unclaimed     []UnclaimedResult

	missing, foreign, superseded, elsewhere int // results that are not used
	otherImages                             []string
}

// poolResults is one pool with what is known of its nodes.
type poolResults struct {
	name    string
	created map[string]time.Time // of the nodes that the caller named
	newest  map[string]*probed   // by node
	nodes   []*probed
}

// probed is a node with its newest result.
type probed struct {
	NodeCoverage
	result *Result
	pool   *poolResults
}

func newCoverage(pools []Pool) *coverage {
	c := &coverage{byName: map[string]*poolResults{}, byNode: map[string][]*poolResults{}, digests: map[string]bool{}}
	for _, p := range pools {
		into := c.byName[p.Name] // pools of one name are one pool
		if into == nil {
			into = &poolResults{name: p.Name, created: map[string]time.Time{}, newest: map[string]*probed{}}
			c.byName[p.Name] = into
			c.pools = append(c.pools, into)
		}
		for _, n := range p.Nodes {
			known, twice := into.created[n.Name]
			if !twice {
				c.byNode[n.Name] = append(c.byNode[n.Name], into)
			}
			if n.Created.After(known) {
				known = n.Created // made again under its old name
			}
			into.created[n.Name] = known
		}
	}
	return c
}

// take sorts the results.
func (c *coverage) take(results []*Result) {
	c.chooseImage(results)
	for _, r := range results {
		switch {
		case r == nil:
			c.missing++
		case r.Schema != Schema:
			c.foreign++
		case r.Image.Reference != c.image:
			c.elsewhere++
			if name := shown(r.Image.Reference); !slices.Contains(c.otherImages, name) && len(c.otherImages) < maxListed {
				c.otherImages = append(c.otherImages, name)
			}
		default:
			c.place(r)
		}
	}
	var last time.Time
	for _, p := range c.pools {
		slices.SortStableFunc(p.nodes, func(a, b *probed) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), a.result.Started.Compare(b.result.Started))
		})
		for _, n := range p.nodes {
			d := n.result.Image.Digest
			if d == "" || notTheNode(n.result) != "" {
				continue
			}
			c.digests[d] = true
			if c.digest == "" || n.result.Started.After(last) {
				c.digest, last = d, n.result.Started
			}
		}
	}
	delete(c.digests, c.digest)
}

// chooseImage takes the image that most results are about, of equals the first.
func (c *coverage) chooseImage(results []*Result) {
	count := map[string]int{}
	for _, r := range results {
		if r != nil && r.Schema == Schema {
			count[r.Image.Reference]++
		}
	}
	for _, r := range results {
		if r != nil && r.Schema == Schema && count[r.Image.Reference] > count[c.image] {
			c.image = r.Image.Reference
		}
	}
}

// place gives a result to its pools.
func (c *coverage) place(r *Result) {
	node := cmp.Or(r.Vantage.label(LabelNode), r.Vantage.HostName)
	into := c.byNode[node]
	why := "its node stands in no pool"
	if node == "" {
		into, why = nil, "it names no node and no pool"
	}
	if label := r.Vantage.label(LabelPool); label != "" {
		into, why = nil, fmt.Sprintf("its label names the pool %q, which is not in question", shown(label))
		if p := c.byName[label]; p != nil {
			into = []*poolResults{p}
		}
	}
	for _, p := range into {
		if old := p.newest[node]; node != "" && old != nil {
			c.superseded++
			if !r.Started.Before(old.result.Started) {
				old.result = r
			}
			continue
		}
		n := &probed{NodeCoverage: NodeCoverage{Name: node}, result: r, pool: p}
		p.nodes = append(p.nodes, n)
		p.newest[node] = n
	}
	if len(into) == 0 {
		c.unclaimed = append(c.unclaimed, UnclaimedResult{Node: shown(node), Verdict: verdictOf(r), Reason: why})
	}
}

// maxListed bounds lists in sentences.
const maxListed = 5

// shown makes a name from a document that anybody may have written safe to print.
func shown(name string) string { return strings.TrimSpace(classify.Redact(name, 160)) }

// shortDigest is enough of a digest for a sentence.
func shortDigest(d string) string {
	if rest, ok := strings.CutPrefix(d, "sha256:"); ok && len(rest) > 12 {
		d = "sha256:" + rest[:12] + "…"
	}
	return shown(d)
}

// verdictOf is the verdict of a result, inconclusive where it is none of ours.
func verdictOf(r *Result) Status {
	switch r.Verdict {
	case StatusOK, StatusDegraded, StatusFailed:
		return r.Verdict
	}
	return StatusInconclusive
}

func (c *coverage) otherDigests() []string {
	var out []string
	for _, d := range slices.Sorted(maps.Keys(c.digests)) {
		out = append(out, shown(d))
	}
	return out
}

// notes say what of the input was not used.
func (c *coverage) notes() []string {
	var out []string
	add := func(n int, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, append([]any{count(n, "result")}, args...)...))
		}
	}
	add(c.superseded, "%s left out: a newer one of the same node counts")
	add(c.elsewhere, "%s left out: of other images (%s)", strings.Join(c.otherImages, ", "))
	add(c.foreign, "%s left out: the schema is not "+Schema)
	add(c.missing, "%s left out: nil")
	if len(c.digests) > 0 {
		out = append(out, fmt.Sprintf("the reference led to %d contents: what was downloaded of another than %s is no proof of it", len(c.digests)+1, shortDigest(c.digest)))
	}
	return out
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// causes are the root causes of all pools.
func (c *coverage) causes() []CoverageCause {
	at := map[rootCause]int{}
	var out []CoverageCause
	for _, p := range c.pools {
		name := shown(p.name)
		for _, n := range p.nodes {
			if n.State != CoverageFailed || n.result.Primary == nil {
				continue
			}
			i, known := at[n.rootCause()]
			if !known {
				i = len(out)
				at[n.rootCause()] = i
				out = append(out, CoverageCause{Finding: *n.result.Primary})
			}
			out[i].Nodes++
			if l := len(out[i].Pools); l == 0 || out[i].Pools[l-1] != name {
				out[i].Pools = append(out[i].Pools, name)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b CoverageCause) int {
		return cmp.Or(cmp.Compare(len(b.Pools), len(a.Pools)), cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Finding.Layer.Rank(), b.Finding.Layer.Rank()))
	})
	return out
}
