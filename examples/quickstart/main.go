// Command quickstart shows what pullwalk says of a pull that works, and of the
// same pull broken in one layer at a time.
//
// It needs nothing but Go: it starts a private registry on the loopback
// interface (registry, token server, blob host, DNS server, private CA), proves a
// complete pull, breaks one thing, diagnoses, heals, and goes on. With -break NAME it
// breaks that one thing and prints the whole report. It exits non-zero if any
// diagnosis is not the truth.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

func main() {
	only := flag.String("break", "", "break only this, and print the whole report; \"list\" = the names")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *only); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// broken is one way to break the world, and the truth about it.
type broken struct {
	name  string // for -break
	what  string
	fault lab.Fault // nil: what is wrong is in the question, see image and password
	image string    // "" = the world's
	pass  string    // "" = the right one

	layer classify.Layer
	cause classify.Cause
	host  string
}

func run(ctx context.Context, out io.Writer, only string) error {
	w, err := lab.New(lab.Options{})
	if err != nil {
		return err
	}
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Close()
	if only != "" {
		return showOne(ctx, out, w, only)
	}
	return showAll(ctx, out, w)
}

// showOne breaks one thing and prints the whole report.
func showOne(ctx context.Context, out io.Writer, w *lab.World, name string) error {
	var names []string
	for _, b := range scenarios(w) {
		names = append(names, b.name)
		if b.name != name {
			continue
		}
		if b.fault != nil {
			w.Break(b.fault)
		}
		res, err := diagnose(ctx, w, b, pullwalk.Complete)
		if err != nil {
			return err
		}
		fmt.Fprint(out, res)
		if !b.truth(res) {
			return fmt.Errorf("the truth is %s at %s", b.cause, b.host)
		}
		return nil
	}
	if name == "list" {
		fmt.Fprintln(out, strings.Join(names, "\n"))
		return nil
	}
	return fmt.Errorf("want one of %s, got %q", strings.Join(names, ", "), name)
}

func showAll(ctx context.Context, out io.Writer, w *lab.World) error {
	fmt.Fprintln(out, "A pull that works: every layer is downloaded and every digest checked.")
	res, err := diagnose(ctx, w, broken{}, pullwalk.Complete)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", indent(res.String()))
	if res.Verdict != pullwalk.StatusOK || res.Proof == nil {
		return fmt.Errorf("the healthy pull is not proved: %s", res.Verdict)
	}
	fmt.Fprintln(out, "The same pull, broken in one layer at a time.")
	wrong := 0
	for _, b := range scenarios(w) {
		if b.fault != nil {
			w.Break(b.fault)
		}
		res, err := diagnose(ctx, w, b, pullwalk.Complete)
		if err != nil {
			return fmt.Errorf("%s: %w", b.what, err)
		}
		if err := w.Heal(); err != nil {
			return err
		}
		mark := "rightly named"
		if !b.truth(res) {
			mark = fmt.Sprintf("WRONG: the truth is %s at %s", b.cause, b.host)
			wrong++
		}
		fmt.Fprintf(out, "\n== %s (%s)\n%s", b.what, mark, summary(res))
	}
	if wrong > 0 {
		return fmt.Errorf("%d diagnoses are wrong", wrong)
	}
	fmt.Fprintf(out, "\nEvery diagnosis named the layer, the cause and the host that were broken.\n")
	return nil
}

func scenarios(w *lab.World) []broken {
	registry, token, blobs := w.Registry.Address(), w.Token.Address(), w.Blobs.Address()
	return []broken{
		{name: "no-such-name", what: "the registry's name does not exist", fault: lab.NoSuchName(w.Registry), layer: classify.LayerDNS, cause: classify.DNSNXDOMAIN, host: w.Registry.Name},
		{name: "refused", what: "the registry refuses connections", fault: lab.Refused(w.Registry), layer: classify.LayerEndpoint, cause: classify.EndpointConnectionRefused, host: registry},
		{name: "silent-token-server", what: "the token server accepts and never answers", fault: lab.Silent(w.Token), layer: classify.LayerEndpoint, cause: classify.EndpointTLSHandshakeTimeout, host: token},
		{name: "blob-host-gone", what: "the blob host is gone, the manifest answers", fault: lab.Refused(w.Blobs), layer: classify.LayerEndpoint, cause: classify.EndpointConnectionRefused, host: blobs},
		{name: "unknown-ca", what: "the registry's certificate is of a CA that the node does not trust", fault: lab.UntrustedCA(w.Registry), layer: classify.LayerTLS, cause: classify.TLSUnknownAuthority, host: registry},
		{name: "wrong-name", what: "the blob host's certificate is for another name", fault: lab.WrongName(w.Blobs), layer: classify.LayerTLS, cause: classify.TLSHostnameMismatch, host: blobs},
		{name: "wrong-password", what: "the password is wrong", pass: "not-the-password", layer: classify.LayerIdentity, cause: classify.IdentityBadCredentials, host: token},
		{name: "no-right", what: "the token does not carry the right to pull", fault: lab.TokenWithoutRight(), layer: classify.LayerIdentity, cause: classify.IdentityInsufficientScope, host: token},
		{name: "no-such-tag", what: "the tag does not exist", image: w.MissingTag(), layer: classify.LayerImage, cause: classify.ImageManifestUnknown, host: registry},
		{name: "corrupt-layer", what: "a layer's bytes are not what its digest says", fault: lab.CorruptLayer(1), layer: classify.LayerImage, cause: classify.ImageDigestMismatch, host: blobs},
	}
}

func (b broken) truth(r *pullwalk.Result) bool {
	p := r.Primary
	return r.Verdict == pullwalk.StatusFailed && p != nil && p.Layer == b.layer && p.Cause == b.cause && p.Endpoint == b.host
}

// diagnose asks about the world as a node in it would: with its files, its
// nameserver and the pull secret of the workload.
func diagnose(ctx context.Context, w *lab.World, b broken, mode pullwalk.PullMode) (*pullwalk.Result, error) {
	secret := w.DockerConfig()
	if b.pass != "" {
		secret = w.DockerConfigFor(lab.Username, b.pass)
	}
	keychain, err := tlsauth.DockerConfig(secret)
	if err != nil {
		return nil, err
	}
	image := w.Image()
	if b.image != "" {
		image = b.image
	}
	return pullwalk.Diagnose(ctx, image, &pullwalk.Options{
		Node:     pullwalk.Node{FS: w.FS(), DNS: w.Exchanger()},
		Keychain: keychain,
		Platform: "linux/amd64",
		Pull:     mode,
		// The world lies on loopback, which would be odd for a registry elsewhere.
		Expect: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		// A host that accepts and never answers is given two seconds here, so that
		// the show goes on; the default is what the runtimes wait.
		Limits: pullwalk.Limits{TLS: 2 * time.Second},
	})
}

// summary keeps the lines that tell what to do.
func summary(r *pullwalk.Result) string {
	var b strings.Builder
	p := r.Primary
	if p == nil {
		return "  verdict " + string(r.Verdict) + "\n"
	}
	info, _ := classify.Lookup(p.Cause)
	for _, line := range [][2]string{
		{"first broken", fmt.Sprintf("layer %s at %s (%s)", p.Layer, p.Endpoint, p.Cause)},
		{"seen", p.Summary},
		{"owner", string(p.Owner)},
		{"where to look", info.Look},
		{"will not help", p.NotFixedBy},
	} {
		fmt.Fprintf(&b, "  %-14s %s\n", line[0]+":", line[1])
	}
	return b.String()
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") + "\n"
}
