package lab

import (
	"crypto/hmac"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	blobPath     = "/data/sha256/"
	blobLifetime = 20 * time.Minute
)

// blobURL is an address of the blob host that is good for a while.
func (w *World) blobURL(hash v1.Hash) string {
	path := blobPath + hash.Hex
	expires := strconv.FormatInt(w.now().Add(blobLifetime).Unix(), 10)
	query := url.Values{"sig": {w.blobSignature(path, expires)}, "se": {expires}}
	return w.scheme() + "://" + w.Blobs.Address() + path + "?" + query.Encode()
}

func (w *World) blobSignature(path, expires string) string {
	return SignatureMark + hex.EncodeToString(w.sign("blob", path+" "+expires))
}

// serveBlobs answers as an object store does: the signature in the address is
// the whole right, and a second credential beside it is an error.
func (w *World) serveBlobs(rw http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		storeError(rw, http.StatusMethodNotAllowed, "MethodNotAllowed")
		return
	}
	if r.Header.Get("Authorization") != "" { // World.Violations has it already
		storeError(rw, http.StatusBadRequest, "InvalidArgument")
		return
	}
	query := r.URL.Query()
	until, err := strconv.ParseInt(query.Get("se"), 10, 64)
	good := hmac.Equal([]byte(query.Get("sig")), []byte(w.blobSignature(r.URL.Path, query.Get("se"))))
	if err != nil || !good || w.now().Unix() >= until {
		storeError(rw, http.StatusForbidden, "AccessDenied")
		return
	}
	hash := v1.Hash{Algorithm: "sha256", Hex: strings.TrimPrefix(r.URL.Path, blobPath)}
	b, ok := w.image.blobs[hash]
	if !ok {
		storeError(rw, http.StatusNotFound, "NoSuchKey")
		return
	}
	faults := w.state()
	content := b.content
	switch faults.blobs[hash] {
	case blobGone:
		storeError(rw, http.StatusNotFound, "NoSuchKey")
		return
	case blobCorrupt:
		content = flipped{b}
	case blobTruncated:
		content = cut{b}
	}
	rw.Header().Set("Content-Type", "application/octet-stream")
	rw.Header().Set("Etag", strconv.Quote(hash.Hex))
	http.ServeContent(rw, r, "", time.Time{}, io.NewSectionReader(content, 0, b.size))
}

// storeError answers in XML, as object stores do and registries do not.
func storeError(rw http.ResponseWriter, status int, code string) {
	rw.Header().Set("Content-Type", "application/xml")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, `<?xml version="1.0" encoding="utf-8"?><Error><Code>`+code+`</Code></Error>`)
}
