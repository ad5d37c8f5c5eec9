package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

const (
	controllerUser = "system:serviceaccount:pullwalk:pullwalk-controller"
	ofController   = "controller-token-controller-token-1"
	ofNeighbour    = "neighbour-token-neighbour-token-123"
	ofOtherNode    = "for-node-8-for-node-8-for-node-8-12"
	ofOldServer    = "no-audience-no-audience-no-audience"
)

// apiServer reviews tokens as one does, for the audience that is asked for.
func apiServer(t *testing.T, root string, answer func(w http.ResponseWriter, token, audience string)) *reviewer {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "POST /apis/authentication.k8s.io/v1/tokenreviews", r.Method+" "+r.URL.Path)
		require.Equal(t, "Bearer the-agents-own", r.Header.Get("Authorization"))
		require.Empty(t, r.Header.Get("Referer"))
		var review struct {
			APIVersion, Kind string
			Spec             struct {
				Token     string
				Audiences []string
			}
		}
		require.NoError(t, json.NewDecoder(r.Body).Decode(&review))
		require.Equal(t, "authentication.k8s.io/v1 TokenReview", review.APIVersion+" "+review.Kind)
		require.Len(t, review.Spec.Audiences, 1)
		answer(w, review.Spec.Token, review.Spec.Audiences[0])
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	host, port, err := net.SplitHostPort(s.Listener.Addr().String())
	require.NoError(t, err)
	put(t, root, "account/token", "the-agents-own\n")
	put(t, root, "account/ca.crt", encodeCertificate(s.Certificate().Raw))
	env := map[string]string{"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	v, err := newReviewer(func(k string) string { return env[k] }, filepath.Join(root, "account"), agentclient.NodeServerName("node-7"), []string{controllerUser})
	require.NoError(t, err)
	return v
}

func reviewed(w http.ResponseWriter, token, audience string) {
	user, audiences := "", []string{audience}
	switch token {
	case ofController:
		user = controllerUser
	case ofNeighbour:
		user = "system:serviceaccount:shop:default"
	case ofOldServer:
		user, audiences = controllerUser, nil
	case ofOtherNode: // not for this audience: an API server says unauthenticated
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{
		"authenticated": user != "", "audiences": audiences, "user": map[string]any{"username": user}}})
}

// A token of the cluster is asked about, and is of use on this node alone. Root of
// another node, who has seen a token for that node, gets nothing here.
func TestTokenReview(t *testing.T) {
	w, root := world(t)
	cert, key := pair(t, w, root, agentclient.NodeServerName("node-7"))
	review := apiServer(t, root, reviewed)
	agent := start(t, machine{hostRoot: root, node: "node-7"}, listening{certFile: cert, keyFile: key, review: review}, 1)
	ask := func(token string) error {
		c, err := agentclient.NewPerNode(w.AuthorityPEM(), tokenIs(token))
		require.NoError(t, err)
		_, err = c.Diagnose(t.Context(), agent.addr, agentclient.Request{Node: "node-7", Images: []string{w.Image()}})
		return err
	}
	require.NoError(t, ask(ofController))
	for _, wrong := range []string{"", "short", ofNeighbour, ofOtherNode, ofOldServer, strings.Repeat("x", maxToken+1)} {
		var refused *agentclient.StatusError
		require.ErrorAs(t, ask(wrong), &refused, wrong)
		require.Equal(t, http.StatusUnauthorized, refused.Code)
	}
	require.NotContains(t, agent.log.String(), ofController)

	// Beside it the static token, if there is one.
	l := listening{tokenFile: put(t, root, "token", token), review: review}
	for given, want := range map[string]bool{token: true, ofController: true, ofNeighbour: false} {
		allowed, err := l.allows(t.Context(), given)
		require.NoError(t, err)
		require.Equal(t, want, allowed, given)
	}
}

// What the API server may cost the agent, and that in doubt nobody is let in.
func TestTokenReviewFails(t *testing.T) {
	tests := map[string]struct {
		answer func(w http.ResponseWriter, token, audience string)
		want   string
	}{
		"forbidden": {func(w http.ResponseWriter, _, _ string) { w.WriteHeader(403) }, "answers 403"},
		"elsewhere": {func(w http.ResponseWriter, _, _ string) {
			w.Header().Set("Location", "https://127.0.0.1:1/")
			w.WriteHeader(307)
		}, "answers 307"},
		"no JSON": {func(w http.ResponseWriter, _, _ string) { fmt.Fprint(w, "<html>") }, "invalid character"},
		"endless": {func(w http.ResponseWriter, _, _ string) {
			_, _ = io.WriteString(w, `{"status":{"audiences":[`+strings.Repeat(`"",`, 4<<20)+`""]}}`)
		}, "at most 65536 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			v := apiServer(t, root, tt.answer)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			allowed, err := v.allows(t.Context(), ofController)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), ofController)
			require.False(t, allowed)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20)) // both sides
			require.NoError(t, os.Remove(filepath.Join(root, "account/token")))
			_, err = v.allows(t.Context(), ofController)
			require.ErrorContains(t, err, "account/token")
		})
	}
	root := t.TempDir()
	asked, gone := make(chan struct{}, maxReviews), make(chan struct{})
	v := apiServer(t, root, func(http.ResponseWriter, string, string) { asked <- struct{}{}; <-gone })
	ended := make(chan error, maxReviews)
	for range maxReviews {
		go func() { _, err := v.allows(t.Context(), ofController); ended <- err }()
	}
	for range maxReviews {
		<-asked
	}
	_, err := v.allows(t.Context(), ofController)
	require.ErrorIs(t, err, errBusy, "whoever guesses costs the API server %d requests at once", maxReviews)
	close(gone)
	for range maxReviews {
		require.Error(t, <-ended)
	}
}

func TestReviewing(t *testing.T) {
	var l listening
	require.NoError(t, l.reviewing(nil, ""))
	require.ErrorContains(t, l.reviewing([]string{controllerUser}, ""), "want -node")
	_, err := newReviewer(func(string) string { return "" }, "", "", nil)
	require.ErrorContains(t, err, "KUBERNETES_SERVICE_HOST")
}

// Plugins are run where the kubelet runs them, or not at all.
func TestPluginsNeedTheOwnRoot(t *testing.T) {
	var out, errs strings.Builder
	require.Equal(t, exitInvalid, run(t.Context(), []string{"-once", "-run-credential-plugins", "-host-root", t.TempDir(), "registry.corp.test/a:v1"}, &out, &errs))
	require.Contains(t, errs.String(), "want the node's own root")
	require.NoError(t, machine{plugins: true}.check())
	require.NoError(t, machine{plugins: true, hostRoot: "/"}.check())
	require.Error(t, machine{plugins: true, hostRoot: "/host/proc/1/root"}.check())
}
