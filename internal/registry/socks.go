package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Bytes of RFC 1928 (SOCKS 5) and RFC 1929 (user name and password).
const (
	socksVersion   = 5
	socksConnect   = 1
	socksNoAuth    = 0
	socksPassword  = 2
	socksNoMethod  = 0xff
	socksIPv4      = 1
	socksName      = 3
	socksIPv6      = 4
	socksSucceeded = 0
	loginVersion   = 1
)

// socksReplies are the words of RFC 1928, section 6, by reply code.
var socksReplies = [...]string{
	1: "general failure", 2: "not allowed by its rules", 3: "network unreachable", 4: "host unreachable",
	5: "connection refused", 6: "TTL expired", 7: "command not supported", 8: "address type not supported",
}

// SOCKS asks the SOCKS 5 proxy at the other end of c for a connection to target
// (host:port), in the exchange of net/http, and returns it. It is written here because
// golang.org/x/net/proxy gives a refusal as a sentence only. The user information of proxy
// is offered to it in the clear, as the protocol knows no other way; it is printed nowhere.
// limit bounds the whole exchange; 0 = [DefaultHeader]. On failure c is closed and the
// error is a [classify.Finding] for a refusal, a [*classify.StageError] of
// [classify.StageProxyConnect], or the cause of the end of ctx.
func SOCKS(ctx context.Context, c net.Conn, proxy *url.URL, target string, limit time.Duration) (net.Conn, error) {
	limit = orDefault(limit, DefaultHeader)
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	err := c.SetDeadline(time.Now().Add(limit))
	if err == nil {
		err = (&socks{c, proxy, target}).open()
	}
	if !stop() {
		_ = c.Close()
		return nil, context.Cause(ctx)
	}
	if err == nil {
		return c, c.SetDeadline(time.Time{})
	}
	_ = c.Close()
	var refused classify.Finding
	if errors.As(err, &refused) {
		return nil, refused
	}
	stage := &classify.StageError{Stage: classify.StageProxyConnect, Endpoint: proxy.Host, Err: err}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		stage.Limit = limit
	}
	return nil, stage
}

// socks is one exchange.
type socks struct {
	net.Conn
	proxy  *url.URL
	target string
}

func (s *socks) open() error {
	host, p, err := net.SplitHostPort(s.target)
	if err != nil {
		return err
	}
	port, err := strconv.ParseUint(p, 10, 16)
	if err != nil {
		return err
	}
	if err := s.greet(); err != nil {
		return err
	}
	ask := []byte{socksVersion, socksConnect, 0}
	if addr, err := netip.ParseAddr(host); err == nil {
		kind := byte(socksIPv6)
		if addr = addr.Unmap().WithZone(""); addr.Is4() {
			kind = socksIPv4
		}
		ask = append(append(ask, kind), addr.AsSlice()...)
	} else {
		if len(host) > 255 {
			return fmt.Errorf("the name of the target has %d bytes, more than SOCKS can carry", len(host))
		}
		ask = append(append(ask, socksName, byte(len(host))), host...)
	}
	if _, err := s.Write(append(ask, byte(port>>8), byte(port))); err != nil {
		return err
	}
	return s.reply()
}

// greet agrees on a method, and logs in where the proxy asks for that.
func (s *socks) greet() error {
	methods := []byte{socksVersion, 1, socksNoAuth}
	if s.proxy.User != nil {
		methods = []byte{socksVersion, 2, socksNoAuth, socksPassword}
	}
	chosen, err := s.exchange(methods, 2)
	switch {
	case err != nil:
		return err
	case chosen[0] != socksVersion:
		return fmt.Errorf("%w: no SOCKS 5", ErrMalformed)
	case chosen[1] == socksNoAuth:
		return nil
	case chosen[1] == socksNoMethod:
		return s.refused(classify.EndpointProxyAuthRequired, "takes none of the ways to log in that it was offered")
	case chosen[1] != socksPassword || s.proxy.User == nil:
		return fmt.Errorf("%w: a method that was not offered", ErrMalformed)
	}
	user := s.proxy.User.Username()
	password, _ := s.proxy.User.Password()
	if user == "" || len(user) > 255 || len(password) > 255 {
		return s.refused(classify.EndpointProxyAuthRequired, "wants a user name and a password of 255 bytes at most, which the setting does not have")
	}
	login := append([]byte{loginVersion, byte(len(user))}, user...)
	login = append(append(login, byte(len(password))), password...)
	answer, err := s.exchange(login, 2)
	switch {
	case err != nil:
		return err
	case answer[0] != loginVersion:
		return fmt.Errorf("%w: no answer to a login", ErrMalformed)
	case answer[1] != socksSucceeded:
		return s.refused(classify.EndpointProxyAuthRequired, "does not accept user name and password")
	}
	return nil
}

// reply reads whether the proxy connected, and passes over the address that it bound.
func (s *socks) reply() error {
	head, err := s.exchange(nil, 4)
	switch {
	case err != nil:
		return err
	case head[0] != socksVersion:
		return fmt.Errorf("%w: no SOCKS 5", ErrMalformed)
	case head[1] != socksSucceeded:
		why := "code " + strconv.Itoa(int(head[1]))
		if int(head[1]) < len(socksReplies) {
			why = socksReplies[head[1]]
		}
		return s.refused(classify.EndpointProxyRefusedConnect, "does not connect: "+why)
	}
	rest := 0
	switch head[3] {
	case socksIPv4:
		rest = 4
	case socksIPv6:
		rest = 16
	case socksName:
		n, err := s.exchange(nil, 1)
		if err != nil {
			return err
		}
		rest = int(n[0])
	default:
		return fmt.Errorf("%w: address type %d", ErrMalformed, head[3])
	}
	_, err = s.exchange(nil, rest+2) // the port
	return err
}

// exchange writes ask, if there is one, and reads exactly n bytes: what follows belongs to
// the target.
func (s *socks) exchange(ask []byte, n int) ([]byte, error) {
	if len(ask) > 0 {
		if _, err := s.Write(ask); err != nil {
			return nil, err
		}
	}
	answer := make([]byte, n)
	_, err := io.ReadFull(s, answer)
	return answer, err
}

func (s *socks) refused(c classify.Cause, what string) classify.Finding {
	f := classify.New(c, fmt.Sprintf("the SOCKS proxy %s, asked for %s, %s", s.proxy.Host, s.target, what),
		classify.Fact{Key: classify.FactProxy, Value: s.proxy.Host})
	f.Endpoint = s.proxy.Host
	return f
}
