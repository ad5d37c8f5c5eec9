package engine

import (
	"context"
	"sync"
	"time"

	"github.com/pullwalk/pullwalk/internal/pull"
)

// notifier calls the caller's functions one after another, from one goroutine,
// so that a slow callback delays no step.
type notifier struct {
	onStep     func(pull.Step, string, string)
	onProgress func(Progress)

	mu     sync.Mutex
	queue  []func()
	wake   chan struct{} // capacity 1
	done   chan struct{}
	closed bool
	left   bool // nobody waits any more: what is queued is dropped
	// panicked is what a callback panicked with. It goes on in the goroutine of the
	// caller of Diagnose, who alone can recover from it.
	panicked any
}

func newNotifier(o *Options) *notifier {
	n := &notifier{onStep: o.OnStep, onProgress: o.OnProgress, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if o.OnStep == nil && o.OnProgress == nil {
		close(n.done)
		n.closed = true
		return n
	}
	go n.run()
	return n
}

func (n *notifier) step(s pull.Step, hostPort, image string) {
	if n.onStep != nil {
		n.push(func() { n.onStep(s, hostPort, image) })
	}
}

func (n *notifier) progress(p Progress) {
	if n.onProgress != nil {
		n.push(func() { n.onProgress(p) })
	}
}

func (n *notifier) push(call func()) {
	n.mu.Lock()
	if !n.closed {
		n.queue = append(n.queue, call)
	}
	n.mu.Unlock()
	n.signal()
}

func (n *notifier) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notifier) run() {
	defer close(n.done)
	for range n.wake {
		n.mu.Lock()
		calls, closed := n.queue, n.closed
		n.queue = nil
		n.mu.Unlock()
		for _, call := range calls {
			if n.isLeft() {
				return
			}
			if !n.call(call) {
				return
			}
		}
		if closed {
			return
		}
	}
}

// call reports false if the callback panicked; it is then the last.
func (n *notifier) call(f func()) (ok bool) {
	defer func() {
		if ok {
			return
		}
		v := recover() // nil after runtime.Goexit, as in a test that gave up
		n.mu.Lock()
		n.panicked, n.closed, n.queue = v, true, nil
		n.mu.Unlock()
	}()
	f()
	return true
}

func (n *notifier) isLeft() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

// finish lets what is queued be delivered. A callback that does not return is
// not waited for once ctx has ended; it is then the last.
func (n *notifier) finish(ctx context.Context) {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.signal()
	if _, ok := await(ctx, func() struct{} { <-n.done; return struct{}{} }); !ok {
		n.mu.Lock()
		n.left = true
		n.mu.Unlock()
	}
	n.mu.Lock()
	v := n.panicked
	n.mu.Unlock()
	if v != nil {
		panic(v)
	}
}

// How silence is told.
const (
	silentAfter = 3 * time.Second // well before the five seconds in which a silent hop must be named
	silentAgain = 5 * time.Second
	rateEvery   = time.Second
)

// watch tells OnProgress when a step hears nothing, and how a download goes.
type watch struct {
	n     *notifier
	what  Progress
	timer *time.Timer

	mu     sync.Mutex
	start  time.Time
	last   time.Time // when something was heard
	told   time.Time // when bytes were last reported
	bytes  int64
	closed bool
}

func (n *notifier) watch(what Progress) *watch {
	now := time.Now()
	w := &watch{n: n, what: what, start: now, last: now, told: now}
	if n.onProgress != nil {
		w.mu.Lock()
		w.timer = time.AfterFunc(silentAfter, w.tick)
		w.mu.Unlock()
	}
	return w
}

func (w *watch) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	silent := time.Since(w.last)
	if silent < silentAfter {
		w.timer.Reset(silentAfter - silent)
		return
	}
	p := w.what
	p.Silent, p.Bytes = silent, w.bytes
	w.n.progress(p)
	w.timer.Reset(silentAgain)
}

// heard counts n bytes that arrived.
func (w *watch) heard(n int64) {
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

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
