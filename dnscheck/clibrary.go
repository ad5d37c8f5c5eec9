package dnscheck

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// CLibrary is how a lookup through the GNU C library differs from Go's own: of a
// runtime that was built with cgo and leaves the lookup to it. The rules are those
// of resolv/res_send.c and res_query.c of glibc 2.36.
type CLibrary struct {
	// Addresses is what getaddrinfo gives, IPv4 first; empty = none.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// PredictedMS is the time it takes, in milliseconds, as [Report.PredictedMS].
	PredictedMS int64 `json:"predictedMs"`
	// Differs says in sentences where and why it is another outcome or time.
	Differs []string `json:"differs"`
}

// cLibrary applies the C library's rules to what was seen. nil = the outcome is
// the same, or not all was seen.
func (l *lookup) cLibrary(r *Report, d decision) *CLibrary {
	if !d.decided || !slices.Contains(r.Settings.Order, sourceDNS) {
		return nil
	}
	c := &CLibrary{PredictedMS: r.PredictedMS, Addresses: r.Addresses}
	if l.mdnsOnly() && r.From == FromDNS {
		c.Addresses, c.PredictedMS = nil, 0
		c.Differs = append(c.Differs, fmt.Sprintf("mdns4_minimal [NOTFOUND=return] in %s: a name of two labels under .local is never asked for in DNS", nsswitchFile))
		return c
	}
	if r.From == FromHosts {
		return nil // hosts first, or nothing in DNS: the same for both
	}

	var wait int64
	last := len(l.rounds) - 1
	for i, round := range l.rounds[:min(d.round, last)+1] {
		w, failed := l.cWait(round)
		wait += w
		asIs := round.name == rooted(l.name)
		if failed && !asIs && i < d.round {
			c.Addresses = nil
			c.Differs = append(c.Differs, fmt.Sprintf("no nameserver answered for %s, and the C library then asks for no further name", unrooted(round.name)))
			break
		}
	}
	if l.settings.DefaultNameservers {
		c.Differs = append(c.Differs, "without a nameserver in the file the C library asks 127.0.0.1 only, not ::1")
		o := &l.rounds[d.round].seen[0]
		if o[famA].kind != kindAddresses && o[famAAAA].kind != kindAddresses {
			c.Addresses = nil
		}
	}
	if d.kind() != kindAddresses {
		// All names are gone through; the sum above stops at the one that is shown.
		wait = 0
		for _, round := range l.rounds {
			w, _ := l.cWait(round)
			wait += w
		}
	}
	c.PredictedMS = wait
	if wait != r.PredictedMS {
		c.Differs = append(c.Differs, fmt.Sprintf("the C library waits %v, Go %v: its timeout doubles from server to server and is divided by their number", ms(wait), ms(r.PredictedMS)))
	}
	if len(c.Differs) == 0 {
		return nil
	}
	return c
}

// cWait is what the C library waits for one name, and whether nobody answered.
// A and AAAA are sent together, so that the slower one counts.
func (l *lookup) cWait(r *round) (wait int64, failed bool) {
	n := int64(len(r.seen))
	for f := range families {
		var w int64
		final := false
		for range l.settings.Attempts {
			for s := range r.seen {
				o := &r.seen[s][f]
				if o.silent || !o.settled {
					w += cTimeout(l.settings.TimeoutMS, int64(s), n)
				} else {
					w += o.waitMS
				}
				if final = o.settled && o.kind != kindMoveOn; final {
					break
				}
			}
			if final {
				break
			}
		}
		wait = max(wait, w)
		failed = failed || !final && !slices.ContainsFunc(r.seen, func(o [families]observation) bool { return o[f].Answer != nil })
	}
	return wait, failed
}

// cTimeout is the patience with the server at index of n: the timeout, doubled
// for each server before it, and divided by their number from the second on.
func cTimeout(timeoutMS, index, n int64) int64 {
	if index == 0 {
		return timeoutMS
	}
	return max(timeoutMS/1000<<index/n, 1) * 1000
}

// mdnsOnly says that nsswitch.conf makes the C library stop before DNS.
func (l *lookup) mdnsOnly() bool {
	name := strings.ToLower(strings.TrimSuffix(l.name, "."))
	if !strings.HasSuffix(name, ".local") || strings.Count(name, ".") != 1 {
		return false
	}
	nss := strings.ToLower(l.settings.nss)
	for _, minimal := range []string{"mdns4_minimal", "mdns6_minimal", "mdns_minimal"} {
		if before, after, ok := strings.Cut(nss, minimal); ok && !slices.Contains(fields(before), sourceDNS) {
			return strings.HasPrefix(strings.ReplaceAll(after, " ", ""), "[notfound=return]")
		}
	}
	return false
}
