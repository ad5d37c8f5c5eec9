package pullwalk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// Agents on the nodes send their results as JSON. Which pools have no proof?
func ExampleCoverage() {
	const received = `
{"schema":"pullwalk.result/v1","image":{"reference":"registry.corp.test/team/app:v1","platform":"linux/amd64","digest":"sha256:2f05"},
 "vantage":{"hostName":"web-1","networkNamespace":"host","runtime":"containerd","nameservers":["10.20.0.2:53"]},
 "verdict":"ok","pull":"complete","proof":{"digest":"sha256:2f05","layers":3,"bytes":103330},"started":"2026-03-01T12:00:00Z"}
{"schema":"pullwalk.result/v1","image":{"reference":"registry.corp.test/team/app:v1","platform":"linux/amd64"},
 "vantage":{"hostName":"gpu-1","networkNamespace":"host","runtime":"containerd","nameservers":["10.30.0.2:53"]},
 "verdict":"failed","pull":"complete","started":"2026-03-01T12:00:03Z",
 "primary":{"cause":"dns.nxdomain","layer":"dns","owner":"dns","endpoint":"blobs.corp.test","summary":"blobs.corp.test does not exist."}}
`
	var results []*pullwalk.Result
	for dec := json.NewDecoder(strings.NewReader(received)); dec.More(); {
		var r pullwalk.Result
		if err := dec.Decode(&r); err != nil {
			fmt.Println(err)
			return
		}
		results = append(results, &r)
	}
	pools := []pullwalk.Pool{
		{Name: "web", Nodes: []pullwalk.PoolNode{{Name: "web-1", Created: time.Date(2026, 2, 27, 8, 0, 0, 0, time.UTC)}, {Name: "web-2"}}},
		{Name: "gpu", Nodes: []pullwalk.PoolNode{{Name: "gpu-1"}}},
		{Name: "spot"}, // scales from nothing
	}
	fmt.Print(pullwalk.Coverage(pools, results))
	// Output:
	// registry.corp.test/team/app:v1 (sha256:2f05): failed: 1 of 3 pools proved, 1 failed, 1 not-probed
	//   POOL  STATE       PROBED  WHY
	//   gpu   failed      1/1     1 of 1 probed node failed: dns.nxdomain at blobs.corp.test (owner dns)
	//                             on gpu-1
	//   spot  not-probed  0/0     no node to look from: it scales from nothing; make a node of it and look
	//                             from there
	//   web   proved      1/2     web-1: 3 layers and 103330 bytes downloaded, every digest checked
	//   Causes:      pool gpu (1 node): owner dns: dns.nxdomain at blobs.corp.test: blobs.corp.test does
	//                not exist.
	//   Differs:     nameservers: 10.20.0.2:53 (1 proved), 10.30.0.2:53 (1 failed); good and bad have no
	//                value in common
}

// A rollout goes on only if every pool is proved.
func ExampleCoverageReport_Err() {
	missing := classify.New(classify.DNSNXDOMAIN, "")
	missing.Endpoint = "blobs.corp.test"
	results := []*pullwalk.Result{{
		Schema: pullwalk.Schema, Verdict: pullwalk.StatusFailed, Primary: &missing,
		Vantage: pullwalk.Vantage{NetworkNamespace: "host", Labels: []pullwalk.Label{{Key: pullwalk.LabelPool, Value: "gpu"}}},
	}}
	err := pullwalk.Coverage([]pullwalk.Pool{{Name: "gpu"}, {Name: "web"}}, results).Err()

	var finding classify.Finding // the root cause that most pools share
	if errors.As(err, &finding) {
		fmt.Println(finding.Cause, "is for", finding.Owner)
	}
	// Output:
	// dns.nxdomain is for dns
}

// A controller looks again and again, and updates the condition of its object only
// when something changed.
func ExampleResult_Fingerprint() {
	w, opts := exampleLab()
	defer w.Close()

	last := ""
	look := func() {
		res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
		if err != nil {
			fmt.Println(err)
			return
		}
		if now := res.Fingerprint(); now != last {
			last = now
			reason, _ := res.Condition()
			fmt.Printf("condition: %t, reason %s\n", res.Err() == nil, reason)
		}
	}
	look()
	look() // nothing changed
	w.Break(lab.MissingTag())
	look()
	look() // still broken in the same way
	// Output:
	// condition: true, reason EveryHopHeld
	// condition: false, reason ImageManifestUnknown
}

// The condition of a Kubernetes object takes a reason and a message.
func ExampleResult_Condition() {
	f := classify.New(classify.RouteConnectTimeout, "10.20.0.4:443 did not answer within 5s.")
	f.Endpoint = "registry.corp.test:443"
	res := &pullwalk.Result{Verdict: pullwalk.StatusFailed, Primary: &f}
	reason, message := res.Condition()
	message, _, _ = strings.Cut(message, " Look: ")
	fmt.Println(reason)
	fmt.Println(message)
	// Output:
	// RouteConnectTimeout
	// owner network: route.connect-timeout at registry.corp.test:443: 10.20.0.4:443 did not answer within 5s.
}
