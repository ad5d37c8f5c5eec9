//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pullwalk/pullwalk/internal/lab"
)

// daemon is a real containerd that has just been started with nothing in its
// store.
type daemon struct {
	dir, socket string
	cmd         *exec.Cmd
	log         *os.File
}

func startDaemon(ctx context.Context, roots string) (_ *daemon, err error) {
	d := &daemon{}
	if d.dir, err = os.MkdirTemp("", "pullwalk-far-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	d.socket = filepath.Join(d.dir, "s")
	// Everything that it would make elsewhere on the machine lies here.
	config := strings.ReplaceAll(`version = 3
root = "DIR/root"
state = "DIR/state"
[grpc]
  address = "DIR/s"
[plugins.'io.containerd.cri.v1.runtime'.cni]
  conf_dir = "DIR/cni"
[plugins.'io.containerd.internal.v1.opt']
  path = "DIR/opt"
[plugins.'io.containerd.nri.v1.nri']
  disable = true
`, "DIR", d.dir)
	if err := os.WriteFile(filepath.Join(d.dir, "config.toml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	if d.log, err = os.Create(filepath.Join(d.dir, "log")); err != nil {
		return nil, err
	}
	// The diagnosis looks for a process of this name.
	program := filepath.Join(d.dir, "containerd")
	if err := os.Symlink(*containerd, program); err != nil {
		return nil, err
	}
	d.cmd = exec.Command(program, "-c", filepath.Join(d.dir, "config.toml"))
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "SSL_CERT_FILE=" + roots}
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for {
		out, err := d.crictl(ctx, "images")
		if err == nil {
			return d, nil
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(d.log.Name())
			return nil, fmt.Errorf("containerd does not answer: %s\n%s", out, log[max(0, len(log)-2000):])
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// pull asks for the image as the kubelet does, with the credential of a pull
// secret, and returns when the runtime has the image.
func (d *daemon) pull(ctx context.Context, image string) error {
	out, err := d.crictl(ctx, "pull", "--creds", lab.Username+":"+lab.Password, image)
	if err != nil {
		return fmt.Errorf("containerd: %s", out)
	}
	return nil
}

func (d *daemon) crictl(ctx context.Context, args ...string) ([]byte, error) {
	none := filepath.Join(d.dir, "crictl.yaml")
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		return nil, err
	}
	at := "unix://" + d.socket
	return exec.CommandContext(ctx, *crictl, append([]string{"-c", none, "-r", at, "-i", at}, args...)...).CombinedOutput()
}

func (d *daemon) stop() error {
	var errs []error
	if d.cmd != nil && d.cmd.Process != nil {
		errs = append(errs, d.cmd.Process.Kill())
		_ = d.cmd.Wait()
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}
