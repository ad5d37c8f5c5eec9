package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/stretchr/testify/require"

	"github.com/pullwalk/pullwalk"
)

// host makes a file tree for -host-root, so that nothing of this machine decides.
func host(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "etc/ssl/certs"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/resolv.conf"), []byte("nameserver 127.0.0.1\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/hostname"), []byte("node-7\n"), 0o644))
	return root
}

// pushed serves a registry over plain http on loopback, as containerd allows it
// there, and stores an image in it.
func pushed(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	img, err := random.Image(32<<10, 3)
	require.NoError(t, err)
	layers, err := img.Layers()
	require.NoError(t, err)
	for _, l := range layers {
		content, err := l.Compressed()
		require.NoError(t, err)
		digest, err := l.Digest()
		require.NoError(t, err)
		put(t, http.MethodPost, s.URL+"/v2/team/app/blobs/uploads/?digest="+digest.String(), content, "application/octet-stream")
	}
	config, err := img.RawConfigFile()
	require.NoError(t, err)
	digest, err := img.ConfigName()
	require.NoError(t, err)
	put(t, http.MethodPost, s.URL+"/v2/team/app/blobs/uploads/?digest="+digest.String(), bytes.NewReader(config), "application/octet-stream")
	manifest, err := img.RawManifest()
	require.NoError(t, err)
	mediaType, err := img.MediaType()
	require.NoError(t, err)
	put(t, http.MethodPut, s.URL+"/v2/team/app/manifests/v1", bytes.NewReader(manifest), string(mediaType))
	return strings.TrimPrefix(s.URL, "http://") + "/team/app:v1"
}

func put(t *testing.T, method, url string, content io.Reader, mediaType string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, content)
	require.NoError(t, err)
	req.Header.Set("Content-Type", mediaType)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusCreated, resp.StatusCode)
}

func probe(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

func TestExitCodes(t *testing.T) {
	image, root := pushed(t), host(t)
	file := func(content string) string {
		name := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		return name
	}
	events := file("Warning  Failed  2m  kubelet  Failed to pull image \"" + image + "\": dial tcp 10.20.0.4:443: i/o timeout\n")
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"complete", []string{"-host-root", root, "-complete", image}, exitOK, "downloaded completely", "layer"},
		{"touch", []string{"-host-root", root, image}, exitOK, "not a complete pull", "resolve"},
		{"connect only", []string{"-host-root", root, "-connect", image}, exitOK, "no identity was used", ""},
		{"markdown", []string{"-host-root", root, "-markdown", image}, exitOK, "### ", ""},
		{"events beside probes", []string{"-host-root", root, "-events", events, image}, exitOK, "the events say", ""},
		{"the node's own credentials", []string{"-host-root", root, "-node-credentials", image}, exitOK, "not a complete pull", ""},
		{"pull secret and plugins", []string{"-host-root", root, "-run-plugins", "-creds", file(`{"auths": {}}`), image}, exitOK, "not a complete pull", ""},
		{"no such tag", []string{"-host-root", root, strings.Replace(image, ":v1", ":v2", 1)}, exitFailed, "image.manifest-unknown", ""},
		{"explained", []string{"-host-root", root, "-explain", strings.Replace(image, ":v1", ":v2", 1)}, exitFailed, "lowest-layer-first: root cause: image.manifest-unknown at ", ""},
		{"help", []string{"-h"}, exitOK, "", "usage: probe"},
		{"no image", nil, exitInvalid, "", "usage: probe"},
		{"two images", []string{image, image}, exitInvalid, "", "usage: probe"},
		{"unknown flag", []string{"-no-such-flag", image}, exitInvalid, "", "no-such-flag"},
		{"bad reference", []string{"registry.corp.test/Team/app"}, exitInvalid, "", "registry.corp.test/Team/app"},
		{"bad platform", []string{"-platform", "not a platform", image}, exitInvalid, "", "not a platform"},
		{"no host root", []string{"-host-root", filepath.Join(root, "gone"), image}, exitInvalid, "", "gone"},
		{"no credentials file", []string{"-creds", filepath.Join(root, "gone.json"), image}, exitInvalid, "", "gone.json"},
		{"credentials are no JSON", []string{"-creds", file("user:secret-of-this-test"), image}, exitInvalid, "", "invalid JSON"},
		{"no events file", []string{"-events", filepath.Join(root, "gone.txt"), image}, exitInvalid, "", "gone.txt"},
		{"two modes", []string{"-complete", "-connect", image}, exitInvalid, "", "exclude"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := probe(t, tt.args...)
			require.Equal(t, tt.code, code, "%s\n%s", stdout, stderr)
			require.Contains(t, stdout, tt.stdout)
			require.Contains(t, stderr, tt.stderr)
			require.NotContains(t, stderr, "secret-of-this-test")
		})
	}
}

func TestJSONAlone(t *testing.T) {
	code, stdout, stderr := probe(t, "-host-root", host(t), "-json", "-complete", "-quiet", pushed(t))
	require.Equal(t, exitOK, code)
	require.Empty(t, stderr)
	var res pullwalk.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &res))
	require.Equal(t, pullwalk.Schema, res.Schema)
	require.Equal(t, "node-7", res.Vantage.HostName)
	require.NotNil(t, res.Proof)
	require.Equal(t, 3, res.Proof.Layers)
}

// Interrupted, the probe tells what it knows and says that it is not known.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	require.Equal(t, exitInconclusive, run(ctx, []string{"-host-root", host(t), pushed(t)}, &out, &errs))
	require.Contains(t, out.String(), "not known")
}
