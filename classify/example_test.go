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
