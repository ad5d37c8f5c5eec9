package tlsauth

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// SegmentDialer opens connections whose TCP segments, in both directions, are
// not larger than mss bytes. It answers an error where the system cannot.
type SegmentDialer interface {
	DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error)
}

// SegmentDialerFunc makes a function a [SegmentDialer].
type SegmentDialerFunc func(ctx context.Context, network, address string, mss int) (net.Conn, error)

// DialSegment calls f.
func (f SegmentDialerFunc) DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error) {
	return f(ctx, network, address, mss)
}

// The hello/MSS matrix.
const (
	// clampedMSS fits, with headers, through every path that IPv6 may use (1280
	// bytes, RFC 8200 section 5) and through tunnels within such a path.
	clampedMSS = 1000
	// matrixAfter is the silence after which an explanation is looked for, beside
	// the handshake that may still be answered.
	matrixAfter = time.Second
)

func (c *Checker) segments() SegmentDialer {
	if c.Segments != nil {
		return c.Segments
	}
	s, _ := c.dialer().(SegmentDialer)
	return s
}

// clamp repeats the handshakes with small segments, all at once.
func (l *look) clamp(ctx context.Context) []*shake {
	dialer := l.c.segments()
	if dialer == nil {
		return nil
	}
	small := DialerFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialSegment(ctx, network, address, clampedMSS)
	})
	shakes := make([]*shake, len(l.hellos))
	done := make(chan struct{}, len(shakes))
	for i, h := range l.hellos {
		s := &shake{hello: h, mss: clampedMSS}
		shakes[i] = s
		go func() {
			defer func() { done <- struct{}{} }()
			raw, err := l.connectBy(ctx, small)
			if err != nil {
				s.dialErr = err
				return
			}
			s.run(ctx, l, raw)
		}()
	}
	for range shakes {
		<-done
	}
	for _, s := range shakes {
		if s.conn != nil {
			hangUp(s.conn)
		}
	}
	return shakes
}

// path says that a silent handshake is the path's fault: nil unless the same
// hello completes when the segments are clamped. classical is the handshake of the
// small hello with the path's own segments, nil unless it completed; it tells
// which way the large packets are lost.
//
//	hello, segments   large, own   classical, own   large, clamped   meaning
//	                  silent       done             done             lost on the way to the server, if the
//	                                                                 chain came in segments of full size:
//	                                                                 the answer to a large hello is large too
//	                  silent       done             silent           a middlebox that takes no split hello
//	                  silent       silent           done             lost on the way to the node
//	                  silent       silent           silent           not a matter of size
func (l *look) path(s, classical *shake) *classify.Finding {
	for _, c := range l.clamped {
		if c.hello != s.hello || !c.done() {
			continue
		}
		way := "from the server to this node"
		switch {
		case classical == nil || s.hello != HelloLarge:
		case classical.chainSize() >= fullSegment:
			way = "from this node to the server"
		default:
			way = "on the way there or back"
		}
		f := l.found(classify.RouteMTUBlackHole, fmt.Sprintf(
			"the TLS handshake got no answer within %v, and completed at once with segments of %d bytes: larger packets are lost %s, and no message says so", l.c.limit(), c.mss, way), s,
			classify.Fact{Key: classify.FactLimit, Value: l.c.limit().String()}, classify.Fact{Key: classify.FactSize, Value: fmt.Sprint(c.mss)})
		return &f
	}
	return nil
}

// fullSegment is the size of a segment on an ordinary path of IPv4.
const fullSegment = 1460

// chainSize is how many bytes of certificates came.
func (s *shake) chainSize() int {
	n := 0
	for _, c := range s.state.PeerCertificates {
		n += len(c.Raw)
	}
	return n
}

// SystemDialer opens connections as [net.Dialer] does, and is a [SegmentDialer]
// where the system is Linux, macOS or FreeBSD. The zero SystemDialer works; it is
// the default.
type SystemDialer struct{}

// DialContext dials.
func (SystemDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

// DialSegment dials with segments of at most mss bytes, both ways.
func (SystemDialer) DialSegment(ctx context.Context, network, address string, mss int) (net.Conn, error) {
	return (&net.Dialer{ControlContext: clampTo(mss)}).DialContext(ctx, network, address)
}
