package classify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk/classify"
)

const (
	pulling  = `Pulling image "` + ref + `"`
	pulledIn = `Successfully pulled image "` + ref + `" in 3.2s (4.2s including waiting). Image size: 51000000 bytes.`
	present  = `Container image "` + ref + `" already present on machine`
	timeout  = kubelet + transfer + head + "dial tcp 10.20.0.4:443: i/o timeout"
	noHost   = kubelet + transfer + head + "dial tcp: lookup registry.corp.test on 10.20.0.2:53: no such host"
	backoff  = `Back-off pulling image "` + ref + `"`
)

func at(hour, minute int) time.Time { return time.Date(2026, 1, 2, hour, minute, 0, 0, time.UTC) }

func happened(t time.Time, node, pod, reason, message string) classify.EventRecord {
	return classify.EventRecord{Time: t, Count: 1, Reason: reason, Message: message, Namespace: "team", Pod: pod, Node: node}
}

// Three days of a fault that nobody saw: the old nodes have copies.
func TestTimelineScaleUp(t *testing.T) {
	t.Parallel()
	events := []classify.EventRecord{
		happened(at(12, 0), "aks-user-111-vmss000004", "app-4", "Failed", timeout),
		happened(at(12, 1), "aks-user-111-vmss000004", "app-4", "BackOff", backoff),
		happened(at(12, 1), "aks-user-111-vmss000004", "app-4", "Failed", "Error: ErrImagePull"),
		happened(at(9, 0), "aks-sys-111-vmss000000", "app-0", "Pulling", pulling),
		happened(at(9, 0), "aks-sys-111-vmss000000", "app-0", "Pulled", pulledIn),
		happened(at(11, 0), "aks-sys-111-vmss000000", "app-1", "Pulled", present),
		happened(at(12, 5), "aks-user-111-vmss000005", "app-5", "Failed", timeout),
	}
	stories := classify.Timeline(events)
	require.Len(t, stories, 1)
	s := stories[0]
	assert.Equal(t, ref, s.Image)
	assert.Equal(t, classify.TriggerNewNodes, s.Trigger)
	assert.Equal(t, classify.RouteConnectTimeout, s.Cause.Cause)
	assert.Equal(t, []string{"user"}, s.PoolsWithout)
	require.Len(t, s.Nodes, 3)
	old, fresh := s.Nodes[0], s.Nodes[1]
	assert.Equal(t, classify.NodeCached, old.State)
	assert.Equal(t, []classify.Pull{{Time: at(9, 0), DurationMS: 3200, WaitMS: 1000, Bytes: 51_000_000}}, old.Pulls)
	assert.Equal(t, 1, old.CachedStarts)
	assert.Equal(t, classify.NodeFailing, fresh.State)
	assert.Equal(t, "user", fresh.Pool)
	assert.Equal(t, 1, fresh.Failures)
	assert.Equal(t, 2, fresh.Backoffs, "joined to the failure that they hide")
	assert.Equal(t, at(12, 0), fresh.FirstFailure)
	assert.Equal(t, []string{"app-4"}, fresh.Pods)
	for _, words := range []string{"got no answer", "appeared after the last pull that worked", "is not its cause", "in pool user", "at 2026-01-02 09:00:00Z in 3.2s (51.0 MB)", "No proof: starts on aks-sys"} {
		assert.Contains(t, s.Words, words)
	}
}

func TestTimelineTriggers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []classify.EventRecord
		want   classify.Trigger
		state  classify.NodeState
	}{
		"the same node pulled before": {[]classify.EventRecord{
			happened(at(9, 0), "node1", "a", "Pulled", pulledIn), happened(at(10, 0), "node1", "b", "Failed", noHost),
		}, classify.TriggerChange, classify.NodeFailing},
		"the same node had a copy": {[]classify.EventRecord{
			happened(at(9, 0), "node1", "a", "Pulled", present), happened(at(10, 0), "node1", "b", "Failed", noHost),
		}, classify.TriggerCache, classify.NodeFailing},
		"an old node that had no copy": {[]classify.EventRecord{
			happened(at(8, 0), "node2", "x", "Started", "Container started"), happened(at(9, 0), "node1", "a", "Pulled", pulledIn),
			happened(at(10, 0), "node2", "b", "Failed", noHost),
		}, classify.TriggerUnknown, classify.NodeFailing},
		"over": {[]classify.EventRecord{
			happened(at(9, 0), "node1", "a", "Failed", noHost), happened(at(10, 0), "node1", "a", "Pulled", pulledIn),
		}, classify.TriggerUnknown, classify.NodePulled},
		"only a back-off": {[]classify.EventRecord{happened(at(9, 0), "node1", "a", "BackOff", backoff)}, classify.TriggerUnknown, classify.NodeWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stories := classify.Timeline(c.events)
			require.Len(t, stories, 1)
			assert.Equal(t, c.want, stories[0].Trigger)
			assert.True(t, slices.ContainsFunc(stories[0].Nodes, func(n classify.NodeStory) bool { return n.State == c.state }))
			assert.NotEmpty(t, stories[0].Words)
		})
	}
}

// Events stop after some minutes while the cause goes on to change.
func TestTimelineStaleEvents(t *testing.T) {
	t.Parallel()
	events := []classify.EventRecord{
		happened(at(9, 0), "node1", "app-0", "Failed", kubelet+transfer+anonymous+"unexpected status from GET request to https://auth.corp.test/token: 401 Unauthorized"),
		{Status: true, Reason: "ImagePullBackOff", Message: backoff + ": ErrImagePull: " + transfer + head + "dial tcp 10.20.0.4:443: connect: network is unreachable", Namespace: "team", Pod: "app-0", Node: "node1", Image: ref},
	}
	s := classify.Timeline(events)[0]
	assert.Equal(t, classify.RouteNetworkUnreachable, s.Cause.Cause)
	assert.True(t, s.Nodes[0].Stale)
	assert.Equal(t, classify.IdentityTokenFetchDenied, s.Nodes[0].Reading.Best.Cause)
	assert.Equal(t, classify.RouteNetworkUnreachable, s.Nodes[0].Present.Best.Cause)
	assert.Contains(t, s.Words, "are old and tell of identity.token-fetch-denied; the pod's status now says route.network-unreachable")
}

func TestTimelineOrderOfAges(t *testing.T) {
	t.Parallel()
	records, err := classify.ParseEvents(strings.NewReader(`
  Type     Reason  Age                 From            Message
  Warning  Failed  5s (x4 over 3m)     kubelet, node1  ` + noHost + `
  Normal   Pulled  10m                 kubelet, node1  ` + pulledIn + `
  Warning  Failed  9s                  kubelet, node2  ` + timeout + `
`))
	require.NoError(t, err)
	s := classify.Timeline(records)[0]
	assert.Equal(t, classify.TriggerChange, s.Trigger)
	assert.Equal(t, "node1", s.Nodes[0].Node)
	assert.Equal(t, classify.NodeFailing, s.Nodes[0].State)
	assert.Equal(t, 4, s.Nodes[0].Failures)
	assert.True(t, s.Nodes[0].FirstFailure.IsZero(), "an age is no time")
}

func TestTimelineSandboxAndWarnings(t *testing.T) {
	t.Parallel()
	pause := `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox image "registry.corp.test/pause:3.9": failed to pull image "registry.corp.test/pause:3.9": ` +
		`failed to pull and unpack image "registry.corp.test/pause:3.9": failed to resolve image: failed to do request: Head "https://registry.corp.test/v2/pause/manifests/3.9": dial tcp: lookup registry.corp.test on 10.20.0.2:53: no such host`
	events := []classify.EventRecord{
		happened(at(9, 0), "", "app-0", "Scheduled", "Successfully assigned team/app-0 to node3"),
		happened(at(9, 0), "", "app-0", "FailedCreatePodSandBox", pause),
		happened(at(9, 0), "", "app-0", "FailedCreatePodSandBox", `plugin type="bridge" failed (add)`),
		happened(at(9, 1), "node1", "app-1", "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (x); attempting to pull the image may not succeed."),
		happened(at(9, 1), "node1", "app-1", "Pulled", pulledIn),
	}
	stories := classify.Timeline(events)
	require.Len(t, stories, 2)
	assert.Equal(t, classify.OperationSandboxImage, stories[0].Operation)
	assert.Equal(t, "node3", stories[0].Nodes[0].Node, "from the scheduler's event")
	assert.Contains(t, stories[0].Words, "pull secrets are not used for it")
	assert.Equal(t, classify.NodePulled, stories[1].Nodes[0].State)
	assert.Empty(t, stories[1].Cause.Cause, "a missing secret is a warning")
}

// Short and full references are the same image; a copy may be from elsewhere.
func TestTimelineImages(t *testing.T) {
	t.Parallel()
	events := []classify.EventRecord{
		happened(at(9, 0), "node1", "a", "Pulled", `Successfully pulled image "nginx" in 1s`),
		happened(at(9, 5), "node2", "b", "Failed", `Failed to pull image "docker.io/library/nginx:latest": pull QPS exceeded`),
		{Status: true, Reason: "Running", Image: ref, ImageID: "old.corp.test/team/app@" + digest, Pod: "c", Node: "node1", Time: at(8, 0)},
	}
	stories := classify.Timeline(events)
	require.Len(t, stories, 2)
	assert.Equal(t, "nginx", stories[0].Image)
	assert.Len(t, stories[0].Nodes, 2)
	assert.Equal(t, "old.corp.test", stories[1].Nodes[0].From)
	assert.Contains(t, stories[1].Words, "came from old.corp.test")
	assert.Empty(t, classify.Timeline(nil))
}

func TestTimelineIsBounded(t *testing.T) {
	t.Parallel()
	var events []classify.EventRecord
	for i := range 2000 {
		image := fmt.Sprintf("registry.corp.test/team/app-%d:v1", i)
		events = append(events, happened(at(9, 0), fmt.Sprintf("node%d", i%50), fmt.Sprintf("p%d", i), "Failed", `Failed to pull image "`+image+`": pull QPS exceeded`))
		events = append(events, happened(at(9, 0), fmt.Sprintf("node%d", i%50), fmt.Sprintf("q%d", i), "Pulled", pulledIn))
	}
	stories := classify.Timeline(events)
	assert.Len(t, stories, 256)
	for _, s := range stories {
		assert.Less(t, len(s.Words), 4096)
		for _, n := range s.Nodes {
			assert.LessOrEqual(t, len(n.Pods), 8)
			assert.LessOrEqual(t, len(n.Pulls), 8)
		}
	}
}

func FuzzTimeline(f *testing.F) {
	f.Add("Failed", timeout, "node1", "Pulled", pulledIn, int64(5))
	f.Add("Scheduled", "Successfully assigned a to b", "", "BackOff", "Error: ErrImagePull", int64(-1))
	f.Fuzz(func(t *testing.T, reason, message, node, reason2, message2 string, age int64) {
		for _, s := range classify.Timeline([]classify.EventRecord{
			{Reason: reason, Message: message, Node: node, Pod: "a", AgeMS: age}, {Reason: reason2, Message: message2, Pod: "a", FirstAgeMS: age},
			{Reason: reason2, Message: message2, Pod: "a", Status: true, Image: message},
		}) {
			if s.Words == "" || len(s.Words) > 64<<10 {
				t.Fatalf("%d bytes of words", len(s.Words))
			}
		}
	})
}
