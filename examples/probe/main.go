// Command probe diagnoses the pull of one real image from where it runs.
//
//	probe [flags] IMAGE
//
// The report goes to standard output, progress to standard error. Exit codes: 0
// the verdict is ok or degraded, 1 failed, 2 the question makes no sense, 3
// inconclusive.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/classify"
	"github.com/pullwalk/pullwalk/tlsauth"
)

// The exit codes.
const (
	exitOK           = 0
	exitFailed       = 1
	exitInvalid      = 2
	exitInconclusive = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: probe [flags] IMAGE")
		flags.PrintDefaults()
	}
	var (
		asJSON   = flags.Bool("json", false, "print the result as JSON ("+pullwalk.Schema+")")
		asMD     = flags.Bool("markdown", false, "print the report as Markdown")
		complete = flags.Bool("complete", false, "download every layer and check every digest; nothing is stored")
		connect  = flags.Bool("connect", false, "stop before any identity is used")
		creds    = flags.String("creds", "", "`file` in the form of a pull secret (dockerconfigjson); without it the pull is anonymous")
		nodeOwn  = flags.Bool("node-credentials", false, "offer what the node's kubelet offers by itself: its credential files and provider plugins")
		plugins  = flags.Bool("run-plugins", false, "run those plugins, as the kubelet does; implies -node-credentials")
		hostRoot = flags.String("host-root", "", "`directory` where the node's file tree is mounted")
		events   = flags.String("events", "", "`file` with what the cluster reported: kubectl describe, kubectl get events -o json, or plain lines; - is standard input")
		budget   = flags.Duration("budget", 0, "limit for the whole diagnosis (default 60s, with -complete 5m)")
		platform = flags.String("platform", "", "os/architecture[/variant] (default: linux, and this machine's architecture)")
		explain  = flags.Bool("explain", false, "print behind the report what was decided about what was seen, rule by rule")
		quiet    = flags.Bool("quiet", false, "no progress on standard error")
	)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitInvalid
	case flags.NArg() != 1:
		flags.Usage()
		return exitInvalid
	}
	opts := &pullwalk.Options{Budget: *budget, Platform: *platform, NodeCredentials: *nodeOwn, RunPlugins: *plugins}
	switch {
	case *complete && *connect:
		fmt.Fprintln(stderr, "probe: -complete and -connect exclude each other")
		return exitInvalid
	case *asJSON && *asMD:
		fmt.Fprintln(stderr, "probe: -json and -markdown exclude each other")
		return exitInvalid
	case *complete:
		opts.Pull = pullwalk.Complete
	case *connect:
		opts.Pull = pullwalk.Connect
	}
	if *hostRoot != "" {
		opts.Node = pullwalk.HostNode(*hostRoot)
	}
	if !*quiet {
		opts.OnStep = func(s pullwalk.Step) { fmt.Fprintln(stderr, stepLine(s)) }
		opts.OnProgress = func(p pullwalk.Progress) { fmt.Fprintln(stderr, "  ...", p) }
	}
	res, err := diagnose(ctx, flags.Arg(0), *creds, *events, opts)
	if err != nil {
		fmt.Fprintln(stderr, "probe:", err)
		return exitInvalid
	}
	if err := print(stdout, res, *asJSON, *asMD); err != nil {
		fmt.Fprintln(stderr, "probe:", err)
		return exitInvalid
	}
	if *explain && !*asJSON { // JSON has them
		for _, d := range res.Decisions {
			fmt.Fprintln(stdout, decisionLine(d))
		}
	}
	switch res.Verdict {
	case pullwalk.StatusOK, pullwalk.StatusDegraded:
		return exitOK
	case pullwalk.StatusFailed:
		return exitFailed
	}
	return exitInconclusive
}

func diagnose(ctx context.Context, image, creds, events string, opts *pullwalk.Options) (*pullwalk.Result, error) {
	if creds != "" {
		data, err := os.ReadFile(creds)
		if err != nil {
			return nil, err
		}
		keychain, err := tlsauth.DockerConfig(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", creds, err)
		}
		opts.Keychain = keychain
		if opts.NodeCredentials || opts.RunPlugins { // the pod's secrets, before the node's own
			opts.Keychain = &tlsauth.Kubelet{Secrets: []tlsauth.PullSecret{{Name: creds, Data: data}}}
		}
	}
	if events != "" {
		list, err := readEvents(events)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", events, err)
		}
		opts.Events = list
	}
	return pullwalk.Diagnose(ctx, image, opts)
}

func readEvents(name string) ([]classify.EventRecord, error) {
	if name == "-" {
		return classify.ParseEvents(os.Stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return classify.ParseEvents(f)
}

func print(w io.Writer, res *pullwalk.Result, asJSON, asMarkdown bool) error {
	switch {
	case asJSON:
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(res)
	case asMarkdown:
		_, err := io.WriteString(w, res.Markdown())
		return err
	}
	_, err := io.WriteString(w, res.String())
	return err
}

// decisionLine is one decision as a line of text.
func decisionLine(d pullwalk.Decision) string {
	change := d.To
	if d.From != "" {
		change = d.From + " -> " + d.To
	}
	return fmt.Sprintf("  %s: %s: %s: %s", d.Rule, d.Subject, change, d.Why)
}

// stepLine is one step as a line of progress.
func stepLine(s pullwalk.Step) string {
	line := fmt.Sprintf("%-12s %-9s %s", s.Status, s.ID, s.Endpoint)
	if s.Addr.IsValid() {
		line += " [" + s.Addr.String() + "]"
	}
	if s.Subject != "" {
		subject := s.Subject
		if hex, ok := strings.CutPrefix(subject, "sha256:"); ok && len(hex) > 12 {
			subject = "sha256:" + hex[:12]
		}
		line += " " + subject
	}
	switch {
	case s.BlockedBy != "":
		line += " (by " + s.BlockedBy + ")"
	case s.Reason != "":
		line += " (" + s.Reason + ")"
	case len(s.Findings) > 0:
		line += ": " + s.Findings[0].Summary
	default:
		line += fmt.Sprintf(" %d ms", s.ElapsedMS)
	}
	return line
}
