package classify_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

func TestEventsAbout(t *testing.T) {
	t.Parallel()
	at := func(minute int, pod, reason, message string) classify.EventRecord {
		return classify.EventRecord{Time: time.Date(2030, 1, 1, 12, minute, 0, 0, time.UTC), Pod: pod, Reason: reason, Message: message}
	}
	events := []classify.EventRecord{
		at(9, "b", "Failed", `Failed to pull image "docker.io/library/nginx:latest": dial tcp 10.0.0.1:443: i/o timeout`),
		at(1, "a", "Scheduled", "Successfully assigned default/a to node-7"),
		at(2, "a", "Pulling", `Pulling image "registry.corp.test/app:1"`),
		at(3, "a", "Failed", "Error: ErrImagePull"),
		at(4, "c", "Pulling", `Pulling image "registry.corp.test/other:1"`),
		at(5, "c", "Failed", "dial tcp 10.0.0.1:443: i/o timeout"),
		at(6, "d", "Failed", "dial tcp 10.0.0.1:443: i/o timeout"),
		at(7, "a", "Killing", "Stopping container app"),
		at(8, "e", "FailedCreatePodSandBox", `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox image "registry.k8s.io/pause:3.9": failed to pull image "registry.k8s.io/pause:3.9": dial tcp 10.0.0.1:443: i/o timeout`),
	}
	minutes := func(events []classify.EventRecord) (out []int) {
		for _, e := range events {
			out = append(out, e.Time.Minute())
		}
		return out
	}
	got := classify.EventsAbout(events, "registry.corp.test/app:1")
	require.Equal(t, []int{2, 3, 6}, minutes(got), "its own, by its pod, and one that may be about any")
	require.Equal(t, "node-7", got[1].Node)
	require.Equal(t, "registry.corp.test/app:1", got[1].Image)
	require.Empty(t, events[3].Node, "the caller's events are not changed")
	require.Equal(t, []int{6, 9}, minutes(classify.EventsAbout(events, "nginx")))
	require.Equal(t, []int{6, 8}, minutes(classify.EventsAbout(events, "registry.k8s.io/pause:3.9")))
	require.Equal(t, []int{2, 3, 4, 5, 6}, minutes(classify.EventsAbout(events, "registry.corp.test/other:1", "registry.corp.test/app:1")))
	require.Len(t, classify.EventsAbout(events), 7)
	require.Empty(t, classify.EventsAbout(nil, "nginx"))
}

func TestSameImage(t *testing.T) {
	t.Parallel()
	assert.True(t, classify.SameImage("nginx", "docker.io/library/nginx:latest"))
	assert.True(t, classify.SameImage("index.docker.io/team/app:1", "team/app:1"))
	assert.False(t, classify.SameImage("registry.corp.test/app:1", "registry.corp.test/app:2"))
	assert.False(t, classify.SameImage("registry.corp.test/app:1", "registry.corp.test/app@sha256:0000"))
	assert.False(t, classify.SameImage("registry.corp.test/app", "app"))
}
