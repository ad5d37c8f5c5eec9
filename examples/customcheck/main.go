// Command customcheck shows a step of the caller's own in a pull.
//
// It needs nothing but Go: it starts a private registry on the loopback interface
// and diagnoses the pull twice, with an egress rule that holds and with one that
// does not. It exits non-zero if either diagnosis is not the truth.
package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "customcheck:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	w, err := lab.New(lab.Options{})
	if err != nil {
		return err
	}
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Close()
	keychain, err := tlsauth.DockerConfig(w.DockerConfig())
	if err != nil {
		return err
	}
	for _, rule := range []struct {
		allowed netip.Prefix
		verdict pullwalk.Status
	}{
		{netip.MustParsePrefix("127.0.0.0/8"), pullwalk.StatusOK},      // loopback is let in
		{netip.MustParsePrefix("10.40.0.0/16"), pullwalk.StatusFailed}, // only the egress gateway is
	} {
		res, err := pullwalk.Diagnose(ctx, w.Image(), &pullwalk.Options{
			Node:     pullwalk.Node{FS: w.FS(), DNS: w.Exchanger()},
			Keychain: keychain,
			Platform: "linux/amd64",
			Checks:   []pullwalk.Check{egressCheck(rule.allowed)},
		})
		if err != nil {
			return err // the question made no sense, such as a check without an ID
		}
		fmt.Fprintf(out, "The registry's firewall lets in %v:\n\n%s\n", rule.allowed, res)
		for _, e := range res.Sources[0].Endpoints {
			for _, st := range e.Steps {
				if st.ID == "corp/egress-source" {
					fmt.Fprintf(out, "  %s@%s: %s\n", st.ID, e.HostPort(), st.Status)
				}
			}
		}
		fmt.Fprintln(out)
		if res.Verdict != rule.verdict {
			return fmt.Errorf("the verdict is %s, and the truth is %s", res.Verdict, rule.verdict)
		}
	}
	return nil
}
