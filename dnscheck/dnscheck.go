package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// DefaultLimit is the time of a whole check. It is the time that Go's resolver
// gives a single exchange, so that a nameserver found silent here is silent for
// the runtime too.
const DefaultLimit = 5 * time.Second

// Checker looks names up as this node's runtime would. The zero value looks at
// this machine and asks over the network. It may be used by several goroutines.
type Checker struct {
	// FS is the node's file tree, its root the node's. nil = this machine, first in
	// the mount namespace of its runtime, see [SourcesAt]; where resolver settings
	// are not kept in files (Windows) the report is then inconclusive.
	FS fs.FS
	// Sources are the trees to look into, the nearest to the runtime first; the
	// first that can be read counts. Empty = FS alone.
	Sources []Source
	// Exchanger asks the nameservers. nil = [Network].
	Exchanger Exchanger
	// Limit bounds the whole check. 0 or less = [DefaultLimit].
	Limit time.Duration
	// Expect are the networks in which the addresses are expected, such as those
	// of the private endpoints. An address elsewhere is dns.public-answer, a
	// warning. Empty = no expectation.
	Expect []netip.Prefix
	// OnDecided is called at most once per check, from its goroutine, when it is
	// known what the runtime gets while other nameservers are still being listened
	// to: when the rules have decided, or when a nameserver has answered with
	// addresses and those before it have been silent for half a second. The report
	// is what was seen until then, without findings, and says so in Inconclusive.
	// It must return soon. What Check returns later is the truth; in rare cases (a
	// very slow first nameserver that says something else) it differs. nil = nobody
	// is told.
	OnDecided func(early *Report)
}

// errLimit marks the end of our own limit in a context, so that it can be told
// from the caller's end.
var errLimit = errors.New("dnscheck: limit reached")

// Check looks name up. The name is a host name without port; an IP address is
// reported as it is and nothing is asked.
//
// The error is for a name that cannot be asked for. Whatever nameservers and
// files do is in the report. When ctx ends first, the report is inconclusive and
// holds what was seen.
func (c *Checker) Check(ctx context.Context, name string) (*Report, error) {
	start := time.Now()
	r := &Report{Name: name}
	if addr, err := netip.ParseAddr(name); err == nil {
		r.Literal, r.From, r.Addresses = true, FromLiteral, []netip.Addr{addr}
		r.findings = (&judge{report: r, expect: c.Expect}).addressFindings()
		return r, nil
	}
	if err := checkName(name); err != nil {
		return nil, err
	}

	limit := c.Limit
	if limit <= 0 {
		limit = DefaultLimit
	}
	limited, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()

	if routes6, ok := c.readFiles(limited, r); ok {
		// A copy: an Exchanger that does not heed its context may still read it when
		// the report already belongs to the caller.
		settings := r.Settings
		l := &lookup{
			name: name, settings: &settings, limit: limit,
			exchanger: c.Exchanger, names: searchNames(name, &r.Settings),
		}
		if l.exchanger == nil {
			l.exchanger = Network{}
		}
		l.fromFile = r.Settings.HostsFirst && len(r.Hosts) > 0
		if c.OnDecided != nil {
			l.decided = func() { c.OnDecided(l.early(r, start)) }
		}
		l.run(limited)
		l.refine()
		d := l.decide(false)
		l.report(r, d)
		l.reportAside(r)
		r.CLibrary = l.cLibrary(r, d)
		r.Hints = hints(r)
		r.findings = (&judge{report: r, lookup: l, expect: c.Expect, routes6: routes6}).findings()
	}
	r.ElapsedMS = time.Since(start).Milliseconds()
	return r, nil
}

// early is what can be said before all is answered.
func (l *lookup) early(r *Report, start time.Time) *Report {
	early := &Report{Name: r.Name, Settings: r.Settings, Hosts: slices.Clone(r.Hosts)}
	d := l.decide(false)
	if !d.decided {
		d = l.decide(true)
	}
	l.report(early, d)
	early.Inconclusive = fmt.Sprintf("what the runtime gets is decided; %d more answers are waited for", l.open)
	early.ElapsedMS = time.Since(start).Milliseconds()
	return early
}

// readFiles fills in what the node's files say and reports whether there is a
// nameserver to ask. A file system may hang (a dead network mount), so that the
// reading is waited for only as long as ctx lives.
func (c *Checker) readFiles(ctx context.Context, r *Report) (routes6 []byte, ok bool) {
	done := make(chan files, 1)
	go func() {
		sources := c.Sources
		switch {
		case len(sources) > 0:
		case c.FS != nil:
			sources = []Source{{FS: c.FS}}
		default:
			sources = machine()
		}
		f := readFiles(sources)
		f.settings.Hosts = parseHosts(f.hosts, &f.settings.Problems, maxHostsMatches, named(r.Name))
		date(f.settings.Hosts, f.hostsChanged)
		done <- f
	}()
	select {
	case f := <-done:
		r.Settings, r.Hosts, r.Settings.Hosts = f.settings, f.settings.Hosts, nil
		routes6 = f.routes6
	case <-ctx.Done():
		r.Inconclusive = "the node's resolver files were not read in time: " + classify.Redact(context.Cause(ctx).Error(), maxErrorText)
		return nil, false
	}
	if r.Settings.unknown != "" {
		r.Inconclusive = "the runtime's nameservers are not known: " + r.Settings.unknown
		return nil, false
	}
	return routes6, true
}

// searchNames is the list of full names that Go asks for in turn until one has
// an address: net's nameList.
func searchNames(name string, s *Settings) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	rooted := name + "."
	var names []string
	asIs := strings.Count(name, ".") >= s.NDots
	if asIs {
		names = append(names, rooted)
	}
	for _, suffix := range s.Search {
		if full := rooted + suffix + "."; len(full) <= maxRooted {
			names = append(names, full)
		}
	}
	if !asIs {
		names = append(names, rooted)
	}
	return names
}

const (
	maxRooted = 254 // RFC 1035 section 2.3.4, in text with the trailing dot
	maxLabel  = 63
)

// checkName refuses what is no host name, and says what it looks like instead.
func checkName(name string) error {
	quoted := classify.Redact(fmt.Sprintf("%.120q", name), 512)
	refuse := func(why string) error { return fmt.Errorf("dnscheck: %s is not a host name: %s", quoted, why) }
	switch host, port, found := strings.Cut(name, ":"); {
	case name == "":
		return refuse("it is empty")
	case strings.Contains(name, "://"):
		return refuse("it is a URL; give its host alone")
	case found && (strings.HasPrefix(name, "[") || !strings.Contains(port, ":")) && host != "":
		return refuse("it has a port or brackets; give the host alone")
	}
	if err := checkDomain(strings.TrimSuffix(name, ".")); err != nil {
		return refuse(err.Error())
	}
	return nil
}

// checkDomain holds name, without trailing dot, against the rules of Go's
// resolver (net's isDomainName): letters, digits, "-" and "_" in labels of 1 to 63
// bytes, not digits alone.
func checkDomain(name string) error {
	if len(name) > maxRooted-1 {
		return fmt.Errorf("it is longer than %d bytes", maxRooted-1)
	}
	onlyDigits := true
	for label := range strings.SplitSeq(name, ".") {
		if label == "" {
			return errors.New("a part of it is empty")
		}
		if len(label) > maxLabel {
			return fmt.Errorf("a part of it is longer than %d bytes", maxLabel)
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return errors.New("a part of it begins or ends with a hyphen")
		}
		for _, b := range []byte(label) {
			switch {
			case '0' <= b && b <= '9':
			case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z', b == '-', b == '_':
				onlyDigits = false
			default:
				return fmt.Errorf("it holds %q, which a host name cannot", rune(b))
			}
		}
	}
	if onlyDigits {
		return errors.New("it holds digits only")
	}
	return nil
}
