package dnscheck

import (
	"fmt"
	"slices"
	"time"
)

// cLibrary applies the C library's rules to what was seen. nil = the outcome is the
// same, or not all was seen.
func (p *replay) cLibrary(r *Report, d decision) *CLibrary {
	if !d.decided || !p.settings.usesDNS() {
		return nil
	}
	c := &CLibrary{PredictedMS: r.PredictedMS, Addresses: r.Addresses}
	if r.From == fromDNS && mdnsOnly(p.name, p.settings.nss) {
		c.Addresses, c.PredictedMS = nil, 0
		c.Differs = append(c.Differs, fmt.Sprintf("mdns4_minimal [NOTFOUND=return] in %s: a name of two labels under .local is never asked for in DNS", nsswitchFile))
		return c
	}
	if r.From == fromHosts { // hosts first, or nothing in DNS: the same for both
		return nil
	}

	var wait int64
	for i, round := range p.rounds[:d.round+1] {
		w, failed := p.cWait(round)
		wait += w
		if failed && round.name != fqdn(p.name) && i < d.round {
			c.Addresses = nil
			c.Differs = append(c.Differs, fmt.Sprintf("no nameserver answered for %s, and the C library then asks for no further name", trimDot(round.name)))
			break
		}
	}
	if p.settings.DefaultNameservers {
		c.Differs = append(c.Differs, "without a nameserver in the file the C library asks 127.0.0.1 only, not ::1")
		if o := &p.rounds[d.round].seen[0]; o[famA].kind != kindAddresses && o[famAAAA].kind != kindAddresses {
			c.Addresses = nil
		}
	}
	if d.kind() != kindAddresses {
		// All names are gone through; the sum above stops at the one that is shown.
		wait = 0
		for _, round := range p.rounds {
			w, _ := p.cWait(round)
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

// cWait is how long the C library waits for one name, and whether nobody answered. A
// and AAAA are sent together, so that the slower one counts.
func (p *replay) cWait(r *round) (wait int64, failed bool) {
	for f := range families {
		var w int64
		final := false
		for range p.settings.Attempts {
			for s := range r.seen {
				o := &r.seen[s][f]
				if o.silent || !o.settled {
					w += cTimeout(p.settings.TimeoutMS, int64(s), int64(len(r.seen)))
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

// cTimeout is the patience with the server at index of n: the timeout, doubled for each
// server before it, and divided by their number from the second on.
func cTimeout(timeoutMS, index, n int64) int64 {
	if index == 0 {
		return timeoutMS
	}
	return max(timeoutMS/1000<<index/n, 1) * 1000
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
