package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

const (
	minToken       = 32
	maxToken       = 4096
	maxConnections = 64 // most of them wait; what is answered at once is -concurrent
	maxOfAddress   = 16
)

// listening says where the agent answers, and to whom.
type listening struct {
	address           string
	port              int
	tokenFile         string
	certFile, keyFile string
	review            *reviewer // nil = no token is reviewed
}

// loopback reports whether only this machine can ask.
func (l listening) loopback() bool {
	addr, err := netip.ParseAddr(l.address)
	return err == nil && addr.Unmap().IsLoopback()
}

// open checks the files and listens. Whoever may ask makes this node send
// requests into its network, so beyond loopback nothing is answered without a
// token, and no token travels without TLS.
func (l listening) open() (net.Listener, error) {
	addr, err := netip.ParseAddr(l.address)
	if err != nil {
		return nil, fmt.Errorf("-address: %q is no IP address", l.address)
	}
	if l.port < 0 || l.port > 65535 {
		return nil, fmt.Errorf("-port: %d is no port", l.port)
	}
	if !l.loopback() && (l.tokenFile == "" && l.review == nil || l.certFile == "" || l.keyFile == "") {
		return nil, fmt.Errorf("%s is not loopback: -token-file or -token-users, -tls-cert and -tls-key are needed there", addr)
	}
	if l.tokenFile != "" {
		if _, err := l.token(); err != nil {
			return nil, err
		}
	}
	if (l.certFile == "") != (l.keyFile == "") {
		return nil, errors.New("-tls-cert and -tls-key go together")
	}
	if l.certFile != "" {
		if _, err := l.certificate(nil); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", netip.AddrPortFrom(addr, uint16(l.port)).String())
	if err != nil {
		return nil, err
	}
	listener = &door{Listener: listener, most: maxConnections, each: maxOfAddress}
	if l.certFile != "" {
		listener = tls.NewListener(listener, &tls.Config{GetCertificate: l.certificate, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}})
	}
	return listener, nil
}

// certificate is read for each connection, so that it can be renewed in place.
func (l listening) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := readSmall(l.certFile, maxFile)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	key, err := readSmall(l.keyFile, maxFile)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	return &pair, nil
}

// token is read for each request, so that it can be renewed in place.
func (l listening) token() ([]byte, error) {
	token, err := readSmall(l.tokenFile, maxToken+1)
	if err != nil && token == nil {
		return nil, fmt.Errorf("the token: %w", err)
	}
	if token = bytes.TrimSpace(token); len(token) < minToken || len(token) > maxToken {
		return nil, fmt.Errorf("the token: %s holds %d bytes, not %d to %d", l.tokenFile, len(token), minToken, maxToken)
	}
	return token, nil
}
