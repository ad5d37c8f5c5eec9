package dnscheck

import (
	"context"
	"errors"
	"time"
)

const (
	// searchPatience is how long a silent nameserver holds up the next name of the
	// search list. The runtime would wait its whole timeout; a check that has no
	// longer itself would then never see the next name.
	searchPatience = time.Second
	// decidedPatience is how long a nameserver may be silent before the answer of
	// another is handed on. Most recursive lookups take less; the report waits for
	// the rest.
	decidedPatience = 500 * time.Millisecond
	// asidePatience is how long questions that only explain are waited for once
	// everything else is answered.
	asidePatience = time.Second
	// tickTime is how often the patience is looked at.
	tickTime = 100 * time.Millisecond
	// drainTime is how long exchanges may take to return once they were told to.
	drainTime    = 100 * time.Millisecond
	maxErrorText = 256
)

// family is an index: A or AAAA.
type family int

const (
	famA family = iota
	famAAAA
	families
)

func (f family) String() string { return [...]string{"A", "AAAA"}[f] }

// lookup asks every nameserver for every name that is needed, and keeps what
// came. Its fields are written by the goroutine of run alone.
type lookup struct {
	name      string
	settings  *Settings
	exchanger Exchanger
	limit     time.Duration
	names     []string // full names in the order of the runtime
	decided   func()   // told once, when tellable; nil = nobody to tell

	rounds   []*round // those of names that were asked, same order
	events   chan event
	open     int       // exchanges still out
	settled  time.Time // when open became 0
	aside    aside     // questions that only explain
	ended    error     // the caller's end, if it came before everything was seen
	short    bool      // our own limit came too soon after a name was asked to prove silence
	fromFile bool      // the hosts file decides, whatever DNS says
}

// round is everything about one full name.
type round struct {
	name    string
	started time.Time
	seen    [][families]observation // per nameserver
}

// observation is an [Exchange] with what the runtime's rules need of it.
type observation struct {
	Exchange
	settled bool
	kind    kind
	silent  bool          // the runtime waits its whole timeout
	waitMS  int64         // what the runtime waits when it is not silent
	limit   time.Duration // our own limit, if that ended it
	err     error
}

// kind is how an answer steers the runtime.
type kind int

const (
	kindMoveOn    kind = iota // the next nameserver is asked
	kindAddresses             // final
	kindNXDomain              // final
	kindNoData                // final
)

// event is an exchange that ended. keep is set for a question that only
// explains, and says where its outcome belongs.
type event struct {
	round, server int
	family        family
	observation   observation
	keep          func(observation)
}

// run asks until everything is answered or ctx ends.
func (l *lookup) run(ctx context.Context) {
	// Room for every event, so that nobody waits for a reader, not even one that
	// ends after run.
	l.events = make(chan event, (len(l.names)+1)*len(l.settings.Nameservers)*int(families)+maxAside)
	asking, stop := context.WithCancel(ctx)
	defer stop()
	l.launch(ctx)
	l.tellDecided()
	tick := time.NewTicker(tickTime)
	defer tick.Stop()
	for l.open > 0 || l.aside.open > 0 && time.Since(l.settled) < asidePatience {
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
		l.explain(asking)
		l.tellDecided()
	}
	if ctx.Err() != nil {
		// The exchanges may have come back cut off before the end was noticed here.
		l.drain(ctx)
		return
	}
	stop()
	l.drainAside()
}

// launch asks all nameservers for the next name, both families at once.
func (l *lookup) launch(ctx context.Context) {
	i := len(l.rounds)
	r := &round{name: l.names[i], started: time.Now(), seen: make([][families]observation, len(l.settings.Nameservers))}
	l.rounds = append(l.rounds, r)
	for s, server := range l.settings.Nameservers {
		for f := range families {
			l.open++
			go func() {
				l.events <- event{round: i, server: s, family: f, observation: l.ask(ctx, server, l.network(), Question{Name: r.name, Type: f.String()})}
			}()
		}
	}
}

func (l *lookup) take(ev event) {
	if ev.keep != nil {
		l.aside.open--
		ev.keep(ev.observation)
		return
	}
	l.open--
	l.settled = time.Now()
	l.rounds[ev.round].seen[ev.server][ev.family] = ev.observation
}

// tellDecided calls decided once it is known what the runtime gets while
// nameservers are still being listened to. One that is silent for decidedPatience
// is taken for dead then.
func (l *lookup) tellDecided() {
	if l.decided == nil || l.open == 0 {
		return
	}
	if d := l.decide(false); !d.decided && !l.fromFile {
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
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	for waiting := true; waiting && l.open+l.aside.open > 0; {
		select {
		case ev := <-l.events:
			l.take(ev)
		case <-timer.C: // an Exchanger that does not heed its context
			waiting = false
		}
	}
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
					l.short = true
				}
			}
		}
	}
}

// wantsNext reports whether the runtime goes on to the next name: the last one
// gave no address. A nameserver that stays silent is not waited for longer than
// searchPatience, provided that another has said something.
func (l *lookup) wantsNext() bool {
	if len(l.rounds) == len(l.names) {
		return false
	}
	r := l.rounds[len(l.rounds)-1]
	impatient := time.Since(r.started) >= searchPatience && r.anyAnswer()
	for f := range families {
		if o := l.outcome(r, f, impatient); !o.decided || o.kind == kindAddresses {
			return false
		}
	}
	return true
}

func (r *round) anyAnswer() bool {
	for s := range r.seen {
		for f := range families {
			if r.seen[s][f].Answer != nil {
				return true
			}
		}
	}
	return false
}

func (l *lookup) network() string {
	if l.settings.UseTCP {
		return "tcp"
	}
	return "udp"
}
