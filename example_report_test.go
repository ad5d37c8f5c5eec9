package pullwalk_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
)

// What to post in the chat of those who wait: a few lines, the cause second.
func ExampleResult_Summary() {
	w, opts := exampleLab()
	defer w.Close()
	w.Break(lab.NoSuchName(w.Registry))

	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	lines := strings.Split(res.Summary(), "\n")
	fmt.Println(lines[1])
	fmt.Println(len(lines) <= 11, len(res.Summary()) < len(res.String()))
	// Output:
	// First broken: layer dns at registry.corp.test (dns.nxdomain), owner dns
	// true true
}

// What the cluster reported stands beside what is the case now.
func ExampleOptions_events() {
	w, opts := exampleLab()
	defer w.Close()
	events, err := classify.ParseEvents(strings.NewReader(
		`Warning  Failed  3m  kubelet  Failed to pull image "` + w.Image() + `": dial tcp: lookup registry.corp.test on 10.20.0.2:53: no such host`))
	if err != nil {
		fmt.Println(err)
		return
	}
	opts.Events = events
	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("events:", res.Reported.Reading.Best.Cause)
	fmt.Println("probes:", res.Verdict)
	fmt.Println("agree:", res.Reported.Agrees)
	// Output:
	// events: dns.nxdomain
	// probes: ok
	// agree: no
}

// An agent that does not see the host's processes knows from its configuration
// which runtime pulls here, and which proxy that was started with.
func ExampleRuntimeHint() {
	w, opts := exampleLab()
	defer w.Close()
	opts.Runtime = pullwalk.RuntimeHint{Name: "crio", Environ: map[string]string{"NO_PROXY": "corp.test"}}

	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Vantage.Runtime, res.Vantage.RuntimePID, res.Vantage.NetworkNamespace)
	// Output: crio 0 unknown
}
