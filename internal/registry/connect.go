package registry

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Connect asks the forward proxy at the other end of c for a tunnel to target
// (host:port) and returns the tunnel. proxy carries the user information to
// offer, if any; it is sent, and printed nowhere. limit bounds the wait for the
// answer; 0 = [DefaultHeader]. On failure c is closed and the error is a
// [*classify.StageError] of [classify.StageProxyConnect], for an answer other
// than 200 (net/http, and with it the runtimes, takes no other) a
// [*classify.HTTPAnswer], or the cause of the end of ctx.
func Connect(ctx context.Context, c net.Conn, proxy *url.URL, target, agent string, limit time.Duration) (net.Conn, error) {
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: target, Host: target}, Host: target,
		Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if agent != "" {
		req.Header.Set("User-Agent", agent)
	}
	if u := proxy.User; u != nil {
		password, _ := u.Password()
		req.Header.Set("Proxy-Authorization", Credential{Username: u.Username(), Password: password}.Basic())
	}
	p := &Pool{Header: limit, Idle: limit}
	w := newConn(c)
	resp, err := w.roundTrip(req.WithContext(ctx), p)
	if err != nil {
		var stage *classify.StageError
		if errors.As(err, &stage) {
			stage.Stage, stage.Endpoint = classify.StageProxyConnect, proxy.Host
		}
		return nil, err
	}
	b := resp.Body.(*body)
	b.keep = false // p ends here: a kept connection would never be closed
	if resp.StatusCode != http.StatusOK {
		answer := ReadAnswer(resp, classify.OperationUnknown)
		answer.Host, answer.Answerer, answer.URL = proxy.Host, AnswererProxy, target
		return nil, answer
	}
	if !b.stop() {
		w.drop()
		return nil, context.Cause(ctx)
	}
	_ = c.SetDeadline(time.Time{})
	if w.br.Buffered() > 0 { // the client speaks first in TLS: nothing may be waiting
		w.drop()
		return nil, &classify.StageError{Stage: classify.StageProxyConnect, Endpoint: proxy.Host, Err: ErrMalformed}
	}
	return c, nil
}
