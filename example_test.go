package pullwalk_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/dnscheck"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// exampleLab stands in for the registry of your company: names, certificates and
// a token server of its own, on loopback.
func exampleLab() (*lab.World, *pullwalk.Options) {
	w, err := lab.New(lab.Options{})
	if err == nil {
		err = w.Start()
	}
	if err != nil {
		panic(err)
	}
	keychain, err := tlsauth.DockerConfig(w.DockerConfig()) // what the pull secret holds
	if err != nil {
		panic(err)
	}
	return w, &pullwalk.Options{
		Node:     pullwalk.Node{FS: w.FS(), DNS: w.Exchanger()},
		Keychain: keychain,
		Platform: "linux/amd64",
	}
}

// Why can this node not pull this image?
func ExampleDiagnose() {
	w, opts := exampleLab()
	defer w.Close()
	w.Break(lab.NoSuchName(w.Blobs)) // the private zone lacks the blob host

	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil { // the question makes no sense
		fmt.Println(err)
		return
	}
	fmt.Println("verdict:", res.Verdict)
	fmt.Println("first broken layer:", res.Primary.Layer)
	fmt.Println("cause:", res.Primary.Cause)
	fmt.Println("where:", res.Primary.Endpoint)
	fmt.Println("owner:", res.Primary.Owner)
	// Output:
	// verdict: failed
	// first broken layer: dns
	// cause: dns.nxdomain
	// where: blobs.corp.test
	// owner: dns
}

// Which images of a workload can this node not pull? Hosts that several images need
// are looked up, connected to and verified once.
func ExampleDiagnoseAll() {
	w, opts := exampleLab()
	defer w.Close()

	images := []string{w.Image(), w.MissingTag()}
	all, err := pullwalk.DiagnoseAll(context.Background(), images, opts)
	if err != nil { // one of the questions makes no sense: the error names it
		fmt.Println(err)
		return
	}
	for _, res := range all { // in the order of images
		fmt.Print(res.Image.Tag, ": ", res.Verdict)
		if res.Primary != nil {
			fmt.Print(", ", res.Primary.Cause)
		}
		fmt.Println()
	}
	// Output:
	// v1: ok
	// no-such-tag: failed, image.manifest-unknown
}

// Touch says that every hop held. Only a complete download is a proof.
func ExampleDiagnose_proof() {
	w, opts := exampleLab()
	defer w.Close()

	opts.Pull = pullwalk.Complete
	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Verdict, "-", res.Proof.Layers, "layers,", res.Proof.Bytes, "bytes, every digest checked")
	// Output:
	// ok - 3 layers, 103330 bytes, every digest checked
}

// A node that cannot be pulled to fails a test or a health check in one line.
func ExampleResult_Err() {
	w, opts := exampleLab()
	defer w.Close()
	w.Break(lab.TokenWithoutRight())

	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	// In a test: require.NoError(t, res.Err())
	var finding classify.Finding
	if errors.As(res.Err(), &finding) {
		fmt.Println(finding.Cause, "is for", finding.Owner)
	}
	// Output:
	// identity.insufficient-scope is for identity
}

// Steps are told as they complete, silence long before it is decided.
func ExampleOptions_progress() {
	w, opts := exampleLab()
	defer w.Close()
	w.Break(lab.MissingTag())

	opts.OnStep = func(s pullwalk.Step) {
		if s.Status == pullwalk.StatusFailed {
			fmt.Println(s.ID, "failed:", s.Findings[0].Cause)
		}
	}
	opts.OnProgress = func(p pullwalk.Progress) { fmt.Fprintln(os.Stderr, p) }
	opts.Budget = 30 * time.Second
	if _, err := pullwalk.Diagnose(context.Background(), w.Image(), opts); err != nil {
		fmt.Println(err)
	}
	// Output:
	// resolve failed: image.manifest-unknown
}

// The view of the node is made of parts, each of which can be your own: here the
// files of a node image and a nameserver that says no, without a network.
func ExampleNode() {
	node := pullwalk.Node{
		FS: fstest.MapFS{
			"etc/resolv.conf": {Data: []byte("nameserver 10.20.0.2\n"), Mode: 0o644},
			"etc/hostname":    {Data: []byte("node-1\n"), Mode: 0o644},
		},
		DNS: dnscheck.ExchangerFunc(func(context.Context, netip.AddrPort, string, dnscheck.Question) (dnscheck.Answer, error) {
			return dnscheck.Answer{RCode: "NXDOMAIN", RecursionAvailable: true}, nil
		}),
		Labels: map[string]string{"pool": "gpu"},
	}
	res, err := pullwalk.Diagnose(context.Background(), "registry.corp.test/team/app:v1", &pullwalk.Options{Node: node})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Vantage.HostName, res.Vantage.Labels[0].Value, "-", res.Primary.Cause)
	// Output:
	// node-1 gpu - dns.nxdomain
}

// An agent sees the host's files where they are mounted. Each part of the view can
// still be replaced: here what the nameserver says.
func ExampleHostNode() {
	root, err := os.MkdirTemp("", "host")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	for name, content := range map[string]string{"resolv.conf": "nameserver 10.20.0.2\n", "hostname": "node-7\n"} {
		if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
			fmt.Println(err)
			return
		}
		if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(content), 0o644); err != nil {
			fmt.Println(err)
			return
		}
	}

	node := pullwalk.HostNode(root) // in a DaemonSet: pullwalk.HostNode("/host")
	node.DNS = dnscheck.ExchangerFunc(func(context.Context, netip.AddrPort, string, dnscheck.Question) (dnscheck.Answer, error) {
		return dnscheck.Answer{RCode: "SERVFAIL", RecursionAvailable: true}, nil
	})
	node.Labels = map[string]string{"pool": "spot"}
	res, err := pullwalk.Diagnose(context.Background(), "registry.corp.test/team/app:v1", &pullwalk.Options{Node: node})
	if err != nil { // the root cannot be read
		fmt.Println(err)
		return
	}
	fmt.Println(res.Vantage.HostName, res.Vantage.ResolverFile, "-", res.Primary.Cause)
	// Output:
	// node-7 /etc/resolv.conf - dns.servfail
}

// A smoke test asks before the suite; what it prints is the whole report. In a test:
//
//	require.NoError(t, res.Err())
//
// and in TestMain as here. See examples/gotest.
func ExampleDiagnose_smokeTest() {
	w, opts := exampleLab()
	defer w.Close()
	w.Break(lab.MissingTag())

	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err == nil {
		err = res.Err() // nil if ok or degraded
	}
	if err != nil {
		report := err.Error()
		fmt.Println(strings.Contains(report, "the pull fails"), strings.Contains(report, "Where to look:"), strings.Contains(report, "Will not help:"))
		// os.Exit(1)
	}
	// Output:
	// true true true
}

// What only the company knows becomes a rung of the ladder. See examples/customcheck.
func ExampleCheck() {
	w, opts := exampleLab()
	defer w.Close()

	opts.Checks = []pullwalk.Check{{
		ID:    "corp/maintenance",
		Layer: classify.LayerRegistry,
		Needs: []pullwalk.StepID{pullwalk.StepTLS},
		Run: func(_ context.Context, in pullwalk.Input) ([]classify.Finding, error) {
			if in.Now().Year() < 2000 {
				return nil, errors.New("the calendar does not go back so far") // leaves the verdict open
			}
			f := classify.New("x.maintenance", in.Host+" is being moved tonight")
			f.Severity = classify.SeverityWarn
			return []classify.Finding{f}, nil
		},
	}}
	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil { // a check without an ID, a circle of needs
		fmt.Println(err)
		return
	}
	for _, f := range res.Findings {
		if f.Severity == classify.SeverityWarn {
			fmt.Println(res.Verdict, f.Layer, f.Cause, f.Summary)
		}
	}
	// Output:
	// degraded registry x.maintenance registry.corp.test is being moved tonight
}

// A path that loses every third connection looks whole or dead to a single one.
func ExampleOptions_rounds() {
	w, opts := exampleLab()
	defer w.Close()

	opts.Rounds = 5
	res, err := pullwalk.Diagnose(context.Background(), w.Image(), opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range res.Sources[0].Endpoints {
		for _, st := range e.Steps {
			if st.ID == pullwalk.StepRounds {
				fmt.Println(e.Host, st.Subject, st.Status, len(st.Rounds))
			}
		}
	}
	// Unordered output:
	// registry.corp.test dns ok 5
	// registry.corp.test connect ok 5
	// auth.corp.test dns ok 5
	// auth.corp.test connect ok 5
	// blobs.corp.test dns ok 5
	// blobs.corp.test connect ok 5
}
