package pullwalk

import (
	"net/netip"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Schema names the version of the JSON form of [Result]. Inside v1 fields and
// codes are only added; none changes its meaning. Fields whose names end in Ms are
// whole milliseconds, times are RFC 3339.
const Schema = "pullwalk.result/v1"

// Status is the outcome of a step, an endpoint, a source or a diagnosis.
type Status = pull.Status

// The statuses.
const (
	StatusOK           Status = "ok"           // held: we saw it work
	StatusDegraded     Status = "degraded"     // held, with a warning
	StatusFailed       Status = "failed"       // we saw it fail
	StatusBlocked      Status = "blocked"      // not tried: a step that it needs failed, see Step.BlockedBy
	StatusSkipped      Status = "skipped"      // does not apply or was not asked for, see Step.Reason
	StatusInconclusive Status = "inconclusive" // tried or wanted, but we cannot know from here, see Step.Reason
)

// Result is what a diagnosis saw. It is plain data: safe to print, to store and
// to send, since no secret ever enters it.
type Result struct {
	Schema  string   `json:"schema"` // always [Schema]
	Image   ImageRef `json:"image"`
	Vantage Vantage  `json:"vantage"`
	Pull    PullMode `json:"pull"` // how much of the pull was asked for
	// Verdict is ok, degraded, failed or inconclusive. After Touch, ok says that
	// every hop held; only a Proof says that the image can be pulled.
	Verdict Status `json:"verdict"`
	// Primary is the root cause: the first finding that failed on its own, lowest
	// layer first. nil unless the verdict is failed.
	Primary *classify.Finding `json:"primary,omitempty"`
	// Findings lists root causes first, then warnings, then what is only worth
	// knowing.
	Findings []classify.Finding `json:"findings,omitempty"`
	// Sources lists mirrors, then the upstream registry, as the runtime tries them.
	Sources []Source `json:"sources"`
	// Proof is nil unless every layer was downloaded and its digest checked.
	Proof *Proof `json:"proof,omitempty"`
	// Reported compares the events given by the caller with the probes; nil
	// without events.
	Reported *Reported `json:"reported,omitempty"`
	// Sandbox is the image that every pod on the node needs before any of its own,
	// walked beside. nil = no runtime and no configuration that names one was found.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// ManifestRequests counts the manifest requests that this diagnosis cost:
	// registries limit their rate.
	ManifestRequests int `json:"manifestRequests"`
	// Started is the beginning of the call by this process's clock, ElapsedMS how long
	// it took.
	Started   time.Time `json:"started"`
	ElapsedMS int64     `json:"elapsedMs"`
	// Inconclusive says why the verdict is inconclusive; "" otherwise.
	Inconclusive string `json:"inconclusive,omitempty"`
	// Decisions say how the verdict came about: each change of a status or a severity
	// against what was seen, and the choice of the root cause, in the order in which
	// they were made.
	Decisions []Decision `json:"decisions,omitempty"`
}

// Decision is one thing that was decided about what was seen.
type Decision struct {
	Rule    string `json:"rule"`           // its name, such as "addresses-are-alternatives"
	Subject string `json:"subject"`        // the step, the finding or the part of the result
	From    string `json:"from,omitempty"` // the status or severity that was seen; "" = none
	To      string `json:"to"`             // what it became: a status, a severity or a cause
	Why     string `json:"why"`
}

// PullMode says how much of the pull is done.
type PullMode string

// The modes. The zero value is Touch.
const (
	// Touch asks for manifest, configuration and the first bytes of every layer.
	Touch PullMode = "touch"
	// Complete downloads every layer and checks every digest. Nothing is stored.
	Complete PullMode = "complete"
	// Connect goes to the registry and its token server and stops before any
	// identity is used.
	Connect PullMode = "connect"
)

// ImageRef is the image in question.
type ImageRef struct {
	Given      string `json:"given"`            // as the caller wrote it
	Reference  string `json:"reference"`        // as the runtime reads it
	Registry   string `json:"registry"`         // the host that the reference names
	Repository string `json:"repository"`       // without host
	Tag        string `json:"tag,omitempty"`    // "" with a digest reference
	Digest     string `json:"digest,omitempty"` // what the registry said the reference is, or the given one
	Platform   string `json:"platform"`         // os/architecture[/variant] that was looked for
}

// Vantage says who looked, and from where. A result is true for this vantage
// and for no other.
type Vantage struct {
	HostName string `json:"hostName,omitempty"` // "" = not known
	// NetworkNamespace says whose network was used: "host" (the same as that of
	// process 1, where process 1 is the host's), "other", or "unknown".
	NetworkNamespace string   `json:"networkNamespace"`
	ResolverFile     string   `json:"resolverFile,omitempty"` // the file the nameservers came from
	Nameservers      []string `json:"nameservers,omitempty"`  // the nameservers that were asked
	Roots            []string `json:"roots,omitempty"`        // where trusted roots came from
	Runtime          string   `json:"runtime,omitempty"`      // "" = no container runtime was found
	RuntimePID       int      `json:"runtimePid,omitempty"`   // 0 = not seen here: the caller names the runtime
	// RuntimeVersion and RuntimeGo are as the runtime's program says; "" = not known.
	RuntimeVersion string  `json:"runtimeVersion,omitempty"`
	RuntimeGo      string  `json:"runtimeGo,omitempty"`
	Proxy          string  `json:"proxy,omitempty"` // where the proxy settings came from; "" = none set
	Identity       string  `json:"identity"`        // source of the credential that was used; "anonymous"
	Labels         []Label `json:"labels,omitempty"`
}

// Label is one of the caller's labels, by key.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Source is one registry that the runtime would ask.
type Source struct {
	Host      string     `json:"host"`
	Kind      string     `json:"kind"` // "mirror" or "upstream"
	Verdict   Status     `json:"verdict"`
	Reason    string     `json:"reason,omitempty"` // why it was skipped or is inconclusive
	Endpoints []Endpoint `json:"endpoints,omitempty"`
}

// Endpoint is one scheme, host and port that the pull touches, with the steps
// that were taken there.
type Endpoint struct {
	Scheme  string           `json:"scheme"` // "https", "http"; "dns" for a nameserver; "socks5" or "socks5h" for such a proxy
	Host    string           `json:"host"`
	Port    uint16           `json:"port"`
	Roles   []endpoints.Role `json:"roles"`
	Via     string           `json:"via,omitempty"`     // the proxy in between, host:port
	FoundBy string           `json:"foundBy,omitempty"` // who led there
	// Hint says that this pull was only expected to touch the endpoint, by the caller
	// or by what is known of the registry's provider, and was not seen to. Its steps
	// can warn and never fail the pull.
	Hint  bool   `json:"hint,omitempty"`
	Steps []Step `json:"steps"`
}

// StepID names a kind of step. Ours never contain a slash.
type StepID = pull.StepID

// The steps.
const (
	StepSettings  StepID = "settings"  // the runtime's configuration for this registry is usable
	StepDNS       StepID = "dns"       // the name resolves as the runtime would resolve it
	StepRoute     StepID = "route"     // the kernel has a route to the address
	StepConnect   StepID = "connect"   // TCP connects
	StepTunnel    StepID = "tunnel"    // the proxy opens a tunnel, by CONNECT or SOCKS
	StepTLS       StepID = "tls"       // TLS is verified
	StepRounds    StepID = "rounds"    // lookups or connects made again, to show rates; only when asked for
	StepPing      StepID = "ping"      // the registry's API answers; containerd never asks it
	StepChallenge StepID = "challenge" // the registry says which token it wants
	StepSecrets   StepID = "secrets"   // what the kubelet would offer; only with a keychain that plans as it does
	StepToken     StepID = "token"     // the token server gives one
	StepResolve   StepID = "resolve"   // the tag or digest of the image exists and may be read
	StepRights    StepID = "rights"    // what more the identity may do; only when asked for
	StepManifest  StepID = "manifest"  // an index or manifest, by digest
	StepStore     StepID = "store"     // what of the image lies on the node already
	StepConfig    StepID = "config"    // the configuration blob
	StepLayer     StepID = "layer"     // one layer
)

// Step is one thing that was tried, or could not be.
type Step struct {
	ID      StepID         `json:"id"`
	Subject string         `json:"subject,omitempty"` // what was asked for: a tag or digest
	Layer   classify.Layer `json:"layer"`
	Status  Status         `json:"status"`
	// Addr is set on the steps of one address (route, connect, tls) and on rounds of
	// connect, and unset on the endpoint-wide step that sums these up.
	Addr netip.Addr `json:"addr,omitzero"`
	// BlockedBy is the first failure that stands in the way, not the nearest:
	// "connect@auth.corp.test:443[10.20.0.4]".
	BlockedBy string `json:"blockedBy,omitempty"`
	Reason    string `json:"reason,omitempty"` // why skipped or inconclusive
	// Retry is what the runtime repeats by itself after the failure that was seen
	// here; nil = it asks once. A failure that one repetition mended is a warning.
	Retry     *endpoints.Retry   `json:"retry,omitempty"`
	ElapsedMS int64              `json:"elapsedMs"`
	Findings  []classify.Finding `json:"findings,omitempty"`
	// Rounds is set on a step rounds: the lookups or connects in the order in which
	// they began, the first with the walk's own.
	Rounds []Round `json:"rounds,omitempty"`

	// At most one report is set.
	Reach   *reach.Report            `json:"reach,omitempty"`
	DNS     *dnscheck.Report         `json:"dns,omitempty"`
	TLS     *tlsauth.TLSReport       `json:"tls,omitempty"`
	Access  *tlsauth.AccessReport    `json:"access,omitempty"`
	Request *endpoints.RequestReport `json:"request,omitempty"`

	// Endpoint is host:port, and Image the reference as given. They are set for
	// OnStep, and left out of the JSON, where the step stands inside its endpoint.
	Endpoint string `json:"-"`
	Image    string `json:"-"`
}

// Round is one of several lookups of a name, or connects to an address.
type Round struct {
	// Held says that the lookup gave a usable address, or that the connect came about.
	Held bool `json:"held"`
	// Cause is what it failed with; beside Held, what made it come about late. "" =
	// nothing, or not known.
	Cause     classify.Cause `json:"cause,omitempty"`
	Addresses []netip.Addr   `json:"addresses,omitempty"` // what a lookup gave
	Reason    string         `json:"reason,omitempty"`    // why it is not known, and not counted
	ElapsedMS int64          `json:"elapsedMs"`
}

// Proof is a complete download that was seen: every layer, every digest. It is
// not unpacked: that needs the node's disk and is the runtime's.
type Proof struct {
	Digest string `json:"digest"` // of the manifest or index that the reference led to
	Layers int    `json:"layers"`
	Bytes  int64  `json:"bytes"` // configuration and layers, as transferred
	// InNodeStore counts the layers and the configuration that the node's own store
	// holds already: a success of its runtime here would prove less.
	InNodeStore int `json:"inNodeStore,omitempty"`
	// HandEdits lists what took part in this pull and was changed on this node alone,
	// as far as such a change can be read: entries of the hosts file, routes that `ip
	// route add` left, roots that the trust store's tool does not know, a resolver
	// file edited in the place of systemd-resolved's. A node with such changes proves
	// nothing for its pool. An empty list does not say that nobody changed anything:
	// packet filters, sysctls and files of the supported configuration look alike
	// whoever wrote them.
	HandEdits []string `json:"handEdits,omitempty"`
}

// Reported is what the cluster said, beside what the probes saw. It is history
// and never proof: an event can be old, and what it does not say may have
// happened.
type Reported struct {
	Events int `json:"events"` // events that were given
	// Unrelated counts those of them that are about another image, or about no pull.
	Unrelated int `json:"unrelated,omitempty"`
	// Reading is the failure that is compared: the last one of this node, else the
	// last one that names no node, else the last one of another node. Zero if none.
	Reading classify.Reading `json:"reading,omitzero"`
	Message string           `json:"message"` // its text, bounded and redacted
	// Agrees is "yes" if the probes saw the same cause, or one that refines it, at
	// the same host, "no" if they did not, and "unknown" if that cannot be said: no
	// verdict, another node, a text of several readings.
	Agrees string `json:"agrees"`
	Note   string `json:"note,omitempty"` // what may explain a difference, or limits the agreement
	Node   string `json:"node,omitempty"` // the node that the event names
	// FirstFailure is the first failure of this image on any node, LastFailure the
	// one that is compared; zero where events carry no times. LastFailureAgeMS is
	// how old that is by the node's clock, or was when a table was printed; 0 = not
	// known.
	FirstFailure     time.Time `json:"firstFailure,omitzero"`
	LastFailure      time.Time `json:"lastFailure,omitzero"`
	LastFailureAgeMS int64     `json:"lastFailureAgeMs,omitempty"`
	// Trigger is what brought the fault to light, which is not its cause; "" = the
	// events do not show it.
	Trigger classify.Trigger `json:"trigger,omitempty"`
	// Pulls counts the pulls of this image over the network on any node, at most 8
	// per node, CachedStarts the starts from a node's own copy, which prove nothing.
	Pulls        int `json:"pulls,omitempty"`
	CachedStarts int `json:"cachedStarts,omitempty"`
}

// HostUse is one host:port that the pull touches.
type HostUse struct {
	Host      string           `json:"host"` // host:port
	Scheme    string           `json:"scheme"`
	Roles     []endpoints.Role `json:"roles"`
	Addresses []netip.Addr     `json:"addresses,omitempty"`
	Private   bool             `json:"private"` // every address is private (RFC 1918, RFC 4193) or loopback
	Via       string           `json:"via,omitempty"`
	Hint      bool             `json:"hint,omitempty"` // expected, and not seen in this pull
}

// Sandbox is what became of the sandbox image (the pause image). The runtime pulls
// it by itself when the first pod comes to a node: without it no pod starts there,
// no container's event says so, and pull secrets do not count for it. A pull of the
// image in question works without it all the same; that is why what is wrong here
// never is the Primary of a [Result], and stands among its warnings, with the
// operation sandbox-image.
//
// Not proved is that pods start: a runtime class may need no such image.
type Sandbox struct {
	Image string `json:"image,omitempty"` // as configured; "" = no file names one
	File  string `json:"file,omitempty"`  // the file that names it
	// Verdict is skipped where nothing was asked, for Reason: the node has the image,
	// or no file names one and what the runtime was built with is not known. Else it
	// is the verdict of a walk like the image's own, in the same [PullMode].
	Verdict Status `json:"verdict"`
	Reason  string `json:"reason,omitempty"` // why it is skipped or inconclusive
	// Primary is the root cause if the verdict is failed.
	Primary  *classify.Finding `json:"primary,omitempty"`
	Identity string            `json:"identity,omitempty"` // source of the credential that was used
	Sources  []Source          `json:"sources,omitempty"`  // as those of the image
}

// HostPort returns host:port.
func (e Endpoint) HostPort() string {
	return pull.HostPort(e.Host, e.Port)
}

func (e Endpoint) addresses() []netip.Addr {
	if a, err := netip.ParseAddr(e.Host); err == nil {
		return []netip.Addr{a}
	}
	for _, s := range e.Steps {
		if s.DNS != nil {
			return s.DNS.Addresses
		}
	}
	return nil
}

// onlyOwnFailed says that a runtime would get this pull: nothing failed but checks
// of the caller's own.
func (r *Result) onlyOwnFailed() bool {
	return r.Verdict == StatusFailed && slices.ContainsFunc(r.Sources, func(s Source) bool {
		failed := false
		for _, e := range s.Endpoints {
			for _, st := range e.Steps {
				failed = failed || pull.IsOwn(st.ID) && st.Status == StatusFailed
				if !pull.IsOwn(st.ID) && !st.Addr.IsValid() && !pull.Passes(st.Status) && e.inPull() {
					return false
				}
			}
		}
		return failed && s.Verdict == StatusFailed
	})
}

// inPull says that the pull itself came here: other roles are only expected, or
// the node's own.
func (e Endpoint) inPull() bool {
	return slices.ContainsFunc(e.Roles, func(r endpoints.Role) bool {
		return r != endpoints.RoleExpected && r != endpoints.RoleCredential && r != endpoints.RoleResolver
	})
}

// The keys of [Node.Labels] by which [Coverage] finds the pool of a result.
const (
	LabelNode = "node" // the node's name in the cluster; without it the host name counts
	LabelPool = "pool" // the pool's name
)

// label returns the value of the first label with that key, "" without one.
func (v Vantage) label(key string) string {
	for _, l := range v.Labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}
