package probe

import (
	"context"
	"sync"
	"time"
)

// Stalls are times for which this process did not come to run what was due. On a
// machine without a CPU to spare, and in a virtual machine that was stopped, an
// answer that came in time is read late.
type Stalls struct {
	mu   sync.Mutex
	due  time.Time
	list []stall // each shorter than the one before: an earlier, shorter one decides nothing
}

// stall is one such delay.
type stall struct {
	end  time.Time
	lost time.Duration
}

const watchEvery = 100 * time.Millisecond

// Watch goes on until ctx ends.
func (m *Stalls) Watch(ctx context.Context) {
	timer := time.NewTimer(watchEvery)
	defer timer.Stop()
	for {
		m.mu.Lock()
		m.due = time.Now().Add(watchEvery)
		m.mu.Unlock()
		timer.Reset(watchEvery)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			m.came(time.Now())
		}
	}
}

// came keeps what was lost until now.
func (m *Stalls) came(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	late := stall{now, now.Sub(m.due)}
	for n := len(m.list); n > 0 && m.list[n-1].lost <= late.lost; n-- {
		m.list = m.list[:n-1]
	}
	m.list = append(m.list, late)
}

// longest returns the longest delay that lasted beyond a moment, one that still lasts
// included. What was lost before a step began says nothing of it.
func (m *Stalls) longest(since time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	var worst time.Duration
	if !m.due.IsZero() {
		worst = max(0, time.Since(m.due))
	}
	for _, s := range m.list {
		if s.end.After(since) {
			return max(worst, s.lost)
		}
	}
	return worst
}
