package dnscheck_test

import (
	"context"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing/fstest"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
)

// reply is what a scripted nameserver does with one question.
type reply struct {
	answer dnscheck.Answer
	err    error
	after  time.Duration
	silent bool // until the context ends
	deaf   bool // even longer
	// silentWith is silence but for datagrams that do not belong to the question.
	silentWith *dnscheck.Unmatched
}

// closedPort is what a closed UDP port answers a connected socket with.
const closedPort = syscall.ECONNREFUSED

// script is a world of nameservers. Keys: "SERVER NAME TYPE", with " tcp" for TCP
// and " cd" with the check disabled; "SERVER under DOMAIN TYPE" is a wildcard,
// "SERVER *" what a nameserver does with all other questions. A nameserver
// without any entry is silent.
type script map[string]reply

func (s script) Exchange(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
	host := server.Addr().String()
	key := host + " " + strings.TrimSuffix(q.Name, ".") + " " + q.Type
	if network == "tcp" {
		key += " tcp"
	}
	if q.CheckingDisabled {
		key += " cd"
	}
	r, ok := s[key]
	for domain := q.Name; !ok && domain != ""; {
		_, domain, _ = strings.Cut(domain, ".")
		r, ok = s[host+" under "+strings.TrimSuffix(domain, ".")+" "+q.Type]
	}
	if !ok {
		r, ok = s[host+" *"]
	}
	if r.deaf {
		<-time.After(time.Hour)
	}
	if r.silentWith != nil {
		<-ctx.Done()
		return dnscheck.Answer{}, &dnscheck.UnmatchedError{Unmatched: *r.silentWith, Err: ctx.Err()}
	}
	if !ok || r.silent {
		<-ctx.Done()
		return dnscheck.Answer{}, ctx.Err()
	}
	select {
	case <-time.After(r.after):
	case <-ctx.Done():
		return dnscheck.Answer{}, ctx.Err()
	}
	return r.answer, r.err
}

// recorder notes what was asked.
type recorder struct {
	dnscheck.Exchanger
	mu    sync.Mutex
	asked []string
}

func (r *recorder) Exchange(ctx context.Context, server netip.AddrPort, network string, q dnscheck.Question) (dnscheck.Answer, error) {
	r.mu.Lock()
	r.asked = append(r.asked, server.Addr().String()+" "+q.Name+" "+q.Type+" "+network)
	r.mu.Unlock()
	return r.Exchanger.Exchange(ctx, server, network, q)
}

func (r *recorder) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, a := range r.asked {
		if name := strings.Fields(a)[1]; !strings.HasPrefix(name, "pullwalk-") { // the random label below a search domain
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, t := range texts {
		all = append(all, netip.MustParseAddr(t))
	}
	return all
}

func found(texts ...string) reply {
	return reply{answer: dnscheck.Answer{RCode: "NOERROR", Addresses: addrs(texts...), RecursionAvailable: true}}
}

func rcode(code string) reply {
	return reply{answer: dnscheck.Answer{RCode: code, RecursionAvailable: true}}
}

func (r reply) in(d time.Duration) reply {
	r.after = d
	return r
}

// node is a file tree with the files given as name, content pairs.
func node(files ...string) fstest.MapFS {
	tree := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		tree[path.Join("etc", files[i])] = &fstest.MapFile{Data: []byte(files[i+1]), Mode: 0o644}
	}
	return tree
}

// codes lists findings as "fail dns.nxdomain".
func codes(r *dnscheck.Report) []string {
	var all []string
	for _, f := range r.Findings() {
		all = append(all, string(f.Severity)+" "+string(f.Cause))
	}
	return all
}

func first(r *dnscheck.Report) classify.Finding {
	if f := r.Findings(); len(f) > 0 {
		return f[0]
	}
	return classify.Finding{}
}
