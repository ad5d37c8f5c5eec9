package pullwalk

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/engine"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Options says how to diagnose. nil and the zero value are the defaults.
type Options struct {
	Node Node // the machine to look at; zero = this one
	// Keychain gives the credentials that the pull is tried with, each in its turn if
	// it is a [tlsauth.CredentialLister], as a kubelet does; [tlsauth.DockerConfig] reads
	// a pull secret. nil = anonymous, unless NodeCredentials: the docker configuration of
	// this process is never used. A login in the runtime's own files for the registry
	// (registry.configs of containerd, global_auth_file of CRI-O) counts where the
	// keychain has none for the image, as in the runtimes.
	Keychain authn.Keychain
	// NodeCredentials offers what the node's kubelet offers by itself: its credential
	// files and its credential provider plugins, by the command line of its process.
	// It is for a nil Keychain, or a [tlsauth.Kubelet] without FS, whose pull secrets
	// then come first. Where the process is not seen, plugins are not known.
	NodeCredentials bool
	// RunPlugins runs those plugins as child processes, with the kubelet's own
	// environment (but for LD_PRELOAD and the like) and the rights of this process, as
	// the kubelet runs them, if no other user can change their files; it implies
	// NodeCredentials. false = they are judged and not run, and a pull that
	// needs one is inconclusive. They are run from the node's own root only: behind a
	// mounted one they would find other libraries and other users.
	RunPlugins bool

	Platform string   // "os/arch[/variant]"; "" = linux on the architecture of this machine
	Pull     PullMode // "" = Touch

	// Events are what the cluster reported, to compare with; see [classify.ParseEvents].
	// They never decide. nil = there is nothing to compare with.
	Events []classify.EventRecord
	// Also lists extra host:port expected in the pull. They are probed up to tls
	// and can only warn.
	Also []string
	// Expect says where the registry's addresses should lie; an answer outside is
	// then a finding. nil = no expectation.
	Expect []netip.Prefix

	// AuditRights asks the token server, after a read that worked, what more it would
	// grant this identity; two or three token requests more, without side effect.
	AuditRights bool

	// Checks are steps of the caller's own, at most 64. They are read until Diagnose
	// returns.
	Checks []Check

	// Rounds is how often each name is looked up and each address connected to, to
	// show rates: what fails now and then is a warning with its counts, and the walk
	// goes on with what held. Images of [DiagnoseAll] that need the same host share its
	// rounds. 0 = once, at most 20. Rounds begin 100 ms apart beside
	// the rest of the walk, so that the last decides how long a fast one takes.
	// Not through a proxy.
	Rounds int

	Budget time.Duration // the whole call, also for many images; 0 = 60 s, with Complete 5 min

	// OnStep is told of each step as it completes, OnProgress of silence and of
	// bytes. Neither is ever called concurrently, with the other or itself. A call
	// that does not return delays later ones and no step; Diagnose waits for it
	// until its own end, and calls neither after it has returned. A panic in one is
	// the last call, and goes on in Diagnose when that has come to its end.
	OnStep     func(Step)
	OnProgress func(Progress)

	Runtime     RuntimeHint // which runtime pulls here; zero = found on the node
	Concurrency int         // parallel blob requests of one image at one host; 0 = as the runtime: 3, CRI-O 6
	Limits      Limits      // per-step limits; zero = the defaults
	// UserAgent is what the requests carry; "" = what the node's runtime calls itself,
	// "pullwalk" where no process of one was found.
	UserAgent string

	observed func(pull.Step) // of tests: each step as it was recorded
	judging  func(pull.Log)  // of tests: what is judged

	// AllowAddr refuses addresses that must not be connected to; nil =
	// [DenyPlatformAddrs]. A refused address is inconclusive, never failed.
	AllowAddr func(netip.AddrPort) error
}

// Limits bounds single steps. Zero fields are the defaults. No step gets more
// than a quarter of the budget.
//
// Silence costs its limit once: with the defaults one source is decided within
// 15 s, whatever is silent there. Sources are asked one after the other, as the
// runtimes do; below HTTP silence is waited for at all of them at once, at most
// 13 s together, and a server that takes a request and never answers costs Header
// for each source.
type Limits struct {
	DNS     time.Duration // all nameservers at once; 0 = 5 s, as Go's resolver waits for one
	Connect time.Duration // one TCP connect; 0 = 5 s: two SYN retransmissions
	TLS     time.Duration // one handshake; 0 = 10 s, as the runtimes
	Header  time.Duration // response headers; 0 = 15 s
	Idle    time.Duration // a body without a byte; 0 = 15 s
}

// Progress tells what is going on inside of a step that runs: it is silent, or
// bytes of a blob arrive. It decides nothing.
type Progress struct {
	Step     StepID
	Endpoint string         // host:port
	Addr     netip.Addr     // as of [Step]; zero = not of one address
	Subject  string         // as of [Step]; "" = none
	Layer    classify.Layer // the layer that silence here points to
	// Silent is how long nothing came: a hop that hangs is named after three
	// seconds, long before its limit decides. 0 = it is a download that runs.
	Silent time.Duration
	// Bytes (so far) and Rate (bytes per second) describe a running download.
	Bytes, Rate int64
}

// String is one line for a terminal.
func (p Progress) String() string {
	where := pull.StepName(p.Step, p.Endpoint, p.Addr)
	if p.Silent > 0 {
		return fmt.Sprintf("%s: silent for %v (layer %s)", where, p.Silent.Round(time.Second), p.Layer)
	}
	return fmt.Sprintf("%s: %d bytes, %d KiB/s", where, p.Bytes, p.Rate>>10)
}

// The defaults, each with its reason.
const (
	defaultBudget         = 60 * time.Second // an operator waits a minute for an answer
	defaultBudgetComplete = 5 * time.Minute  // the runtimes' own limit without progress
	defaultDNS            = 5 * time.Second  // resolv.conf(5): timeout:5
	defaultConnect        = 5 * time.Second  // SYN at 0, 1 and 3 s
	maxRounds             = 20
	defaultTLS            = 10 * time.Second // net/http's handshake limit, which the runtimes keep
)

func (o *Options) validate() error {
	switch o.Pull {
	case "", Touch, Complete, Connect:
	default:
		return fmt.Errorf("pullwalk: unknown pull mode %q", o.Pull)
	}
	if o.Budget < 0 {
		return fmt.Errorf("pullwalk: the budget %v is negative", o.Budget)
	}
	if o.Concurrency < 0 {
		return fmt.Errorf("pullwalk: the concurrency %d is negative", o.Concurrency)
	}
	if o.Rounds < 0 || o.Rounds > maxRounds {
		return fmt.Errorf("pullwalk: %d rounds, 0 to %d make sense", o.Rounds, maxRounds)
	}
	for _, l := range []struct {
		name  string
		value time.Duration
	}{{"DNS", o.Limits.DNS}, {"Connect", o.Limits.Connect}, {"TLS", o.Limits.TLS}, {"Header", o.Limits.Header}, {"Idle", o.Limits.Idle}} {
		if l.value < 0 {
			return fmt.Errorf("pullwalk: Limits.%s %v is negative", l.name, l.value)
		}
	}
	if err := o.validateCredentials(); err != nil {
		return err
	}
	if err := o.Runtime.validate(); err != nil {
		return err
	}
	for _, host := range o.Also {
		if _, _, err := pull.SplitHostPort(host); err != nil {
			return fmt.Errorf("pullwalk: Also: %w", err)
		}
	}
	return nil
}

func (o *Options) validateCredentials() error {
	if !o.NodeCredentials && !o.RunPlugins || o.Keychain == nil {
		return nil
	}
	switch k, ok := o.Keychain.(*tlsauth.Kubelet); {
	case !ok:
		return errors.New("pullwalk: NodeCredentials and RunPlugins need no Keychain, or a *tlsauth.Kubelet")
	case k == nil || k.FS != nil:
		return errors.New("pullwalk: NodeCredentials and RunPlugins need a *tlsauth.Kubelet without FS, with nothing but pull secrets")
	}
	return nil
}

// fillIn replaces zero options by their defaults, and keeps every limit within its share
// of the budget.
func (o *Options) fillIn() {
	if o.Pull == "" {
		o.Pull = Touch
	}
	if o.Budget == 0 {
		o.Budget = defaultBudget
		if o.Pull == Complete {
			o.Budget = defaultBudgetComplete
		}
	}
	if o.AllowAddr == nil {
		o.AllowAddr = DenyPlatformAddrs
	}
	limit := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
		*d = min(*d, o.Budget/engine.BudgetShare)
	}
	limit(&o.Limits.DNS, defaultDNS)
	limit(&o.Limits.Connect, defaultConnect)
	limit(&o.Limits.TLS, defaultTLS)
	limit(&o.Limits.Header, registry.DefaultHeader)
	limit(&o.Limits.Idle, registry.DefaultIdle)
}

// DenyPlatformAddrs is the default of Options.AllowAddr. It refuses link-local
// and multicast addresses, and those at which a cloud platform hands out
// credentials and settings: 168.63.129.16 except port 53, 100.100.100.200,
// fd00:ec2::254, fd20:ce::254 and fd00:c1::a9fe:a9fe. A registry that names such an address as its token server or
// blob host would otherwise make whoever runs a diagnosis ask it on the
// registry's behalf. Private ranges are allowed: they are the use case.
func DenyPlatformAddrs(ap netip.AddrPort) error { return registry.DenyPlatform(ap) }
