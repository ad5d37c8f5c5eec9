package notify

import (
	"context"
	"time"
)

// Grace is how long a seam may take to notice that its context ended.
const Grace = 100 * time.Millisecond

// Await runs f and waits for it. When ctx ends, f gets a short grace; after that
// it is left behind, which only code that ignores its context can bring about,
// and Await reports false.
func Await[T any](ctx context.Context, f func() T) (T, bool) {
	out := make(chan T, 1)
	go func() { out <- f() }()
	select {
	case v := <-out:
		return v, true
	case <-ctx.Done():
	}
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case v := <-out:
		return v, true
	case <-timer.C:
		var zero T
		return zero, false
	}
}
