// Command backend says whether a process here reaches the application's backend:
// name, route, connect, TLS. It is run in a pod, and is about nothing but the
// application.
//
//	backend [flags] HOST:PORT
//
// Exit codes: 0 reachable, 1 unreachable, 2 the question makes no sense, 3 unknown.
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
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, Backend{}, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, b Backend, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("backend", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: backend [flags] HOST:PORT")
		flags.PrintDefaults()
	}
	asJSON := flags.Bool("json", false, "print the answer as JSON ("+Schema+")")
	flags.BoolVar(&b.Plain, "plain", false, "no TLS is spoken there: a database, plain http")
	budget := flags.Duration("budget", 30*time.Second, "limit for all of it")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() != 1:
		flags.Usage()
		return 2
	}
	b.HostPort = flags.Arg(0)
	ctx, cancel := context.WithTimeout(ctx, *budget)
	defer cancel()
	c, err := b.Check(ctx)
	if err != nil {
		fmt.Fprintln(stderr, "backend:", err)
		return 2
	}
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		err = enc.Encode(c)
	} else {
		_, err = io.WriteString(stdout, c.String())
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "backend:", err)
		return 2
	case c.Connectivity == Reachable:
		return 0
	case c.Connectivity == Unreachable:
		return 1
	}
	return 3
}
