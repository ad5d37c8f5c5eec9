package probe

import (
	"context"

	"github.com/pullwalk/pullwalk/internal/pull"
)

// question is one that several pulls have in common.
type question struct {
	answered chan struct{}
	answer   pull.Step
	waiting  int // who still wants the answer
	stop     context.CancelFunc
}

// Once asks a question that is the same for all who give the same name, and is asked once.
// It goes on while one of them waits; own ends the waiting of one, who then knows nothing
// of the answer.
func (p *Probe) Once(ctx, own context.Context, name any, ask func(context.Context) pull.Step) (answer pull.Step, ok bool) {
	p.mu.Lock()
	q := p.asked[name]
	if q == nil {
		asking, stop := context.WithCancel(ctx)
		q = &question{answered: make(chan struct{}), stop: stop}
		if p.asked == nil {
			p.asked = map[any]*question{}
		}
		p.asked[name] = q
		go func() {
			defer close(q.answered)
			defer stop()
			q.answer = ask(asking)
		}()
	}
	q.waiting++
	p.mu.Unlock()
	select {
	case <-q.answered:
		return q.answer, true
	case <-own.Done():
	}
	p.mu.Lock()
	q.waiting--
	last := q.waiting == 0
	if last { // nobody is left to see it end; who comes later asks anew
		delete(p.asked, name)
	}
	p.mu.Unlock()
	if last {
		q.stop()
		<-q.answered
	}
	return pull.Step{}, false
}
