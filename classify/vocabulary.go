package classify

import (
	"slices"
	"strings"
)

// Layer is one step that a pull needs, or the place where a failure belongs. Layers are
// ordered, see [Order]: each is meaningless until the one before holds.
type Layer string

// The layers in the order in which a pull needs them.
const (
	LayerNode     Layer = "node"     // local configuration or policy stops the pull before any packet
	LayerRoute    Layer = "route"    // the node's network reaches the address, and the answer comes back
	LayerDNS      Layer = "dns"      // the resolver that the runtime uses knows the name
	LayerEndpoint Layer = "endpoint" // something answers there, and is what the pull expects
	LayerTLS      Layer = "tls"      // right name, trusted by the node
	LayerRegistry Layer = "registry" // the registry service itself works
	LayerIdentity Layer = "identity" // this identity may read this repository
	LayerImage    Layer = "image"    // the image exists, whole, for this platform
	LayerUnknown  Layer = "unknown"  // not known; never a guess
)

// Order returns all layers, the first that a pull needs first.
func Order() []Layer {
	return []Layer{LayerNode, LayerRoute, LayerDNS, LayerEndpoint, LayerTLS, LayerRegistry, LayerIdentity, LayerImage, LayerUnknown}
}

// Rank returns the position of l in [Order]. A layer that is not in it ranks
// last, with [LayerUnknown].
func (l Layer) Rank() int {
	if i := slices.Index(Order(), l); i >= 0 {
		return i
	}
	return len(Order()) - 1
}

// Cause is a stable code, layer "." name. A code is never renamed; what it
// means stands in the catalogue, see [Lookup].
type Cause string

// Owner is the team that usually has to act.
type Owner string

// The owners.
const (
	OwnerNetwork       Owner = "network"        // routes, peering, firewalls, proxies on the path
	OwnerDNS           Owner = "dns"            // zones, forwarders, resolvers
	OwnerPKI           Owner = "pki"            // certificates and trust
	OwnerIdentity      Owner = "identity"       // credentials, roles, tokens
	OwnerRegistryAdmin Owner = "registry-admin" // the registry service and what it stores
	OwnerApp           Owner = "app"            // the workload: image name, tag, pull secret
	OwnerNode          Owner = "node"           // the node image and the runtime's configuration
)

// Severity says what a finding does to a verdict.
type Severity string

// The severities. A step with a SeverityFail finding failed; with only
// SeverityWarn it is degraded; SeverityInfo changes nothing.
const (
	SeverityFail Severity = "fail"
	SeverityWarn Severity = "warn"
	SeverityInfo Severity = "info"
)

// Certainty says how a finding is known.
type Certainty string

// The certainties.
const (
	CertaintyProven   Certainty = "proven"   // a probe saw it
	CertaintyLikely   Certainty = "likely"   // what was seen leaves one probable reading
	CertaintyPossible Certainty = "possible" // text only, or several readings
)

// Operation is the part of a pull that failed.
type Operation string

// The operations.
const (
	OperationResolveManifest Operation = "resolve-manifest" // ping, HEAD or GET of manifest or index
	OperationFetchToken      Operation = "fetch-token"      // the request at the realm
	OperationFetchBlob       Operation = "fetch-blob"       // config and layers, wherever they are redirected to
	OperationExtract         Operation = "extract"          // unpacking on the node
	OperationSandboxImage    Operation = "sandbox-image"    // anything about the pause image
	OperationUnknown         Operation = "unknown"
)

// Fact is one observed value behind a finding. Values are short, redacted and
// safe to print.
type Fact struct {
	Key   string `json:"key"` // one of the Fact constants
	Value string `json:"value"`
}

// The keys of facts.
const (
	FactAddress     = "address"          // IP address, with port where one was dialled
	FactSource      = "source"           // source address of the node
	FactGateway     = "gateway"          // next hop
	FactInterface   = "interface"        // outgoing interface
	FactRoute       = "route"            // kind of route: unicast, local, unreachable, blackhole, prohibit, none
	FactTable       = "table"            // routing table
	FactPrefix      = "prefix"           // prefix of the route or network that decides
	FactMTU         = "mtu"              // bytes
	FactErrno       = "errno"            // symbolic, "ECONNREFUSED"
	FactResolver    = "resolver"         // the nameserver that was asked
	FactRCode       = "rcode"            // "NXDOMAIN", "SERVFAIL"
	FactFile        = "file"             // file on the node, with line where known
	FactIssuer      = "issuer"           // issuer of the leaf certificate
	FactSubject     = "subject"          // subject of the leaf certificate
	FactNames       = "names"            // DNS and IP names in the certificate
	FactNotBefore   = "not-before"       // RFC 3339
	FactNotAfter    = "not-after"        // RFC 3339
	FactRoots       = "roots"            // where the trusted roots came from
	FactAlert       = "alert"            // TLS alert by name
	FactHello       = "hello"            // which ClientHello: "large" or "classical"
	FactStatus      = "status"           // HTTP status code
	FactCode        = "code"             // OCI or object-store error code
	FactMessage     = "message"          // the other side's own words, bounded and redacted
	FactAnswerer    = "answerer"         // who answered: registry, object-store, html, proxy, unknown
	FactURL         = "url"              // without query and user information
	FactMethod      = "method"           // HTTP method
	FactRealm       = "realm"            // token realm, without query
	FactScope       = "scope"            // scope asked for
	FactGranted     = "granted"          // actions that the token says it grants
	FactCredential  = "credential"       // source of the credential, never the secret
	FactUser        = "user"             // user name that was offered
	FactDigest      = "digest"           // expected digest
	FactGot         = "got"              // what came instead (digest, size, media type)
	FactSize        = "size"             // bytes
	FactRate        = "bytes-per-second" // of a download, until its last byte
	FactPlatform    = "platform"         // os/arch[/variant]
	FactLimit       = "limit"            // the limit that was reached
	FactElapsed     = "elapsed"          // duration, Go notation
	FactProxy       = "proxy"            // host:port of the proxy
	FactImage       = "image"            // image reference
	FactCorrelation = "correlation"      // the server's own id of the request
	FactClient      = "client"           // the address that the registry says it saw
	FactSteps       = "steps"            // what single steps saw
	FactOrdinary    = "ordinary"         // what an ordinary client saw
	FactRounds      = "rate"             // "3/5": repetitions that held, of all
	FactReason      = "reason"           // local reason of an inconclusive answer
)

// Finding is one thing that is wrong, or worth saying, about a pull.
//
// The zero Finding says nothing. Build one with [New], so that layer, owner and
// remedy come from the catalogue.
type Finding struct {
	Cause     Cause     `json:"cause"`
	Layer     Layer     `json:"layer"`
	Severity  Severity  `json:"severity"`
	Certainty Certainty `json:"certainty"`
	Owner     Owner     `json:"owner"`
	Operation Operation `json:"operation,omitempty"`
	// Endpoint is the host[:port] that failed, often not the image's; for the
	// dns layer it is the name looked up. Empty = not known.
	Endpoint string `json:"endpoint,omitempty"`
	// Summary is one sentence with the facts in it.
	Summary string `json:"summary"`
	// Remedy and NotFixedBy come from the catalogue.
	Remedy       string  `json:"remedy,omitempty"`
	NotFixedBy   string  `json:"notFixedBy,omitempty"`
	Facts        []Fact  `json:"facts,omitempty"`
	Alternatives []Cause `json:"alternatives,omitempty"` // other readings, best first

	err error // the Go error behind it, for errors.As; never in JSON
}

// WithError returns f with the Go error that it was read from, which
// [errors.As] and [errors.Is] then find through [Finding.Unwrap].
func (f Finding) WithError(err error) Finding {
	f.err = err
	return f
}

// Fact returns the value of the first fact with that key, or "".
func (f Finding) Fact(key string) string {
	for _, fact := range f.Facts {
		if fact.Key == key {
			return fact.Value
		}
	}
	return ""
}

// Error returns the code, the endpoint and the summary in one line.
func (f Finding) Error() string {
	s := string(f.Cause)
	if f.Endpoint != "" {
		s += " at " + f.Endpoint
	}
	if f.Summary != "" {
		s += ": " + f.Summary
	}
	return s
}

// Unwrap returns the Go error that the finding was read from, nil if none.
func (f Finding) Unwrap() error { return f.err }

// LayerOf returns the layer named by the code itself, the part before the dot;
// [LayerUnknown] if that is no layer.
func LayerOf(c Cause) Layer {
	name, _, _ := strings.Cut(string(c), ".")
	switch l := Layer(name); l {
	case LayerNode, LayerRoute, LayerDNS, LayerEndpoint, LayerTLS, LayerRegistry, LayerIdentity, LayerImage:
		return l
	}
	return LayerUnknown
}

// Info is what the catalogue knows of a cause, whatever the case at hand.
type Info struct {
	Cause      Cause
	Layer      Layer
	Owner      Owner
	Title      string // a short clause: what is wrong
	Look       string // where to look first
	Remedy     string // what repairs it, least invasive first
	NotFixedBy string // what people try, and why it cannot help
	Ref        string // the official document, a URL
	Refines    Cause  // the coarser code that a text alone can show; "" = none
}
