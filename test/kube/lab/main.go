// Command lab is the world around the nodes of e2e.sh.
//
//	lab image NAME PROGRAM OUT
//	      write an image of one static program, as `ctr images import` reads it
//	lab serve -registry IP -token IP -blobs IP -dns IP -public-dns IP -app PROGRAM -out DIR
//	      the private registry of internal/lab on port 443 of three addresses, and two nameservers
//
// serve writes into DIR what nodes and pods need, the file "image" last: ca.crt,
// pullsecret.json and the image's name. It ends on a signal, and complains then if
// a credential came where it must not.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "image":
		return writeImage(args[1], args[2], args[3])
	case len(args) > 0 && args[0] == "serve":
		return serve(args[1:])
	}
	return errors.New("usage: lab image NAME PROGRAM OUT, or lab serve [flags]")
}

func serve(args []string) error {
	var s settings
	f := flag.NewFlagSet("lab serve", flag.ContinueOnError)
	f.StringVar(&s.registry, "registry", "", "`IP` of the registry")
	f.StringVar(&s.token, "token", "", "`IP` of the token server")
	f.StringVar(&s.blobs, "blobs", "", "`IP` of the blob host")
	f.StringVar(&s.dns, "dns", "", "`IP` of the nameserver that knows the three")
	f.StringVar(&s.publicDNS, "public-dns", "", "`IP` of the nameserver that knows none of them")
	f.StringVar(&s.app, "app", "", "static `program` of the image")
	f.StringVar(&s.out, "out", "", "`directory` for what nodes and pods need")
	if err := f.Parse(args); err != nil {
		return err
	}
	return s.serve()
}
