// Package notify tells a caller what happens while it waits: steps that end, silence, and
// bytes that arrive.
package notify

import (
	"context"
	"sync"

	"github.com/pullwalk/pullwalk/internal/pull"
)

// Notifier calls the caller's functions one after another, from one goroutine,
// so that a slow callback delays no step.
type Notifier struct {
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

// New returns a notifier that tells these functions; nil = nobody is told.
func New(onStep func(s pull.Step, hostPort, image string), onProgress func(Progress)) *Notifier {
	n := &Notifier{onStep: onStep, onProgress: onProgress, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if onStep == nil && onProgress == nil {
		close(n.done)
		n.closed = true
		return n
	}
	go n.run()
	return n
}

// Step tells of a step that ended.
func (n *Notifier) Step(s pull.Step, hostPort, image string) {
	if n.onStep != nil {
		n.push(func() { n.onStep(s, hostPort, image) })
	}
}

func (n *Notifier) progress(p Progress) {
	if n.onProgress != nil {
		n.push(func() { n.onProgress(p) })
	}
}

func (n *Notifier) push(call func()) {
	n.mu.Lock()
	if !n.closed {
		n.queue = append(n.queue, call)
	}
	n.mu.Unlock()
	n.signal()
}

func (n *Notifier) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *Notifier) run() {
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
func (n *Notifier) call(f func()) (ok bool) {
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

func (n *Notifier) isLeft() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

// Finish lets what is queued be delivered. A callback that does not return is
// not waited for once ctx has ended; it is then the last.
func (n *Notifier) Finish(ctx context.Context) {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.signal()
	if _, ok := Await(ctx, func() struct{} { <-n.done; return struct{}{} }); !ok {
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
