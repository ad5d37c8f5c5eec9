package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/pullwalk/pullwalk/internal/noderuntime"
	"github.com/pullwalk/pullwalk/internal/pull"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// atOnce is how many images of one group are walked at the same time. It bounds the
// burst that a registry sees, and not how many images there are: one that hangs holds up
// nobody who asks another.
const atOnce = 8

// group are the images for which the runtime asks the same registries, in the same way.
type group struct {
	images []int
	// seen is what their TLS checks learn from each other. Other groups' hosts are not
	// in their results, and so explain nothing there.
	seen tlsauth.Seen
}

// groups tells the images apart by whom they ask.
func (c *call) groups(all []configured) []*group {
	var out []*group
	byKey := map[string]*group{}
	for i, x := range all {
		key := keyOf(x.sources)
		if byKey[key] == nil {
			byKey[key] = &group{}
			out = append(out, byKey[key])
		}
		byKey[key].images = append(byKey[key].images, i)
		c.images[i].group = byKey[key]
	}
	return out
}

// keyOf is equal for images whose requests the same files shape: header fields may be
// secrets, and so are told apart by where they stand.
func keyOf(sources []noderuntime.Source) string {
	var key strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&key, "%s %x %q\n", s.Base, tlsSettingsOf(s).key, s.File)
	}
	return key.String()
}

// together runs every image. When ctx ends nobody waits for a turn any more: what is
// left says so at once.
func (c *call) together(ctx context.Context, all []configured, run func(i int)) {
	var wg sync.WaitGroup
	for _, g := range c.groups(all) {
		wg.Go(func() {
			turns := make(chan struct{}, atOnce)
			for _, i := range g.images {
				select {
				case turns <- struct{}{}:
					wg.Go(func() {
						run(i)
						<-turns
					})
				case <-ctx.Done():
					wg.Go(func() { run(i) })
				}
			}
		})
	}
	wg.Wait()
}

// common names a question that several images have in common: those of one group.
type common struct {
	group *group
	what  string
}

// question is such a request.
type question struct {
	answered chan struct{}
	answer   pull.Step
	waiting  int // who still wants the answer
	stop     context.CancelFunc
}

// once asks a question that is the same for every image of a group, and is asked once.
// It goes on while one of them waits; own ends the waiting of one, who then knows nothing
// of the answer.
func (p *probe) once(ctx, own context.Context, name common, ask func(context.Context) pull.Step) (answer pull.Step, ok bool) {
	p.mu.Lock()
	q := p.asked[name]
	if q == nil {
		asking, stop := context.WithCancel(ctx)
		q = &question{answered: make(chan struct{}), stop: stop}
		if p.asked == nil {
			p.asked = map[common]*question{}
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
