package tlsauth

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// maxSeen bounds what is remembered: a pull touches a handful of hosts.
const maxSeen = 256

// Seen remembers, over several checks, what the endpoints of a pull presented:
// the CA certificates that one of them sends and another forgot, who signs for
// whom, and what the clocks of verified hosts say. Checks that share a Seen also
// share a bound on how many chains are verified at once. The zero Seen is empty and
// ready; it may be used by several goroutines at once. It holds no secret.
type Seen struct {
	mu     sync.Mutex
	cas    []sentCA
	leaves []signedHost
	skew   time.Duration
	timed  string // the verified host whose clock gave skew, "" = none

	places chan struct{} // of those who build chains, made at the first use
}

// maxBuilders bounds how many chains are built at once. Nothing can interrupt
// crypto/x509 in it, so that this is also what may run on after the end of a check.
const maxBuilders = 4

// enter takes a place among those who build chains, and waits for one until ctx
// ends. leave gives it back.
func (s *Seen) enter(ctx context.Context) (leave func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	s.mu.Lock()
	if s.places == nil {
		s.places = make(chan struct{}, maxBuilders)
	}
	places := s.places
	s.mu.Unlock()
	leave = func() { <-places }
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case places <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type sentCA struct {
	cert *x509.Certificate
	host string
}

type signedHost struct {
	host   string
	issuer []byte // RawIssuer
}

// chain remembers what host sent.
func (s *Seen) chain(host string, certs []*x509.Certificate) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, cert := range certs {
		if i == 0 {
			h := signedHost{host, cert.RawIssuer}
			known := slices.ContainsFunc(s.leaves, func(o signedHost) bool { return o.host == h.host && bytes.Equal(o.issuer, h.issuer) })
			if !known && len(s.leaves) < maxSeen {
				s.leaves = append(s.leaves, h)
			}
			continue
		}
		if known := slices.ContainsFunc(s.cas, func(c sentCA) bool { return c.cert.Equal(cert) }); !known && cert.IsCA && len(s.cas) < maxSeen {
			s.cas = append(s.cas, sentCA{cert, host})
		}
	}
}

// authorities returns the CA certificates that other hosts sent.
func (s *Seen) authorities() []sentCA {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cas)
}

// unrelated returns a host of another owner for which the same issuer signed, ""
// if none was seen. Owners are told apart by the last two labels of the name.
func (s *Seen) unrelated(host string, issuer []byte) string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leaves {
		if bytes.Equal(l.issuer, issuer) && owner(l.host) != owner(host) {
			return l.host
		}
	}
	return ""
}

// Clock remembers how far the node's clock is behind that of a host (negative:
// ahead), as the Date field of an answer showed. It must have come over verified
// TLS: by it, certificates that are out of their dates are judged again.
func (s *Seen) Clock(host string, skew time.Duration) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.skew, s.timed = skew, host
}

// Date is Clock with the header of an answer that came at now; a header without a
// date that makes sense tells nothing.
func (s *Seen) Date(host string, header http.Header, now time.Time) {
	if skew, ok := skewOf(header, now); ok {
		s.Clock(host, skew)
	}
}

func (s *Seen) clockOf() (skew time.Duration, host string) {
	if s == nil {
		return 0, ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.skew, s.timed
}

// maxSkew is what clocks may differ by before it is said: certificates, tokens
// and signed URLs usually forgive a minute.
const maxSkew = time.Minute

// skewOf is how far the clock that says now is behind the Date of an answer.
func skewOf(h http.Header, now time.Time) (time.Duration, bool) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil || date.Year() < 2000 || date.Year() > 2200 {
		return 0, false
	}
	return date.Sub(now), true
}

func skewed(behind time.Duration) string {
	word := "behind"
	if behind < 0 {
		word = "ahead of"
	}
	return fmt.Sprintf("%v %s", behind.Abs().Round(time.Second), word)
}
