package reach

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/pullwalk/pullwalk/classify"
)

// maxTargets bounds one CheckAll: a name has a handful of addresses.
const maxTargets = 256

// Addresses is what was seen of several addresses of one name.
type Addresses struct {
	// Reports are in the order of the targets.
	Reports []*Report `json:"reports"`
}

// Held returns how many of the addresses held.
func (a *Addresses) Held() int {
	n := 0
	for _, r := range a.Reports {
		if r.Held() {
			n++
		}
	}
	return n
}

// Findings returns those of all addresses, in their order. The addresses of one
// name stand for each other, so as soon as one of them holds, what is wrong with
// the others is a warning: clients that try one address only, or in turn, meet
// it now and then.
func (a *Addresses) Findings() []classify.Finding {
	var all []classify.Finding
	held := a.Held()
	for _, r := range a.Reports {
		for _, f := range r.Findings() {
			if held > 0 && f.Severity == classify.SeverityFail {
				f.Severity = classify.SeverityWarn
				f.Summary += fmt.Sprintf(" (%d of %d addresses hold)", held, len(a.Reports))
			}
			all = append(all, f)
		}
	}
	return all
}

// CheckAll does Check for every target on its own, all at once. An error means
// that a target is no TCP destination, stands there twice, or that there are
// none or more than 256 of them.
func (c *Checker) CheckAll(ctx context.Context, targets ...netip.AddrPort) (*Addresses, error) {
	switch {
	case len(targets) == 0:
		return nil, errors.New("reach: no target")
	case len(targets) > maxTargets:
		return nil, fmt.Errorf("reach: %d targets, at most %d are checked at once", len(targets), maxTargets)
	}
	clean := make([]netip.AddrPort, len(targets))
	for i, target := range targets {
		own, err := cleanTarget(target)
		if err != nil {
			return nil, err
		}
		if slices.Contains(clean[:i], own) {
			return nil, fmt.Errorf("reach: target %v stands there twice", own)
		}
		clean[i] = own
	}
	all := &Addresses{Reports: make([]*Report, len(clean))}
	at := here()
	var wg sync.WaitGroup
	for i, target := range clean {
		wg.Go(func() {
			// The targets are clean, so nothing here returns an error.
			_ = inNamespace(at.path(), func() error {
				all.Reports[i], _ = c.Check(ctx, target)
				return nil
			})
			if all.Reports[i] == nil { // the caller's thread has left its namespace meanwhile
				all.Reports[i] = &Report{Target: target, Inconclusive: "the caller's network namespace is gone"}
			}
		})
	}
	wg.Wait()
	return all, nil
}
