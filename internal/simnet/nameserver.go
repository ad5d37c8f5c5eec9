package simnet

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/dnscheck"
)

// What a nameserver says about the life of its answers, in seconds.
const (
	TTL         = 300
	NegativeTTL = 60 // of the zone's SOA record, RFC 2308 section 5
)

// maxChain is how many CNAME records are followed; resolvers stop there or
// nearby and say SERVFAIL.
const maxChain = 8

// Nameserver is a recursive resolver as a node meets it: what it was not told
// does not exist. Each method changes it from then on and returns it, so a zone
// can be written in one statement.
type Nameserver struct {
	mu                               sync.Mutex
	records                          map[string]*record
	silent, closed, truncates, noTCP bool
	delay                            time.Duration
	garbage                          error // instead of every answer
}

type record struct {
	addrs []netip.Addr
	cname string
	rcode string
	why   []int // extended errors, RFC 8914
}

// Zone returns the nameserver at an address, new and empty if there is none.
// It answers at both udp and tcp.
func (n *Net) Zone(server netip.AddrPort) *Nameserver {
	server = unmap(server)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[server.Addr()] = true
	z := n.zones[server]
	if z == nil {
		z = &Nameserver{records: map[string]*record{}}
		n.zones[server] = z
	}
	return z
}

// Add gives a name addresses: A and AAAA records by their family. A name that
// has addresses of one family only has an empty answer for the other.
func (z *Nameserver) Add(name string, addrs ...netip.Addr) *Nameserver {
	return z.set(func() {
		r := z.record(name)
		for _, a := range addrs {
			r.addrs = append(r.addrs, a.Unmap())
		}
	})
}

// CNAME makes name an alias of target, which may be missing.
func (z *Nameserver) CNAME(name, target string) *Nameserver {
	return z.set(func() { z.record(name).cname = canonical(target) })
}

// RCode answers every question for name with this code, "SERVFAIL" for one, and
// nothing else.
func (z *Nameserver) RCode(name, rcode string) *Nameserver {
	return z.set(func() { z.record(name).rcode = rcode })
}

// Extend adds the extended error of this code (RFC 8914) to every answer for name:
// 3 for a stale one, 6 where DNSSEC failed.
func (z *Nameserver) Extend(name string, code int) *Nameserver {
	return z.set(func() { r := z.record(name); r.why = append(r.why, code) })
}

// Remove forgets a name.
func (z *Nameserver) Remove(name string) *Nameserver {
	return z.set(func() { delete(z.records, canonical(name)) })
}

// Silent makes the server drop every question, and every connection attempt.
func (z *Nameserver) Silent() *Nameserver { return z.set(func() { z.silent = true }) }

// Closed leaves the host without a nameserver: ECONNREFUSED.
func (z *Nameserver) Closed() *Nameserver { return z.set(func() { z.closed = true }) }

// Truncate makes every answer over udp an empty one with the truncated bit.
func (z *Nameserver) Truncate() *Nameserver { return z.set(func() { z.truncates = true }) }

// NoTCP refuses tcp.
func (z *Nameserver) NoTCP() *Nameserver { return z.set(func() { z.noTCP = true }) }

// Delay is how long the server thinks about each question, on top of the
// latency of [Net.Delay].
func (z *Nameserver) Delay(d time.Duration) *Nameserver { return z.set(func() { z.delay = d }) }

// Garbage makes every exchange end with err once the server has thought:
// [dnscheck.ErrMalformed] for what is no DNS message.
func (z *Nameserver) Garbage(err error) *Nameserver { return z.set(func() { z.garbage = err }) }

// Heal takes back Silent, Closed, Truncate, NoTCP, Delay and Garbage. Records stay.
func (z *Nameserver) Heal() *Nameserver {
	return z.set(func() {
		z.silent, z.closed, z.truncates, z.noTCP, z.delay, z.garbage = false, false, false, false, 0, nil
	})
}

func (z *Nameserver) set(change func()) *Nameserver {
	z.mu.Lock()
	defer z.mu.Unlock()
	change()
	return z
}

func (z *Nameserver) record(name string) *record {
	name = canonical(name)
	r := z.records[name]
	if r == nil {
		r = &record{}
		z.records[name] = r
	}
	return r
}

func (z *Nameserver) isSilent() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.silent
}

func (z *Nameserver) listensOn(tcp bool) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return !z.closed && !(tcp && z.noTCP)
}

func (z *Nameserver) nonsense() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.garbage
}

func (z *Nameserver) thinks() time.Duration {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.delay
}

// answer looks q up and follows aliases. The code is that of the last name of
// the chain (RFC 6604 section 3).
func (z *Nameserver) answer(tcp bool, q dnscheck.Question) dnscheck.Answer {
	z.mu.Lock()
	defer z.mu.Unlock()
	a := dnscheck.Answer{RCode: "NOERROR", RecursionAvailable: true}
	if z.truncates && !tcp {
		a.Truncated = true
		return a
	}
	for name := canonical(q.Name); ; {
		r := z.records[name]
		switch {
		case r == nil:
			a.RCode = "NXDOMAIN"
		case r.rcode != "":
			a.RCode = r.rcode
		case r.cname != "" && q.Type == "CNAME": // the one link, not where it leads
			a.CNAMEs, a.TTLSeconds = []string{r.cname}, TTL
			return a
		case r.cname != "" && len(a.CNAMEs) == maxChain:
			return dnscheck.Answer{RCode: "SERVFAIL", RecursionAvailable: true}
		case r.cname != "":
			a.CNAMEs = append(a.CNAMEs, r.cname)
			name = r.cname
			continue
		default:
			for _, addr := range r.addrs {
				if q.Type == family(addr) {
					a.Addresses = append(a.Addresses, addr)
				}
			}
		}
		if r != nil {
			for _, code := range r.why {
				a.Extended = append(a.Extended, dnscheck.ExtendedError{Code: code})
			}
		}
		if len(a.Addresses) > 0 || len(a.CNAMEs) > 0 {
			a.TTLSeconds = TTL
		}
		if len(a.Addresses) == 0 && (a.RCode == "NOERROR" || a.RCode == "NXDOMAIN") {
			a.NegativeTTLSeconds, a.SOA = NegativeTTL, parent(name)
		}
		return a
	}
}

func family(addr netip.Addr) string {
	if addr.Is4() {
		return "A"
	}
	return "AAAA"
}

// canonical is the form that names are compared in.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// parent is the zone that a name is in; one cut per label is good enough here.
func parent(name string) string {
	_, rest, _ := strings.Cut(name, ".")
	return rest
}
