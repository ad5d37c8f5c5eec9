package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// of puts a Pod into another namespace.
func of(namespace string, pod *corev1.Pod) *corev1.Pod {
	pod.Namespace, pod.UID = namespace, types.UID(namespace+"-"+pod.Name)
	return pod
}

// position is which request to the agent, counted from 1, was about the image; 0 = none.
func (c *cluster) position(image string) int {
	for i, r := range c.fleet.all() {
		for _, asked := range r.Images {
			if asked == image {
				return i + 1
			}
		}
	}
	return 0
}

// A namespace with 200 images, whose names sort first, delays no other's one image by
// more than one request.
func TestNamespacesTakeTurns(t *testing.T) {
	c := newCluster(t, agentOn("node-1"), nodeOfPool("node-1", "blue"))
	for i := range 200 {
		image := fmt.Sprintf("registry.corp.test/aaa/app-%03d:v1", i)
		require.NoError(t, c.client.Create(t.Context(), of("aaa", pending("node-1", fmt.Sprintf("web-%03d", i), image, backOff(image, noSuchHost(image))))))
	}
	victims := []string{"registry.corp.test/zzz/one:v1", "registry.corp.test/yyy/one:v1"}
	for i, ns := range []string{"zzz", "yyy"} {
		require.NoError(t, c.client.Create(t.Context(), of(ns, pending("node-1", "api", victims[i], backOff(victims[i], noSuchHost(victims[i]))))))
	}
	c.reconcile(t, "node-1")
	for _, v := range victims {
		require.Equal(t, 1, c.position(v), v)
	}
}

// A namespace whose Pods name a new image each time does not go before what waits
// longer, and one that is served often goes after one that is not.
func TestEverNewImagesWait(t *testing.T) {
	c := newCluster(t, agentOn("node-1"), nodeOfPool("node-1", "blue"))
	made := 0
	flood := func() {
		for range 8 {
			made++
			image := fmt.Sprintf("registry.corp.test/aaa/app-%04d:v1", 9999-made) // later ones sort first
			require.NoError(t, c.client.Create(t.Context(), of("aaa", pending("node-1", fmt.Sprintf("web-%d", made), image, backOff(image, noSuchHost(image))))))
		}
	}
	flood()
	c.reconcile(t, "node-1")
	var victims []string
	for i := range 6 {
		image := fmt.Sprintf("registry.corp.test/shop/app-%d:v1", i)
		victims = append(victims, image)
		require.NoError(t, c.client.Create(t.Context(), pending("node-1", fmt.Sprintf("api-%d", i), image, backOff(image, timedOut(image)))))
	}
	for range 3 {
		c.clock = c.clock.Add(time.Second)
		flood()
		c.reconcile(t, "node-1")
	}
	for _, v := range victims {
		require.NotZero(t, c.position(v), v)
		require.LessOrEqual(t, c.position(v), 4, v)
	}
	// The flood's own first come before its last.
	require.NotZero(t, c.position("registry.corp.test/aaa/app-9998:v1"))
	require.Zero(t, c.position(fmt.Sprintf("registry.corp.test/aaa/app-%04d:v1", 9999-made)))
}

// In a namespace an image that was wanted first is asked for first, whatever its name.
func TestFirstWantedFirstAsked(t *testing.T) {
	n, now := newNode(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	wanted := map[question]bool{}
	for i, image := range []string{"z", "m", "a", "k", "b", "c"} {
		q := question{image: image}
		n.want(q, reading{}, "shop", now.Add(time.Duration(i)*time.Second))
		wanted[q] = true
	}
	got := n.due(now.Add(time.Minute), wanted)
	require.Equal(t, []question{{image: "z"}, {image: "m"}, {image: "a"}, {image: "k"}}, got)
	require.Equal(t, map[string]time.Time{"shop": now.Add(time.Minute)}, n.served)

	// What another namespace waits for too has the turn of either.
	n.want(question{image: "c"}, reading{}, "web", now)
	require.Equal(t, question{image: "c"}, n.due(now.Add(2*time.Minute), map[question]bool{{image: "b"}: true, {image: "c"}: true})[0])

	// Who was served is forgotten at last, and not by going away for a moment.
	n.forget(now.Add(10*time.Minute), nil, nil)
	require.Len(t, n.served, 2)
	n.forget(now.Add(time.Hour), nil, nil)
	require.Empty(t, n.served)
}

// A tenant's secret that no agent would take is no fault of the agent.
func TestRequestThatIsNotSent(t *testing.T) {
	p, ofQuestion := blame(fmt.Errorf("agentclient: %w", agentclient.ErrRequest))
	require.True(t, ofQuestion)
	require.Equal(t, reasonNotAsked, p.reason)
}
