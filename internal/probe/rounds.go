package probe

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/notify"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/reach"
)

const (
	// roundEvery lies between the beginnings of two rounds: near enough to cost a
	// healthy run little, apart enough for a balancer to choose anew.
	roundEvery = 100 * time.Millisecond
)

// rounds are what is tried again, beside the first time.
type rounds struct {
	out  []outcome
	done chan struct{}
}

// again begins the rounds after the first. nil = there are none.
func (p *Probe) again(ctx context.Context, run func(context.Context) outcome) *rounds {
	n := p.by.Rounds - 1
	if n <= 0 {
		return nil
	}
	r := &rounds{out: make([]outcome, n), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		var running sync.WaitGroup
		tick := time.NewTicker(roundEvery)
		defer tick.Stop()
		for i := range r.out {
			select {
			case <-tick.C:
				running.Go(func() { r.out[i] = once(ctx, run) })
			case <-ctx.Done():
				r.out[i] = ended(ctx)
			}
		}
		running.Wait()
	}()
	return r
}

// once runs one round; code of the caller that ignores the end of ctx is left
// behind, as in any step.
func once(ctx context.Context, run func(context.Context) outcome) outcome {
	start := time.Now()
	out, ok := notify.Await(ctx, func() outcome { return run(ctx) })
	if !ok {
		out = ended(ctx)
		out.Reason += "; code of the caller did not return"
	}
	out.ElapsedMS = time.Since(start).Milliseconds()
	return out
}

func ended(ctx context.Context) outcome {
	return outcomeOf(pull.Step{Status: pull.StatusInconclusive, Reason: pull.EndOf(ctx)})
}

// wait returns all rounds, the first one first.
func (r *rounds) wait(first outcome) []outcome {
	<-r.done
	return append([]outcome{first}, r.out...)
}

// round is one outcome in few words.
func (o outcome) round() pull.Round {
	out := pull.Round{ElapsedMS: o.ElapsedMS, Held: pull.Passes(o.Status), Reason: o.Reason}
	if rep, ok := o.Report.(*dnscheck.Report); ok && out.Held {
		out.Addresses = rep.Usable()
	}
	for _, f := range o.Findings {
		late := out.Held && f.Cause == classify.RouteIntermittent
		if out.Cause == "" && (late || f.Severity == classify.SeverityFail) {
			out.Cause = f.Cause
		}
	}
	return out
}

// rate counts rounds.
type rate struct {
	held, tried, late int
	reason            string // why some were not tried
	causes            []classify.Cause
}

func rateOf(all []pull.Round) rate {
	var r rate
	for _, one := range all {
		switch {
		case one.Held && one.Cause != "":
			r.late++
			fallthrough
		case one.Held:
			r.held++
		case one.Cause == "":
			r.reason = one.Reason
			continue
		case !slices.Contains(r.causes, one.Cause):
			r.causes = append(r.causes, one.Cause)
		}
		r.tried++
	}
	return r
}

func (r rate) String() string { return fmt.Sprintf("%d/%d", r.held, r.tried) }

// failures names what the rounds that did not hold failed with.
func (r rate) failures() string {
	var names []string
	for _, c := range r.causes {
		names = append(names, string(c))
	}
	return strings.Join(names, ", ")
}

// recordRounds records the rounds of one subject. They only warn: that something never
// holds the step itself has said.
func (p *Probe) recordRounds(s pull.Step, index int, r rate, findings []classify.Finding) {
	switch {
	case len(findings) > 0 && r.held > 0:
		s.Status = pull.StatusDegraded
	case len(findings) > 0:
		s.Status = pull.StatusFailed
	case r.reason != "":
		s.Status, s.Reason = pull.StatusInconclusive, r.reason
	default:
		s.Status = pull.StatusOK
	}
	s.ID, s.Findings = pull.StepRounds, findings
	for _, one := range s.Rounds {
		s.ElapsedMS = max(s.ElapsedMS, one.ElapsedMS)
	}
	p.record(s, index)
}

// connectAgain is one more connect to an address. Silence is not traced again.
func (a *attempt) connectAgain(ctx context.Context) outcome {
	c := &reach.Checker{Router: a.probe.by.View.Router, Dialer: a.probe.by.View.Dialer, Limit: a.probe.by.Limits.Connect, NoTrace: true}
	rep, conn, err := c.Connect(ctx, a.addrPort())
	if err != nil {
		return outcomeOf(questionFailed(pull.Step{}, err))
	}
	return outcome{Outcome: pull.Outcome{Step: pull.StatusOf(pull.Step{Report: rep}, rep.Held(), rep.Inconclusive, rep.Findings())}, conn: conn}
}

// connects judges the connects to an address. Where the first held, the walk goes on
// at once; where it failed and another held, it goes on with that one's connection,
// since a runtime would come through now and then.
func (a *attempt) connects(first outcome, more *rounds) outcome {
	if more == nil {
		return first
	}
	seen := first.round()
	if pull.Passes(first.Status) {
		a.probe.beside.Go(func() {
			all := more.wait(outcome{})
			closeBut(all, -1)
			a.judgeConnects(seen, all)
		})
		return first
	}
	all := more.wait(outcome{})
	findings := a.judgeConnects(seen, all)
	kept := -1
	for i, o := range all {
		if o.conn != nil && pull.Passes(o.Status) {
			kept = i // the youngest is the least likely to have been closed meanwhile
		}
	}
	if first.Status != pull.StatusFailed {
		kept = -1
	}
	closeBut(all, kept)
	if kept < 0 {
		return first
	}
	first.Status, first.Findings = pull.StatusDegraded, findings
	first.conn, first.Report = all[kept].conn, all[kept].Report // what the walk goes on with; the first is among the rounds
	return first
}

func closeBut(all []outcome, kept int) {
	for i, o := range all {
		if o.conn != nil && i != kept {
			_ = o.conn.Close() // nothing was written
		}
	}
}

// judgeConnects records the rounds of the address; all[0] stands for the
// first, which was seen.
func (a *attempt) judgeConnects(first pull.Round, all []outcome) []classify.Finding {
	list := []pull.Round{first}
	for _, o := range all[1:] {
		list = append(list, o.round())
	}
	r := rateOf(list)
	at := fmt.Sprintf("%s at %v", a.probe.HostPort(), a.addr)
	cause, text := classify.RouteIntermittent, ""
	switch {
	case r.held == 0 && r.tried > 0:
		cause, text = r.causes[0], fmt.Sprintf("none of %d connects to %s held", r.tried, at)
	case r.held < r.tried:
		text = fmt.Sprintf("%d of %d connects to %s held, the others did not (%s)", r.held, r.tried, at, r.failures())
	case r.late > 0:
		text = fmt.Sprintf("%d of %d connects to %s came about only after the first packet was repeated", r.late, r.tried, at)
	}
	var findings []classify.Finding
	if text != "" {
		f := classify.New(cause, text, classify.Fact{Key: classify.FactAddress, Value: a.addrPort().String()}, classify.Fact{Key: classify.FactRounds, Value: r.String()})
		f.Severity = classify.SeverityWarn
		if cause == classify.RouteIntermittent {
			f.Alternatives = r.causes
		}
		findings = append(findings, f)
	}
	a.probe.recordRounds(pull.Step{Layer: classify.LayerRoute, Subject: string(pull.StepConnect), Addr: a.addr, Rounds: list}, a.index, r, slices.Clone(findings))
	return findings
}

// lookups judges the lookups of e's name, as connects does for an address.
func (p *Probe) lookups(first outcome, more *rounds) outcome {
	if more == nil {
		return first
	}
	seen := first
	seen.Findings = slices.Clone(first.Findings) // those of the step are placed when it is recorded
	if pull.Passes(first.Status) {
		p.beside.Go(func() { p.judgeLookups(more.wait(seen)) })
		return first
	}
	all := more.wait(seen)
	findings := p.judgeLookups(all)
	i := slices.IndexFunc(all, func(o outcome) bool { return pull.Passes(o.Status) && o.Report != nil })
	if i < 0 || first.Status != pull.StatusFailed {
		return first
	}
	held := all[i]
	held.ID, held.ElapsedMS, held.Status = pull.StepDNS, first.ElapsedMS, pull.StatusDegraded
	held.Findings = append(findings, pull.Warned(held.Findings)...)
	return held
}

// judgeLookups records the rounds of the name. Addresses that rotate are no fault;
// an answer that fails now and then is, and so is one that is private now and then.
func (p *Probe) judgeLookups(all []outcome) []classify.Finding {
	var list []pull.Round
	var reports []*dnscheck.Report
	for _, o := range all {
		list = append(list, o.round())
		if rep, ok := o.Report.(*dnscheck.Report); ok && o.Status != pull.StatusInconclusive {
			reports = append(reports, rep)
		}
	}
	r := rateOf(list)
	var texts []string
	cause := classify.DNSIntermittent
	switch {
	case r.held == 0 && r.tried > 0:
		cause = r.causes[0]
		texts = append(texts, fmt.Sprintf("none of %d lookups of %s held", r.tried, p.Host))
	case r.held < r.tried:
		texts = append(texts, fmt.Sprintf("%d of %d lookups of %s held, the others did not (%s)", r.held, r.tried, p.Host, r.failures()))
	}
	if a, b, ok := changing(list); ok {
		texts = append(texts, fmt.Sprintf("%d lookups of %s gave %v and %v in turn", r.tried, p.Host, a, b))
	}
	facts := []classify.Fact{{Key: classify.FactRounds, Value: r.String()}}
	if r.held > 0 {
		for _, s := range serverRates(reports) {
			texts = append(texts, fmt.Sprintf("the nameserver %v gave addresses %d times of %d", s.server, s.held, s.tried))
			facts = append(facts, classify.Fact{Key: classify.FactResolver, Value: s.server.String()})
		}
	}
	var findings []classify.Finding
	if len(texts) > 0 {
		f := classify.New(cause, strings.Join(texts, "; "), facts...)
		f.Severity = classify.SeverityWarn
		if cause == classify.DNSIntermittent {
			f.Alternatives = r.causes
		}
		findings = append(findings, f)
	}
	p.recordRounds(pull.Step{Layer: classify.LayerDNS, Subject: string(pull.StepDNS), Rounds: list}, 0, r, slices.Clone(findings))
	return findings
}

// changing finds two rounds whose answers exclude each other: nothing in common,
// and a private address in one of them.
func changing(all []pull.Round) (a, b []netip.Addr, ok bool) {
	private := func(a netip.Addr) bool { return a.IsPrivate() || a.IsLoopback() }
	for _, x := range all {
		for _, y := range all {
			if len(x.Addresses) == 0 || len(y.Addresses) == 0 || !slices.ContainsFunc(x.Addresses, private) || slices.ContainsFunc(y.Addresses, private) {
				continue
			}
			return x.Addresses, y.Addresses, true
		}
	}
	return nil, nil, false
}

type serverRate struct {
	server      netip.AddrPort
	held, tried int
}

// serverRates are of the nameservers that gave addresses in some rounds and not in
// others.
func serverRates(reports []*dnscheck.Report) []serverRate {
	var all []serverRate
	for _, r := range reports {
		for _, s := range r.Servers {
			i := slices.IndexFunc(all, func(x serverRate) bool { return x.server == s.Server })
			if i < 0 {
				i, all = len(all), append(all, serverRate{server: s.Server})
			}
			switch {
			case gave(s.A) || gave(s.AAAA):
				all[i].held++
				all[i].tried++
			case s.A.Cause != "" && s.AAAA.Cause != "":
				all[i].tried++
			}
		}
	}
	return slices.DeleteFunc(all, func(s serverRate) bool { return s.held == 0 || s.held == s.tried })
}

func gave(x dnscheck.Exchange) bool { return x.Answer != nil && len(x.Answer.Addresses) > 0 }
