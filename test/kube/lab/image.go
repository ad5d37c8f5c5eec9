package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeImage writes an image with nothing in it but a static program, which it runs.
func writeImage(ref, program, out string) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	entry := "/" + filepath.Base(program)
	content, err := layerOf(program, entry)
	if err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: []string{entry}}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return err
	}
	return tarball.WriteToFile(out, tag, img)
}

// layerOf is the tar file of a layer with one program.
func layerOf(program, entry string) ([]byte, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	header := tar.Header{Typeflag: tar.TypeReg, Name: path.Base(entry), Mode: 0o755, Size: int64(len(content))}
	if err := w.WriteHeader(&header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
