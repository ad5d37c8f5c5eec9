package dnscheck

import (
	"context"
	"errors"
	"strings"
	"time"
)

const (
	// sidePatience is how long side checks are waited for once everything else is answered.
	sidePatience = time.Second
	// tickTime is how often the patience is looked at.
	tickTime = 100 * time.Millisecond
)

// lookup asks every nameserver for every name that is needed, and keeps what came. Its fields are
// written by the goroutine of run alone.
type lookup struct {
	replay
	asker
	names     []string // full names in the order of the runtime
	decided   func()   // called once, when tellable; nil = nobody to tell
	fromHosts bool     // the hosts file decides, whatever DNS says

	events     chan event
	open       int       // exchanges still out
	settled    time.Time // when open became 0
	side       sideChecks
	ended      error // the caller's end, if it came before everything was seen
	limitShort bool  // our own limit came too soon after a name was asked to prove a timeout
}

// event is an exchange that ended, and where its outcome belongs.
type event struct {
	observation observation
	side        bool
	keep        func(observation)
}

// searchNames is the list of full names that Go asks for in turn until one has an address: net's
// nameList.
func searchNames(name string, s *Settings) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	var names []string
	asIs := strings.Count(name, ".") >= s.NDots
	if asIs {
		names = append(names, fqdn(name))
	}
	for _, suffix := range s.Search {
		if full := fqdn(fqdn(name) + suffix); len(full) <= maxFQDN {
			names = append(names, full)
		}
	}
	if !asIs {
		names = append(names, fqdn(name))
	}
	return names
}

// run asks until everything is answered or ctx ends.
func (l *lookup) run(ctx context.Context) {
	// Room for every event, so that nobody waits for a reader, not even one that ends after run.
	l.events = make(chan event, (len(l.names)+1)*len(l.settings.Nameservers)*int(families)+maxSideChecks)
	asking, stop := context.WithCancel(ctx)
	defer stop()
	l.launch(ctx)
	l.tellDecided()
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	for l.open > 0 || l.side.open > 0 && time.Since(l.settled) < sidePatience {
		select {
		case ev := <-l.events:
			l.take(ev)
		case <-tick.C:
		case <-ctx.Done():
			l.drain(ctx)
			return
		}
		if l.wantsNext() {
			l.launch(ctx)
		}
		l.askSide(asking)
		l.tellDecided()
	}
	if ctx.Err() != nil {
		// The exchanges may have come back cut off before the end was noticed here.
		l.drain(ctx)
		return
	}
	stop()
	l.takeUntil(func() bool { return l.side.open == 0 })
}

// launch asks all nameservers for the next name, both families at once.
func (l *lookup) launch(ctx context.Context) {
	r := &round{name: l.names[len(l.rounds)], started: time.Now(), seen: make([][families]observation, len(l.settings.Nameservers))}
	l.rounds = append(l.rounds, r)
	for s, server := range l.settings.Nameservers {
		for f := range families {
			l.open++
			go func() {
				o := l.ask(ctx, server, l.network(), Question{Name: r.name, Type: f.String()})
				l.events <- event{observation: o, keep: func(o observation) { r.seen[s][f] = o }}
			}()
		}
	}
}

func (l *lookup) take(ev event) {
	if ev.side {
		l.side.open--
	} else {
		l.open--
		l.settled = time.Now()
	}
	ev.keep(ev.observation)
}

// takeUntil takes what still comes until done, for drainTime at most: an Exchanger may not heed its
// context.
func (l *lookup) takeUntil(done func() bool) {
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for !done() {
		select {
		case ev := <-l.events:
			l.take(ev)
		case <-timer.C:
			return
		}
	}
}

// tellDecided calls decided once it is known what the runtime gets while nameservers are still
// being listened to. One that is silent for decidedPatience is taken for dead then.
func (l *lookup) tellDecided() {
	if l.decided == nil || l.open == 0 {
		return
	}
	if d := l.decide(false); !d.decided && !l.fromHosts {
		if d = l.decide(true); !d.decided || d.kind() != kindAddresses {
			return
		}
	}
	tell := l.decided
	l.decided = nil
	tell()
}

// drain takes what still comes once ctx has ended, and settles the rest.
func (l *lookup) drain(ctx context.Context) {
	l.takeUntil(func() bool { return l.open+l.side.open == 0 })
	own := errors.Is(context.Cause(ctx), errLimit)
	for _, r := range l.rounds {
		for s, server := range l.settings.Nameservers {
			for f := range families {
				o := &r.seen[s][f]
				if o.settled {
					continue
				}
				if o.Network == "" {
					o.Network = l.network()
					o.ElapsedMS = time.Since(r.started).Milliseconds()
				}
				switch {
				case !own:
					o.Error = "not answered before the caller's end"
					l.ended = context.Cause(ctx)
				case !l.timedOut(o, server, context.DeadlineExceeded):
					l.limitShort = true
				}
			}
		}
	}
}

// wantsNext reports whether the runtime goes on to the next name: the last one gave no address. A
// silent nameserver is not waited for longer than searchPatience, provided that another has said
// something.
func (l *lookup) wantsNext() bool {
	if len(l.rounds) == len(l.names) {
		return false
	}
	r := l.rounds[len(l.rounds)-1]
	for _, o := range l.outcomes(r, time.Since(r.started) >= searchPatience && r.anyAnswer()) {
		if !o.decided || o.kind == kindAddresses {
			return false
		}
	}
	return true
}

func (l *lookup) network() string {
	if l.settings.UseTCP {
		return "tcp"
	}
	return "udp"
}
