package pullwalk_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/pullwalk/pullwalk/internal/lab"
)

// proxy is a forward proxy of one kind, which looks names up itself. Over HTTP it
// takes CONNECT and, for plain http, requests in the absolute form.
type proxy struct {
	kind  string // works, refuses, login
	socks bool

	mu    sync.Mutex
	asked []string // the targets
	wg    sync.WaitGroup
	ctx   context.Context
}

// serveProxy starts a proxy of the world's network. over is how it is spoken to:
// "" for HTTP, "tls" for HTTP in TLS, "socks".
func serveProxy(w *world, at netip.AddrPort, kind, over string) *proxy {
	ctx, cancel := context.WithCancel(context.Background())
	p := &proxy{kind: kind, socks: over == "socks", ctx: ctx}
	w.net.Nameservers(nameserverAddr)
	l := w.net.Listen(at)
	if over == "tls" {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{w.lab.Certificate("proxy.corp.test")}})
	}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(w, c) })
		}
	})
	w.closers = append(w.closers, func() { cancel(); l.Close(); w.net.Close(); p.wg.Wait() })
	return p
}

func (p *proxy) targets() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

func (p *proxy) serve(w *world, c net.Conn) {
	defer c.Close()
	if p.socks {
		p.serveSOCKS(w, c)
		return
	}
	br := bufio.NewReader(c)
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, req.Host)
	p.mu.Unlock()
	refuse := func(status string) {
		io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Type: text/html\r\nContent-Length: 31\r\n\r\n<title>Corp web gateway</title>")
	}
	login := "Basic " + base64.StdEncoding.EncodeToString([]byte("node:"+proxyPassword))
	switch {
	case p.kind == "refuses":
		refuse("403 Forbidden")
		return
	case p.kind == "login" && req.Header.Get("Proxy-Authorization") != login:
		refuse("407 Proxy Authentication Required")
		return
	}
	if req.Method != http.MethodConnect {
		for err == nil && p.forward(w, c, req) {
			req, err = http.ReadRequest(br)
		}
		return
	}
	up, err := w.net.Dialer().DialContext(p.ctx, "tcp", req.Host)
	if err != nil {
		refuse("502 Bad Gateway")
		return
	}
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	defer up.Close()
	var both sync.WaitGroup
	pipe := func(to, from net.Conn) {
		io.Copy(to, from)
		to.Close()
		from.Close()
	}
	both.Go(func() { pipe(up, c) })
	both.Go(func() { pipe(c, up) })
	both.Wait()
}

// forward asks the server for one request in the absolute form, and reports whether
// the connection can take another.
func (p *proxy) forward(w *world, c net.Conn, req *http.Request) bool {
	req.Header.Del("Proxy-Authorization")
	transport := &http.Transport{DialContext: w.net.Dialer().DialContext, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req.WithContext(p.ctx))
	if err != nil {
		io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nProxy-Status: proxy.corp.test; error=destination_unavailable\r\nContent-Length: 0\r\n\r\n")
		return true
	}
	defer resp.Body.Close()
	resp.Close = false
	resp.Header.Del("Connection")
	return resp.Write(c) == nil
}

// serveSOCKS notes what is asked for, too.
func (p *proxy) serveSOCKS(w *world, c net.Conn) {
	server := lab.SOCKS{Dial: func(ctx context.Context, target string) (net.Conn, error) {
		p.mu.Lock()
		p.asked = append(p.asked, target)
		p.mu.Unlock()
		return w.net.Dialer().DialContext(ctx, "tcp", target)
	}}
	switch p.kind {
	case "refuses":
		server.Refuse = 2
	case "login":
		server.User, server.Password = "node", proxyPassword
	}
	server.Serve(p.ctx, c)
}
