package pullwalk

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/pullwalk/pullwalk/endpoints"
)

// hintGrace is how long the ladders of hints are waited for when the pull has come
// to its end without them.
const hintGrace = time.Second

var errNotTouched = errors.New("the pull came to its end without this host")

// hints starts the ladders of the hosts that pulls from this registry are known to
// touch, up to tls: one run then shows all closed doors, also where identity stops
// the walk. The returned function is for the end of the walk.
func (s *source) hints(ctx context.Context, base *url.URL) (done func()) {
	provider, hints := endpoints.Known(base.Hostname())
	ctx, cancel := context.WithCancelCause(ctx)
	for _, h := range hints {
		if h.Concrete() {
			s.endpoint(ctx, target{scheme: "https", host: h.Host, port: 443, role: h.Role, foundBy: "what is known of " + provider, hint: true, known: true})
		}
	}
	return func() {
		if s.sawAll() {
			time.AfterFunc(hintGrace, func() { cancel(errNotTouched) })
		}
	}
}
