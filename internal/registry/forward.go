package registry

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/pullwalk/pullwalk/classify"
)

// Forward says whether net/http asks the proxy for target by the absolute form:
// plain http through anything but SOCKS. Everything else goes through a tunnel.
func Forward(proxy *url.URL, scheme string) bool { return scheme == "http" && !IsSOCKS(proxy) }

// write sends req, to a proxy in the absolute form and with the user information
// of its own setting. That goes over plain http where the proxy speaks it: the
// runtime sends the same there with each pull, it is the node's own setting for
// this one hop, and no server can ask for it.
func (p *Pool) write(req *http.Request, w io.Writer) error {
	if p.Proxy == nil {
		return req.Write(w)
	}
	if u := p.Proxy.User; u != nil {
		password, _ := u.Password()
		own := *req
		own.Header = req.Header.Clone()
		own.Header.Set("Proxy-Authorization", Credential{Username: u.Username(), Password: password}.Basic())
		req = &own
	}
	return req.WriteProxy(w)
}

// forwarded turns an answer that shows by itself that the proxy wrote it into the
// error that a refused CONNECT is. Others may be the proxy's as well; they do not
// show it.
func (p *Pool) forwarded(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode != http.StatusProxyAuthRequired && !proxysOwn(resp.Header) {
		return resp, nil
	}
	answer := ReadAnswer(resp, classify.OperationUnknown)
	answer.Host, answer.Answerer, answer.URL = p.Proxy.Host, AnswererProxy, resp.Request.URL.Host
	return nil, answer
}

// proxysOwn knows an error that a proxy made: by RFC 9209, section 2.1.2, or by the
// field that squid adds to its own pages.
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
