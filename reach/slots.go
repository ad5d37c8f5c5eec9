package reach

import (
	"context"
	"sync"
)

// slots bounds how many traces of one Checker run at once.
type slots struct {
	once sync.Once
	free chan struct{}
}

// take waits for a slot; false means that ctx ended first.
func (s *slots) take(ctx context.Context) bool {
	s.once.Do(func() { s.free = make(chan struct{}, maxTraces) })
	select {
	case s.free <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *slots) give() { <-s.free }
