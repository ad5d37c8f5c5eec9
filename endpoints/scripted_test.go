package endpoints

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/pullwalk/pullwalk/classify"
)

func sum(body string) string {
	s := sha256.Sum256([]byte(body))
	return "sha256:" + hex.EncodeToString(s[:])
}

const image = "registry.corp.test/team/app:1"

const (
	typeOCIManifest = "application/vnd.oci.image.manifest.v1+json"
	typeOCIIndex    = "application/vnd.oci.image.index.v1+json"
)

func causes(fs []classify.Finding) (out []classify.Cause) {
	for _, f := range fs {
		out = append(out, f.Cause)
	}
	return out
}
