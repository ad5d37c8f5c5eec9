package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/pullwalk/pullwalk/internal/lab"
)

// settings are what the command line of serve says.
type settings struct {
	registry, token, blobs string
	dns, publicDNS         string
	app, out               string
}

func (s settings) serve() error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	layer, err := layerOf(s.app, "/app")
	if err != nil {
		return err
	}
	w, err := lab.New(lab.Options{Layers: [][]byte{layer}, Platforms: []string{"linux/" + runtime.GOARCH}})
	if err != nil {
		return err
	}
	defer w.Close()
	private := zone{}
	for ip, host := range map[string]*lab.Host{s.registry: w.Registry, s.token: w.Token, s.blobs: w.Blobs} {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "443"))
		if err != nil {
			return err
		}
		host.Serve(l) // w.Close closes it
		private[host.Name] = net.ParseIP(ip)
	}
	for ip, names := range map[string]zone{s.dns: private, s.publicDNS: {}} {
		if err := names.serve(ip); err != nil {
			return err
		}
	}
	for _, file := range []struct {
		name    string
		content []byte
		mode    os.FileMode
	}{
		{"ca.crt", w.AuthorityPEM(), 0o644},
		{"pullsecret.json", w.DockerConfig(), 0o600},
		{"image", []byte(w.Image()), 0o644},
	} {
		if err := os.WriteFile(filepath.Join(s.out, file.name), file.content, file.mode); err != nil {
			return err
		}
	}
	<-stop
	if said := w.Violations(); said != nil {
		return errors.New("credentials came where they must not: " + strings.Join(said, "; "))
	}
	fmt.Printf("%d requests to the registry, %d to the token server, %d to the blob host\n",
		len(w.Registry.Requests()), len(w.Token.Requests()), len(w.Blobs.Requests()))
	return nil
}
