package tlsauth

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// clockLimit is for the question what time it is over there.
const clockLimit = 2 * time.Second

// askClock asks the server's time in clear, on the same port: servers answer an
// HTTP request to a TLS port with a 400, and most with a Date. Nothing is sent
// but the request line, and nobody vouches for the answer; it only helps to tell
// a wrong clock from a wrong certificate. behind is how far our clock is behind.
func (l *look) askClock(ctx context.Context) (behind time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, min(clockLimit, l.c.limit()))
	defer cancel()
	conn, err := l.connect(ctx)
	if err != nil {
		return 0, false
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\nHost: "+bare(l.name)+"\r\n\r\n"); err != nil {
		return 0, false
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(conn, 16<<10)), nil)
	if err != nil {
		return 0, false
	}
	_ = resp.Body.Close()
	return skewOf(resp.Header, l.c.now())
}

// excuse looks whether the clock explains that a certificate is out of its
// dates, and puts that first if it does.
func (l *look) excuse(ctx context.Context, rep *TLSReport, t *trial, problems []problem) []problem {
	behind, witness := l.seen.clockOf()
	certainty := classify.CertaintyProven // a verified host said so
	if witness == "" {
		var ok bool
		if behind, ok = l.askClock(ctx); !ok {
			return problems
		}
		witness, certainty = "this host, in clear", classify.CertaintyLikely
	}
	ms := behind.Milliseconds()
	rep.ClockSkewMS = &ms
	if behind.Abs() <= maxSkew {
		problems[0].summary += ", which agrees with the clock of " + witness
		return problems
	}
	says := fmt.Sprintf("this node's clock is %s the time that %s tells", skewed(behind), witness)
	if _, err := t.verify(t.name, t.now.Add(behind), serverUse); err != nil {
		problems[0].summary += "; " + says + ", but by that time the chain would not hold either"
		return problems
	}
	p := problem{
		cause: classify.TLSClockSkew, certainty: certainty, others: []classify.Cause{problems[0].cause},
		summary: says + ", by which the certificate is valid", facts: problems[0].facts, err: problems[0].err,
	}
	return append([]problem{p}, problems...)
}
