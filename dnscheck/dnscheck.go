package dnscheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
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
	// FS is the node's file tree, its root the node's. nil = this machine; where
	// resolver settings are not kept in files (Windows) the report is then
	// inconclusive.
	FS fs.FS
	// Exchanger asks the nameservers. nil = [Network].
	Exchanger Exchanger
	// Limit bounds the whole check. 0 or less = [DefaultLimit].
	Limit time.Duration
	// Expect are the networks in which the addresses are expected, such as those
	// of the private endpoints. An address elsewhere is dns.public-answer, a
	// warning. Empty = no expectation.
	Expect []netip.Prefix
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

	if c.readFiles(limited, r) {
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
		l.run(limited)
		l.report(r)
		r.findings = (&judge{report: r, lookup: l, expect: c.Expect}).findings()
	}
	r.ElapsedMS = time.Since(start).Milliseconds()
	return r, nil
}

// readFiles fills in what the node's files say and reports whether there is a
// nameserver to ask. A file system may hang (a dead network mount), so that the
// reading is waited for only as long as ctx lives.
func (c *Checker) readFiles(ctx context.Context, r *Report) bool {
	type files struct {
		settings Settings
		hosts    []HostsEntry
	}
	done := make(chan files, 1)
	go func() {
		s, hosts := readSettings(c.FS)
		matches := parseHosts(hosts, &s.Problems, maxHostsMatches, named(r.Name))
		done <- files{s, matches}
	}()
	select {
	case f := <-done:
		r.Settings, r.Hosts = f.settings, f.hosts
	case <-ctx.Done():
		r.Inconclusive = "the node's resolver files were not read in time: " + classify.Redact(context.Cause(ctx).Error(), maxErrorText)
		return false
	}
	if r.Settings.unknown != "" {
		r.Inconclusive = "the runtime's nameservers are not known: " + r.Settings.unknown
		return false
	}
	return true
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
