// Command agent says what the pull of an image meets from the node that it runs
// on: to whoever asks over HTTP, or once.
//
//	agent [flags]              serve POST /v1/diagnose until it is told to stop
//	agent -once [flags] IMAGE  print one result
//
// Either way the answer is JSON of the schema pullwalk.result/v1. Exit codes of
// -once: 0 the verdict is ok or degraded, 1 failed, 2 the question makes no sense,
// 3 inconclusive. Without -once: 0 after a signal, 2 if it could not serve.
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
	"time"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/examples/internal/agentclient"
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
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: agent [flags]\n       agent -once [flags] IMAGE")
		flags.PrintDefaults()
	}
	var (
		hostRoot   = flags.String("host-root", "", "`directory` where the node's file tree is seen; without it this machine's own")
		node       = flags.String("node", "", "the cluster's `name` of this node; every result carries it")
		registries = flags.String("registries", "", "`hosts`, separated by commas, whose images are diagnosed; without it all")

		plugins = flags.Bool("run-credential-plugins", false, "run the kubelet's credential provider plugins, as root and from the node's own root: not with -host-root")

		once   = flags.Bool("once", false, "diagnose one image and end")
		pull   = flags.String("pull", "", "with -once: touch, complete or connect")
		budget = flags.Duration("budget", 0, "with -once: limit for the diagnosis (default 1m, complete 5m)")
		creds  = flags.String("creds", "", "with -once: `file` in the form of a pull secret (dockerconfigjson)")

		l          listening
		concurrent = flags.Int("concurrent", 2, "requests that are answered at the same time")
	)
	flags.StringVar(&l.address, "address", "127.0.0.1", "IP `address` to listen on; one that is not loopback needs the three files")
	flags.IntVar(&l.port, "port", agentclient.DefaultPort, "port to listen on")
	flags.StringVar(&l.tokenFile, "token-file", "", "`file` with the bearer token that requests must carry")
	users := flags.String("token-users", "", "`users`, separated by commas, that may ask with a token of the cluster for the audience NODE."+agentclient.ServerName+"; needs -node and the right to create tokenreviews")
	flags.StringVar(&l.certFile, "tls-cert", "", "`file` with the certificate, for the name "+agentclient.ServerName+", or NODE."+agentclient.ServerName+" where each node has its own")
	flags.StringVar(&l.keyFile, "tls-key", "", "`file` with its key")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitInvalid
	case *once != (flags.NArg() == 1) || flags.NArg() > 1 || *concurrent < 1:
		flags.Usage()
		return exitInvalid
	}
	m := machine{hostRoot: *hostRoot, node: *node, registries: words(*registries), plugins: *plugins}
	if err := m.check(); err != nil {
		fmt.Fprintln(stderr, "agent:", err)
		return exitInvalid
	}
	if !*once {
		err := l.reviewing(words(*users), *node)
		if err != nil {
			fmt.Fprintln(stderr, "agent:", err)
			return exitInvalid
		}
		if err := serve(ctx, m, l, *concurrent, stderr); err != nil {
			fmt.Fprintln(stderr, "agent:", err)
			return exitInvalid
		}
		return exitOK
	}
	code, err := printOne(ctx, m, flags.Arg(0), pullwalk.PullMode(*pull), *budget, *creds, stdout)
	if err != nil {
		fmt.Fprintln(stderr, "agent:", err)
	}
	return code
}

// words are the parts of a list with commas; nil = none.
func words(list string) (out []string) {
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word != "" {
			out = append(out, word)
		}
	}
	return out
}

// reviewing adds who may ask with a token of the cluster, if anybody.
func (l *listening) reviewing(users []string, node string) (err error) {
	switch {
	case users == nil:
		return nil
	case node == "":
		return errors.New("-token-users: want -node, which tokens are for, got none")
	}
	l.review, err = newReviewer(os.Getenv, accountDir, agentclient.NodeServerName(node), users)
	return err
}

func printOne(ctx context.Context, m machine, image string, pull pullwalk.PullMode, budget time.Duration, creds string, stdout io.Writer) (int, error) {
	req := agentclient.Request{Images: []string{image}, Pull: pull, BudgetMS: budget.Milliseconds()}
	if creds != "" {
		data, err := os.ReadFile(creds)
		if err != nil {
			return exitInvalid, err
		}
		if _, err := tlsauth.DockerConfig(data); err != nil { // a kubelet would stop the pull
			return exitInvalid, fmt.Errorf("%s: %w", creds, err)
		}
		req.PullSecrets = []agentclient.PullSecret{{Name: creds, Data: data}}
	}
	results, err := m.diagnose(ctx, req)
	if err != nil {
		return exitInvalid, err
	}
	enc := json.NewEncoder(stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(results[0]); err != nil {
		return exitInvalid, err
	}
	switch results[0].Verdict {
	case pullwalk.StatusOK, pullwalk.StatusDegraded:
		return exitOK, nil
	case pullwalk.StatusFailed:
		return exitFailed, nil
	}
	return exitInconclusive, nil
}
