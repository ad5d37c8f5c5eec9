package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
)

// push uploads an image of so many incompressible layers of the same size.
func push(client *http.Client, base, repository string, layers int, size int64) error {
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Digest    string `json:"digest"`
		Size      int64  `json:"size"`
	}
	var list []descriptor
	var diffs []string
	dir, err := os.MkdirTemp("", "pullwalk-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i := range layers {
		file := filepath.Join(dir, "layer")
		digest, diff, n, err := layer(file, uint64(i), size)
		if err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		err = blob(client, base, repository, digest, n, f)
		_ = f.Close()
		if err != nil {
			return err
		}
		list, diffs = append(list, descriptor{"application/vnd.oci.image.layer.v1.tar+gzip", digest, n}), append(diffs, diff)
	}
	config, err := json.Marshal(map[string]any{"architecture": "amd64", "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": diffs}})
	if err != nil {
		return err
	}
	sum := digestOf(config)
	if err := blob(client, base, repository, sum, int64(len(config)), bytes.NewReader(config)); err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": descriptor{"application/vnd.oci.image.config.v1+json", sum, int64(len(config))}, "layers": list,
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPut, base+"/v2/"+repository+"/manifests/1", bytes.NewReader(manifest))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	return expect(client, req, http.StatusCreated)
}

func digestOf(b []byte) string {
	s := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(s[:])
}

// layer writes a gzipped tar of one random file, stored and not deflated, since
// nothing in it could be.
func layer(file string, seed uint64, size int64) (digest, diff string, n int64, err error) {
	f, err := os.Create(file)
	if err != nil {
		return "", "", 0, err
	}
	defer f.Close()
	outer, inner := sha256.New(), sha256.New()
	z, err := gzip.NewWriterLevel(io.MultiWriter(f, outer), gzip.NoCompression)
	if err != nil {
		return "", "", 0, err
	}
	t := tar.NewWriter(io.MultiWriter(z, inner))
	if err := t.WriteHeader(&tar.Header{Name: fmt.Sprintf("file%d", seed), Mode: 0o644, Size: size}); err != nil {
		return "", "", 0, err
	}
	src := rand.NewChaCha8([32]byte{byte(seed), 1})
	if _, err := io.CopyN(t, src, size); err != nil {
		return "", "", 0, err
	}
	if err := t.Close(); err != nil {
		return "", "", 0, err
	}
	if err := z.Close(); err != nil {
		return "", "", 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return "", "", 0, err
	}
	return "sha256:" + hex.EncodeToString(outer.Sum(nil)), "sha256:" + hex.EncodeToString(inner.Sum(nil)), info.Size(), nil
}

func blob(client *http.Client, base, repository, digest string, n int64, body io.Reader) error {
	resp, err := client.Post(base+"/v2/"+repository+"/blobs/uploads/", "", nil)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	at, err := resp.Location()
	if err != nil {
		return fmt.Errorf("begin the upload: %s: %w", resp.Status, err)
	}
	q := at.Query()
	q.Set("digest", digest)
	at.RawQuery = q.Encode()
	req, err := http.NewRequest(http.MethodPut, at.String(), body)
	if err != nil {
		return err
	}
	req.ContentLength = n
	req.Header.Set("Content-Type", "application/octet-stream")
	return expect(client, req, http.StatusCreated)
}

func expect(client *http.Client, req *http.Request, status int) error {
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != status {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s %s: %s: %s", req.Method, req.URL.Path, resp.Status, text)
	}
	return nil
}
