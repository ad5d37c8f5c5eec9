package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/reach"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// Schema names the form of a Connectivity. It is no "pullwalk.result": a reader of
// pull verdicts refuses it.
const Schema = "pullwalk-example.application-connectivity/v1"

// Connectivity says whether a process in this network namespace reaches a backend.
// It has no image, no source and no verdict, on purpose: it says nothing about a pull,
// which another process does, in another network, before this one exists.
type Connectivity struct {
	Schema      string `json:"schema"`
	Question    string `json:"question"`    // in words, for whoever finds the document later
	Application string `json:"application"` // host:port of the backend
	// Connectivity is "reachable", "unreachable" or "unknown".
	Connectivity string    `json:"connectivity"`
	Unknown      string    `json:"unknown,omitempty"` // why it is unknown
	Observations []Seen    `json:"observations,omitempty"`
	Addresses    []Address `json:"addresses,omitempty"`
	LookedFrom   Place     `json:"lookedFrom"`
	Started      time.Time `json:"started"`
	ElapsedMS    int64     `json:"elapsedMs"`
}

// The values of Connectivity.Connectivity.
const (
	Reachable   = "reachable"   // name, route, connect and, if asked for, TLS held for an address
	Unreachable = "unreachable" // seen to fail for every address
	Unknown     = "unknown"
)

// Seen is one thing that was seen. Owner and remedy of the catalogue are left out:
// they are written for pulls by a node.
type Seen struct {
	Layer    classify.Layer    `json:"layer"`
	Code     classify.Cause    `json:"code"`
	Severity classify.Severity `json:"severity"`
	Subject  string            `json:"subject"`
	Summary  string            `json:"summary"`
}

// Address is one address of the backend.
type Address struct {
	Address string `json:"address"`
	Connect string `json:"connect"`       // "ok", "failed", "unknown"
	TLS     string `json:"tls,omitempty"` // the same; "" = not asked for, or not reached
}

// Place is where this was seen from.
type Place struct {
	HostName         string   `json:"hostName,omitempty"`
	NetworkNamespace string   `json:"networkNamespace,omitempty"` // the kernel's name of it
	ResolverFile     string   `json:"resolverFile,omitempty"`
	Nameservers      []string `json:"nameservers,omitempty"`
}

// Backend is the question. The zero value of all but HostPort is a good one.
type Backend struct {
	HostPort string
	Plain    bool               // no TLS is spoken there
	FS       fs.FS              // nil = this process's own files, a pod's in a pod
	DNS      dnscheck.Exchanger // nil = UDP and TCP from this process
	Limit    time.Duration      // for each step; 0 = 5 s
}

// maxAddresses is more than a name has that is meant to work.
const maxAddresses = 16

// Check looks the name up as this process would, and tries every address. The
// error is about the question; what fails is in the answer.
func (b Backend) Check(ctx context.Context) (*Connectivity, error) {
	started := time.Now()
	host, portText, err := net.SplitHostPort(b.HostPort)
	if err != nil {
		return nil, fmt.Errorf("want HOST:PORT: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("want HOST:PORT: %q is no port", portText)
	}
	tree := b.FS
	if tree == nil && runtime.GOOS != "windows" {
		// Its own: a Checker without FS would look for a container runtime's.
		tree = os.DirFS("/")
	}
	limit := cmp.Or(b.Limit, 5*time.Second)
	c := &Connectivity{
		Schema: Schema, Question: "application connectivity: does a process in this network namespace reach the backend? Nothing about an image pull.",
		Application: b.HostPort, Connectivity: Unknown, Started: started.UTC(),
	}
	name, err := (&dnscheck.Checker{FS: tree, Exchanger: b.DNS, Limit: limit}).Check(ctx, host)
	if err != nil {
		return nil, err
	}
	c.LookedFrom = place(name)
	addrs := name.Usable()
	failing := c.see(host, name.Findings(), false)
	switch {
	case len(addrs) > maxAddresses:
		addrs = addrs[:maxAddresses]
		c.Unknown = fmt.Sprintf("only %d of its addresses were tried", maxAddresses)
	case len(addrs) == 0 && failing:
		c.Connectivity = Unreachable
	case len(addrs) == 0:
		c.Unknown = cmp.Or(name.Inconclusive, "no address was found, and nothing says why")
	}
	b.tryAll(ctx, c, host, addrs, uint16(port), tree, limit)
	c.ElapsedMS = time.Since(started).Milliseconds()
	return c, nil
}

// attempt is what became of one address.
type attempt struct {
	Address
	path, tls []classify.Finding
	unknown   string
}

func (b Backend) tryAll(ctx context.Context, c *Connectivity, host string, addrs []netip.Addr, port uint16, tree fs.FS, limit time.Duration) {
	if len(addrs) == 0 {
		return
	}
	all := make([]attempt, len(addrs))
	var wg sync.WaitGroup
	for i, addr := range addrs {
		wg.Go(func() { all[i] = b.try(ctx, host, netip.AddrPortFrom(addr, port), tree, limit) })
	}
	wg.Wait()
	held, unknown := 0, ""
	for _, a := range all {
		switch last := cmp.Or(a.TLS, a.Connect); {
		case last == "ok":
			held++
		case last == "unknown":
			unknown = cmp.Or(unknown, a.unknown)
		}
	}
	switch {
	case held > 0:
		c.Connectivity, c.Unknown = Reachable, ""
	case unknown != "":
		c.Unknown = unknown
	case c.Unknown == "":
		c.Connectivity = Unreachable
	}
	for _, a := range all {
		c.Addresses = append(c.Addresses, a.Address)
		c.see(a.Address.Address, append(a.path, a.tls...), held > 0)
	}
}

func (b Backend) try(ctx context.Context, host string, at netip.AddrPort, tree fs.FS, limit time.Duration) attempt {
	a := attempt{Address: Address{Address: at.String(), Connect: "unknown"}}
	path, err := (&reach.Checker{Limit: limit}).Check(ctx, at)
	if err != nil {
		a.unknown = err.Error()
		return a
	}
	a.path = path.Findings()
	// A route that cannot be looked up is no obstacle for a connection that was seen.
	connected := path.Connect != nil && path.Connect.Connected
	if a.Connect = status(connected, a.path); !connected {
		a.unknown = cmp.Or(path.Inconclusive, "nothing was seen that decides")
		return a
	}
	if b.Plain {
		return a
	}
	verified, err := (&tlsauth.Checker{FS: tree, Limit: limit, DialSegments: reach.System{}.DialSegment}).CheckTLS(ctx, at, host)
	if err != nil {
		a.TLS, a.unknown = "unknown", err.Error()
		return a
	}
	a.tls = verified.Findings()
	a.TLS = status(verified.Held(), a.tls)
	a.unknown = cmp.Or(verified.Inconclusive, "nothing was seen that decides")
	return a
}

func status(held bool, findings []classify.Finding) string {
	failed := slices.ContainsFunc(findings, func(f classify.Finding) bool { return f.Severity == classify.SeverityFail })
	switch {
	case held && !failed:
		return "ok"
	case failed:
		return "failed"
	}
	return "unknown"
}

// see keeps what was found of a subject, and reports whether something failed. The
// failures of one address are warnings when another makes up for it.
func (c *Connectivity) see(subject string, findings []classify.Finding, madeUp bool) (failing bool) {
	for _, f := range findings {
		s := Seen{Layer: f.Layer, Code: f.Cause, Severity: f.Severity, Subject: subject, Summary: f.Summary}
		switch f.Cause {
		case classify.DNSPodResolver:
			continue // here the pod's resolver is the right one
		case classify.DNSClusterOnlyName:
			s.Summary = subject + " looks like the name of a Service, and this resolver gives no address for it"
		}
		if s.Severity == classify.SeverityFail && madeUp {
			s.Severity = classify.SeverityWarn
		}
		failing = failing || s.Severity == classify.SeverityFail
		c.Observations = append(c.Observations, s)
	}
	return failing
}

func place(name *dnscheck.Report) Place {
	p := Place{ResolverFile: name.Settings.File}
	for _, ns := range name.Settings.Nameservers {
		p.Nameservers = append(p.Nameservers, ns.String())
	}
	p.HostName, _ = os.Hostname()
	p.NetworkNamespace, _ = os.Readlink("/proc/self/ns/net")
	return p
}

// String is the answer for a terminal.
func (c *Connectivity) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "application connectivity of %s: %s", c.Application, c.Connectivity)
	if c.Unknown != "" {
		fmt.Fprintf(&b, " (%s)", c.Unknown)
	}
	b.WriteString("\n")
	for _, a := range c.Addresses {
		fmt.Fprintf(&b, "  %s: connect %s", a.Address, a.Connect)
		if a.TLS != "" {
			fmt.Fprintf(&b, ", TLS %s", a.TLS)
		}
		b.WriteString("\n")
	}
	for _, s := range c.Observations {
		fmt.Fprintf(&b, "  %s [%s] %s: %s\n", s.Severity, s.Layer, s.Code, s.Summary)
	}
	fmt.Fprintf(&b, "  looked from %s, network namespace %s", cmp.Or(c.LookedFrom.HostName, "an unnamed host"), cmp.Or(c.LookedFrom.NetworkNamespace, "unknown"))
	if c.LookedFrom.ResolverFile != "" { // no name was looked up otherwise
		fmt.Fprintf(&b, ", nameservers %s of %s", strings.Join(c.LookedFrom.Nameservers, " "), c.LookedFrom.ResolverFile)
	}
	b.WriteString("\n")
	b.WriteString("  This is about the application. It says nothing about an image pull, which the node's runtime does in the node's network.\n")
	return b.String()
}
