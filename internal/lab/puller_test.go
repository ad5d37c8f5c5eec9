package lab_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// puller is an ordinary client of a world: net/http, its redirects included.
type puller struct {
	base           string // scheme and host of the registry
	user, password string
	tag            string
	post           bool // ask for the token by POST
	client         *http.Client
}

// answerError is an answer with a status that does not help.
type answerError struct {
	host   string
	status int
	body   string
}

func (e *answerError) Error() string { return fmt.Sprintf("%s: %d %s", e.host, e.status, e.body) }

var errDigest = errors.New("digest differs")

func newPuller(w *lab.World, dial func(context.Context, string, string) (net.Conn, error)) *puller {
	if dial == nil {
		dial = dialer(w)
	}
	return &puller{
		base: "https://" + w.Registry.Address(), user: lab.Username, password: lab.Password, tag: lab.Tag,
		client: &http.Client{Transport: &http.Transport{
			DialContext:       dial,
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{RootCAs: w.TrustedPool()},
		}},
	}
}

// dialer resolves names with the world's own nameserver.
func dialer(w *lab.World) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		answer, err := ask(ctx, w, "udp", host, "A")
		if err != nil {
			return nil, err
		}
		if answer.Truncated {
			if answer, err = ask(ctx, w, "tcp", host, "A"); err != nil {
				return nil, err
			}
		}
		if len(answer.Addresses) == 0 {
			return nil, &net.DNSError{Err: answer.RCode, Name: host}
		}
		return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(answer.Addresses[0].String(), port))
	}
}

func ask(ctx context.Context, w *lab.World, network, name, qtype string) (dnscheck.Answer, error) {
	return w.Exchanger().Exchange(ctx, netip.MustParseAddrPort("127.0.0.1:53"), network, dnscheck.Question{Name: name, Type: qtype})
}

// pull does the whole pull of all platforms and checks every digest.
func (p *puller) pull(ctx context.Context) error {
	base := p.base + "/v2/" + lab.Repository
	authorization := ""
	status, header, _, err := p.get(ctx, base+"/manifests/"+p.tag, "")
	if err != nil {
		return err
	}
	if status == http.StatusUnauthorized {
		if authorization, err = p.token(ctx, header.Get("Www-Authenticate")); err != nil {
			return err
		}
	}
	raw, err := p.want(ctx, base+"/manifests/"+p.tag, authorization, nil)
	if err != nil {
		return err
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(raw, &index); err != nil {
		return err
	}
	for _, d := range index.Manifests {
		raw, err := p.want(ctx, base+"/manifests/"+d.Digest.String(), authorization, &d)
		if err != nil {
			return err
		}
		var manifest v1.Manifest
		if err := json.Unmarshal(raw, &manifest); err != nil {
			return err
		}
		for _, blob := range append([]v1.Descriptor{manifest.Config}, manifest.Layers...) {
			if _, err := p.want(ctx, base+"/blobs/"+blob.Digest.String(), authorization, &blob); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *puller) token(ctx context.Context, challenge string) (string, error) {
	params := map[string]string{}
	rest, ok := strings.CutPrefix(challenge, "Bearer ")
	if !ok {
		return "", fmt.Errorf("challenge %q", challenge)
	}
	for _, item := range strings.Split(rest, `",`) {
		key, value, _ := strings.Cut(item, "=")
		params[key] = strings.Trim(value, `"`)
	}
	query := url.Values{"service": {params["service"]}, "scope": {params["scope"]}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, params["realm"]+"?"+query.Encode(), nil)
	if err != nil {
		return "", err
	}
	if p.user != "" {
		req.SetBasicAuth(p.user, p.password)
	}
	if p.post {
		query.Set("grant_type", "password")
		query.Set("client_id", "test")
		query.Set("username", p.user)
		query.Set("password", p.password)
		req, err = http.NewRequestWithContext(ctx, http.MethodPost, params["realm"], strings.NewReader(query.Encode()))
		if err != nil {
			return "", err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	status, _, body, err := p.do(req)
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		return "", &answerError{req.URL.Hostname(), status, string(body)}
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", err
	}
	if answer.Token == "" {
		answer.Token = answer.AccessToken
	}
	if answer.Token == "" {
		return "", errors.New("no token")
	}
	return "Bearer " + answer.Token, nil
}

// want gets content that must be there, and right if d says what it is.
func (p *puller) want(ctx context.Context, address, authorization string, d *v1.Descriptor) ([]byte, error) {
	status, _, body, err := p.get(ctx, address, authorization)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		u, _ := url.Parse(address)
		return nil, &answerError{u.Hostname(), status, string(body)}
	}
	if d != nil {
		sum, _, _ := v1.SHA256(strings.NewReader(string(body)))
		if sum != d.Digest {
			return nil, errDigest
		}
	}
	return body, nil
}

func (p *puller) get(ctx context.Context, address, authorization string) (int, http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Accept", "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, */*;q=0.1")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	return p.do(req)
}

var errTooLarge = errors.New("more than a test reads")

func (p *puller) do(req *http.Request) (int, http.Header, []byte, error) {
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	const limit = 1 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err == nil && len(body) == limit {
		err = errTooLarge
	}
	return resp.StatusCode, resp.Header, body, err
}
