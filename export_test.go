package pullwalk

import (
	"sync"

	"github.com/pullwalk/pullwalk/internal/pull"
)

// Trace keeps what a diagnosis records and what it judges.
type Trace struct {
	mu       sync.Mutex
	Recorded func(pull.Step)
	Logs     []pull.Log // one for each image
}

// Watch makes a diagnosis with these options keep its trace.
func (t *Trace) Watch(o *Options) {
	o.observed = func(s pull.Step) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.Recorded(s)
	}
	o.judging = func(log pull.Log) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.Logs = append(t.Logs, log)
	}
}
