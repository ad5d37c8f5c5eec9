// Command ours downloads an image with this module, every digest checked and
// nothing written, and prints one line of what it proved. With -nohash it sends
// the same requests over the same connections and looks at no byte.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"

	"github.com/pullwalk/pullwalk/endpoints"
	"github.com/pullwalk/pullwalk/internal/registry"
)

func main() {
	image := flag.String("image", "", "image on a loopback registry")
	ca := flag.String("ca", "", "PEM file with the registry's root; empty = plain http")
	nohash := flag.Bool("nohash", false, "read the bytes and nothing else")
	flag.Parse()
	var roots *x509.CertPool
	if *ca != "" {
		pem, err := os.ReadFile(*ca)
		check(err)
		roots = x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
	}
	c := &endpoints.Checker{Roots: roots, Complete: !*nohash}
	m, err := c.Check(context.Background(), *image)
	check(err)
	if *nohash {
		raw(m, roots)
		return
	}
	if !m.Complete {
		check(fmt.Errorf("not complete: %s %v", m.Inconclusive, m.Findings()))
	}
	fmt.Printf("complete, %d layers, %d bytes, %s\n", m.Layers, m.Bytes, m.Digest)
}

// raw reads the blobs of an image that was looked at already.
func raw(m *endpoints.Map, roots *x509.CertPool) {
	var urls []string
	for _, r := range m.Requests {
		if r.Role == endpoints.RoleBlob {
			urls = append(urls, r.URL)
		}
	}
	u, err := url.Parse(urls[0])
	check(err)
	pool := &registry.Pool{Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
		if err != nil || u.Scheme != "https" {
			return conn, err
		}
		return tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: u.Hostname()}), nil
	}}
	defer pool.Close()
	work := make(chan string)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var total int64
	for range 3 {
		wg.Go(func() {
			buf := make([]byte, 128<<10)
			for raw := range work {
				req, err := http.NewRequest(http.MethodGet, raw, nil)
				check(err)
				resp, err := pool.RoundTrip(req)
				check(err)
				n, err := io.CopyBuffer(discard{}, resp.Body, buf)
				check(err)
				mu.Lock()
				total += n
				mu.Unlock()
			}
		})
	}
	for _, raw := range urls {
		work <- raw
	}
	close(work)
	wg.Wait()
	fmt.Printf("read %d bytes, none checked\n", total)
}

// discard keeps io.CopyBuffer from finding a way around the buffer.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
