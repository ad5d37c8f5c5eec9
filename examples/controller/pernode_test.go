package main

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// tokenAPI gives tokens that name what they are for.
type tokenAPI struct {
	client.SubResourceWriter
	asked []string
}

func (a *tokenAPI) Create(_ context.Context, account, sub client.Object, _ ...client.SubResourceCreateOption) error {
	req := sub.(*authenticationv1.TokenRequest)
	a.asked = append(a.asked, account.GetNamespace()+"/"+account.GetName()+" for "+req.Spec.Audiences[0])
	req.Status.Token = "for " + req.Spec.Audiences[0]
	return nil
}

// The controller asks each node with a token for that node, and believes no other
// node's certificate.
func TestTokenOfEachNode(t *testing.T) {
	w, err := lab.New(lab.Options{})
	require.NoError(t, err)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(authority, w.AuthorityPEM(), 0o600))
	var given []string
	f := &fleet{asked: map[[2]string]int{}, running: map[string]int{}, answer: failing(classify.RouteConnectTimeout)}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		given = append(given, r.Header.Get("Authorization"))
		r.Header.Set("Authorization", "Bearer "+token)
		f.serve(rw, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{w.Certificate(agentclient.NodeServerName("node-1"))}}
	s.StartTLS()
	t.Cleanup(s.Close)
	addr := netip.MustParseAddrPort(s.Listener.Addr().String())

	api := &tokenAPI{}
	tokens := nodeTokens{api, client.ObjectKey{Namespace: "pullwalk", Name: "pullwalk-controller"}}
	ask := perNode{authority, tokens.token}
	_, err = ask.Diagnose(t.Context(), addr, agentclient.Request{Node: "node-1", Images: []string{appImage}})
	require.NoError(t, err)
	_, err = ask.Diagnose(t.Context(), addr, agentclient.Request{Node: "node-2", Images: []string{appImage}})
	require.ErrorContains(t, err, "node-2.pullwalk-agent")
	require.Equal(t, []string{"Bearer for node-1.pullwalk-agent"}, given, "node-1 never sees the token of node-2")
	require.Equal(t, "pullwalk/pullwalk-controller for node-1.pullwalk-agent", api.asked[0])
}

// With -events-only no status is patched, and the event says it all.
func TestEventsOnly(t *testing.T) {
	c := newCluster(t, agentOn("node-1"), nodeOfPool("node-1", "blue"), pending("node-1", "web", appImage, backOff(appImage, noSuchHost(appImage))))
	c.teller.eventsOnly = true
	c.reconcile(t, "node-1")
	c.reconcile(t, "node-1")
	require.Zero(t, c.applied)
	require.Len(t, c.events.notes, 1)
	require.Contains(t, c.events.notes[0], "owner network")
}
