package main

import (
	"bytes"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
	"github.com/pullwalk/pullwalk/internal/lab"
)

const token = "0123456789abcdef0123456789abcdef"

func TestWhereItListens(t *testing.T) {
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key := pair(t, w, dir, agentclient.ServerName)
	good := put(t, dir, "token", token+"\n")
	tests := []struct {
		name string
		l    listening
		want string // "" = it listens
	}{
		{"loopback", listening{address: "127.0.0.1"}, ""},
		{"loopback with a token", listening{address: "127.0.0.1", tokenFile: good}, ""},
		{"loopback in IPv6 form", listening{address: "::ffff:127.0.0.1"}, ""},
		{"everywhere, with all", listening{address: "0.0.0.0", tokenFile: good, certFile: cert, keyFile: key}, ""},
		{"everywhere", listening{address: "0.0.0.0"}, "not loopback"},
		{"everywhere in IPv6", listening{address: "::"}, "not loopback"},
		{"a node's address", listening{address: "192.0.2.7"}, "not loopback"},
		{"a token in the clear", listening{address: "0.0.0.0", tokenFile: good}, "not loopback"},
		{"TLS for everybody", listening{address: "0.0.0.0", certFile: cert, keyFile: key}, "not loopback"},
		{"a name", listening{address: "localhost"}, "no IP address"},
		{"no port", listening{address: "127.0.0.1", port: 65536}, "no port"},
		{"no token", listening{address: "127.0.0.1", tokenFile: dir + "/gone"}, "gone"},
		{"an empty token", listening{address: "127.0.0.1", tokenFile: put(t, dir, "empty", "\n")}, "holds 0 bytes"},
		{"a short token", listening{address: "127.0.0.1", tokenFile: put(t, dir, "short", "secret")}, "holds 6 bytes"},
		{"a long token", listening{address: "127.0.0.1", tokenFile: put(t, dir, "long", strings.Repeat("x", maxToken+1))}, "holds 4097 bytes"},
		{"a key alone", listening{address: "127.0.0.1", keyFile: key}, "go together"},
		{"a certificate of another key", listening{address: "127.0.0.1", certFile: cert, keyFile: cert}, "the certificate"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := tt.l.open()
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
				return
			}
			require.NoError(t, err)
			require.NoError(t, l.Close())
		})
	}
}

// pair writes a certificate for a name, signed by the world's authority.
func pair(t *testing.T, w *lab.World, dir, name string) (cert, key string) {
	t.Helper()
	certPEM, keyPEM := encode(t, w.Certificate(name))
	return put(t, dir, name+".crt", certPEM), put(t, dir, name+".key", keyPEM)
}

func TestToken(t *testing.T) {
	w, root := world(t)
	cert, key := pair(t, w, root, agentclient.ServerName)
	file := put(t, root, "token", token+"\n")
	agent := start(t, machine{hostRoot: root}, listening{tokenFile: file, certFile: cert, keyFile: key}, 1)
	ask := func(token string) error {
		c, err := agentclient.New(w.AuthorityPEM(), func() ([]byte, error) { return []byte(token), nil })
		require.NoError(t, err)
		_, err = c.Diagnose(t.Context(), agent.addr, agentclient.Request{Images: []string{w.Image()}})
		return err
	}
	require.NoError(t, ask(token+"\n"))
	for _, wrong := range []string{"", "x", token[1:], token + "x", strings.ToUpper(token)} {
		var refused *agentclient.StatusError
		require.ErrorAs(t, ask(wrong), &refused)
		require.Equal(t, http.StatusUnauthorized, refused.Code)
		require.False(t, refused.Busy() || refused.Invalid())
	}
	require.NotContains(t, agent.log.String(), token)

	// In the clear nothing is answered; health is everybody's, version is not.
	_, err := agentclient.NewLocal().Diagnose(t.Context(), agent.addr, agentclient.Request{Images: []string{w.Image()}})
	require.Error(t, err)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting(w)}}
	t.Cleanup(client.CloseIdleConnections)
	for path, code := range map[string]int{"/healthz": 200, "/version": 401} {
		resp, err := client.Get("https://" + agent.addr.String() + path)
		require.NoError(t, err)
		var body bytes.Buffer
		_, err = body.ReadFrom(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, code, resp.StatusCode)
		require.Equal(t, 1, resp.ProtoMajor)
	}

	// Token and certificate are renewed in place.
	const next = "fedcba9876543210fedcba9876543210"
	put(t, root, "token", next)
	require.Error(t, ask(token))
	require.NoError(t, ask(next))
	otherCert, otherKey := pair(t, w, root, "other.corp.test")
	require.NoError(t, os.Rename(otherKey, key))
	require.NoError(t, os.Rename(otherCert, cert))
	require.ErrorContains(t, ask(next), agentclient.ServerName)
	require.NoError(t, os.Remove(file))
	resp, err := client.Get("https://" + agent.addr.String() + "/version")
	if err == nil { // the connection from before lives
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	}
	require.NoError(t, agent.stop())
}
