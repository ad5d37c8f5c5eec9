package notify

import (
	"net/netip"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/pull"
)

// Progress tells what is going on inside of a step that runs, as of pullwalk.
type Progress struct {
	Step        pull.StepID
	Endpoint    string
	Addr        netip.Addr
	Subject     string
	Layer       classify.Layer
	Silent      time.Duration
	Bytes, Rate int64
}

// When silence and rates are reported.
const (
	SilentAfter = 3 * time.Second // well before the five seconds in which a silent hop must be named
	silentAgain = 5 * time.Second
	rateEvery   = time.Second
)

// Watch tells OnProgress when a step hears nothing, and how a download goes.
type Watch struct {
	n     *Notifier
	what  Progress
	timer *time.Timer

	mu     sync.Mutex
	start  time.Time
	last   time.Time // when something was heard
	told   time.Time // when bytes were last reported
	bytes  int64
	closed bool
}

// Watch begins to watch a step.
func (n *Notifier) Watch(what Progress) *Watch {
	now := time.Now()
	w := &Watch{n: n, what: what, start: now, last: now, told: now}
	if n.onProgress != nil {
		w.mu.Lock()
		w.timer = time.AfterFunc(SilentAfter, w.tick)
		w.mu.Unlock()
	}
	return w
}

func (w *Watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	silent := time.Since(w.last)
	if silent < SilentAfter {
		w.timer.Reset(SilentAfter - silent)
		return
	}
	p := w.what
	p.Silent, p.Bytes = silent, w.bytes
	w.n.progress(p)
	w.timer.Reset(silentAgain)
}

// Heard counts n bytes that arrived.
func (w *Watch) Heard(n int64) {
	if w.n.onProgress == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.bytes += n
	w.last = now
	if now.Sub(w.told) < rateEvery {
		return
	}
	w.told = now
	p := w.what
	p.Bytes = w.bytes
	p.Rate = int64(float64(w.bytes) / max(now.Sub(w.start).Seconds(), 0.001))
	w.n.progress(p)
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
