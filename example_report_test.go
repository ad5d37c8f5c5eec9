package pullwalk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing/fstest"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
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

// What the kubelet would offer: the pod's pull secrets, and after them what lies on
// the node. Here the pod names a secret for another registry, and the node's own
// credential lets the image in.
func ExampleOptions_nodeCredentials() {
	w, opts := exampleLab()
	defer w.Close()
	node := w.FS().(fstest.MapFS)
	node["var/lib/kubelet/config.json"] = &fstest.MapFile{Data: w.DockerConfig(), Mode: 0o600}
	opts.Node.FS = node

	opts.NodeCredentials = true
	opts.Keychain = &tlsauth.Kubelet{Secrets: []tlsauth.PullSecret{
		{Name: "partner-pull", Data: []byte(`{"auths": {"other.corp.test": {"username": "u", "password": "p"}}}`)},
	}}
	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil { // a Keychain of another type
		fmt.Println(err)
		return
	}
	fmt.Println(res.Verdict, strings.Contains(res.Vantage.Identity, "/var/lib/kubelet/config.json"))
	// Output: ok true
}

// An agent on the node writes JSON, and another program reads it: the Result is
// complete, with its report, its verdict as an error and its fingerprint. Only the Go
// errors behind its findings stay where they were met.
func ExampleResult_json() {
	w, opts := exampleLab()
	defer w.Close()
	w.Break(lab.TokenWithoutRight())

	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	sent, err := json.Marshal(res)
	if err != nil {
		fmt.Println(err)
		return
	}
	var got pullwalk.Result
	if err := json.Unmarshal(sent, &got); err != nil || got.Schema != pullwalk.Schema {
		fmt.Println("no result of this version", err)
		return
	}
	fmt.Println(got.Primary.Cause, got.String() == res.String(), got.Fingerprint() == res.Fingerprint(), got.Err() != nil)
	// Output: identity.insufficient-scope true true true
}
