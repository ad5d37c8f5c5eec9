package classify_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/classify"
)

// The same deadline means another thing in each stage.
func ExampleError() {
	silent := func(stage classify.Stage) error {
		return &classify.StageError{
			Stage: stage, Operation: classify.OperationFetchBlob, Endpoint: "blobs.corp.test:443", Address: "10.20.0.6:443",
			Limit: 5 * time.Second, Err: context.DeadlineExceeded,
		}
	}
	for _, stage := range []classify.Stage{classify.StageConnect, classify.StageHandshake} {
		f := classify.Error(silent(stage))
		fmt.Println(f.Layer, f.Cause)
		fmt.Println(" ", f.Summary)
	}
	// Output:
	// route route.connect-timeout
	//   the connect to blobs.corp.test:443 at 10.20.0.6:443 got no answer within 5s
	// endpoint endpoint.tls-handshake-timeout
	//   blobs.corp.test:443 accepted the connection but the TLS handshake did not finish within 5s
}

// The outer words speak of the image; what failed is the token host's name.
func ExampleText() {
	r := classify.Text(`failed to pull and unpack image "registry.corp.test/team/app:v1": failed to resolve image: ` +
		`failed to authorize: failed to fetch anonymous token: Get "https://auth.corp.test/token?service=registry": ` +
		`dial tcp: lookup auth.corp.test on 10.20.0.2:53: no such host`)
	fmt.Println(r.Kind, r.Best.Cause, r.Best.Certainty)
	fmt.Println(r.Best.Operation, r.Best.Endpoint)
	fmt.Println(r.Best.Summary)
	fmt.Println(r.Decide, r.Best.Alternatives)
	// Output:
	// failure dns.nxdomain possible
	// fetch-token auth.corp.test
	// the name auth.corp.test does not exist according to nameserver 10.20.0.2:53
	// [dns@auth.corp.test] [dns.nodata]
}

// An event that is not about a pull says nothing, whatever its words.
func ExampleEvent() {
	fmt.Println(classify.Event("Unhealthy", `Readiness probe failed: dial tcp 10.20.1.1:80: connect: connection refused`).Kind)
	r := classify.Event("Pulled", `Container image "registry.corp.test/team/app:v1" already present on machine`)
	fmt.Println(r.Kind, r.Cached, r.Image)
	// Output:
	// unknown
	// ok true registry.corp.test/team/app:v1
}

func ExampleParseEvents() {
	table := `
Events:
  Type     Reason   Age               From            Message
  ----     ------   ----              ----            -------
  Normal   BackOff  9s                kubelet, node1  Back-off pulling image "registry.corp.test/team/app:v1"
  Warning  Failed   7s (x2 over 50s)  kubelet, node1  Failed to pull image "registry.corp.test/team/app:v1": pull QPS exceeded
`
	records, err := classify.ParseEvents(strings.NewReader(table))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, e := range records {
		r := classify.Event(e.Reason, e.Message)
		fmt.Println(e.Node, e.Reason, r.Best.Cause, r.Kind, e.Count)
	}
	// Output:
	// node1 BackOff  backoff 0
	// node1 Failed node.pull-qps-exceeded failure 2
}

// A described pod in, the story out. The copy on node1 is why nobody saw it.
func ExampleTimeline() {
	described := `
  Type     Reason   Age                From            Message
  ----     ------   ----               ----            -------
  Normal   Pulled   3d                 kubelet, node1  Successfully pulled image "registry.corp.test/team/app:v1" in 3.2s (3.2s including waiting). Image size: 51000000 bytes.
  Normal   Pulled   2h                 kubelet, node1  Container image "registry.corp.test/team/app:v1" already present on machine
  Normal   Pulling  26s (x3 over 80s)  kubelet, node2  Pulling image "registry.corp.test/team/app:v1"
  Warning  Failed   7s (x3 over 50s)   kubelet, node2  Failed to pull image "registry.corp.test/team/app:v1": failed to pull and unpack image "registry.corp.test/team/app:v1": failed to resolve image: failed to do request: Head "https://registry.corp.test/v2/team/app/manifests/v1": dial tcp 10.20.0.4:443: i/o timeout
  Warning  Failed   7s (x3 over 50s)   kubelet, node2  Error: ErrImagePull
`
	events, err := classify.ParseEvents(strings.NewReader(described))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	for _, story := range classify.Timeline(events) {
		fmt.Println(story.Cause.Cause, story.Trigger)
		for sentence := range strings.SplitSeq(story.Words, ". ") {
			fmt.Println("-", sentence)
		}
	}
	// Output:
	// route.connect-timeout new-nodes
	// - registry.corp.test/team/app:v1 does not arrive on node2: the connect to registry.corp.test:443 at 10.20.0.4:443 got no answer
	// - Trigger: node2 appeared after the last pull that worked (a scale-up, replacement or upgrade of nodes)
	// - That brought the fault to light and is not its cause: nodes with a copy do not ask
	// - Proof: node1 pulled it over the network in 3.2s (51.0 MB), which holds for that node and that time
	// - No proof: starts on node1 used the copy on the node, nothing was transferred.
}
