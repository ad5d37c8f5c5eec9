package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// A pool whose kubelets pull by what a plugin gives is named, and is not proved.
func TestPoolsThatNeedPlugins(t *testing.T) {
	// What the library says of such a node.
	plan, err := (&tlsauth.Kubelet{PluginDir: "/opt/bin", NotRun: "nobody asked for it", Providers: []byte(`{"apiVersion":"kubelet.config.k8s.io/v1","kind":"CredentialProviderConfig","providers":[
		{"name":"acr","apiVersion":"credentialprovider.kubelet.k8s.io/v1","matchImages":["registry.corp.test"],"defaultCacheDuration":"1m"}]}`)}).Plan(context.Background(), appImage)
	require.NoError(t, err)
	require.Contains(t, plan.Inconclusive, unrun)

	hanging := proved("aks-1", appImage)
	hanging.Verdict, hanging.Proof, hanging.Inconclusive = pullwalk.StatusInconclusive, nil, plan.Inconclusive
	other := proved("web-1", appImage)
	other.Verdict, other.Proof, other.Inconclusive = pullwalk.StatusInconclusive, nil, "the time was over"
	rep := &report{}
	rep.sum(sight{images: []string{appImage}, pools: []pool{{name: "aks"}, {name: "web"}}, outcomes: []outcome{
		{Pool: "aks", Node: "aks-1", Image: appImage, result: hanging}, {Pool: "aks", Node: "aks-2", Image: appImage, result: hanging},
		{Pool: "web", Node: "web-1", Image: appImage, result: other},
	}})
	require.Equal(t, pullwalk.StatusInconclusive, rep.Verdict)
	require.Len(t, rep.Notes, 1)
	require.Contains(t, rep.Notes[0], "the kubelets of aks take credentials from plugins")
	require.Contains(t, rep.Notes[0], "-run-credential-plugins")
}

// A token is asked for one node's agent.
func TestNodeToken(t *testing.T) {
	c := fake.NewClientset()
	c.PrependReactor("create", "serviceaccounts", func(a kubetesting.Action) (bool, runtime.Object, error) {
		req := a.(kubetesting.CreateAction).GetObject().(*authenticationv1.TokenRequest)
		require.Equal(t, "token", a.GetSubresource())
		req.Status.Token = a.GetNamespace() + " for " + req.Spec.Audiences[0]
		return true, req, nil
	})
	got, err := nodeToken(t.Context(), c, "pullwalk/pullwalk-fleet", "node-1")
	require.NoError(t, err)
	require.Equal(t, "pullwalk for node-1.pullwalk-agent", string(got))
}
