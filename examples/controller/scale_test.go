package main

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
)

// A thousand Pods over a hundred nodes, each node with four images that fail. What
// is kept in memory is measured with the fake API and its objects in it.
func TestThousandFailingPods(t *testing.T) {
	const nodes, pods, images, workers, mib = 100, 1000, 4, 32, 1 << 20
	var objects []client.Object
	for n := range nodes {
		name := fmt.Sprintf("node-%03d", n)
		objects = append(objects, agentOn(name), nodeOfPool(name, fmt.Sprintf("pool-%d", n%5)))
	}
	for p := range pods {
		image := fmt.Sprintf("registry.corp.test/team/app-%d:v1", p/nodes%images)
		objects = append(objects, pending(fmt.Sprintf("node-%03d", p%nodes), fmt.Sprintf("web-%04d", p), image, backOff(image, noSuchHost(image))))
	}
	c := newCluster(t, objects...)
	// A result as large as real ones.
	c.fleet.says(results(func(r *pullwalk.Result) {
		f := classify.New(classify.RouteConnectTimeout, "nothing came back")
		r.Verdict, r.Primary = pullwalk.StatusFailed, &f
		for i := range 300 {
			r.Findings = append(r.Findings, classify.New(classify.RouteIPv6Unreachable, fmt.Sprintf("beside it, %d", i)))
		}
	}))

	// As in deploy.yaml.
	before := debug.SetMemoryLimit(180 * mib)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })

	// The queue is the one of the manager: a node is with one worker at a time.
	queue := workqueue.NewTyped[string]()
	for n := range nodes {
		queue.Add(fmt.Sprintf("node-%03d", n))
	}
	ctx, cancel := context.WithCancel(quiet(t))
	defer cancel()
	var mu sync.Mutex
	settled := map[string]bool{}
	var wait sync.WaitGroup
	peak := uint64(0)
	for range workers {
		wait.Go(func() {
			for {
				name, end := queue.Get()
				if end {
					return
				}
				res, err := c.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				mu.Lock()
				peak = max(peak, m.Sys-m.HeapReleased)
				if err == nil && res.RequeueAfter > time.Second {
					if settled[name] = true; len(settled) == nodes {
						queue.ShutDown()
					}
				} else {
					queue.Add(name)
				}
				mu.Unlock()
				queue.Done(name)
			}
		})
	}
	wait.Wait()

	var list corev1.PodList
	require.NoError(t, c.client.List(t.Context(), &list, client.InNamespace("shop")))
	require.Len(t, list.Items, pods)
	for i := range list.Items {
		got := condition(&list.Items[i])
		require.NotNil(t, got, list.Items[i].Name)
		require.Equal(t, "RouteConnectTimeout", got.Reason)
	}
	c.fleet.mu.Lock()
	defer c.fleet.mu.Unlock()
	require.Len(t, c.fleet.asked, nodes*images)
	for what, n := range c.fleet.asked {
		require.Equal(t, 1, n, what)
	}
	require.Equal(t, 1, c.fleet.most, "requests to one agent at once")
	require.LessOrEqual(t, c.applied, 2*pods)
	require.Len(t, c.events.notes, pods)
	require.Contains(t, scrape(t, c), `pullwalk_failing_pods{cause="route.connect-timeout",layer="route",pool="pool-3",source="probe"} 200`)

	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d MiB from the system at most; %d MiB in use at the end", peak/mib, m.HeapAlloc/mib)
	require.Less(t, peak, uint64(200*mib))
	runtime.KeepAlive(c)
}

// Agents that never answer hold up nobody's node but their own, and end with the
// controller.
func TestSilentAgents(t *testing.T) {
	c := newCluster(t, agentOn("node-1"), agentOn("node-2"),
		pending("node-1", "web", appImage, backOff(appImage, noSuchHost(appImage))),
		pending("node-2", "api", appImage, backOff(appImage, noSuchHost(appImage))))
	heard, gone := make(chan struct{}), make(chan struct{})
	c.fleet.says(func(w http.ResponseWriter, req agentclient.Request) {
		if req.Node == "node-1" {
			w.(http.Flusher).Flush() // a header, and then nothing
			close(heard)
			<-gone
			return
		}
		failing(classify.RouteConnectTimeout)(w, req)
	})
	ctx, cancel := context.WithCancel(quiet(t))
	ended := make(chan error)
	go func() {
		_, err := c.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: "node-1"}})
		ended <- err
	}()
	<-heard
	require.Equal(t, "NotProbedYet", c.says(t, "web").Reason, "the guess stands meanwhile")
	c.reconcile(t, "node-2")
	require.Equal(t, "RouteConnectTimeout", c.says(t, "api").Reason)
	cancel()
	require.NoError(t, <-ended)
	close(gone)
}
