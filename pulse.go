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
	mu     sync.Mutex
	due    time.Time
	stalls []stall // each shorter than the one before: an earlier, shorter one decides nothing
}

// stall is one such delay.
type stall struct {
	end  time.Time
	lost time.Duration
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
			p.came(time.Now())
		}
	}
}

// came keeps what was lost until now.
func (p *pulse) came(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	late := stall{now, now.Sub(p.due)}
	for n := len(p.stalls); n > 0 && p.stalls[n-1].lost <= late.lost; n-- {
		p.stalls = p.stalls[:n-1]
	}
	p.stalls = append(p.stalls, late)
}

// lost returns the longest delay that lasted beyond a moment, one that still lasts
// included. What was lost before a step began says nothing of it.
func (p *pulse) lost(since time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst time.Duration
	if !p.due.IsZero() {
		worst = max(0, time.Since(p.due))
	}
	for _, s := range p.stalls {
		if s.end.After(since) {
			return max(worst, s.lost)
		}
	}
	return worst
}
