package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/exchange"
)

// Limits of a review.
const (
	reviewLimit = 5 * time.Second
	maxReview   = 64 << 10 // bytes of the API server's answer
	maxReviews  = 4        // at the same time
	maxFile     = 1 << 20  // of the service account's authority
)

// accountDir is where Kubernetes puts the service account into a container.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// reviewer asks the API server whose a bearer token is (TokenReview,
// authentication.k8s.io/v1). The audience is this node's alone, so a token that one
// agent sees is of no use at another.
type reviewer struct {
	server   string   // host:port
	dir      string   // of the service account: token and ca.crt, read anew each time
	audience string   // that a token must be for
	users    []string // that may ask
	turns    chan struct{}
}

// newReviewer finds the API server as every pod does, by its environment.
func newReviewer(env func(string) string, dir, audience string, users []string) (*reviewer, error) {
	host, port := env("KUBERNETES_SERVICE_HOST"), env("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, errors.New("-token-users: want KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, got none")
	}
	return &reviewer{net.JoinHostPort(host, port), dir, audience, users, make(chan struct{}, maxReviews)}, nil
}

// errBusy is for a token that was not looked at, since others are.
var errBusy = errors.New("as many tokens are reviewed as this agent does at once")

// allows reports whether token is one of a user that may ask this node.
func (v *reviewer) allows(ctx context.Context, token string) (bool, error) {
	if len(token) < minToken || len(token) > maxToken {
		return false, nil // no token of a service account
	}
	select {
	case v.turns <- struct{}{}:
		defer func() { <-v.turns }()
	default:
		return false, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, reviewLimit)
	defer cancel()
	var review struct {
		Status struct {
			Authenticated bool
			Audiences     []string
			User          struct{ Username string }
		}
	}
	if err := v.post(ctx, token, &review); err != nil {
		return false, fmt.Errorf("the token review: %s", classify.Redact(err.Error(), 200))
	}
	s := review.Status
	// An API server that knows no audiences leaves them out: then nothing is allowed.
	return s.Authenticated && slices.Contains(s.Audiences, v.audience) && slices.Contains(v.users, s.User.Username), nil
}

func (v *reviewer) post(ctx context.Context, token string, answer any) error {
	own, err := readSmall(filepath.Join(v.dir, "token"), maxToken)
	if err != nil {
		return err
	}
	pem, err := readSmall(filepath.Join(v.dir, "ca.crt"), maxFile)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("no certificate in ca.crt")
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
		"spec": map[string]any{"token": token, "audiences": []string{v.audience}},
	})
	if err != nil {
		return err
	}
	where := url.URL{Scheme: "https", Host: v.server, Path: "/apis/authentication.k8s.io/v1/tokenreviews"}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "pullwalk-agent")
	req.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(own)))
	host, _, _ := net.SplitHostPort(v.server)
	return exchange.Do(ctx, &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12}, req, func(resp *http.Response) error {
		if resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the API server answers %d", resp.StatusCode)
		}
		raw, err := io.ReadAll(io.LimitReader(resp.Body, maxReview+1))
		if err != nil {
			return err
		}
		if len(raw) > maxReview {
			return fmt.Errorf("want an answer of at most %d bytes", maxReview)
		}
		return json.Unmarshal(raw, answer)
	})
}

// readSmall reads a file of at most limit bytes, whatever it says of its size.
func readSmall(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: want at most %d bytes", name, limit)
	}
	return data, err
}
