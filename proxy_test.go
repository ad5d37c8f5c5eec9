package pullwalk_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// proxy is a forward proxy: CONNECT to a name that it looks up itself.
type proxy struct {
	kind string // works, refuses, login

	mu    sync.Mutex
	asked []string // the targets
	wg    sync.WaitGroup
	ctx   context.Context
}

// serveProxy starts a proxy of the world's network.
func serveProxy(w *world, at netip.AddrPort, kind string) *proxy {
	ctx, cancel := context.WithCancel(context.Background())
	p := &proxy{kind: kind, ctx: ctx}
	w.net.Nameservers(nameserverAddr)
	l := w.net.Listen(at)
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
	req, err := http.ReadRequest(bufio.NewReader(c))
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
	case req.Method != http.MethodConnect:
		refuse("405 Method Not Allowed")
		return
	case p.kind == "refuses":
		refuse("403 Forbidden")
		return
	case p.kind == "login" && req.Header.Get("Proxy-Authorization") != login:
		refuse("407 Proxy Authentication Required")
		return
	}
	up, err := w.net.Dialer().DialContext(p.ctx, "tcp", req.Host)
	if err != nil {
		refuse("502 Bad Gateway")
		return
	}
	defer up.Close()
	io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
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
