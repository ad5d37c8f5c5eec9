package pullwalk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/judge"
	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/internal/registry"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// ladderKey is all that the rungs up to tls depend on. Whoever needs the same has
// the same ladder, whichever image or role leads there. It may hold a proxy's
// password and is never printed.
type ladderKey struct {
	scheme, host string
	port         uint16
	tls          string  // tlsSettings.key
	own          bool    // where the node's settings say that credentials come from, see source.find
	via          *ladder // the proxy's
	proxy        string
	unknown      string
}

// ladder is the way to one scheme, host and port, up to tls. It is climbed once in
// a call; the steps that need it wait on ready.
type ladder struct {
	d *diagnosis
	target
	tls   *tlsSettings
	seen  *tlsauth.Seen
	proxy *url.URL // set when a proxy stands in between
	via   *ladder  // the proxy's own
	// unknown is why nothing is asked here; "" = it is.
	unknown string

	ready chan struct{} // closed when a lane is through, or when none will be
	done  chan struct{} // closed when every lane has ended, and what is judged beside

	// The following are written before ready or done is closed, and read after.
	through   *lane  // the first lane that held all the way
	blockedBy string // the first failure, when no lane is through

	pool   registry.Pool
	beside sync.WaitGroup
	key    ladderKey
	giveUp context.CancelFunc // ends the climb

	mu     sync.Mutex
	taken  []pull.Step // the rungs that have ended
	joined []*endpoint // whose rungs they are
	asked  map[common]*question
}

func (s *source) newLadder(t target, a approach) *ladder {
	l := &ladder{d: s.d.diagnosis, target: t, tls: s.settings(t), seen: &s.d.company.seen, proxy: a.proxy, via: a.via, unknown: a.unknown, ready: make(chan struct{}), done: make(chan struct{})}
	l.pool = registry.Pool{Dial: l.open, Header: s.d.limits.Header, Idle: s.d.limits.Idle}
	if l.forwarded() {
		l.pool.Proxy = l.proxy
	}
	return l
}

// climb puts e on its ladder, and begins to climb it by rungs if nobody did.
func (s *source) climb(ctx context.Context, e *endpoint, a approach, rungs func(*ladder, context.Context)) {
	key := ladderKey{scheme: e.scheme, host: e.host, port: e.port, tls: s.settings(e.target).key, own: e.role == endpoints.RoleCredential, via: a.via, unknown: a.unknown}
	if a.proxy != nil {
		key.proxy = a.proxy.String()
	}
	d := s.d.diagnosis
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.ladders[key]
	begin := l == nil
	if begin {
		l = s.newLadder(e.target, a)
		l.key = key
		ctx, l.giveUp = context.WithCancel(ctx)
		d.ladders[key] = l
		d.begun = append(d.begun, l)
	}
	e.ladder = l
	l.join(e)
	if begin {
		go func() {
			defer l.giveUp()
			rungs(l, ctx)
		}()
	}
}

// join gives e the rungs that have been taken, and every later one.
func (l *ladder) join(e *endpoint) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.joined = append(l.joined, e)
	for _, st := range l.taken {
		e.keep(st)
	}
}

// part gives e no more rungs. A ladder that nobody else is on is climbed no
// further, and who needs it later begins anew. It reports false if the ladder has
// come to its end.
func (l *ladder) part(e *endpoint) bool {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		return false
	default:
	}
	l.joined = slices.DeleteFunc(l.joined, func(o *endpoint) bool { return o == e })
	if len(l.joined) == 0 {
		delete(l.d.ladders, l.key)
		l.giveUp()
	}
	return true
}

// record keeps a finished rung for everyone on the ladder.
func (l *ladder) record(s pull.Step, index int) pull.Step {
	st := l.observed(s, index)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = append(l.taken, st)
	for _, e := range l.joined {
		e.keep(st)
	}
	return judge.Step(pull.Endpoint{Forwarded: l.forwarded()}, st)
}

// observed completes a finished step with where it stands and with what may have
// disturbed it. Findings are copied: the slice may already be part of another image's
// step.
func (l *ladder) observed(s pull.Step, index int) pull.Step {
	if s.Layer == "" {
		s.Layer = pull.LayerOf(s.ID)
	}
	s.Findings = slices.Clone(s.Findings)
	for i := range s.Findings {
		s.Findings[i] = l.place(s.ID, s.Findings[i])
	}
	s.Index, s.Hurried, s.Panicked = index, l.d.hurried, l.d.view.guard.brokenFor(s.ID)
	var longest time.Duration
	for _, f := range s.Findings {
		longest = max(longest, pull.Waited(f))
	}
	if longest > 0 { // a step is recorded some time after its end, when others have ended too
		s.Stalled = l.d.pulse.lost(time.Now().Add(-time.Duration(s.ElapsedMS)*time.Millisecond - 2*longest))
	}
	return s
}

// common names a question that several images have in common: those whose runtime
// asks the same registries with the same settings, header fields among them.
type common struct {
	company *company
	what    string
}

// question is such a request.
type question struct {
	answered chan struct{}
	answer   pull.Step
	waiting  int // who still wants the answer
	stop     context.CancelFunc
}

// once asks a question that is the same for every image on the ladder, and is
// asked once. It goes on while one of them waits; own ends the waiting of one, who
// then knows nothing of it.
func (l *ladder) once(ctx, own context.Context, name common, ask func(context.Context) pull.Step) (answer pull.Step, ok bool) {
	l.mu.Lock()
	q := l.asked[name]
	if q == nil {
		asking, stop := context.WithCancel(ctx)
		q = &question{answered: make(chan struct{}), stop: stop}
		if l.asked == nil {
			l.asked = map[common]*question{}
		}
		l.asked[name] = q
		go func() {
			defer close(q.answered)
			defer stop()
			q.answer = ask(asking)
		}()
	}
	q.waiting++
	l.mu.Unlock()
	select {
	case <-q.answered:
		return q.answer, true
	case <-own.Done():
	}
	l.mu.Lock()
	q.waiting--
	last := q.waiting == 0
	if last { // nobody is left to see it end; who comes later asks anew
		delete(l.asked, name)
	}
	l.mu.Unlock()
	if last {
		q.stop()
		<-q.answered
	}
	return pull.Step{}, false
}

// tlsSettings are those of the registry's own host entry: token server and blob
// hosts get the same, as in the runtimes.
type tlsSettings struct {
	ca         []byte               // PEM that is trusted beside the node's roots
	pairs      []tlsauth.ClientPair // client certificates
	skipVerify bool
	by         string // what says so
	key        string // equal for equal settings
}

// settings are those that hold for t.
func (s *source) settings(t target) *tlsSettings {
	if t.ownRoots {
		none := tlsSettingsOf(noderuntime.Source{})
		return &none
	}
	return &s.tls
}

func tlsSettingsOf(c noderuntime.Source) tlsSettings {
	s := tlsSettings{skipVerify: c.SkipVerify}
	if len(c.CA) > 0 {
		s.ca = bytes.Join(c.CA, []byte("\n"))
	}
	if s.skipVerify || s.ca != nil {
		s.by = c.File
	}
	h := sha256.New()
	fmt.Fprintf(h, "%t %q %q", s.skipVerify, s.by, s.ca)
	for i := range c.Certificates {
		s.pairs = append(s.pairs, tlsauth.ClientPair{Parsed: &c.Certificates[i], Source: c.File})
		fmt.Fprintf(h, " %x", c.Certificates[i].Certificate)
	}
	s.key = string(h.Sum(nil))
	return s
}
