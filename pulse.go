package pullwalk

import (
	"context"
	"sync"
	"time"
)

// pulse measures for how long this process did not come to run what was due. On a
// machine without a CPU to spare, and in a virtual machine that was stopped, an
// answer that came in time is read late.
type pulse struct {
	mu    sync.Mutex
	due   time.Time
	worst time.Duration
}

const (
	pulseEvery = 100 * time.Millisecond
	// pulseShare of a limit is what may be lost before reaching it says nothing.
	pulseShare = 5
)

// beat goes on until ctx ends.
func (p *pulse) beat(ctx context.Context) {
	timer := time.NewTimer(pulseEvery)
	defer timer.Stop()
	for {
		p.mu.Lock()
		p.due = time.Now().Add(pulseEvery)
		p.mu.Unlock()
		timer.Reset(pulseEvery)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			p.lost()
		}
	}
}

// lost returns the longest delay so far, one that lasts included.
func (p *pulse) lost() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.due.IsZero() {
		p.worst = max(p.worst, time.Since(p.due))
	}
	return p.worst
}
