package gotest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
	"github.com/pullwalk/pullwalk/internal/lab"
	"github.com/pullwalk/pullwalk/tlsauth"
)

var (
	image  = flag.String("image", "", "the `image` that the suite runs; without it a registry on loopback stands in")
	secret = flag.String("creds", "", "`file` in the form of a pull secret (dockerconfigjson)")
)

// TestMain asks before the suite: nothing runs against an image that cannot be
// pulled.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := pullable(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err) // the whole report
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func pullable(ctx context.Context) error {
	ref, opts, done, err := target()
	if err != nil {
		return err
	}
	defer done()
	res, err := pullwalk.Diagnose(ctx, ref, opts)
	if err != nil {
		return err // the question made no sense
	}
	return res.Err()
}

// The same as a test of its own, where a suite has no TestMain to spare.
func TestImageCanBePulled(t *testing.T) {
	ref, opts, done, err := target()
	require.NoError(t, err)
	defer done()
	res, err := pullwalk.Diagnose(t.Context(), ref, opts)
	require.NoError(t, err)
	require.NoError(t, res.Err()) // its message is the whole report
	t.Log(res)
}

// target is the image of the flags and how this machine pulls it, or a registry on
// loopback.
func target() (ref string, opts *pullwalk.Options, done func(), err error) {
	if *image == "" {
		w, err := startLab()
		if err != nil {
			return "", nil, nil, err
		}
		opts, err := labOptions(w)
		return w.Image(), opts, w.Close, err
	}
	opts = &pullwalk.Options{}
	if *secret != "" {
		data, err := os.ReadFile(*secret)
		if err != nil {
			return "", nil, nil, err
		}
		if opts.Keychain, err = tlsauth.DockerConfig(data); err != nil {
			return "", nil, nil, fmt.Errorf("%s: %w", *secret, err)
		}
	}
	return *image, opts, func() {}, nil
}

func startLab() (*lab.World, error) {
	w, err := lab.New(lab.Options{})
	if err != nil {
		return nil, err
	}
	return w, w.Start()
}

func labOptions(w *lab.World) (*pullwalk.Options, error) {
	keychain, err := tlsauth.DockerConfig(w.DockerConfig())
	return &pullwalk.Options{Node: pullwalk.Node{FS: w.FS(), DNS: w.Exchanger()}, Keychain: keychain, Platform: "linux/amd64"}, err
}
