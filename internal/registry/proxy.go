package registry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// Forward reports whether net/http asks the proxy for target by the absolute form: plain
// http through anything but SOCKS. Everything else goes through a tunnel.
func Forward(proxy *url.URL, scheme string) bool { return scheme == "http" && !IsSOCKS(proxy) }

// Connect asks the forward proxy at the other end of c for a tunnel to target (host:port)
// and returns the tunnel. The user information of proxy is sent to it, and printed nowhere.
// limit bounds the wait for the answer; 0 = [DefaultHeader]. On failure c is closed and the
// error is a [*classify.StageError] of [classify.StageProxyConnect], for an answer other
// than 200 (net/http, and with it the runtimes, takes no other) a [*classify.HTTPAnswer],
// or the cause of the end of ctx.
func Connect(ctx context.Context, c net.Conn, proxy *url.URL, target, agent string, limit time.Duration) (net.Conn, error) {
	req := newRequest(ctx, http.MethodConnect, &url.URL{Opaque: target, Host: target}, "", agent)
	if login := proxyLogin(proxy); login != "" {
		req.Header.Set("Proxy-Authorization", login)
	}
	w := newConn(c)
	resp, err := w.roundTrip(req, &Pool{Header: limit, Idle: limit})
	if err != nil {
		var stage *classify.StageError
		if errors.As(err, &stage) {
			stage.Stage, stage.Endpoint = classify.StageProxyConnect, proxy.Host
		}
		return nil, err
	}
	b := resp.Body.(*body)
	b.keep = false // its pool ends here: a kept connection would never be closed
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

// proxyLogin returns the Proxy-Authorization of a proxy's own setting, "" if it has none.
func proxyLogin(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return Credential{Username: proxy.User.Username(), Password: password}.Basic()
}

// write sends req, to a proxy in the absolute form and with the user information of its own
// setting. That goes over plain http where the proxy speaks it: the runtime sends the same
// there with each pull, it is the node's own setting for this one hop, and no server can
// ask for it.
func (p *Pool) write(req *http.Request, w io.Writer) error {
	if p.Proxy == nil {
		return req.Write(w)
	}
	if login := proxyLogin(p.Proxy); login != "" {
		own := *req
		own.Header = req.Header.Clone()
		own.Header.Set("Proxy-Authorization", login)
		req = &own
	}
	return req.WriteProxy(w)
}

// forwarded turns an answer that shows by itself that the proxy wrote it into the error
// that a refused CONNECT is. Others may be the proxy's as well; they do not show it.
func (p *Pool) forwarded(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode != http.StatusProxyAuthRequired && !proxysOwn(resp.Header) {
		return resp, nil
	}
	answer := ReadAnswer(resp, classify.OperationUnknown)
	answer.Host, answer.Answerer, answer.URL = p.Proxy.Host, AnswererProxy, resp.Request.URL.Host
	return nil, answer
}

// proxysOwn knows an error that a proxy made: by RFC 9209, section 2.1.2, or by the field
// that squid adds to its own pages.
func proxysOwn(h http.Header) bool {
	if h.Get("X-Squid-Error") != "" {
		return true
	}
	for _, status := range h.Values("Proxy-Status") {
		for _, param := range strings.Split(status, ";")[1:] {
			if key, _, _ := strings.Cut(strings.TrimSpace(param), "="); key == "error" {
				return true
			}
		}
	}
	return false
}
