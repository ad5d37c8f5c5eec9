//go:build !linux

package reach

import "context"

// run is never reached: Checker.Trace says first that it cannot look.
func (t *Trace) run(context.Context, string) {
	t.Inconclusive = "no trace on this system"
}
